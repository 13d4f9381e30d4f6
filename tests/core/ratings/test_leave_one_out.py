"""Leave-one-cluster-out variances against clusters that are left out one by one, by loops."""

import numpy as np
import pytest

from support.left_out_by_loops import battle_parts, by_loops, fitted
from support.sizes import sized
from support.worlds import drawn, names, styled, table
from tiltyard.core.battles import CodedBattles, Table
from tiltyard.core.battles.cluster_keys import MISSING_KEY
from tiltyard.core.ratings import BradleyTerry, Elo, leave_one_out
from tiltyard.core.ratings.group_fit import fit_with_style
from tiltyard.core.ratings.leave_one_out import leave_one_out as left_out
from tiltyard.core.ratings.leave_one_out import prompt_key
from tiltyard.core.ratings.pairs import Scoring
from tiltyard.core.ratings.ranks import rank_models

M = 5
#: Prompts weigh what they weigh, however uneven.
FREE = BradleyTerry(max_share=None)


def uneven(seed=1, n=300, prompts=12, **options):
    """Battles on prompts of which the first holds a third, and some battles without one."""
    codes = drawn(M, n, seed, prompts=prompts, **options)
    codes.prompt[: n // 3] = 1
    codes.prompt[-5:] = MISSING_KEY
    return codes


@pytest.fixture
def one_by_one(monkeypatch):
    """As for large problems: a series for small clusters, exact solutions for large ones."""
    monkeypatch.setattr(leave_one_out, "_EXACT_WORK_LIMIT", 0)


@pytest.fixture(params=["at once", "one by one"])
def either_way(request, monkeypatch):
    """Small problems are solved at once; both ways of large ones must give the same."""
    if request.param == "one by one":
        monkeypatch.setattr(leave_one_out, "_EXACT_WORK_LIMIT", 0)
        monkeypatch.setattr(leave_one_out, "_EXACT_LEVERAGE_SHARE", 0.0)


@pytest.mark.usefixtures("either_way")
def test_each_cluster_is_left_out_as_loops_do_it():
    for options in ({}, {"weighted": True}, {"ties": 0.0}):
        codes = uneven(**options)
        fit = fitted(table(codes))
        found = left_out(
            table(codes), fit.row_scores(Scoring()), fit.row_information(), prompt_key, fit.bread
        )
        covariance, dof = by_loops(codes, fit)
        np.testing.assert_allclose(found.covariance, covariance, rtol=0, atol=1e-9)
        np.testing.assert_allclose(found.dof, dof, rtol=1e-6)


@pytest.mark.usefixtures("either_way")
def test_davidsons_tie_parameter_moves_with_the_cluster_that_is_left_out():
    codes = uneven(ties=0.3)
    fit = fitted(table(codes), davidson=True)
    found = left_out(table(codes), fit.row_scores(Scoring()), fit.row_information(), prompt_key, fit.bread)
    covariance, dof = by_loops(codes, fit)
    np.testing.assert_allclose(found.covariance, covariance, rtol=0, atol=1e-8)
    np.testing.assert_allclose(found.dof, dof, rtol=1e-5)


@pytest.mark.usefixtures("either_way")
def test_style_moves_with_the_cluster_that_is_left_out():
    codes = uneven()
    covariates = np.random.default_rng(2).normal(size=(len(codes), 2)) * [1.0, 3.0]
    world = styled(codes, covariates)
    fit = fit_with_style(
        world, Scoring(), np.zeros(M, np.int64), prior_precision=0.0, kernel="plain", bread=True
    )
    found = left_out(world, fit.row_scores(Scoring()), fit.row_information(), prompt_key, fit.bread)
    covariance, dof = by_loops(codes, fit, covariates / fit.style_scale)
    np.testing.assert_allclose(found.covariance, covariance, rtol=0, atol=1e-8)
    np.testing.assert_allclose(found.dof, dof, rtol=1e-5)


def both(codes, **options):
    fit = fitted(table(codes), **options)
    return left_out(table(codes), fit.row_scores(Scoring()), fit.row_information(), prompt_key, fit.bread)


@pytest.mark.usefixtures("one_by_one")
def test_small_clusters_need_one_term_of_the_series(monkeypatch):
    codes = uneven(n=3000, prompts=300)
    quick = both(codes)
    monkeypatch.setattr(leave_one_out, "_EXACT_LEVERAGE_SHARE", 0.0)
    exact = both(codes)
    np.testing.assert_allclose(np.diag(quick.covariance), np.diag(exact.covariance), rtol=1e-3)
    assert (np.diag(quick.covariance) != np.diag(exact.covariance)).all()
    np.testing.assert_allclose(quick.dof, exact.dof, rtol=1e-3)


@pytest.mark.usefixtures("either_way")
@pytest.mark.parametrize("davidson", [False, True])
def test_clusters_may_be_taken_a_few_at_a_time(monkeypatch, davidson):
    codes = uneven(n=600, prompts=40)
    together = both(codes, davidson=davidson)
    monkeypatch.setattr(leave_one_out, "_HELD_NUMBER_LIMIT", 80)
    apart = both(codes, davidson=davidson)
    np.testing.assert_allclose(apart.covariance, together.covariance, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(apart.dof, together.dof, rtol=1e-9)


@pytest.mark.usefixtures("either_way")
@pytest.mark.parametrize("davidson", [False, True])
def test_a_long_log_is_read_again_instead_of_held(monkeypatch, davidson):
    codes = uneven(n=600, prompts=40)
    held = both(codes, davidson=davidson)
    monkeypatch.setattr(leave_one_out, "_HELD_BATTLES", 599)
    read_again = both(codes, davidson=davidson)
    np.testing.assert_array_equal(read_again.covariance, held.covariance)
    np.testing.assert_array_equal(read_again.dof, held.dof)


@pytest.mark.usefixtures("one_by_one")
def test_many_even_clusters_need_no_exact_solution_and_a_dominant_one_does(monkeypatch):
    """Each of 40 prompts has about a sixth of one direction's worth of information, but of no direction much."""
    even = drawn(8, 4000, 2, prompts=40)
    solved = []
    exact = leave_one_out._Part.left_out
    monkeypatch.setattr(
        leave_one_out._Part, "left_out", lambda part, *rest: solved.append(1) or exact(part, *rest)
    )
    quick = both(even)
    assert not solved
    monkeypatch.setattr(leave_one_out, "_EXACT_LEVERAGE_SHARE", 0.0)
    whole = both(even)
    assert len(solved) == 40
    np.testing.assert_allclose(
        np.sqrt(np.diag(quick.covariance)), np.sqrt(np.diag(whole.covariance)), rtol=2e-3
    )
    monkeypatch.setattr(leave_one_out, "_EXACT_LEVERAGE_SHARE", 0.1)
    one = uneven(n=600, prompts=40)
    np.testing.assert_allclose(
        np.diag(both(one).covariance), np.diag(with_exact(monkeypatch, one).covariance), rtol=5e-3
    )


def with_exact(monkeypatch, codes):
    monkeypatch.setattr(leave_one_out, "_EXACT_LEVERAGE_SHARE", 0.0)
    return both(codes)


@pytest.mark.usefixtures("one_by_one")
def test_some_small_clusters_stand_for_all_in_the_degrees_of_freedom(monkeypatch):
    codes = uneven(n=6000, prompts=1500)
    every = both(codes)
    monkeypatch.setattr(leave_one_out, "_SAMPLED_CLUSTER_COUNT", 300)
    some = both(codes)
    np.testing.assert_array_equal(some.covariance, every.covariance)
    assert (some.dof != every.dof).all()
    np.testing.assert_allclose(some.dof, every.dof, rtol=0.1)


@pytest.mark.usefixtures("either_way")
def test_a_cluster_that_alone_informs_a_model_tells_nothing_of_its_spread():
    """Left out, e has no battles left: its shift is not made up, and the others' is as without e."""
    codes = drawn(4, 200, 3, prompts=10)
    lone = drawn(5, 20, 4)
    lone.a[:], lone.b[:] = 4, np.arange(20) % 4
    joined = CodedBattles(
        *(np.concatenate([getattr(codes, c), getattr(lone, c)]) for c in ("a", "b", "kind")),
        prompt=np.concatenate([codes.prompt, np.full(20, 99, dtype=np.uint64)]),
    )
    result = BradleyTerry()(table(joined))
    dof = result.uncertainty.dof
    assert np.isfinite(result.uncertainty.covariances[0]).all()
    assert dof[4] < 3.0 < dof[:4].min()
    assert np.isnan(result.interval.low).tolist() == [False] * 4 + [True]
    assert np.isnan(result.interval.high).tolist() == [False] * 4 + [True]
    assert np.isfinite(result.rating).all()
    assert not rank_models(result).above[4].any()
    withheld = next(finding for finding in result.findings if finding.name == "interval-withheld")
    assert " of ae " in withheld.text


def test_without_clusters_there_is_the_variance_of_battles_and_no_degrees_of_freedom():
    nothing = drawn(M, 60, 1, prompts=3)
    nothing.prompt[:] = MISSING_KEY
    fit = fitted(table(nothing))
    found = left_out(table(nothing), fit.row_scores(Scoring()), fit.row_information(), prompt_key, fit.bread)
    scores = battle_parts(nothing, fit)[0]
    np.testing.assert_allclose(found.covariance, fit.bread @ scores.T @ scores @ fit.bread, atol=1e-12)
    assert found.dof.tolist() == [0.0] * M
    assert (found.clusters, found.battles, found.battles_alone) == (0, 60, 60)


def test_even_prompts_have_about_as_many_degrees_of_freedom_as_prompts_and_uneven_ones_far_fewer():
    even = BradleyTerry()(table(drawn(M, 3000, 1, prompts=30)))
    assert (even.uncertainty.dof > 20.0).all()
    assert (even.uncertainty.dof < 29.0).all()
    one_large = table(uneven(n=3000, prompts=30))
    assert (FREE(one_large).uncertainty.dof < 15.0).all()
    assert (BradleyTerry()(one_large).uncertainty.dof > FREE(one_large).uncertainty.dof).all()


ELO = Elo(n_permutations=4, n_bootstraps=5, n_orders=2)


def test_elo_gives_no_interval_on_few_prompts_or_with_one_that_holds_much():
    for codes in (drawn(M, 400, 1, prompts=19), uneven(n=400, prompts=40)):
        result = ELO(table(codes))
        withheld = next(finding for finding in result.findings if finding.name == "interval-withheld")
        assert f" {len(set(codes.prompt.tolist()) - {0})} prompts" in withheld.text
        assert np.isnan(result.interval.low).all()
        assert np.isnan(result.interval.high).all()
        assert result.uncertainty.dof.tolist() == [0.0] * M
        assert not rank_models(result).above.any()


def test_findings_say_whose_interval_rests_on_little():
    few = BradleyTerry()(table(drawn(M, 400, 1, prompts=9)))
    found = next(finding for finding in few.findings if finding.name == "few-effective-prompts")
    least = few.uncertainty.dof.min() + 1.0
    assert f"{', '.join(names(M))} they count like {least:.0f} even ones" in found.text
    many = BradleyTerry()(table(drawn(M, 3000, 1, prompts=60)))
    assert not {"interval-withheld", "few-effective-prompts"} & {finding.name for finding in many.findings}


def equals(seed, *, prompts, models=20, battles=3000, pareto=None):
    """Models that are equal on average, though each prompt has favourites; prompts even, or a few with most battles."""
    rng = np.random.default_rng([8, seed])
    effect = rng.normal(0.0, 1.0, (models, prompts))
    sizes = np.ones(prompts) if pareto is None else rng.pareto(pareto, prompts) + 1.0
    prompt = rng.choice(prompts, battles, p=sizes / sizes.sum())
    a = rng.integers(0, models, battles)
    b = (a + rng.integers(1, models, battles)) % models
    won = rng.random(battles) < 1.0 / (1.0 + np.exp(effect[b, prompt] - effect[a, prompt]))
    codes = CodedBattles(
        a.astype(np.uint16),
        b.astype(np.uint16),
        np.where(won, 0, 1).astype(np.uint8),
        prompt.astype(np.uint64) + 1,
    )
    return table(codes)


@pytest.mark.parametrize("pareto", [None, 1.1])
def test_equal_models_are_rarely_told_apart(pareto):
    """The plain sandwich and t(P − 1), by draws of the largest difference, err in a third of such worlds."""
    worlds = sized(20, 40)
    wrong = sum(
        bool(rank_models(BradleyTerry()(equals(seed, prompts=8, pareto=pareto))).above.any())
        for seed in range(worlds)
    )
    assert wrong / worlds <= 0.05 + 2.0 * np.sqrt(0.05 * 0.95 / worlds)


def test_models_far_apart_are_told_apart():
    codes = drawn(6, 3000, 5, prompts=40)
    rng = np.random.default_rng(1)
    ahead = rng.random(3000) < 1.0 / (1.0 + np.exp(0.5 * (codes.a.astype(float) - codes.b)))
    codes.kind[:] = np.where(ahead, 0, 1)
    ranks = rank_models(BradleyTerry()(Table.from_codes(names(6), codes)))
    assert ranks.low.tolist() == ranks.high.tolist() == [1, 2, 3, 4, 5, 6]
