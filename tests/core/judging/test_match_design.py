"""Which matches a design judges, and in which orders."""

from __future__ import annotations

from collections import Counter
from itertools import combinations

import numpy as np
import pytest
from scipy.sparse.csgraph import connected_components

from tiltyard.core.judging.match_design import BOTH_ORDERS, MatchDesign, match_questions, round_size
from tiltyard.core.judging.matches import Match, MatchList
from tiltyard.errors import BadOption


def pool(models, prompts, dimensions="d", lacking=()):
    return MatchList(
        [
            Match(name, f"p{p:02d}", f"m{i:02d}", f"m{j:02d}")
            for name in dimensions
            for p in range(prompts)
            for i, j in combinations(range(models), 2)
            if (i, p) not in lacking and (j, p) not in lacking
        ],
        0,
        {},
    )


def connected(matches):
    names = sorted({name for one in matches for name in (one.model_a, one.model_b)})
    met = np.zeros((len(names), len(names)))
    for one in matches:
        met[names.index(one.model_a), names.index(one.model_b)] = 1
    return connected_components(met, directed=False)[0] == 1


@pytest.mark.parametrize(("models", "prompts"), [(2, 1), (2, 50), (3, 4), (7, 1), (8, 3), (20, 30)])
@pytest.mark.parametrize("design", ["sparse", "adaptive"])
def test_what_is_judged_first_connects_all_models_in_each_dimension(design, models, prompts):
    every = pool(models, prompts, "de")
    first = MatchDesign(design, seed=3).first(every).matches
    chosen = set(first)
    assert first == [one for one in every.matches if one in chosen]
    for name in "de":
        here = [one for one in first if one.dimension == name]
        assert connected(here)
        most = models * prompts if design == "sparse" else round_size(pool(models, prompts).matches)
        assert len(here) == min(most, len(every.matches) // 2)


def test_sparse_uses_models_pairs_and_prompts_alike():
    first = MatchDesign("sparse").first(pool(20, 30)).matches
    for key, low, high in (
        (lambda one: (one.model_a, one.model_b), 3, 4),
        (lambda one: one.prompt_id, 20, 20),
    ):
        counts = Counter(map(key, first)).values()
        assert (min(counts), max(counts)) == (low, high)
    met = Counter(name for one in first for name in (one.model_a, one.model_b))
    assert max(met.values()) - min(met.values()) <= 2


def test_a_baseline_meets_everybody():
    design = MatchDesign("baseline", "m02")
    found = design.first(design.pool(pool(4, 5), 6)).matches
    assert len(found) == 6
    assert all("m02" in (one.model_a, one.model_b) for one in found)
    assert {one.model_a for one in found} | {one.model_b for one in found} == {f"m{k:02d}" for k in range(4)}


def test_orders_are_drawn_evenly_for_each_judge_and_a_share_is_asked_in_both():
    matches = pool(12, 40).matches
    design = MatchDesign(orders="random", audit=0.1, seed=1)
    orders = {judge: [design.asked_orders(one, judge) for one in matches] for judge in "jk"}
    for mine in orders.values():
        counts = Counter(mine)
        assert abs(counts[0, 1] / len(matches) - 0.1) < 0.02
        assert abs(counts[0,] - counts[1,]) < 4 * len(matches) ** 0.5
    # What is audited is audited of all judges; the order is each judge's own.
    assert [len(one) for one in orders["j"]] == [len(one) for one in orders["k"]]
    single = [(j, k) for j, k in zip(*orders.values(), strict=True) if len(j) == 1]
    assert 0.4 < sum(j == k for j, k in single) / len(single) < 0.6
    assert {design.asked_orders(one, "j") for one in matches} == {(0,), (1,), (0, 1)}
    assert {MatchDesign(orders="random", audit=1.0).asked_orders(one, "j") for one in matches} == {(0, 1)}
    assert {len(MatchDesign(orders="random", audit=0.0).asked_orders(one, "j")) for one in matches} == {1}


def test_questions_follow_the_orders():
    match = pool(2, 1).matches[0]
    assert [(one.judge, one.order) for one in match_questions(match, "jk")] == [
        ("j", 0),
        ("j", 1),
        ("k", 0),
        ("k", 1),
    ]
    design = MatchDesign(orders="random", audit=0.0)
    assert [(one.order,) for one in match_questions(match, "jk", design)] == [
        design.asked_orders(match, judge) for judge in "jk"
    ]


def test_a_design_is_read_from_a_mode_and_wrong_values_are_refused():
    assert MatchDesign.of({}, 0) == BOTH_ORDERS
    read = MatchDesign.of({"design": "sparse", "orders": "random", "audit": 0.2, "quorum": 1}, 7)
    assert read == MatchDesign("sparse", orders="random", audit=0.2, seed=7)
    for wrong in ({"design": "few"}, {"orders": "one"}, {"audit": 2}, {"audit": "x"}, {"design": None}):
        with pytest.raises(BadOption, match=str(next(iter(wrong.values())))):
            MatchDesign.of(wrong, 0)
