"""The coverage lane's bounded search against all cells, one by one, in the policy's own words."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.sizes import sized
from support.staged_arenas import ASLEEP, arena, believed, whole
from tiltyard.core.battles import Kind
from tiltyard.core.policy.matchmaking import coverage_lane
from tiltyard.core.policy.matchmaking.coverage_lane import draw_coverage
from tiltyard.core.policy.matchmaking.eligible_pairs import EligiblePairs
from tiltyard.core.policy.state.prompt_cells import FEW_ATTEMPTS_WEIGHT
from tiltyard.core.policy.state.session_memory import UNSEEN


def old(seed, *, models, prompts, votes, density=1.0, window=40):
    """An arena with so many votes behind it, by uneven chance, on whatever both have answered."""
    rng = np.random.default_rng(seed)
    answered = rng.random((models, prompts)) < density
    answered[:2, 0] = True
    standing = arena(models, prompts, answered=answered, window=window, contenders=2)
    favour = rng.random(models) + 0.1
    for _ in range(votes):
        a, b = rng.choice(models, 2, replace=False, p=favour / favour.sum()).tolist()
        shared = np.flatnonzero(answered[a] & answered[b])
        if len(shared):
            prompt = int(rng.choice(shared))
            standing.serve(a, b, prompt)
            standing.vote(a, b, prompt, int(rng.choice(4, p=[0.4, 0.35, 0.15, 0.1])))
    standing.rank(believed(standing))
    return standing


def scores(field, anchor):
    """The policy's score of every opponent and prompt, from the bare tallies."""
    standing, policy = field.standing, field.standing.policy
    found = {}
    for opponent in np.flatnonzero(field.opponents(anchor)).tolist():
        met = standing.meetings.cells(anchor, opponent)
        pair = {} if met is None else dict(zip(*(column.tolist() for column in met.attempts()), strict=True))
        for prompt in np.flatnonzero(field.prompts(anchor, opponent)).tolist():
            score = 2.0 * lag(field, opponent) - 0.5 * pair.get(prompt, 0)
            decisive = standing.meetings.decisive[anchor, opponent]
            score += 1.0 if decisive < 2 else 1.0 / (1.0 + standing.meetings.attempts[anchor, opponent])
            for model in (anchor, opponent):
                wins, losses, ties, both_bad = standing.cells.tally[model, prompt].tolist()
                attempts = wins + losses + ties + both_bad
                floor = policy.top_prompt_floor if standing.in_band[model] else policy.prompt_floor
                short = wins + losses < floor and attempts < 3 * floor
                few = 1.0 / (1.0 + attempts)
                score += 1.0 + FEW_ATTEMPTS_WEIGHT * few if short else few
            found[opponent, prompt] = score
    return found


def lag(field, model):
    due, exposures = field.due.target[model], field.exposures[model]
    return min(max((due - exposures) / due, -1.0), 1.0) if due else 0.0


def agrees(field, anchor, seed, draws=40):
    """Every draw is a best cell, and all of the best are counted."""
    naive = scores(field, anchor)
    rng = np.random.default_rng(seed)
    found = [draw_coverage(field, rng, anchor=anchor) for _ in range(draws)]
    if not naive:
        assert found == [None] * draws
        return
    most = max(naive.values())
    # Scores are held in single precision.
    best = {cell for cell, score in naive.items() if score > most - 1e-6 * (4.0 + abs(most))}
    assert {(draw.other, draw.prompt) for draw in found} <= best
    assert all(draw.one == anchor for draw in found)
    assert all(1.0 <= round(1.0 / draw.chance) <= len(best) for draw in found)


@settings(max_examples=sized(15, 30))
@given(
    seed=st.integers(0, 10**6),
    models=st.integers(2, 7),
    prompts=st.integers(1, 6),
    votes=st.integers(0, 150),
    density=st.floats(0.3, 1.0),
)
def test_the_search_finds_what_looking_everywhere_finds(seed, models, prompts, votes, density):
    field = whole(old(seed, models=models, prompts=prompts, votes=votes, density=density))
    for anchor in np.flatnonzero(field.free).tolist():
        agrees(field, anchor, seed, draws=5)


@pytest.mark.no_cover
@settings(max_examples=sized(3, 8))
@given(seed=st.integers(0, 10**6), prompts=st.integers(1, 3), at_once=st.sampled_from([1, 4]))
def test_also_where_every_pair_has_met_on_every_prompt_many_times(seed, prompts, at_once):
    standing = old(seed, models=4, prompts=prompts, votes=400)
    field = EligiblePairs.of(standing, UNSEEN, capped=False, depth=0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(coverage_lane, "_BLOCK_CELLS", at_once)
        for anchor in range(4):
            agrees(field, anchor, seed, draws=5)


def test_young_arenas_have_every_cell_equal_and_each_is_drawn():
    standing = arena(5, 4, **ASLEEP)
    rng = np.random.default_rng(1)
    found = [draw_coverage(whole(standing), rng, anchor=2) for _ in range(400)]
    assert {(draw.other, draw.prompt) for draw in found} == {(j, p) for j in (0, 1, 3, 4) for p in range(4)}
    assert {draw.chance for draw in found} == {1 / 16}


def test_where_more_cells_are_equal_than_enough_each_opponent_still_has_its_turn(monkeypatch):
    monkeypatch.setattr(coverage_lane, "_TIED_CELL_LIMIT", 4)
    monkeypatch.setattr(coverage_lane, "_BLOCK_CELLS", 4)
    standing = arena(12, 4, **ASLEEP)
    rng = np.random.default_rng(2)
    found = [draw_coverage(whole(standing), rng, anchor=0) for _ in range(600)]
    counts = np.bincount([draw.other for draw in found], minlength=12)
    assert (counts[1:] > 25).all()


@pytest.mark.parametrize("votes", [0, 200])
def test_the_anchor_is_the_model_that_lacks_most(votes):
    standing = old(3, models=6, prompts=4, votes=votes, window=400)
    field = whole(standing)
    score = []
    for model in range(6):
        tally = standing.cells.tally[model]
        decisive, attempts = tally[:, :2].sum(axis=1), tally.sum(axis=1)
        prompts = np.mean((decisive < 2) & (attempts < 6))
        opponents = np.mean(np.delete(standing.meetings.decisive[model], model) < 2)
        score.append(prompts + opponents + lag(field, model))
    rng = np.random.default_rng(4)
    anchors = {draw_coverage(field, rng).one for _ in range(30)}
    free = np.where(field.free, score, -np.inf)
    assert all(free[anchor] == pytest.approx(free.max()) for anchor in anchors)


def test_an_anchor_that_may_meet_nobody_gives_way_to_the_next():
    answered = np.ones((3, 2), dtype=bool)
    answered[2] = False
    standing = arena(3, 2, answered=answered, **ASLEEP)
    standing.vote(0, 1, 0, Kind.WIN_A)
    found = [draw_coverage(whole(standing), np.random.default_rng(seed)) for seed in range(20)]
    assert all({draw.one, draw.other} == {0, 1} for draw in found)
