"""The validity report against a naive reading of the same log."""

import json
from collections import Counter
from dataclasses import replace
from itertools import combinations, pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.reported_arenas import HOUR, SMALL, START, happened, named, reported
from tiltyard.core.battles import Battle, Kind, Table
from tiltyard.core.policy.state.events import Event, Events
from tiltyard.core.policy.state.policy import Lane, Policy
from tiltyard.core.policy.state.rating_fold import Rater, RaterSettings
from tiltyard.core.policy.state.standing import Standing
from tiltyard.core.policy.validity.publication import Evaluation, evaluate
from tiltyard.core.policy.validity.report.report_builder import (
    churn_finding,
    contradiction_finding,
    lost_status_finding,
)
from tiltyard.core.policy.validity.report.report_records import EvaluationRecord, ReversedPair
from tiltyard.core.policy.validity.report.report_sections import churn, find_span, votes_of_lane
from tiltyard.core.policy.validity.serving_fairness import contender_ceiling
from tiltyard.core.ratings.bradley_terry import BradleyTerry
from tiltyard.errors import BadOption

ROWS = happened()
SPANS = (
    {},
    {"since": START + 12 * HOUR, "until": START + 40 * HOUR},
)
WIN_KINDS = (Kind.WIN_A, Kind.WIN_B)


def within(rows, since=None, until=None):
    return [row for row in rows if (since or 0) <= row["time"] and (until is None or row["time"] < until)]


def so_far(rows, until=None):
    return within(rows, None, until)


def lived(rows, policy=SMALL, models=7, prompts=6):
    """The arena one event at a time, ranked after every vote, and its evaluations."""
    standing = Standing(policy, named(models), [f"prompt {k}" for k in range(prompts)])
    rater = Rater(RaterSettings(), models)
    looks = []
    for row in rows:
        event, a, b, prompt = row["event"], row.get("a", 0), row.get("b", 0), row.get("prompt", 0)
        if event == Event.SERVED:
            standing.serve(a, b, prompt, lane=Lane(row["lane"]), nominal=Lane(row["nominal"]))
        elif event == Event.VOTE:
            standing.vote(a, b, prompt, row["kind"])
            rater.vote(a, b, row["kind"])
            standing.rank(rater.strengths(standing.enabled))
            if standing.votes % policy.evaluated_every == 0:
                looks.append(evaluate(standing, time=row["time"]))
        elif event == Event.SKIP:
            standing.skip()
        elif event == Event.EXPIRE:
            standing.expire(row["serial"])
        elif event == Event.ENABLE:
            standing.enable(a)
        else:
            standing.retire(a)
    standing.rank(rater.strengths(standing.enabled))
    return standing, looks


@pytest.mark.parametrize("span", SPANS)
def test_matchups_lanes_and_sides_are_those_of_the_span(span):
    report = reported(ROWS, **span)
    inside = within(ROWS, **span)
    events = Counter(row["event"] for row in inside)
    kinds = Counter(row["kind"] for row in inside if row["event"] == Event.VOTE)
    found = report.matchups
    assert (found.served, found.votes) == (events[Event.SERVED], events[Event.VOTE])
    assert (found.skipped, found.expired) == (events[Event.SKIP], events[Event.EXPIRE])
    assert found.decisive == kinds[Kind.WIN_A] + kinds[Kind.WIN_B]
    assert (found.ties, found.both_bad) == (kinds[Kind.TIE], kinds[Kind.BOTH_BAD])
    ends = Counter(row["event"] for row in so_far(ROWS, span.get("until")))
    assert found.open == ends[Event.SERVED] - ends[Event.VOTE] - ends[Event.SKIP] - ends[Event.EXPIRE]
    served = [row for row in inside if row["event"] == Event.SERVED]
    for lane, row in zip(Lane, report.lanes.lanes, strict=True):
        assert row.lane == lane.name.lower()
        assert row.realised == sum(one["lane"] == lane for one in served)
        assert row.nominal == sum(one["nominal"] == lane for one in served)
    assert report.lanes.gave_way == sum(row["lane"] != row["nominal"] for row in served)
    left, right = Counter(row["a"] for row in served), Counter(row["b"] for row in served)
    assert {row.model: (row.left, row.exposures) for row in report.sides.models} == {
        named(7)[k]: (left[k], left[k] + right[k]) for k in left | right
    }
    assert (report.sides.decisive, report.sides.left_wins) == (found.decisive, kinds[Kind.WIN_A])


