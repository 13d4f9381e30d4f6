from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tiltyard.core.integrity.voter_tests import SessionVotes, VoterTest, find_unlike_voters

MODELS = 8
STRENGTH = np.linspace(1.5, -1.5, MODELS)


def honest(sessions, votes, seed=1, *, side=0.0):
    """Votes of people with tastes."""
    random = np.random.default_rng(seed)
    n = sessions * votes
    session = np.repeat(np.arange(sessions), votes)
    a = random.integers(MODELS, size=n)
    b = (a + random.integers(1, MODELS, size=n)) % MODELS
    taste = random.normal(0.0, 0.3, (sessions, MODELS))
    gap = STRENGTH[a] - STRENGTH[b] + taste[session, a] - taste[session, b] + side
    chance = 1.0 / (1.0 + np.exp(-gap))
    score = (random.random(n) < chance).astype(float)
    score[random.random(n) < 0.15] = 0.5
    return SessionVotes(session, a, b, score)


def joined(votes, a, b, score):
    """The same, and the votes of one more session, 10,000."""
    more = len(a)
    return SessionVotes(
        np.append(votes.session, np.full(more, 10_000)),
        np.append(votes.a, a),
        np.append(votes.b, b),
        np.append(votes.score, score),
    )


def pairs(n, seed=2):
    random = np.random.default_rng(seed)
    a = random.integers(MODELS, size=n)
    return a, (a + random.integers(1, MODELS, size=n)) % MODELS


def test_honest_voters_are_not_flagged():
    assert find_unlike_voters(honest(200, 40), MODELS) == []
    assert find_unlike_voters(honest(50, 200, side=0.3), MODELS) == []
    empty = np.zeros(0, np.int64)
    assert find_unlike_voters(SessionVotes(empty, empty, empty, np.zeros(0)), MODELS) == []


def test_who_votes_for_a_model_for_a_side_or_against_everybody_is_flagged():
    last, left = MODELS - 1, np.arange(60) % 2 == 0
    other = np.arange(60) % last
    a, b = np.where(left, last, other), np.where(left, other, last)
    (sign,) = find_unlike_voters(joined(honest(100, 40), a, b, left.astype(float)), MODELS)
    assert (sign.session, sign.test, sign.model, sign.votes) == (10_000, VoterTest.MODEL, last, 60)
    assert sign.deviations > 4.5
    a, b = pairs(80)
    (sign,) = find_unlike_voters(joined(honest(100, 40), a, b, np.zeros(80)), MODELS)
    assert (sign.test, sign.model) == (VoterTest.SIDE, None)
    assert sign.deviations < -4.0
    a, b = pairs(60)
    (sign,) = find_unlike_voters(joined(honest(100, 40), a, b, (a > b).astype(float)), MODELS)
    assert sign.test is VoterTest.UNLIKELY
    assert sign.deviations < -4.0


@pytest.mark.parametrize("votes", [0, 9])
def test_few_votes_show_nothing(votes):
    a, b = pairs(votes)
    assert find_unlike_voters(joined(honest(100, 40), a, b, (a > b).astype(float)), MODELS) == []


def campaign(people, sessions, votes):
    """Honest votes, and those of sessions from 10,000 on who vote for the last model and wait."""
    last, n = MODELS - 1, sessions * votes
    left = np.arange(n) % 2 == 0
    other = np.arange(n) % last
    return SessionVotes(
        np.append(people.session, 10_000 + np.repeat(np.arange(sessions), votes)),
        np.append(people.a, np.where(left, last, other)),
        np.append(people.b, np.where(left, other, last)),
        np.append(people.score, left.astype(float)),
        np.append(np.ones(len(people.score), np.bool_), np.zeros(n, np.bool_)),
    )


def test_votes_that_wait_do_not_move_what_they_are_compared_with():
    votes = campaign(honest(60, 40), 15, 24)
    flagged = {sign.session for sign in find_unlike_voters(votes, MODELS)}
    assert flagged == set(range(10_000, 10_015))
    moved = {sign.session for sign in find_unlike_voters(replace(votes, counted=None), MODELS)}
    assert len(moved) < len(flagged)


def test_a_model_with_few_votes_that_count_is_rated_by_all():
    votes = campaign(honest(60, 40), 15, 24)
    with_last = (votes.a == MODELS - 1) | (votes.b == MODELS - 1)
    newcomer = replace(votes, counted=votes.counted & ~with_last)
    assert find_unlike_voters(newcomer, MODELS) == find_unlike_voters(replace(votes, counted=None), MODELS)
