"""Every count, against a twin that recounts the plain list of events."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings

from support.arena_logs import assert_same, logs, one_by_one
from support.naive_standing import NaiveStanding, decisive
from support.sizes import sized
from tiltyard.core.battles import Kind
from tiltyard.core.policy.state import standing
from tiltyard.core.policy.state.events import NO_SESSION, Event, Events
from tiltyard.core.policy.state.pair_counts import PairCells, pair_key, unpack_pair_key
from tiltyard.core.policy.state.policy import Lane, Policy
from tiltyard.core.policy.state.standing import Standing
from tiltyard.core.policy.validity.arena_fold import restore, save
from tiltyard.errors import BadOption


def check_cells_deficits_and_coverage(log, standing, naive):
    cells = standing.cells
    for i, q in itertools.product(range(naive.m), range(naive.p)):
        results = naive.of_model(i, q)
        assert cells.tally[i, q].tolist() == [results.count(k) for k in range(4)]
        eligible = q in naive.eligible(i)
        assert cells.eligible[i, q] == eligible
        assert cells.short[i, q] == (eligible and naive.deficit(i, q))
        assert cells.need[i, q] == np.float32(naive.need(i, q))
    for i in range(naive.m):
        eligible = naive.eligible(i)
        assert cells.n_eligible[i] == len(eligible)
        assert cells.n_filled[i] == len(naive.filled(i))
        assert cells.n_exhausted[i] == len(naive.exhausted(i))
        assert cells.best[i] == max(np.float32(naive.need(i, q)) for q in range(naive.p))
        coverage = cells.coverage()[i]
        assert coverage == len(naive.filled(i)) / len(eligible) if eligible else np.isnan(coverage)


def check_pairs_and_their_prompts(log, standing, naive):
    meetings = standing.meetings
    for i, j in itertools.permutations(range(naive.m), 2):
        rows, low = naive.of_pair(i, j), min(i, j)
        results = {q: [naive.result(row, low) for row in rows if row["prompt"] == q] for q in range(naive.p)}
        assert meetings.attempts[i, j] == len(rows)
        assert meetings.decisive[i, j] == sum(map(decisive, results.values()))
        assert meetings.prompts[i, j] == sum(decisive(on) > 0 for on in results.values())
        assert meetings.least[i, j] == min(map(len, results.values()))
        cells = meetings.cells(i, j)
        if cells is None:
            assert not rows
            assert not naive.recent_meetings(i, j)
            continue
        voted = {q: on for q, on in results.items() if on}
        assert len(cells) == len(voted)
        assert cells.prompts.tolist() == list(voted)
        assert cells.tally.tolist() == [[on.count(k) for k in range(4)] for on in voted.values()]
        assert [column.tolist() for column in cells.attempts()] == [
            list(voted),
            [len(on) for on in voted.values()],
        ]
        assert list(cells.recent) == naive.recent_meetings(i, j)


def check_pairs_and_the_prompts_that_they_were_compared_on(log, standing, naive):
    named = "free_prompt" if log.policy.free_prompts else "prompt"
    for i, j in itertools.permutations(range(naive.m), 2):
        rows, low = naive.of_pair(i, j), min(i, j)
        prompts = sorted({row[named] for row in rows})
        results = [[naive.result(row, low) for row in rows if row[named] == q] for q in prompts]
        compared = standing.prompt_meetings
        assert compared.attempts[i, j] == len(rows)
        assert compared.decisive[i, j] == sum(map(decisive, results))
        assert compared.prompts[i, j] == sum(decisive(on) > 0 for on in results)
        cells = compared.cells(i, j)
        assert ([] if cells is None else cells.prompts.tolist()) == prompts
        assert rows == [] or cells.tally.tolist() == [[on.count(k) for k in range(4)] for on in results]
    votes = standing.vote_log.columns()
    assert votes["prompt"].tolist() == [row[named] for row in naive.votes]


def check_prompts_that_two_models_can_be_served_on(log, standing, naive):
    for i, j in itertools.permutations(range(naive.m), 2):
        both_play = {i, j} <= naive.enabled
        common = [q for q in range(naive.p) if {(i, q), (j, q)} <= naive.answered]
        assert standing.cells.shared[i, j] == (len(common) if both_play else 0)


def check_order_band_and_thin_pairs(log, standing, naive):
    assert standing.order.tolist() == naive.order()
    assert standing.n_enabled == len(naive.enabled)
    assert set(np.flatnonzero(standing.in_band).tolist()) == naive.in_band()
    assert standing.thin.tolist() == [naive.thin(i) for i in range(naive.m)]


def check_exposures_and_what_was_due(log, standing, naive):
    exposures, targets = naive.exposures(), [float(naive.target(i)) for i in range(naive.m)]
    assert standing.window.counted().tolist() == [exposures[i] for i in range(naive.m)]
    np.testing.assert_allclose(standing.window.due().target, targets, atol=1e-12)
    assert standing.window.served == len(naive.served)
    assert standing.window.active() == (len(naive.served) >= naive.policy.settling * len(naive.enabled))


def check_records_recents_and_totals(log, standing, naive):
    kept = naive.policy.both_bad_over
    for i in range(naive.m):
        results = naive.of_model(i)
        assert standing.record[i].tolist() == [results.count(k) for k in range(4)]
        results = [naive.remembered(row, i) for row in naive.votes if i in (row["a"], row["b"])]
        assert standing.model_votes.last(i).tolist() == results[-kept:]
        assert standing.model_votes.last(i, 2).tolist() == results[-min(2, kept) :]
        assert standing.model_votes.flagged[i] == sum(result > 3 for result in results)
        left = sum(row["a"] == i for row in naive.served)
        assert standing.shown[i].tolist() == [left + sum(row["b"] == i for row in naive.served), left]
    for q in range(naive.p):
        results = [naive.remembered(row, row["a"]) for row in naive.votes if row["prompt"] == q]
        assert standing.prompt_votes.flagged[q] == sum(result > 3 for result in results)
        results = results[-kept:]
        assert standing.prompt_votes.last(q).tolist() == results
        share = standing.prompt_votes.both_bad_share()[q]
        assert share == sum(result >= 3 for result in results) / len(results) if results else np.isnan(share)
    lanes = [(row["nominal"], row["lane"]) for row in naive.served]
    assert standing.lanes.tolist() == [[lanes.count((n, k)) for k in Lane] for n in Lane]
    counted = [row["event"] for row in log.rows]
    assert standing.votes == counted.count(Event.VOTE)
    assert (standing.skipped, standing.expired) == (counted.count(Event.SKIP), counted.count(Event.EXPIRE))


def check_what_sessions_remember(log, standing, naive):
    known = naive.sessions()
    assert len(standing.sessions) == len(known)
    for name in range(6):
        memory = standing.sessions.of(name)
        pairs, prompts = known.get(name, ([], {}))
        assert [frozenset(unpack_pair_key(key)) for key in memory.pairs] == pairs
        assert {frozenset(unpack_pair_key(key)): seen for key, seen in memory.prompts.items()} == prompts
    assert standing.sessions.of(NO_SESSION).pairs == []


CHECKS = (
    check_cells_deficits_and_coverage,
    check_pairs_and_their_prompts,
    check_pairs_and_the_prompts_that_they_were_compared_on,
    check_prompts_that_two_models_can_be_served_on,
    check_order_band_and_thin_pairs,
    check_exposures_and_what_was_due,
    check_records_recents_and_totals,
    check_what_sessions_remember,
)


@given(logs(most=80))
@settings(max_examples=sized(20, 100))
def test_every_count_is_that_of_the_twin(log):
    standing, naive = one_by_one(log), NaiveStanding(log)
    for check in CHECKS:
        check(log, standing, naive)


# The smallest arenas, the hostile calls, and what is refused.


def arena(models="ab", prompts="x", **policy):
    standing = Standing(Policy(**policy), tuple(models), tuple(prompts))
    for code in range(len(models)):
        standing.enable(code)
    return standing


def test_nobody_and_nothing_is_a_standing_too():
    empty = Standing(Policy(), (), ())
    assert_same(restore(save(empty)), empty)
    empty.fold(Events.of([]))
    empty.widen(("a", "b"), ("x",))
    assert empty.cells.coverage().shape == (2,)
    assert np.isnan(empty.cells.coverage()).all()
    assert_same(empty, Standing(Policy(), ("a", "b"), ("x",), np.zeros((2, 1), dtype=bool)))


@pytest.mark.parametrize("serial", [-(10**9), -1, 0, 4, 10**9])
def test_an_expiry_of_what_the_window_does_not_hold_changes_nothing(serial):
    standing = arena(window=3)
    for _ in range(4):
        standing.serve(0, 1, 0)
    standing.expire(serial)
    np.testing.assert_array_equal(standing.window.exposures[0], [3, 3])


def test_enabling_twice_opens_one_epoch():
    standing = arena()
    epoch = standing.window.epoch
    standing.enable(0)
    standing.respond(0, 0)
    assert standing.window.epoch == epoch


def test_a_pair_has_one_key_from_both_sides_at_any_width():
    for one, other in ((0, 1), (5, 3), (2**20 - 2, 2**20 - 1)):
        assert pair_key(one, other) == pair_key(other, one)
        assert unpack_pair_key(pair_key(one, other)) == (min(one, other), max(one, other))
    assert pair_key(np.int32(5000), np.int32(4000)) == pair_key(5000, 4000)


def columns(prompts, tally):
    return tuple(np.array(column, dtype=np.uint32).tobytes() for column in (prompts, tally))


def test_cells_of_a_pair_are_made_of_columns_and_laid_out():
    cells = PairCells()
    cells.put(*columns([1, 4], [[1, 0, 0, 0], [0, 2, 0, 1]]))
    assert cells.attempts()[1].tolist() == [1, 3]
    assert cells.least() == 1
    assert cells.vote(2, 0) == (True, 0)
    assert cells.vote(4, 0) == (False, 3)
    assert cells.prompts.tolist() == [1, 2, 4]
    cells = PairCells()
    assert cells.dense_attempts(16) is None
    for prompt in (3, 1, 3):
        cells.vote(prompt, 0)
    assert cells.dense_attempts(16).tolist() == [0, 1, 0, 2] + [0] * 12
    cells.vote(15, 3)
    assert cells.dense_attempts(16).tolist() == [0, 1, 0, 2] + [0] * 11 + [1]
    cells.vote(20, 2)
    assert cells.dense_attempts(24).tolist() == [0, 1, 0, 2] + [0] * 11 + [1] + [0] * 4 + [1] + [0] * 3
    cells.put(*columns([0, 5], [[1, 0, 0, 0], [0, 2, 1, 0]]))
    assert cells.dense_attempts(8).tolist() == [1, 0, 0, 0, 0, 3, 0, 0]


def test_an_unknown_kind_of_vote_is_refused_and_never_a_tie():
    for kind in (-1, 13):
        with pytest.raises(KeyError):
            arena().vote(0, 1, 0, kind)
    votes = Events.of([{"event": Event.VOTE, "b": 1, "kind": 13}] * standing._BULK_EVENTS)
    with pytest.raises(IndexError):
        arena().fold(votes)


def test_who_has_answered_what_must_fit():
    with pytest.raises(BadOption, match="answered has shape"):
        Standing(Policy(), tuple("ab"), ("x",), np.ones((1, 1), dtype=bool))


@pytest.mark.parametrize(
    ("models", "prompts"), [("a", "xy"), ("ba", "xy"), ("abc", "x"), ("abc", "yx"), ("", "")]
)
def test_a_standing_never_shrinks_or_renames(models, prompts):
    with pytest.raises(BadOption, match="can only grow"):
        arena("ab", "xy").widen(tuple(models), tuple(prompts))


def test_runs_of_events_are_joined_end_to_end():
    assert len(Events.joined([])) == 0
    one = Events.of([{"event": Event.SKIP}, {"event": Event.EXPIRE, "serial": 4}])
    both = Events.joined([one, one[1:]])
    assert both.serial.tolist() == [0, 4, 4]
    assert both.session.tolist() == [NO_SESSION] * 3
    assert [row["event"] for row in both.rows()] == [Event.SKIP, Event.EXPIRE, Event.EXPIRE]


def test_a_checkpoint_is_a_copy():
    standing = arena()
    saved = save(standing)
    before = saved.digest()
    standing.serve(0, 1, 0)
    standing.vote(0, 1, 0, Kind.WIN_A)
    standing.strengths.rating[:] = 0.0
    assert saved.digest() == before
    assert save(standing).digest() != before


def test_a_window_names_the_matchups_that_it_counts():
    window = arena("abc", window=200).window
    for serial in (5, 3, 9):
        window.serve(0, 1, contender=False, serial=serial)
    window.expire(3)
    window.expire(4)
    assert sorted(window.serials().tolist()) == [5, 9]
