"""Leave-one-cluster-out variances against clusters that are left out one by one, by loops."""

from dataclasses import replace

import numpy as np
import pytest

from lab.interval_coverage import false_claims
from tiltyard.core.battles import CodedBattles, Table, TableBuilder
from tiltyard.core.battles.cluster_keys import MISSING_KEY
from tiltyard.core.ratings import BradleyTerry, Elo, leave_one_out
from tiltyard.core.ratings.group_fit import fit_groups, fit_with_style
from tiltyard.core.ratings.groups import comparable_groups
from tiltyard.core.ratings.leave_one_out import leave_one_out as left_out
from tiltyard.core.ratings.pairs import score_pairs
from tiltyard.core.ratings.ranks import rank_models
from tiltyard.core.ratings.sandwich import prompt_key
from tiltyard.core.ratings.scoring import Scoring
from worlds import batch, drawn, names, rows, styled, table, told

M = 5
UNIT = 400.0 / np.log(10.0)


def uneven(seed=1, n=300, prompts=12, **options):
    """Battles on prompts of which the first holds a third, and some battles without one."""
    codes = drawn(M, n, seed, prompts=prompts, **options)
    codes.prompt[: n // 3] = 1
    codes.prompt[-5:] = MISSING_KEY
    return codes


def fitted(world, *, davidson=False, prior_precision=0.0):
    pairs = score_pairs(world.counts, len(world.models), Scoring())
    group = comparable_groups(pairs, prior=prior_precision > 0.0)
    return fit_groups(pairs, group, davidson=davidson, prior_precision=prior_precision)


def battle_parts(codes, fit, z=None):
    """Score and information of every battle, by differences of the likelihood's own gradient."""
    m, extra = len(fit.theta), fit.n_extra
    at = np.concatenate([fit.theta, np.zeros(extra) if extra == 0 else extra_of(fit)])
    y = Scoring().of(codes)
    weight = np.ones(len(codes)) if codes.weight is None else codes.weight

    def score(x, row):
        a, b = int(codes.a[row]), int(codes.b[row])
        out = np.zeros(m + extra)
        d = x[a] - x[b]
        if fit.log_tie is not None:
            parts = np.exp([d / 2.0, -d / 2.0, x[m]])
            win, _, tie = parts / parts.sum()
            residual = weight[row] * (y[row] - win - tie / 2.0)
            out[m] = weight[row] * (1.0 - abs(2.0 * y[row] - 1.0) - tie)
        else:
            d += 0.0 if z is None else z[row] @ x[m:]
            residual = weight[row] * (y[row] - 1.0 / (1.0 + np.exp(-d)))
            out[m:] = 0.0 if z is None else residual * z[row]
        out[a], out[b] = residual, -residual
        return out

    scores, parts = [], []
    for row in range(len(codes)):
        scores.append(score(at, row))
        step = 1e-5 * np.eye(m + extra)
        parts.append(-np.array([(score(at + e, row) - score(at - e, row)) / 2e-5 for e in step]))
    return np.array(scores), np.array(parts), y, weight


def extra_of(fit):
    return np.array([fit.log_tie]) if fit.beta is None else fit.beta


def by_loops(codes, fit, z=None):
    """(P − 1)/P Σ D Dᵀ with D = (H − A)⁺ g, and degrees of freedom, written out."""
    m, width = len(fit.theta), len(fit.bread)
    scores, parts, _, _ = battle_parts(codes, fit, z)
    clusters = sorted(set(codes.prompt.tolist()) - {int(MISSING_KEY)})
    h = np.linalg.pinv(fit.bread, rcond=1e-10)
    covariance, gammas, squares, expected = np.zeros((width, width)), [], 0.0, 0.0
    for cluster in clusters:
        mine = codes.prompt == cluster
        g, a = scores[mine].sum(axis=0), parts[mine].sum(axis=0)
        d = np.linalg.pinv(h - a, rcond=1e-10) @ g
        covariance += np.outer(d, d)
        turned = a @ fit.bread[:, :m]
        gammas.append([np.einsum("ik,ik->k", fit.bread[:, :m], turned), (turned**2).sum(axis=0)])
        squares += sum(scores[row, codes.a[row]] ** 2 for row in np.flatnonzero(mine))
        expected += sum(parts[row, codes.a[row], codes.a[row]] for row in np.flatnonzero(mine))
    covariance *= (len(clusters) - 1) / len(clusters)
    one, two = np.array(gammas).transpose(1, 0, 2)
    phi = squares / expected
    tau2 = max((np.diag(covariance)[:m] - phi * one.sum(axis=0)).sum() / two.sum(), 0.0)
    gamma = phi * one + tau2 * two
    return covariance, gamma.sum(axis=0) ** 2 / (gamma**2).sum(axis=0) - 1.0


def test_each_cluster_is_left_out_as_loops_do_it(monkeypatch):
    monkeypatch.setattr(leave_one_out, "_EXACT_LEVERAGE_SHARE", 0.0)
    for options in ({}, {"weighted": True}, {"ties": 0.0}):
        codes = uneven(**options)
        fit = fitted(table(codes))
        found = left_out(
            table(codes), fit.row_scores(Scoring()), fit.row_information(), prompt_key, fit.bread
        )
        covariance, dof = by_loops(codes, fit)
        np.testing.assert_allclose(found.covariance, covariance, rtol=0, atol=1e-9)
        np.testing.assert_allclose(found.dof, dof, rtol=1e-6)


def test_davidsons_tie_parameter_moves_with_the_cluster_that_is_left_out(monkeypatch):
    monkeypatch.setattr(leave_one_out, "_EXACT_LEVERAGE_SHARE", 0.0)
    codes = uneven(ties=0.3)
    fit = fitted(table(codes), davidson=True)
    found = left_out(table(codes), fit.row_scores(Scoring()), fit.row_information(), prompt_key, fit.bread)
    covariance, dof = by_loops(codes, fit)
    np.testing.assert_allclose(found.covariance, covariance, rtol=0, atol=1e-8)
    np.testing.assert_allclose(found.dof, dof, rtol=1e-5)


def test_style_moves_with_the_cluster_that_is_left_out(monkeypatch):
    monkeypatch.setattr(leave_one_out, "_EXACT_LEVERAGE_SHARE", 0.0)
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


def test_small_clusters_need_one_term_of_the_series(monkeypatch):
    codes = uneven(n=3000, prompts=300)
    quick = both(codes)
    monkeypatch.setattr(leave_one_out, "_EXACT_LEVERAGE_SHARE", 0.0)
    exact = both(codes)
    np.testing.assert_allclose(np.diag(quick.covariance), np.diag(exact.covariance), rtol=1e-3)
    assert (np.diag(quick.covariance) != np.diag(exact.covariance)).all()
    np.testing.assert_allclose(quick.dof, exact.dof, rtol=1e-3)


@pytest.mark.parametrize("davidson", [False, True])
def test_clusters_may_be_taken_a_few_at_a_time(monkeypatch, davidson):
    codes = uneven(n=600, prompts=40)
    together = both(codes, davidson=davidson)
    monkeypatch.setattr(leave_one_out, "_HELD_NUMBER_LIMIT", 80)
    apart = both(codes, davidson=davidson)
    np.testing.assert_allclose(apart.covariance, together.covariance, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(apart.dof, together.dof, rtol=1e-9)


def test_some_small_clusters_stand_for_all_in_the_degrees_of_freedom(monkeypatch):
    codes = uneven(n=6000, prompts=1500)
    every = both(codes)
    monkeypatch.setattr(leave_one_out, "_SAMPLED_CLUSTER_COUNT", 300)
    some = both(codes)
    np.testing.assert_array_equal(some.covariance, every.covariance)
    assert (some.dof != every.dof).all()
    np.testing.assert_allclose(some.dof, every.dof, rtol=0.1)


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
    dof = result.order_uncertainty.dof_by_model
    assert np.isfinite(result.order_uncertainty.covariances[0]).all()
    assert dof[4] < 3.0 < dof[:4].min()
    assert not rank_models(result).above[4].any()
    withheld = next(finding for finding in result.findings if finding.name == "order-withheld")
    assert withheld.text.startswith("So few prompts or voters decide the ratings of ae that")


def test_no_cluster_no_spread():
    nothing = drawn(M, 30, 1, prompts=3)
    nothing.prompt[:] = MISSING_KEY
    fit = fitted(table(nothing))
    found = left_out(table(nothing), fit.row_scores(Scoring()), fit.row_information(), prompt_key, fit.bread)
    assert not found.covariance.any()
    assert found.dof.tolist() == [0.0] * M


def test_battles_all_as_expected_have_no_degrees_of_freedom_to_speak_of():
    result = BradleyTerry()(told("a=b*40", question_id=[f"q{k % 8}" for k in range(40)]))
    assert not rank_models(result).above.any()


def test_parts_of_the_log_may_name_no_prompt():
    codes = uneven()
    builder = TableBuilder()
    builder.add(batch(replace(rows(codes, np.arange(100)), prompt=None), M))
    builder.add(batch(rows(codes, np.arange(100, 300)), M))
    codes.prompt[:100] = MISSING_KEY
    split, whole = BradleyTerry()(builder.table()), BradleyTerry()(table(codes))
    np.testing.assert_allclose(
        split.order_uncertainty.covariances[0], whole.order_uncertainty.covariances[0], rtol=1e-12
    )


def test_even_prompts_have_about_as_many_degrees_of_freedom_as_prompts_and_uneven_ones_far_fewer():
    even = BradleyTerry()(table(drawn(M, 3000, 1, prompts=30)))
    assert (even.order_uncertainty.dof_by_model > 20.0).all()
    assert (even.order_uncertainty.dof_by_model < 29.0).all()
    one_large = BradleyTerry()(table(uneven(n=3000, prompts=30)))
    assert (one_large.order_uncertainty.dof_by_model < 15.0).all()


def test_battles_without_a_prompt_add_their_variance_and_no_degrees_of_freedom():
    codes = uneven(n=400)
    codes.prompt[200:] = MISSING_KEY
    world = table(codes)
    result, fit = BradleyTerry()(world), fitted(world)
    covariance, dof = by_loops(codes, fit)
    scores = battle_parts(codes, fit)[0][200:]
    expected = (covariance + fit.bread @ scores.T @ scores @ fit.bread) * UNIT**2
    np.testing.assert_allclose(result.order_uncertainty.covariances[0], expected, rtol=0, atol=1.0)
    np.testing.assert_allclose(result.order_uncertainty.dof_by_model, dof, rtol=0.01)


def test_two_ways_take_their_overlap_off_and_have_the_fewer_degrees_of_freedom():
    codes = drawn(M, 400, 2, prompts=25, voters=12)
    both_ways = BradleyTerry()(table(codes)).order_uncertainty
    by_prompt = BradleyTerry()(table(replace(codes, voter=None))).order_uncertainty
    by_voter = BradleyTerry()(table(replace(codes, prompt=codes.voter, voter=None))).order_uncertainty
    fit = fitted(table(codes))
    scores, cells = battle_parts(codes, fit)[0], list(zip(codes.prompt, codes.voter, strict=True))
    overlap = np.zeros((M, M))
    for cell in set(cells):
        g = scores[[one == cell for one in cells]].sum(axis=0)
        overlap += np.outer(fit.bread @ g, fit.bread @ g) * UNIT**2
    one, other = by_prompt.covariances[0], by_voter.covariances[0]
    for found, expected in zip(both_ways.covariances, (one + other - overlap, one, other), strict=True):
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6)
    np.testing.assert_allclose(
        both_ways.dof_by_model, np.minimum(by_prompt.dof_by_model, by_voter.dof_by_model)
    )


def test_a_bootstrap_leaves_the_order_to_the_prompts_left_out():
    world = table(uneven())
    sandwich = BradleyTerry()(world)
    replicated = BradleyTerry(interval="bootstrap", n_bootstraps=3)(world)
    np.testing.assert_array_equal(
        replicated.order_uncertainty.covariances[0], sandwich.order_uncertainty.covariances[0]
    )
    assert replicated.findings == sandwich.findings


def test_at_battle_level_the_order_rests_on_the_intervals_uncertainty():
    assert BradleyTerry()(table(drawn(M))).order_uncertainty is None
    assert BradleyTerry(interval="bootstrap", n_bootstraps=2)(table(drawn(M))).order_uncertainty is None


ELO = Elo(n_permutations=4, n_bootstraps=5, n_orders=2)


def test_elo_claims_no_order_on_few_prompts_or_with_one_that_holds_much():
    for codes in (drawn(M, 400, 1, prompts=19), uneven(n=400, prompts=40)):
        result = ELO(table(codes))
        assert "order-withheld" in {finding.name for finding in result.findings}
        assert not rank_models(result).above.any()


def test_elo_allows_for_prompts_that_are_uneven():
    codes = drawn(M, 2000, 1, prompts=30)
    codes.prompt[:40] = 1
    result = ELO(table(codes))
    assert "order-withheld" not in {finding.name for finding in result.findings}
    sizes = np.bincount(codes.prompt.astype(int))[1:]
    largest = sizes.max() / 2000
    np.testing.assert_allclose(
        result.order_uncertainty.covariances[0],
        result.uncertainty.covariances[0] * 30 / 29 / (1.0 - largest) ** 2,
    )
    assert result.order_uncertainty.dof == pytest.approx((sizes**2).sum() ** 2 / (sizes**4).sum() - 1.0)


def test_findings_say_whose_order_rests_on_little():
    few = BradleyTerry()(table(drawn(M, 400, 1, prompts=9)))
    found = next(finding for finding in few.findings if finding.name == "few-effective-prompts")
    least = few.order_uncertainty.dof_by_model.min() + 1.0
    assert f"{', '.join(names(M))} they count like {least:.0f} even ones" in found.text
    many = BradleyTerry()(table(drawn(M, 3000, 1, prompts=60)))
    assert not {"order-withheld", "few-effective-prompts"} & {finding.name for finding in many.findings}


@pytest.mark.parametrize("pareto", [None, 1.1])
def test_equal_models_are_rarely_told_apart(pareto):
    """The plain sandwich and t(P − 1), by draws of the largest difference, err in a third of such worlds."""
    found = false_claims(8, 40, models=20, battles=3000, pareto=pareto)
    assert found.share <= 0.05 + 2.0 * np.sqrt(0.05 * 0.95 / 40)


def test_models_far_apart_are_told_apart():
    codes = drawn(6, 3000, 5, prompts=40)
    rng = np.random.default_rng(1)
    ahead = rng.random(3000) < 1.0 / (1.0 + np.exp(0.5 * (codes.a.astype(float) - codes.b)))
    codes.kind[:] = np.where(ahead, 0, 1)
    ranks = rank_models(BradleyTerry()(Table.from_codes(names(6), codes)))
    assert ranks.low.tolist() == ranks.high.tolist() == [1, 2, 3, 4, 5, 6]