def naive_windows(rows, policy):
    """After each served matchup: who was enabled, exposures, targets, and whether the window is settled."""
    enabled, slots, windows = set(), [], []
    for row in rows:
        if row["event"] == Event.ENABLE:
            enabled.add(row["a"])
        elif row["event"] == Event.RETIRE:
            enabled.discard(row["a"])
        elif row["event"] == Event.EXPIRE:
            slots[row["serial"]] = None
        elif row["event"] == Event.SERVED:
            slots.append((row["a"], row["b"], frozenset(enabled)))
            last = [slot for slot in slots[-policy.window :] if slot is not None]
            settled = len(slots) >= policy.window and {slot[2] for slot in last} == {frozenset(enabled)}
            windows.append((row["time"], frozenset(enabled), *naive_due(last), settled, len(slots)))
    return windows, naive_due([slot for slot in slots[-policy.window :] if slot is not None])


def naive_due(slots):
    exposures, target = Counter(), Counter()
    for a, b, among in slots:
        exposures.update((a, b))
        for model in among:
            target[model] += 2.0 / len(among)
    return exposures, target


@pytest.mark.parametrize("span", SPANS)
def test_exposures_and_windows_follow_from_the_last_matchups(span):
    report = reported(ROWS, **span)
    windows, (exposures, target) = naive_windows(so_far(ROWS, span.get("until")), SMALL)
    for row in report.fairness.models:
        k = named(7).index(row.model)
        assert row.exposures == exposures[k]
        assert row.target == pytest.approx(target[k])
        assert row.tolerance == pytest.approx(max(0.12 * target[k], 2.0))
        assert row.outside == (abs(row.exposures - row.target) > row.tolerance)
        assert row.deviation == pytest.approx((exposures[k] - target[k]) / target[k])
    counted, outside, settled, settled_outside, widest = 0, 0, 0, 0, 0.0
    for time, enabled, seen, due, still, served in windows:
        if time < span.get("since", 0) or served < SMALL.settling * len(enabled):
            continue
        strain = max(abs(seen[k] - due[k]) / max(0.12 * due[k], 2.0) for k in enabled)
        counted, outside = counted + 1, outside + (strain > 1.0 + 1e-9)
        settled, settled_outside = settled + still, settled_outside + (still and strain > 1.0 + 1e-9)
        widest = max(widest, strain)
    found = report.fairness
    assert (found.windows, found.outside) == (counted, outside)
    assert (found.settled, found.settled_outside) == (settled, settled_outside)
    assert settled > 0
    assert outside > 0
    assert found.widest.strain == pytest.approx(widest)


@pytest.mark.parametrize("span", SPANS)
def test_order_rd_and_floors_are_those_of_an_arena_lived_through(span):
    report = reported(ROWS, **span)
    standing, looks = lived(so_far(ROWS, span.get("until")))
    before, _ = lived([row for row in ROWS if row["time"] < span.get("since", 0)])
    names = named(7)
    assert [row.model for row in report.confidence.models] == [names[k] for k in standing.order]
    for place, row in enumerate(report.confidence.models, start=1):
        k = names.index(row.model)
        assert row.place == place
        assert row.rd == standing.strengths.rd[k]
        assert row.score == row.rating - 2.0 * row.rd
        if before.votes and before.enabled[k]:
            assert row.rd_before == before.strengths.rd[k]
            assert before.order[row.place_before - 1] == k
        else:
            assert row.rd_before is row.score_before is row.place_before is None
        scores = [look.conservative(k) for look in looks if look.time >= span.get("since", 0)]
        known = [score for score in scores if score is not None]
        assert row.swing == (max(known) - min(known) if known else None)
        cells = standing.cells.tally[k]
        filled = (cells[:, 0] + cells[:, 1] >= SMALL.prompt_floor).sum()
        assert row.coverage == filled / 6
    decisive, tried = Counter(), Counter()
    for row in so_far(ROWS, span.get("until")):
        if row["event"] == Event.VOTE:
            pair = frozenset((row["a"], row["b"]))
            tried[pair] += 1
            decisive[pair] += row["kind"] in WIN_KINDS
    pairs = [frozenset(pair) for pair in combinations(standing.order.tolist(), 2)]
    assert report.pairs.pairs == len(pairs)
    assert report.pairs.pairs_tried == sum(tried[pair] > 0 for pair in pairs)
    assert report.pairs.pairs_decided == sum(decisive[pair] >= 2 for pair in pairs)
    assert [row.votes for row in report.pairs.adjacent] == [
        decisive[frozenset(pair)]
        for pair in zip(standing.order[:3].tolist(), standing.order[1:4].tolist(), strict=True)
    ]
    assert report.pairs.met == sum(row.votes >= 3 and row.prompts >= 2 for row in report.pairs.adjacent)


