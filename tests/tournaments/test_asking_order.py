"""A budget that pays for a part of the questions pays for a fair part."""

from __future__ import annotations

import itertools
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.arranged import arrange
from tiltyard.settings.prices import to_picodollars

NOWHERE = {"provider": "openai", "base_url": "http://127.0.0.1:9/v1"}
CHECKS = {"identical": 1, "truncated": 1, "garbage": 1, "repeats": 2, "planted": 0}


@pytest.fixture(scope="module")
def plan(tmp_path_factory):
    folder = tmp_path_factory.mktemp("order")
    return (
        arrange(folder, models=4, prompts=9, dimensions=3, judge=NOWHERE, checks=CHECKS, shard_size=50)
        .prepared()
        .plan
    )


@given(st.data())
def test_stretches_of_the_order_of_asking_are_the_whole_plan(plan, data):
    cuts = sorted(data.draw(st.lists(st.integers(0, len(plan)), max_size=6)))
    edges = [0, *cuts, len(plan)]
    pieces = [list(plan.asked(first, last)) for first, last in itertools.pairwise(edges)]
    assert [len(piece) for piece in pieces] == [last - first for first, last in itertools.pairwise(edges)]
    whole = [one for piece in pieces for one in piece]
    assert whole == list(plan.asked(0, len(plan)))
    assert sorted(one.id for one in whole) == sorted(one.id for one in plan.questions())


@given(st.integers(0, 339))
def test_every_beginning_has_its_share_of_each_dimension_pair_and_check(plan, last):
    asked = list(plan.asked(0, last))
    share = last / len(plan)
    for key in (lambda one: one.dimension, lambda one: one.purpose == "match"):
        whole, part = Counter(map(key, plan.questions())), Counter(map(key, asked))
        assert all(abs(part[name] - share * whole[name]) <= 6 for name in whole)
    orders = Counter(
        (one.dimension, one.prompt_id, frozenset((one.first, one.second)))
        for one in asked
        if one.purpose == "match"
    )
    assert sum(count == 1 for count in orders.values()) <= 1


def test_trials_are_whole_matches_on_several_prompts_that_are_asked_first(plan):
    tried = [one.question_id for one in plan.trial()]
    assert len(tried) == len(set(tried)) == 10
    first = [
        one for one in plan.asked(0, len(plan)) if one.dimension == "factuality" and one.purpose == "match"
    ]
    assert tried == [one.id for one in first[:10]]
    assert len({one.prompt_id for one in first[:10]}) == 5


def test_a_budget_for_a_third_is_spread_over_dimensions_pairs_and_prompts(tmp_path, billed):
    billed.server.change(latency=0.005)
    arranged = arrange(
        tmp_path,
        models=4,
        prompts=10,
        dimensions=3,
        judge=billed.judge(max_tokens=256),
        modes={"pilot": {"prompts": "all"}},
    )
    arranged.done("run", arranged.config, "--limit-pairs", 1, "--output-dir", "one")
    each = float(arranged.document("costs.json", "one")["actual"]["usd"]) / 6
    (tmp_path / "home" / "ledger.sqlite").rename(tmp_path / "old.sqlite")
    budget = f"{120 * each:.6f}"
    ran = arranged.done("run", arranged.config, "--output-dir", "out", "--budget-usd", budget)
    assert "cover them" in ran.err
    rows = arranged.verdicts()
    asked = [row for row in rows if row["state"] == "ok"]
    assert len(rows) == 360
    assert 100 <= len(asked) <= 122
    assert to_picodollars(arranged.document("costs.json")["actual"]["usd"]) <= to_picodollars(budget)
    for key, tolerance in (
        (lambda row: row["dimension"], 0.06),
        (lambda row: frozenset((row["first"], row["second"])), 0.12),
        (lambda row: row["prompt_id"], 0.2),
    ):
        whole, part = Counter(map(key, rows)), Counter(map(key, asked))
        shares = [part[name] / whole[name] for name in whole]
        assert max(abs(share - len(asked) / 360) for share in shares) <= tolerance
    assert set(Counter(row["match_id"] for row in asked).values()) == {2}
    arranged.done("verify", "out")
