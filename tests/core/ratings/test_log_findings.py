"""Names that are spelled in several ways, and voters who choose one side."""

from dataclasses import replace

import numpy as np
import pytest

from tiltyard.core.battles import Battle, Outcome, Table
from tiltyard.core.battles.alike_names import alike_names, spelling_key
from tiltyard.core.ratings.log_findings import log_findings, one_sided_voters

SAME = [
    ("gpt-4", "GPT-4", "gpt 4", "gpt_4", "gpt4", "ｇｐｔ‑４", "gpt\u00a0-\u200b4"),
    ("llama-2-7b", "Llama 2 7B", "llama2-7b"),
    ("Café", "Cafe\u0301", "CAFÉ"),
]
OTHER = ["gpt-4", "gpt-4.1", "gpt-41", "gpt-4-1", "llama-2-7b", "llama-27b", "gpt-4o", "gpt-4+"]


@pytest.mark.parametrize("names", SAME)
def test_spellings_of_one_name_have_one_key(names):
    assert len({spelling_key(name) for name in names}) == 1


def test_other_names_have_other_keys():
    assert len({spelling_key(name) for name in OTHER}) == len(OTHER)
    assert alike_names(dict.fromkeys(OTHER, 1)) == []


def test_the_usual_spelling_stands_for_the_others():
    assert alike_names({"gpt-4": 3, "GPT-4": 5, "oak": 1, "GPT 4": 5}) == [["GPT 4", "GPT-4", "gpt-4"]]


def votes(n, *, seed=0, fixed=False, bots=0):
    """Voters with a taste of their own for a model; bots always choose side A."""
    rng = np.random.default_rng(seed)
    battles = []
    for k in range(n):
        a, b = ("y", "x") if not fixed and rng.random() < 0.5 else ("x", "y")
        voter = k % 20
        prefers_a = (a == "x") == (voter % 2 == 0)
        first = voter < bots or rng.random() < (0.9 if prefers_a else 0.1)
        winner = Outcome.MODEL_A if first else Outcome.MODEL_B
        battles.append(Battle(model_a=a, model_b=b, winner=winner, voter=f"v{voter}"))
    return Table.from_battles(battles)


@pytest.mark.parametrize("fixed", [False, True])
def test_a_taste_is_no_side(fixed):
    for seed in range(20):
        assert one_sided_voters(votes(1000, seed=seed, fixed=fixed))[1] == 0


def test_voters_who_always_choose_a_side_are_found():
    keys, battles = one_sided_voters(votes(1000, bots=2))
    assert (len(keys), battles) == (2, 100)
    (found,) = log_findings(votes(1000, bots=2))
    assert (found.name, found.values["voters"]) == ("one-sided-voters", 2)
    assert log_findings(votes(200, bots=2)) == ()


def test_ties_choose_no_side():
    tie = Battle(model_a="x", model_b="y", winner=Outcome.TIE, voter="v")
    assert one_sided_voters(Table.from_battles([tie] * 50))[1] == 0


def test_what_is_typed_stands_for_what_is_not():
    rows = [Battle(model_a="oak\u200b", model_b="elm", winner=Outcome.MODEL_A)] * 3
    rows += [replace(rows[0], model_a="oak")]
    (found,) = log_findings(Table.from_battles(rows))
    assert found.values["option"] == "--rename oak"
    assert found.values["battles"] == 3
