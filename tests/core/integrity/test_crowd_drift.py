from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from support.sizes import sized
from tiltyard.core.integrity.crowd_drift import CrowdDrift, DriftSettings, WatchedVotes

MODELS = 8
#: All votes, votes of hasty sessions, votes of new sessions.
GROUPS = 3


@dataclass
class Crowd:
    """Voters with tastes of their own; a fifth vote at random, and are hasty."""

    seed: int
    sessions: int = 150

    def __post_init__(self) -> None:
        self.random = np.random.default_rng(self.seed)
        self.strength = np.linspace(1.5, -1.5, MODELS)
        self.taste = self.random.normal(0.0, 0.3, (self.sessions, MODELS))
        self.hasty = self.random.random(self.sessions) < 0.2

    def votes(self, n: int) -> WatchedVotes:
        a = self.random.integers(MODELS, size=n)
        b = (a + self.random.integers(1, MODELS, size=n)) % MODELS
        session = self.random.integers(self.sessions, size=n)
        gap = self.strength[a] - self.strength[b] + self.taste[session, a] - self.taste[session, b]
        gap[self.hasty[session]] = 0.0
        chance = 1.0 / (1.0 + np.exp(-gap))
        score = (self.random.random(n) < chance).astype(float)
        score[self.random.random(n) < 0.15] = 0.5
        groups = np.stack([np.ones(n, bool), self.hasty[session], np.zeros(n, bool)], axis=1)
        return WatchedVotes(a, b, score, session, groups, np.ones(n, bool))


def for_model(target: int, n: int, *, sessions: int, counted: bool) -> WatchedVotes:
    """Votes that the target wins, of new sessions."""
    opponent = np.arange(n) % (MODELS - 1)
    opponent[opponent >= target] += 1
    groups = np.tile([True, False, True], (n, 1))
    session = 10_000 + np.arange(n) % sessions
    return WatchedVotes(np.full(n, target), opponent, np.ones(n), session, groups, np.full(n, counted))


@pytest.mark.parametrize("seed", range(sized(2, 4)))
def test_a_stable_crowd_with_voters_of_all_kinds_gives_no_sign(seed):
    drift, crowd = CrowdDrift(MODELS, GROUPS), Crowd(seed)
    for _ in range(16):
        drift.watch(crowd.votes(250))
        assert drift.signs() == []


@pytest.mark.parametrize(("sessions", "counted"), [(10, True), (100, False)])
def test_votes_for_one_model_are_noticed_before_a_hundred_of_them(sessions, counted):
    drift = CrowdDrift(MODELS, GROUPS)
    drift.watch(Crowd(1).votes(2_000))
    target = MODELS - 1
    votes = for_model(target, 100, sessions=sessions, counted=counted)
    taken = 0
    while not drift.signs() and taken < len(votes):
        drift.watch(votes[taken : taken + 10])
        taken += 10
    first = drift.signs()[0]
    assert taken < 100
    assert first.model == target
    assert first.shift > 1.0
    assert first.log_evidence >= drift.threshold
    assert first.since_votes >= taken


def test_one_voter_alone_is_a_taste_and_no_change():
    drift = CrowdDrift(MODELS, GROUPS)
    drift.watch(Crowd(2).votes(2_000))
    drift.watch(for_model(MODELS - 1, 40, sessions=1, counted=True))
    assert drift.signs() == []


def test_the_group_that_brings_a_change_has_the_strongest_sign_among_a_crowd():
    drift, crowd = CrowdDrift(MODELS, GROUPS), Crowd(3)
    drift.watch(crowd.votes(3_000))
    rigged = for_model(MODELS - 1, 60, sessions=30, counted=False)
    for k in range(0, 60, 6):
        drift.watch(crowd.votes(60))
        drift.watch(rigged[k : k + 6])
    assert (drift.signs()[0].model, drift.signs()[0].group) == (MODELS - 1, 2)


def test_pieces_of_any_size_give_the_same_evidence():
    whole, pieces = CrowdDrift(MODELS, GROUPS), CrowdDrift(MODELS, GROUPS)
    votes = Crowd(4).votes(1_100)
    whole.watch(votes)
    for start, stop in ((0, 1), (1, 250), (250, 600), (600, 1_100)):
        pieces.watch(votes[start:stop])
    rigged = for_model(MODELS - 1, 80, sessions=80, counted=True)
    for drift in (whole, pieces):
        drift.watch(rigged)
    ours, theirs = whole.signs(), pieces.signs()
    assert [(one.model, one.group) for one in ours] == [(one.model, one.group) for one in theirs]
    assert [one.log_evidence for one in ours] == pytest.approx([one.log_evidence for one in theirs])