@pytest.mark.parametrize("span", SPANS)
def test_the_history_of_the_rules_is_that_of_the_spans_evaluations(span):
    report = reported(ROWS, **span)
    standing, looks = lived(so_far(ROWS, span.get("until")))
    found = report.publication
    inside = [look for look in looks if look.time >= span.get("since", 0)]
    assert [(look.votes, look.time) for look in found.history] == [(look.votes, look.time) for look in inside]
    assert [look.values for look in found.history] == [
        tuple(rule.value for rule in look.rules) for look in inside
    ]
    assert found.rules == evaluate(standing).rules
    held = [look.holds for look in looks]
    assert found.official == all(held[-2:])
    assert [look.official for look in found.history] == [
        k > 0 and held[k] and held[k - 1] for k in range(len(looks) - len(inside), len(looks))
    ]
    assert len(report.churn.steps) == max(len(inside) - (len(inside) == len(looks)), 0)
    assert {moment.votes for moment in report.confidence.moments} == {look.votes for look in inside}


def test_the_exploration_lane_is_rated_by_itself():
    report = reported(ROWS)
    names, lanes = named(7), {}
    battles = []
    for row in ROWS:
        if row["event"] == Event.SERVED:
            lanes[row["serial"]] = row["lane"]
        elif row["event"] == Event.VOTE and lanes[row["serial"]] == Lane.EXPLORATION:
            winner = ("model_a", "model_b", "tie", "both_bad")[row["kind"]]
            battles.append(
                {
                    "model_a": names[row["a"]],
                    "model_b": names[row["b"]],
                    "winner": winner,
                    "question_id": f"q{row['prompt']}",
                }
            )
    ratings = BradleyTerry()(Table.from_battles(map(Battle.from_dict, battles)))
    order = [ratings.models[k] for k in ratings.order() if ratings.models[k] != names[1]]
    found = report.exploration
    assert found.votes == len(battles)
    assert found.prompts == 6
    assert [row.model for row in found.models] == order
    by_name = dict(zip(ratings.models, ratings.rating, strict=True))
    assert [row.rating for row in found.models] == pytest.approx([by_name[name] for name in order])
    official = [row.model for row in report.confidence.models]
    assert [official.index(row.model) + 1 for row in found.models] == [
        row.official_place for row in found.models
    ]
    assert found.pairs == 15
    assert found.same_order == sum(by_name[a] > by_name[b] for a, b in combinations(official, 2))


def test_an_order_that_the_exploration_lane_refutes_is_found():
    rng = np.random.default_rng(3)
    rows = [{"event": Event.ENABLE, "a": k} for k in range(3)]
    for serial in range(1200):
        a, b = rng.choice(3, 2, replace=False).tolist()
        lane = Lane.EXPLORATION if serial % 3 == 0 else Lane.COVERAGE
        better = a < b if lane == Lane.EXPLORATION else a > b
        row = {"a": a, "b": b, "prompt": int(rng.integers(40)), "serial": serial}
        rows.append({"event": Event.SERVED, "lane": lane, "nominal": lane, **row})
        kind = Kind.WIN_A if better == (rng.random() < 0.7) else Kind.WIN_B
        rows.append({"event": Event.VOTE, "kind": kind, **row})
    report = reported(rows, models=3, prompts=40)
    assert report.exploration.reversed
    assert all(pair.gap > 0.0 for pair in report.exploration.reversed)
    assert "order-contradicted" in [finding.name for finding in report.findings]


def test_spans_join_without_gap_or_overlap():
    cut = START + 20 * HOUR
    first, second, whole = reported(ROWS, until=cut), reported(ROWS, since=cut), reported(ROWS)
    for name in ("served", "votes", "decisive", "ties", "both_bad", "skipped", "expired"):
        parts = [getattr(report.matchups, name) for report in (first, second)]
        assert sum(parts) == getattr(whole.matchups, name)
    assert first.span.events + second.span.events == whole.span.events == len(ROWS)
    assert first.span.votes == second.span.votes_before
    assert first.fairness.windows + second.fairness.windows == whole.fairness.windows
    assert first.fairness.outside + second.fairness.outside == whole.fairness.outside
    assert first.publication.history + second.publication.history == whole.publication.history
    assert first.churn.steps + second.churn.steps == whole.churn.steps
    assert second.publication == replace(
        whole.publication, history=whole.publication.history[-len(second.publication.history) :]
    )


def test_a_log_without_times_is_cut_by_votes():
    rows = happened(timed=False)
    report = reported(rows, since=40, until=100)
    assert report.span.by == "votes"
    assert (report.span.votes_before, report.span.votes) == (40, 100)
    assert report.matchups.votes == 60
    assert [look.votes for look in report.publication.history] == [60, 80, 100]


