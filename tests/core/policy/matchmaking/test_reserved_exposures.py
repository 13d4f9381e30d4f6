"""Matchups that wait to be shown: no exposures, but choices know of them."""

from collections import deque

import numpy as np
import pytest

from support.staged_arenas import arena, beyond, whole
from tiltyard.core.policy.matchmaking.matchmaker import choose
from tiltyard.core.policy.state.policy import Lane
from tiltyard.core.policy.state.session_memory import UNSEEN
from tiltyard.core.policy.validity.fold_state import save

FAIRNESS = pytest.mark.parametrize("fairness", ["strict", "scoped"])


def served(standing, n, seed=0):
    rng = np.random.default_rng(seed)
    for _ in range(n):
        a, b = rng.choice(len(standing.models), 2, replace=False).tolist()
        standing.serve(a, b, int(rng.integers(len(standing.prompts))), lane=Lane(int(rng.integers(4))))
    return standing


@FAIRNESS
def test_a_choice_is_made_as_if_they_were_shown_now(fairness):
    waits, shown = (served(arena(5, 4, window=100, fairness=fairness), 30) for _ in range(2))
    for a, b, lane in ((0, 1, Lane.CONTENDER), (0, 2, Lane.COVERAGE), (3, 4, Lane.EXPLORATION)):
        waits.reserve(a, b, 1, lane)
        shown.serve(a, b, 1, lane=lane)
        (due, exposures), expected = waits.window.planned(), shown.window.due()
        np.testing.assert_allclose(due.target, expected.target)
        np.testing.assert_allclose(due.tolerance, expected.tolerance)
        np.testing.assert_array_equal(exposures, shown.window.counted())
        np.testing.assert_array_equal(whole(waits).exposures, exposures)
        assert waits.window.planned()[0] is due, "computed once, until something changes"


@FAIRNESS
def test_no_count_has_them(fairness):
    standing = served(arena(4, 3, window=60, fairness=fairness), 20)
    before, due = save(standing).digest(), standing.window.due()
    exposures = standing.window.counted().copy()
    standing.reserve(0, 1, 2, Lane.CONTENDER)
    standing.reserve(0, 1, 2, Lane.COVERAGE)
    assert save(standing).digest() == before
    np.testing.assert_array_equal(standing.window.counted(), exposures)
    assert standing.window.due() is due
    standing.unreserve(0, 1, 2, Lane.COVERAGE)
    standing.unreserve(0, 1, 2, Lane.CONTENDER)
    planned = standing.window.planned()
    assert planned[0] is due
    np.testing.assert_array_equal(planned[1], exposures)
    assert standing.meetings.reserved == {}


def test_new_models_have_none():
    standing = arena(3, 2, window=30)
    standing.reserve(0, 1, 0, Lane.COVERAGE)
    standing.widen(("m0", "m1", "m2", "new"), standing.prompts)
    standing.enable(3)
    due, exposures = standing.window.planned()
    np.testing.assert_array_equal(exposures, [1, 1, 0, 0])
    np.testing.assert_allclose(due.target, [0.5] * 4)


def test_a_session_gets_neither_the_pair_nor_the_prompt_that_waits_for_it():
    standing = arena(3, 2)
    rng = np.random.default_rng(5)
    waiting = [(0, 1, 0), (2, 1, 1)]
    for _ in range(40):
        choice = choose(standing, rng, session=7, waiting=waiting)
        assert {choice.left, choice.right} == {0, 2}
    standing.serve(0, 2, 0, session=7)
    memory = standing.sessions.of(7, waiting)
    assert len(memory.pairs) == len(memory.prompts) == 3
    assert standing.sessions.of(7).prompts.keys() < memory.prompts.keys()
    assert standing.sessions.of(8) is UNSEEN
    assert len(standing.sessions.of(8, waiting).pairs) == 2


def test_a_pair_does_not_repeat_a_prompt_because_others_wait_to_be_shown():
    """Nobody has been shown the pair: only those who wait have the prompt."""
    standing = arena(2, 12, settling=10**6)
    rng = np.random.default_rng(1)
    drawn = []
    for _ in range(9):
        choice = choose(standing, rng)
        drawn.append(choice.prompt)
        standing.reserve(choice.left, choice.right, choice.prompt, choice.lane)
    assert max(drawn.count(prompt) for prompt in drawn) <= standing.policy.repeats
    assert standing.meetings.cells(0, 1) is None


def strayed(voters, *, reserves, models=8, matchups=3000, leave=0.0):
    """The furthest that any model lay outside tolerance, when each of so many voters has one matchup waiting.

    Votes come in any order. A share of the voters ``leave`` instead of looking at what waits.
    """
    standing = arena(models, 12, window=500)
    rng, worst = np.random.default_rng(3), 0.0
    waiting = deque()
    for number in range(matchups):
        choice = choose(standing, rng)
        if reserves:
            standing.reserve(choice.left, choice.right, choice.prompt, choice.lane)
        waiting.append((number, choice))
        if len(waiting) < voters:
            continue
        waiting.rotate(int(rng.integers(voters)))
        serial, shown = waiting.popleft()
        cell = shown.left, shown.right, shown.prompt
        if reserves:
            standing.unreserve(*cell, shown.lane)
        if rng.random() < leave:
            continue
        standing.serve(*cell, lane=shown.lane, nominal=shown.nominal, serial=serial)
        standing.vote(*cell, int(rng.integers(2)))
        if standing.window.served >= 1000:
            worst = max(worst, beyond(standing))
    return worst


@pytest.mark.no_cover
@pytest.mark.slow(but="0.3")
@pytest.mark.parametrize("leave", [0.0, 0.3])
def test_many_who_prefetch_at_once_do_not_all_get_the_model_that_is_behind(leave):
    kept, forgotten = (strayed(100, reserves=reserves, leave=leave) for reserves in (True, False))
    assert kept < 1.0
    assert forgotten >= 5.0