def test_what_is_explained_is_not_told_again():
    drift = CrowdDrift(MODELS, GROUPS)
    drift.watch(Crowd(5).votes(2_000))
    drift.watch(for_model(MODELS - 1, 80, sessions=40, counted=False))
    assert drift.signs()
    drift.forget_evidence()
    assert drift.signs() == []
    drift.watch(Crowd(6).votes(300))
    assert drift.signs() == []


def test_a_model_that_comes_later_is_watched_too():
    drift, crowd = CrowdDrift(MODELS - 1, GROUPS), Crowd(7)
    votes = crowd.votes(2_000)
    known = (votes.a < MODELS - 1) & (votes.b < MODELS - 1)
    drift.watch(votes[np.flatnonzero(known)])
    drift.widen(MODELS)
    assert drift.models == MODELS
    drift.watch(crowd.votes(2_000))
    assert drift.signs() == []
    drift.watch(for_model(MODELS - 1, 60, sessions=30, counted=False))
    assert drift.signs()[0].model == MODELS - 1


def test_ratings_learn_from_a_waiting_vote_when_it_counts():
    drift = CrowdDrift(MODELS, GROUPS)
    drift.watch(for_model(MODELS - 1, 250, sessions=250, counted=False))
    for opponent in range(MODELS - 1):
        for _ in range(30):
            drift.count(MODELS - 1, opponent, 1.0)
    drift.forget_evidence()
    drift.watch(for_model(MODELS - 1, 250, sessions=250, counted=False))
    assert drift.signs() == []


def of_two(score: np.ndarray) -> WatchedVotes:
    """Votes between two models with these scores, each of a session of its own."""
    n = len(score)
    first = np.zeros(n, np.int64)
    return WatchedVotes(first, first + 1, score, np.arange(n), np.ones((n, 1), bool), np.ones(n, bool))


def test_old_sessions_are_forgotten():
    settings = DriftSettings(span_votes=1_000, remembered_votes=1_000)
    drift = CrowdDrift(2, 1, settings)
    assert settings.starts == 4
    n = 1_000
    random = np.random.default_rng(8)
    votes = of_two((random.random(n) < 0.5).astype(float))
    drift.watch(votes)

    def remembered():
        saved = drift.saved()
        return len(saved["session_lately_keys"]), len(saved["session_before_keys"])

    assert remembered() == (2 * n, 0)
    drift.watch(votes[:10])
    assert remembered() == (20, 2 * n)
    assert drift.signs() == []


def test_old_starting_points_are_thinned_out():
    settings = DriftSettings(span_votes=4_000, start_votes=10)
    drift = CrowdDrift(2, 1, settings)
    n = 6_000
    drift.watch(of_two(np.arange(n) % 2 * 1.0))
    numbers = [(n - 10 - start) // 10 for start in drift.saved()["start_votes"].tolist()]
    assert numbers[-32:] == list(range(31, -1, -1))
    assert 300 < numbers[0] < settings.starts
    assert len(numbers) < 130
    # From any of the past, there is a starting point not much before it.
    assert all(np.diff(numbers)[::-1] >= -np.maximum(np.sort(numbers)[1:] / 8, 1))


@pytest.mark.parametrize("explained", [False, True])
def test_what_is_saved_and_restored_goes_on_with_the_same_bits(explained):
    first, crowd = CrowdDrift(MODELS - 1, GROUPS), Crowd(9)
    assert CrowdDrift.restored(first.saved()).signs() == []
    first.widen(MODELS)
    first.watch(crowd.votes(1_130))
    if explained:
        first.forget_evidence()
    second = CrowdDrift.restored(first.saved())
    more, rigged = crowd.votes(700), for_model(MODELS - 1, 80, sessions=40, counted=False)
    for drift in (first, second):
        drift.watch(more)
        drift.count(0, 1, 1.0)
        drift.watch(rigged)
    assert second.signs()
    assert second.signs() == first.signs()
    ours, theirs = first.saved(), second.saved()
    assert all(np.array_equal(ours[name], theirs[name]) for name in ours)
