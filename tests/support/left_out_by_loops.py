"""Clusters left out one by one, by loops: what leave-one-out variances must agree with."""

import numpy as np

from tiltyard.core.battles.cluster_keys import MISSING_KEY
from tiltyard.core.ratings.group_fit import fit_groups
from tiltyard.core.ratings.pairs import Scoring, comparable_groups, score_pairs


def fitted(world, *, davidson=False, prior_precision=0.0, scoring=None):
    pairs = score_pairs(world.counts, len(world.models), scoring or Scoring())
    group = comparable_groups(pairs, prior=prior_precision > 0.0)
    return fit_groups(pairs, group, davidson=davidson, prior_precision=prior_precision)


def battle_parts(codes, fit, z=None, scoring=None):
    """Score and information of every battle, by differences of the likelihood's own gradient."""
    m, extra = len(fit.theta), fit.n_extra
    at = np.concatenate([fit.theta, np.zeros(extra) if extra == 0 else _extra_of(fit)])
    y = (scoring or Scoring()).of(codes)
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

    scores, parts = np.zeros((len(codes), m + extra)), np.zeros((len(codes), m + extra, m + extra))
    step = 1e-5 * np.eye(m + extra)
    for row in np.flatnonzero(~np.isnan(y)):
        scores[row] = score(at, row)
        parts[row] = -np.array([(score(at + e, row) - score(at - e, row)) / 2e-5 for e in step])
    return scores, parts


def _extra_of(fit):
    return np.array([fit.log_tie]) if fit.beta is None else fit.beta


def by_loops(codes, fit, z=None, *, keys=None, scoring=None):
    """(P − 1)/P Σ D Dᵀ with D = (H − A)⁺ g, and degrees of freedom, written out; battles of no cluster apart.

    Clusters are prompts, unless ``keys`` are given.
    """
    m, width = len(fit.theta), len(fit.bread)
    keys = codes.prompt if keys is None else keys
    scores, parts = battle_parts(codes, fit, z, scoring)
    counts = ~np.isnan((scoring or Scoring()).of(codes))
    clusters = sorted(set(keys[counts].tolist()) - {int(MISSING_KEY)})
    h = np.linalg.pinv(fit.bread, rcond=1e-10)
    covariance, gammas, squares, expected = np.zeros((width, width)), [], 0.0, 0.0
    for cluster in clusters:
        mine = counts & (keys == cluster)
        g, a = scores[mine].sum(axis=0), parts[mine].sum(axis=0)
        d = np.linalg.pinv(h - a, rcond=1e-10) @ g
        covariance += np.outer(d, d)
        turned = a @ fit.bread
        gammas.append([np.einsum("ik,ik->k", fit.bread, turned), (turned**2).sum(axis=0)])
        squares += sum(scores[row, codes.a[row]] ** 2 for row in np.flatnonzero(mine))
        expected += sum(parts[row, codes.a[row], codes.a[row]] for row in np.flatnonzero(mine))
    covariance *= (len(clusters) - 1) / len(clusters)
    one, two = np.array(gammas).transpose(1, 0, 2)
    phi = squares / expected
    excess = np.diag(covariance)[:m] - phi * one[:, :m].sum(axis=0)
    tau2 = max(excess.sum() / two[:, :m].sum(), 0.0)
    gamma = phi * one + tau2 * two
    alone = np.zeros((width, width))
    for row in np.flatnonzero(counts & (keys == MISSING_KEY)):
        d = fit.bread @ scores[row]
        alone += np.outer(d, d)
    return covariance + alone, gamma.sum(axis=0) ** 2 / (gamma**2).sum(axis=0) - 1.0
