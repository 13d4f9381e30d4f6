"""Every count, against a twin that recounts the plain list of events."""

import itertools

import numpy as np
from hypothesis import given, settings

from support.arena_logs import logs, one_by_one
from support.naive_standing import NaiveStanding, decisive
from support.sizes import sized
from tiltyard.core.policy.state.events import NO_SESSION, Event
from tiltyard.core.policy.state.pair_counts import unpack_pair_key
from tiltyard.core.policy.state.policy import Lane


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
@settings(max_examples=sized(40, 100))
def test_every_count_is_that_of_the_twin(log):
    standing, naive = one_by_one(log), NaiveStanding(log)
    for check in CHECKS:
        check(log, standing, naive)
