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
    assert text.startswith(
        f"We rated 5 models from 1,200 battles on 60 prompts with Tiltyard {__version__}, by"
    )
    for words in (
        "the Bradley–Terry model, fitted by maximum likelihood; 400 points are odds of ten to one",
        "A tie counts as half a win for each side; battles with the outcome both_bad are counted but rate nobody.",
        "Intervals have a level of 90% and come from a cluster-robust (sandwich) variance, clustered by prompt, for",
        "The ranges of ranks hold simultaneously at 90%.",
    ):
        assert words in text


@pytest.mark.parametrize(
    ("method", "words"),
    [
        (BradleyTerry(ties="davidson"), "Ties are modelled by Davidson's parameter;"),
        (BradleyTerry(ties="drop"), "Ties are left out;"),
        (BradleyTerry(both_bad="tie"), "the outcome both_bad counts as a tie."),
        (BradleyTerry(prior_sd=200.0), "and a normal prior of 200 points;"),
        (BradleyTerry(anchor="oak", anchor_rating=1000.0), "and oak has 1000."),
        (BradleyTerry(even_pairs=50), "Every pair of models with at least 50 battles weighs the same."),
        (BradleyTerry(interval="none"), "The ratings have no intervals, and no order is claimed."),
        (BradleyTerry(interval="bootstrap", n_bootstraps=4), "come from a bootstrap,"),
        (BradleyTerry(clusters="battle"), "which takes battles as independent, for these prompts only."),
        (Elo(n_permutations=3, n_bootstraps=3), "Elo with K = 16, started at 1500, the mean over 3 orders"),
        (Elo(n_permutations=0), "one pass in the order of the log"),
        (Glicko2(kernel="plain"), "Glicko-2 in the order of the log, started at 1500 with an RD of 350."),
    ],
    ids=lambda value: value if isinstance(value, str) else value.name,
)
def test_it_follows_the_parameters(method, words):
    assert words in text_of(method)


def test_no_limit_is_claimed_where_there_is_none():
    assert "weighs more than 10%" in text_of()
    assert "weighs more" not in text_of(BradleyTerry(max_share=None))


def test_it_states_how_battles_were_chosen_and_divided():
    groups = [small(name="people"), small(name="judges")]
    text = methods_text(groups, RunFacts(by="source", overlapping=True, style=("length",), where="x = 1"))
    assert "Only battles for which x = 1 were taken." in text
    assert "Each source (2 groups) was rated from its own battles alone, and a battle counts in each" in text
    assert "Style was controlled for: length." in text
    assert "simultaneously at 95% within a group." in text


def test_voters_are_counted_without_prompts():
    rows = [
        {"model_a": "a", "model_b": "b", "winner": ("model_a", "model_b")[k % 3 > 1], "voter": f"v{k % 20}"}
        for k in range(90)
    ]
    world = rated(Table.from_battles(map(Battle.from_dict, rows)))
    assert "2 models from 90 battles by 20 voters with" in methods_text([world], NO_FACTS)


def test_an_entry_names_the_run_and_escapes_the_title():
    facts = RunFacts(identity="ab" * 32)
    entry = bibtex_entry("50% & {more}", [rated(told("a>b*6 b>a*3"))], facts)
    assert entry.startswith("@misc{tiltyard-abababababab,\n  title = {{50\\% \\& \\{more\\}}},\n")
    assert "note = {Bradley--Terry ratings of 2 models from 9 battles. Run identity " + "ab" * 32 in entry
    assert bibtex_entry("x", [small()], NO_FACTS).startswith("@misc{tiltyard,")
