import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from support.sizes import sized
from tiltyard.core.battles.outcome import Outcome
from tiltyard.core.judging.diagnostics.rater_agreement import match_outcome, measure_agreement
from tiltyard.errors import BadOption

A, B, TIE, BAD = Outcome.MODEL_A, Outcome.MODEL_B, Outcome.TIE, Outcome.BOTH_BAD
THREE = (A, B, TIE)


def of(table, per_prompt=1):
    """Votes laid out by a 3 × 3 table, so many on each prompt."""
    judged, human = {}, []
    for i, row in enumerate(table):
        for j, times in enumerate(row):
            for _ in range(times):
                key = (f"p{len(human) // per_prompt}", "a", f"b{len(human)}")
                judged[key] = THREE[i]
                human.append((key, THREE[j]))
    return measure_agreement(judged, human)


TABLES = st.lists(st.lists(st.integers(0, 9), min_size=3, max_size=3), min_size=3, max_size=3).filter(
    lambda table: sum(map(sum, table)) > 1
)


def test_kappa_of_cohens_example():
    """Cohen (1960), table 1: 200 cases, κ = .492."""
    found = of([[88, 14, 18], [10, 40, 10], [2, 6, 12]])
    assert round(found.kappa, 3) == 0.492
    assert found.agreed == 0.7
    assert (found.n, found.clusters) == (200, 200)


@given(TABLES)
def test_kappa_equals_that_of_statsmodels(table):
    from statsmodels.stats.inter_rater import cohens_kappa

    found = of(table)
    if found.kappa is None:
        assert (found.low, found.high) == (None, None)
    else:
        assert math.isclose(found.kappa, cohens_kappa(np.array(table)).kappa, abs_tol=1e-12)
        assert -1.0 <= found.low <= found.kappa + 1e-12
        assert found.kappa - 1e-12 <= found.high <= 1.0 + 1e-12
    document = found.to_dict()
    assert json.loads(json.dumps(document, allow_nan=False)) == document


@pytest.mark.parametrize(
    "table",
    [
        [[300, 40, 60], [50, 250, 40], [60, 50, 150]],
        [[900, 700, 250], [10, 300, 20], [5, 10, 200]],
    ],
)
def test_with_one_vote_a_prompt_the_interval_is_that_of_independent_cases(table):
    """As wide as the oracle's, which is symmetric; Wilson's leans towards the middle by a little."""
    from statsmodels.stats.inter_rater import cohens_kappa

    found, oracle = of(table), cohens_kappa(np.array(table))
    width = oracle.kappa_upp - oracle.kappa_low
    assert math.isclose(found.high - found.low, width, rel_tol=0.01)
    assert abs(oracle.kappa_low - found.low) < 0.05 * width


def test_the_interval_is_that_of_a_jackknife_over_prompts_of_unequal_size():
    """An independent witness: leave out prompts one by one, and draw Wilson's interval for that variance."""
    from statsmodels.stats.inter_rater import cohens_kappa

    rng = np.random.default_rng(5)
    sizes = rng.integers(1, 15, 400)
    shares = rng.dirichlet(np.ravel([[80, 3, 1], [2, 6, 1], [2, 1, 4]]) / 10, len(sizes))
    tables = np.stack([rng.multinomial(n, p) for n, p in zip(sizes, shares, strict=True)])
    judged, human = {}, []
    for prompt, table in enumerate(tables):
        for cell, times in enumerate(table):
            for _ in range(times):
                key = (f"p{prompt}", "a", f"b{len(human)}")
                judged[key] = THREE[cell // 3]
                human.append((key, THREE[cell % 3]))
    found, total = measure_agreement(judged, human), tables.sum(axis=0)
    left = np.array([cohens_kappa((total - table).reshape(3, 3)).kappa for table in tables])
    k = len(tables)
    half = stats.t.ppf(0.975, sizes.sum() ** 2 / (sizes @ sizes) - 1) * math.sqrt((k - 1) * np.var(left))
    assert math.isclose(found.high - found.low, 2.0 * half, rel_tol=0.03)


def test_agreement_of_one_outcome_and_on_few_prompts():
    keys = [(f"p{k}", "a", "b") for k in range(6)]
    judged = dict(zip(keys, [A, B, TIE, BAD, A, B], strict=True))
    human = list(zip(keys, [A, B, BAD, TIE, B, A], strict=True))
    assert measure_agreement(judged, human).matrix == ((1, 1, 0), (1, 1, 0), (0, 0, 2))
    found = of([[5, 0, 0], [0, 0, 0], [0, 0, 0]])
    assert (found.kappa, found.low, found.high, found.agreed) == (None, None, None, 1.0)
    few, many = of([[4, 0, 0], [0, 4, 0], [0, 0, 2]]), of([[40, 0, 0], [0, 40, 0], [0, 0, 20]])
    assert few.kappa == many.kappa == 1.0
    assert few.low < 0.7 < many.low < 1.0


def test_every_vote_on_a_judged_match_counts_and_others_do_not():
    key = ("p", "a", "b")
    found = measure_agreement({key: A}, [(key, A), (key, B), (("q", "a", "b"), A)])
    assert (found.n, found.clusters) == (2, 1)
    assert (found.low, found.high) == (-1.0, 1.0)
    assert measure_agreement({key: A}, [(("q", "a", "b"), A)]) is None


def test_a_battle_is_turned_so_that_models_stand_by_name():
    assert match_outcome("p", "b", "a", A) == (("p", "a", "b"), B)
    assert match_outcome("p", "b", "a", BAD) == (("p", "a", "b"), BAD)
    assert match_outcome("p", "a", "b", A) == (("p", "a", "b"), A)


def test_a_level_beyond_one_is_refused():
    with pytest.raises(BadOption, match="level is 95"):
        measure_agreement({}, [], level=95)


def clustered_votes(rng, prompts, pairs):
    """Judges follow people on easy prompts and guess on hard ones."""
    easy = np.repeat(rng.random(prompts) < 0.5, pairs)
    voted = rng.choice(3, prompts * pairs, p=[0.4, 0.4, 0.2])
    follows = rng.random(len(voted)) < np.where(easy, 0.95, 0.15)
    judged = np.where(follows, voted, rng.choice(3, len(voted), p=[0.4, 0.4, 0.2]))
    keys = [(str(k // pairs), "a", str(k)) for k in range(len(voted))]
    return {key: THREE[k] for key, k in zip(keys, judged, strict=True)}, [
        (key, THREE[k]) for key, k in zip(keys, voted, strict=True)
    ]


def test_intervals_of_kappa_cover_in_clustered_worlds_where_naive_ones_do_not():
    from statsmodels.stats.inter_rater import cohens_kappa

    truth, worlds, covered, naive = 0.55, sized(120, 300), 0, 0
    for seed in range(worlds):
        found = measure_agreement(*clustered_votes(np.random.default_rng(seed), 20, 12))
        covered += found.low <= truth <= found.high
        oracle = cohens_kappa(np.array(found.matrix))
        naive += oracle.kappa_low <= truth <= oracle.kappa_upp
    assert covered / worlds >= 0.92
    assert naive / worlds < 0.85