@given(st.lists(st.integers(0, 20), max_size=30), st.integers(-1, 21), st.integers(0, 22))
def test_a_span_is_one_run_of_the_log(times, since, length):
    events = Events.of([{"event": Event.SKIP, "time": time} for time in times])
    span = find_span(events, since, since + length)
    assert 0 <= span.start <= span.stop <= len(times)
    if sorted(times) == times and any(times):
        inside = [k for k, time in enumerate(times) if since <= time < since + length]
        assert list(range(span.start, span.stop)) == inside


def test_a_span_that_ends_before_it_begins_is_refused():
    with pytest.raises(BadOption, match="ends at 3"):
        reported(ROWS, since=5, until=3)


def test_an_empty_span_and_an_empty_log_are_reported():
    report = reported(ROWS, since=START + 1000 * HOUR)
    assert (report.span.events, report.span.votes_before) == (0, report.span.votes)
    assert report.matchups.served == report.fairness.windows == report.lanes.matchups == 0
    assert report.publication.history == report.churn.steps == report.sides.models == ()
    assert report.fairness.widest is None
    assert report.fairness.widest_now is not None
    assert [row.place_before for row in report.confidence.models] == [1, 2, 3, 4, 5, 6]
    assert all(row.swing is None for row in report.confidence.models)
    report = reported([])
    assert report.status == "calibrating"
    assert report.n_enabled == 0
    assert report.confidence.median_rd is None
    assert report.fairness.models == ()
    assert report.exploration.models == report.exploration.unplaced == ()
    assert report.fairness.widest_now is None


def test_before_anybody_is_enabled_nothing_is_known():
    rows = [{"event": Event.ENABLE, "a": 0}, {"event": Event.RETIRE, "a": 0}, {"event": Event.RETIRE, "a": 0}]
    vote = {"a": 0, "b": 1, "prompt": 0, "serial": 0}
    rows = [
        {"event": Event.SERVED, **vote},
        {"event": Event.VOTE, **vote},
        *rows,
        {"event": Event.SERVED, **vote},
    ]
    report = reported(rows, models=2, prompts=1, since=1)
    assert report.confidence.median_rd_before is None
    assert report.fairness.widest is None
    assert report.fairness.windows == 1


def test_two_models_and_one_prompt_are_reported():
    report = reported(happened(2, 1, newcomer=False), models=2, prompts=1)
    assert len(report.pairs.adjacent) == report.pairs.needed == 1
    assert report.pairs.adjacent[0].prompts_needed == 1
    assert report.exploration.pairs == 1
    assert report.lanes.contender_ceiling == 1.0
    assert json.loads(json.dumps(report.to_dict(), allow_nan=False)) == report.to_dict()


def test_models_that_the_exploration_lane_hardly_met_are_named():
    rows = [row | {"lane": Lane.COVERAGE} if row["event"] == Event.SERVED else row for row in ROWS]
    report = reported(rows)
    assert report.exploration.votes == 0
    assert len(report.exploration.unplaced) == 6
    assert report.exploration.reversed == ()
    row = {"a": 0, "b": 1, "prompt": 0, "serial": 0}
    both = [{"event": Event.ENABLE, "a": 0}, {"event": Event.ENABLE, "a": 1}]
    vote = [{"event": Event.SERVED, "lane": Lane.EXPLORATION, **row}, {"event": Event.VOTE, **row}]
    found = reported(both + vote, models=2, prompts=1).exploration
    assert (found.votes, found.pairs, found.same_order) == (1, 0, 0)
    assert set(found.unplaced) == set(named(2))


def test_given_up_rules_are_counted_where_somebody_kept_them():
    report = reported(ROWS, since=START + 20 * HOUR, given_up=np.array([0, 150, 151, 10_000]))
    assert report.matchups.given_up == 2
    assert reported(ROWS).matchups.given_up is None


def test_a_vote_must_name_the_matchup_it_ends():
    row = {"a": 0, "b": 1, "prompt": 0}
    served = {"event": Event.SERVED, **row, "serial": 0}
    for wrong in ({"serial": 1}, {"serial": -1}, {"a": 1, "b": 0}, {"prompt": 1}):
        events = Events.of([served, {"event": Event.VOTE, **row, "serial": 0, **wrong}])
        with pytest.raises(BadOption, match="row 1"):
            votes_of_lane(events, Lane.EXPLORATION)
    with pytest.raises(BadOption, match="row 0"):
        votes_of_lane(Events.of([{"event": Event.VOTE, **row}]), Lane.EXPLORATION)


