"""The methods paragraph and the BibTeX entry."""

import pytest

from support.rated_boards import rated, small
from support.worlds import drawn, table, told
from tiltyard._version import __version__
from tiltyard.core.battles import Battle, Table
from tiltyard.core.ratings import BradleyTerry, Elo, Glicko2
from tiltyard.report.methods_text import RunFacts, bibtex_entry, methods_text

NO_FACTS = RunFacts()


def text_of(method=None, **facts):
    return methods_text([small(method)], RunFacts(**facts))


def test_it_says_what_was_counted_and_how():
    world = rated(table(drawn(5, 1200, prompts=60)), BradleyTerry(level=0.9))
    text = methods_text([world], NO_FACTS)
    for words in (
        *("5 models", "1,200 battles", "60 prompts", f"Tiltyard {__version__}"),
        *("Bradley–Terry", "maximum likelihood", "half a win", "rate nobody", "level of 90%"),
        *("(sandwich)", "clustered by prompt", "simultaneously at 90%"),
    ):
        assert words in text


@pytest.mark.parametrize(
    ("method", "words"),
    [
        (BradleyTerry(ties="davidson"), "Davidson's parameter"),
        (BradleyTerry(ties="drop"), "Ties are left out"),
        (BradleyTerry(both_bad="tie"), "counts as a tie"),
        (BradleyTerry(prior_sd=200.0), "prior of 200 points"),
        (BradleyTerry(anchor="oak", anchor_rating=1000.0), "oak has 1000"),
        (BradleyTerry(even_pairs=50), "at least 50 battles"),
        (BradleyTerry(interval="none"), "no intervals"),
        (BradleyTerry(interval="bootstrap", n_bootstraps=4), "a bootstrap"),
        (BradleyTerry(clusters="battle"), "battles as independent"),
        (Elo(n_permutations=3, n_bootstraps=3), "mean over 3 orders"),
        (Elo(n_permutations=0), "one pass"),
        (Glicko2(kernel="plain"), "an RD of 350"),
    ],
    ids=lambda value: value if isinstance(value, str) else value.name,
)
def test_it_follows_the_parameters(method, words):
    assert words in text_of(method)


def test_it_states_limits_divisions_and_voters_where_there_are_any():
    assert "weighs more than 10%" in text_of()
    assert "weighs more" not in text_of(BradleyTerry(max_share=None))
    groups = [small(name="people"), small(name="judges")]
    text = methods_text(groups, RunFacts(by="source", overlapping=True, style=("length",), where="x = 1"))
    for words in ("x = 1", "Each source (2 groups)", "counts in each", ": length.", "within a group"):
        assert words in text
    rows = [
        {"model_a": "a", "model_b": "b", "winner": ("model_a", "model_b")[k % 3 > 1], "voter": f"v{k % 20}"}
        for k in range(90)
    ]
    world = rated(Table.from_battles(map(Battle.from_dict, rows)))
    assert "by 20 voters" in methods_text([world], NO_FACTS)


def test_an_entry_names_the_run_and_escapes_the_title():
    facts = RunFacts(identity="ab" * 32)
    entry = bibtex_entry("50% & {more}", [rated(told("a>b*6 b>a*3"))], facts)
    assert entry.startswith("@misc{tiltyard-abababababab,\n  title = {{50\\% \\& \\{more\\}}},\n")
    assert f"identity {'ab' * 32}" in entry
    assert bibtex_entry("x", [small()], NO_FACTS).startswith("@misc{tiltyard,")
