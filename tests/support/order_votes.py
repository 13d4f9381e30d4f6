"""Votes of pairs for the tests of proven order, and a slow twin of the rule."""

import math

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from tiltyard.core.policy.validity.order_marks import LIKE_THESE, THESE, PairVotes

SCOPES = (THESE, LIKE_THESE)

cells = st.integers(0, 40).flatmap(lambda k: arrays(np.int64, (k, 4), elements=st.integers(0, 12)))


def pairs(*tallies):
    """These tallies as the pairs (0, 1), (2, 3) and so on."""
    return PairVotes.of_pairs((2 * k, 2 * k + 1, tally) for k, tally in enumerate(tallies))


def even(k, wins, losses, ties=0, both_bad=0):
    """The same counts on each of ``k`` prompts."""
    return np.tile(np.array([[wins, losses, ties, both_bad]]), (k, 1))


def naive_evidence(rule, tally, scope, prompts=None):
    """Log evidence of one pair, vote by vote and prompt by prompt, as the rule's text has it."""
    met = [row for row in tally.tolist() if sum(row[:3]) > 0]
    k = len(met)
    needed = rule.min_prompts if scope == LIKE_THESE or prompts is None else min(rule.min_prompts, prompts)
    if k < needed or not any(row[0] + row[1] for row in met):
        return 0.0
    n = [sum(row[:3]) for row in met]
    s = [row[0] - row[1] for row in met]
    d = [row[0] + row[1] for row in met]
    w = [1.0 / (1.0 + rule.between * one) for one in n]
    weight = sum(w[p] * n[p] for p in range(k))
    mean = sum(w[p] * s[p] for p in range(k)) / weight
    single = sum(w[p] ** 2 * d[p] for p in range(k))
    if scope == THESE:
        variance, dof = _fixed_prompts(rule, w, n, s, d, mean, single, max(k, prompts or 1)), math.inf
    else:
        clustered = k / (k - 1) * sum((w[p] * s[p] - mean * w[p] * n[p]) ** 2 for p in range(k))
        variance = max(clustered, single)
        dof = max(weight**2 / sum((w[p] * n[p]) ** 2 for p in range(k)) - 1.0, 1.0)
    t2 = (mean * weight) ** 2 / variance
    z2 = t2 if math.isinf(dof) else (dof + 1.0) * math.log(1.0 + t2 / dof)
    return numeric_log_evidence(rule.mixture, z2, (weight * sum(d) / sum(n)) ** 2 / variance)


def _fixed_prompts(rule, w, n, s, d, mean, single, prompts):
    k = len(n)
    weight = sum(w[p] * n[p] for p in range(k))
    # Ordered pairs of different votes on one prompt: Σ x_s·x_t = S² − Σx².
    products = sum(w[p] ** 2 * n[p] * (n[p] - 1) for p in range(k))
    spread = trust = 0.0
    if products:
        spread = sum(w[p] ** 2 * (s[p] ** 2 - d[p]) for p in range(k)) / products - mean**2
        alike = products**2 / (2.0 * sum(w[p] ** 4 * n[p] * (n[p] - 1) for p in range(k)))
        trust = alike / (alike + rule.steady)
    spread = max(spread, 0.0)
    uneven = sum((w[p] * n[p] - weight / prompts) ** 2 for p in range(k))
    uneven += (prompts - k) * (weight / prompts) ** 2
    explained = sum(w[p] ** 2 * n[p] for p in range(k)) - uneven
    spread *= trust if explained > 0.0 else 1.0
    return max(single - spread * explained, 0.2 * single)


def numeric_log_evidence(mixture, z2, n):
    """The mixture by summing exp(λS − λ²n/2) over a fine grid of λ."""
    width = 1.0 / math.sqrt(mixture.precision)
    total, s = 0.0, math.sqrt(z2 * n)
    for centre in (-mixture.centre, mixture.centre):
        grid = centre + width * np.linspace(-14.0, 14.0, 8001)
        density = np.exp(-0.5 * ((grid - centre) / width) ** 2) / (width * math.sqrt(2.0 * math.pi))
        total += 0.5 * float(np.sum(density * np.exp(grid * s - 0.5 * grid**2 * n))) * (grid[1] - grid[0])
    return math.log(total)