@pytest.mark.parametrize(
    ("models", "share"), [(8, 1.0), (20, 0.483), (32, 0.302), (33, 0.293), (100, 0.0966)]
)
def test_the_contender_lanes_ceiling_is_the_policys(models, share):
    assert contender_ceiling(Policy(), models) == pytest.approx(share, abs=5e-4)
    assert contender_ceiling(Policy(fairness="scoped"), models) == 1.0


def test_scoped_fairness_leaves_the_contender_lane_out():
    report = reported(ROWS, policy=replace(SMALL, fairness="scoped"))
    strict = {row.model: row for row in reported(ROWS).fairness.models}
    for row in report.fairness.models:
        assert row.exposures == strict[row.model].exposures - row.contender
        assert row.contender == strict[row.model].contender


def test_a_model_that_always_stands_left_is_found():
    rows = [
        row | {"a": min(row["a"], row["b"]), "b": max(row["a"], row["b"])} if "b" in row else row
        for row in happened(newcomer=False)
    ]
    report = reported(rows)
    assert {named(7)[0], named(7)[6]} <= set(report.sides.uneven)
    assert "sides-uneven" in [finding.name for finding in report.findings]
    assert reported(happened(newcomer=False)).sides.uneven == ()


def test_broken_tolerance_and_both_bad_are_found():
    report = reported(happened(both_bad=0.5), policy=replace(SMALL, tolerance=0.0, tolerance_least=0.0))
    names = {finding.name for finding in report.findings}
    assert {"outside-tolerance", "both-bad-models"} <= names


def look(votes, ratings, rd=30.0, enabled=None):
    """An evaluation of models with these ratings."""
    rating = np.array(ratings, dtype=float)
    among = np.arange(len(rating)) if enabled is None else np.array(enabled)
    order = among[np.argsort(-rating[among], kind="stable")]
    deviation = np.full(len(rating), rd)
    return Evaluation(votes, 0, order, rating, deviation, np.ones(len(rating)), (), holds=False)


def test_churn_counts_places_and_swaps_beyond_the_bands():
    calm, torn = look(20, [1500, 1510, 1400]), look(30, [1600, 1510, 1400])
    found = churn([look(10, [1520, 1500, 1400]), calm, torn], "abc", 3)
    assert [(step.places, step.first, step.swaps, step.beyond) for step in found.steps] == [
        (2, True, 1, 0),
        (2, True, 1, 1),
    ]
    assert [(pair.model, pair.other, pair.times, pair.beyond) for pair in found.pairs] == [("a", "b", 2, 1)]
    assert churn_finding(found) is None
    found = churn([look(10, [1500, 1510]), look(20, [1631, 1510])], "ab", 2)
    assert found.pairs[0].far_beyond == 1
    assert "a and b" in churn_finding(found).text
    near = churn([look(10, [1500, 1510]), look(20, [1630, 1510])], "ab", 2)
    assert (near.pairs[0].beyond, near.pairs[0].far_beyond) == (1, 0)
    found = churn([look(10, [9, 8, 7]), look(20, [9, 8, 7], enabled=[1, 2])], "abc", 3)
    (step,) = found.steps
    assert (step.places, step.first, step.swaps) == (3, True, 0)


@given(st.lists(st.permutations(range(6)), min_size=2, max_size=5))
def test_churn_agrees_with_places_counted_one_by_one(orders):
    looks = [look(k, [-order.index(model) for model in range(6)], rd=0.4) for k, order in enumerate(orders)]
    found = churn(looks, "abcdef", 6)
    for step, (old, new) in zip(found.steps, pairwise(orders), strict=True):
        assert step.places == sum(a != b for a, b in zip(old, new, strict=True))
        swapped = [
            (i, j)
            for i, j in combinations(range(6), 2)
            if (old.index(i) < old.index(j)) != (new.index(i) < new.index(j))
        ]
        assert step.swaps == step.beyond == len(swapped)


def test_findings_name_what_was_lost_and_what_is_contradicted():
    report = reported(ROWS)
    history = [
        EvaluationRecord(votes, 0, (), (), official)
        for votes, official in ((20, True), (40, False), (60, True))
    ]
    lost = lost_status_finding(replace(report.publication, history=tuple(history)))
    assert "at 40 votes" in lost.text
    assert lost_status_finding(replace(report.publication, history=tuple(history[1:]))) is None
    for look in history[:2]:
        assert lost_status_finding(replace(report.publication, history=(look, look))) is None
    pair = ReversedPair("first", "second", 12.0)
    assert "second above first" in contradiction_finding(replace(report.exploration, reversed=(pair,))).text
