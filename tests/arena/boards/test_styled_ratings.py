"""Ratings at equal style: voters who reward length alone give an advantage to who writes at length, and style takes it away."""

import numpy as np
import pytest

from tiltyard.arena.boards.battle_effects import STYLE_TRAITS, styled_ratings
from tiltyard.arena.log.votes import Ballots

MODELS = ("verbose", "terse", "middling")
PROMPTS = 30


def styles(rng, lengths=(900, 300, 600)):
    rows = [
        (model, prompt, int(lengths[model] * rng.uniform(0.3, 2.0)), *rng.integers(0, 5, 3).tolist())
        for model in range(len(MODELS))
        for prompt in range(PROMPTS)
    ]
    return np.array(rows, dtype=np.int64)


def votes(rng, known, n=4000, effect=3.0):
    """Equal models, whose voters like what is longer."""
    a = rng.integers(0, len(MODELS), n)
    b = (a + rng.integers(1, len(MODELS), n)) % len(MODELS)
    prompt = rng.integers(0, PROMPTS, n)
    length = {(row[0], row[1]): row[2] for row in known.tolist()}
    left = np.array([length[cell] for cell in zip(a.tolist(), prompt.tolist(), strict=True)], dtype=float)
    right = np.array([length[cell] for cell in zip(b.tolist(), prompt.tolist(), strict=True)], dtype=float)
    chance = 1.0 / (1.0 + np.exp(-effect * (left - right) / (left + right)))
    kind = np.where(rng.uniform(size=n) < chance, 0, 1)
    nothing = np.zeros(n, dtype=np.int64)
    return Ballots(np.arange(n), rng.integers(0, 200, n), a, b, prompt, kind, nothing, nothing)


def test_what_length_won_is_taken_away():
    rng = np.random.default_rng(7)
    known = styles(rng)
    said = styled_ratings(votes(rng, known), MODELS, known, snapshot="0" * 64, voters=True)
    rows = {row["model"]: row for row in said["rows"]}
    plain = rows["verbose"]["plain"]["rating"] - rows["terse"]["plain"]["rating"]
    equal = rows["verbose"]["equal_style"]["rating"] - rows["terse"]["equal_style"]["rating"]
    assert plain > 100
    assert abs(equal) < 60
    effects = {one["trait"]: one for one in said["effects"]}
    assert set(effects) == set(STYLE_TRAITS)
    assert effects["length"]["coefficient"] > 2 * effects["length"]["standard_error"]
    assert (said["votes"], said["left_out"]) == (4000, 0)


@pytest.mark.parametrize("unused", [("headers",), STYLE_TRAITS])
def test_a_trait_that_no_response_has_leaves_the_others(unused):
    rng = np.random.default_rng(7)
    known = styles(rng)
    ballots = votes(rng, known)
    for trait in unused:
        known[:, 2 + STYLE_TRAITS.index(trait)] = 0
    said = styled_ratings(ballots, MODELS, known, snapshot="0" * 64, voters=True)
    assert [one["trait"] for one in said["effects"]] == [one for one in STYLE_TRAITS if one not in unused]
    assert all(row["plain"]["rating"] is not None for row in said["rows"])


def test_votes_on_responses_of_unknown_style_are_left_out_and_counted():
    rng = np.random.default_rng(8)
    known = styles(rng)
    ballots = votes(rng, known, n=500)
    some = known[known[:, 1] < 20]
    said = styled_ratings(ballots, MODELS, some, snapshot="0" * 64, voters=False)
    assert said["votes"] == int((ballots.prompt < 20).sum())
    assert said["votes"] + said["left_out"] == 500


@pytest.mark.parametrize("rows", [0, 1])
def test_without_known_styles_there_is_no_rating(rows):
    rng = np.random.default_rng(9)
    known = styles(rng)
    said = styled_ratings(votes(rng, known, n=50), MODELS, known[:rows], snapshot="0" * 64, voters=True)
    assert (said["votes"], said["left_out"], said["effects"]) == (0, 50, [])
    assert all(row["equal_style"]["rating"] is None for row in said["rows"])
