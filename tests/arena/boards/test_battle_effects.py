"""Effects of length and waiting in live battles: what voters reward is found, and what is missing is said."""

from dataclasses import replace

import numpy as np
import pytest

from tiltyard.arena.boards.battle_effects import EFFECT_VOTES, battle_effects
from tiltyard.arena.log.votes import Ballots
from tiltyard.core.battles import Kind

ABOUT = {"arena": "live", "source": "human", "snapshot": "0" * 64, "position": 9, "generation": 0}
MODELS = ("heron", "plover", "wren", "auk")
LOGIT = 400.0 / np.log(10.0)


def voted(n=3000, *, length=0.0, waiting=0.0, seed=1, voters=100, prompts=2000, within=0.8):
    """Votes of models that differ in length and speed, and what was measured of each battle; effects in points."""
    rng = np.random.default_rng(seed)
    means, strength = rng.normal(0.0, 0.7, (4, 2)), rng.normal(0.0, 0.5, 4)
    a = rng.integers(0, 4, n)
    b = (a + rng.integers(1, 4, n)) % 4
    left, right = (means[side] + rng.normal(0.0, within, (n, 2)) for side in (a, b))
    worth = np.array([length, waiting]) / LOGIT
    d = strength[a] - strength[b] + (left - right) @ worth
    kind = np.where(rng.random(n) < 1.0 / (1.0 + np.exp(-d)), int(Kind.WIN_A), int(Kind.WIN_B))
    kind[rng.random(n) < 0.1] = int(Kind.TIE)
    position = np.arange(1, n + 1) * 3
    ballots = Ballots(
        position,
        rng.integers(1, voters + 1, n),
        a,
        b,
        np.zeros(n, dtype=np.int64),
        kind,
        rng.integers(1, prompts + 1, n),
        np.zeros(n, dtype=np.int64),
    )
    characters, seconds = (np.exp2(np.stack([left[:, k], right[:, k]], axis=1)) for k in (0, 1))
    return ballots, np.column_stack([position, np.round(1000 * characters), seconds])


def said(ballots, traits):
    document = battle_effects(ballots, MODELS, traits, ABOUT)
    return document, {one["trait"]: one for one in document["effects"]}


def texts(document):
    return [one["text"] for one in document["findings"]]


def test_what_voters_reward_is_found_and_what_they_cannot_see_is_not():
    document, effects = said(*voted(length=60.0))
    # A tie is half a win, so the effect of a tenth of ties is smaller than what voters reward.
    assert effects["length"]["low"] < 54.0 < effects["length"]["high"]
    assert effects["length"]["low"] > 0.0
    assert effects["waiting"]["low"] < 0.0 < effects["waiting"]["high"]
    longer, waiting = texts(document)
    points, low, high = (f"{effects['length'][part]:.0f}" for part in ("points", "low", "high"))
    assert f"{points} points ({low} to {high})" in longer
    below, above = f"{-effects['waiting']['low']:.0f}", f"{effects['waiting']['high']:.0f}"
    assert f"{below} points less and {above} points more" in waiting
    assert (document["votes"], document["left_out"], document["voters"]) == (3000, 0, 100)


def test_shorter_and_faster_are_said_of_half():
    document, effects = said(*voted(length=-60.0, waiting=-60.0))
    assert effects["length"]["high"] < 0.0
    assert effects["waiting"]["high"] < 0.0
    shorter, faster = texts(document)
    assert shorter.startswith("Shorter answers win")
    assert faster.startswith("Faster models win")
    assert f"{-effects['waiting']['points']:.0f} points ({-effects['waiting']['high']:.0f} to" in faster


def test_sides_do_not_matter():
    ballots, traits = voted(800, length=40.0)
    swapped = np.array([int(Kind.WIN_B), int(Kind.WIN_A)])
    kind = np.where(ballots.kind < 2, swapped[np.minimum(ballots.kind, 1)], ballots.kind)
    mirrored = replace(ballots, a=ballots.b, b=ballots.a, kind=kind)
    assert said(mirrored, traits[:, [0, 2, 1, 4, 3]])[1] == said(ballots, traits)[1]


@pytest.mark.parametrize(
    ("options", "missing"),
    [
        ({"n": EFFECT_VOTES - 1}, ": 199."),
        ({"n": 600, "prompts": 12}, "compared: 12."),
        ({"n": 600, "voters": 9}, "far: 9."),
    ],
)
def test_too_little_is_said_and_not_estimated(options, missing):
    document, effects = said(*voted(**options))
    assert effects == {}
    (text,) = texts(document)
    assert missing in text
    assert document["findings"][0]["advice"].startswith("At least ")


def test_votes_on_battles_of_which_something_is_unknown_are_left_out_and_counted():
    ballots, traits = voted(900)
    traits[:50, 3] = np.nan
    traits[50:100, 2] = 0.0
    ballots.kind[100:200] = int(Kind.BOTH_BAD)
    document, _ = said(ballots, traits[:800])
    assert (document["votes"], document["left_out"]) == (600, 200)
    nothing, effects = said(ballots, traits[:0])
    assert (nothing["votes"], nothing["left_out"], effects) == (0, 800, {})


def test_nobody_perceives_a_tenth_of_a_second():
    ballots, traits = voted(900, length=40.0)
    traits[:, 3:] = np.random.default_rng(1).uniform(0.001, 0.1, (900, 2))
    document, effects = said(ballots, traits)
    assert set(effects) == {"length"}
    assert "effect of waiting" in texts(document)[-1]


def test_an_effect_that_goes_with_the_model_is_not_estimated():
    ballots, traits = voted(900, length=40.0)
    lengths = np.array([100.0, 200.0, 400.0, 800.0])
    traits[:, 1], traits[:, 2] = lengths[ballots.a], lengths[ballots.b]
    document, effects = said(ballots, traits)
    assert set(effects) == {"waiting"}
    assert "effect of length" in texts(document)[-1]
    traits[:, 3], traits[:, 4] = traits[:, 1], traits[:, 2]
    document, effects = said(ballots, traits)
    assert effects == {}
    (text,) = texts(document)
    assert "of waiting time" in text


def test_one_voter_who_decides_everything_decides_no_interval():
    ballots, traits = voted(1500, length=40.0)
    ballots.session[ballots.session > 12] = 1
    _, effects = said(ballots, traits)
    wide = effects["length"]["high"] - effects["length"]["low"] if effects else np.inf
    even = said(*voted(1500, length=40.0))[1]["length"]
    assert wide > even["high"] - even["low"]
