"""Consistency: does a model keep its place on all prompts, or is it first on some and last on others?

consistency = 100 − (mean percentile on the model's best fifth of prompts
                     − mean percentile on its worst fifth)

A percentile is the model's place among all enabled models on one prompt: 100 first, 0 last, by
strength there. Few votes fall on one prompt, and raw results would call every model erratic; so
strengths are shrunk to what the votes support:

1. θ_i, overall log-strengths: Bradley–Terry on all votes that rate skill, a tie counting half, with
   a weak normal prior (SD 2 logits).
2. For model i on prompt p, U = Σ r over its votes there, r = y − E, with E the expected score from θ
   against the opponent met, and V = Σ v, v = E(1 − E). U/V is one Newton step from "as strong as
   overall": an estimate of i's effect on p with variance φ/V. φ = Σr²/Σv over the whole arena,
   below 1 where there are ties, which vary less than wins.
3. How much a model's effects truly vary is seen in how its votes on one prompt go together: for
   two of them E[r·r′] = v·v′·τ². So t_i = Σ_p (U² − Σr²) / W_i + φ/ΣV, W_i = Σ_p (V² − Σv²), the
   last term for θ_i being fitted to the same votes; its sampling variance is about
   s_i² = 2 Σ_p (φ + V·τ̄²)² (V² − Σv²) / W_i². A few votes say little about one model, so t_i is
   itself shrunk to the arena's pooled τ̄² = Σ W_i t_i / Σ W_i by b/(b + s_i²), where b is how far the
   t_i stray beyond their sampling variance. τ̄² and b are each lowered by two standard errors:
   what luck may have made is not held against anybody.
4. The effect is (U/V) · τ²V/(φ + τ²V), the posterior mean of a normal effect (Efron and Morris,
   JASA 70, 1975): without votes 0, with few near 0. Strength on p is θ_i plus the effect.

Prompts on which the model has a vote that rates skill count, from five on. A model alone, or without
such votes, has no consistency. Shrinking errs to one side: few votes leave a model near 100, and it
comes down as they show that it deserves less.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from tiltyard.core.policy.state.standing import Standing
from tiltyard.core.ratings.group_fit import fit_groups
from tiltyard.core.ratings.pairs import comparable_groups, pairs_by_sorting, sum_by_index
from tiltyard.foundation.arrays import Bools, Floats, Ints

MIN_CONSISTENCY_PROMPTS = 5
_QUINTILE_COUNT = 5
_PRIOR_SD_LOGITS = 2.0
#: Standard errors that an estimate of variance must exceed before it counts.
_VARIANCE_STANDARD_ERRORS = 2.0


@dataclass(frozen=True, slots=True, eq=False)
class PromptEffects:
    """Strengths by model and by prompt, in logits; a model without votes has NaN overall."""

    overall: Floats
    #: How far each model's strength on each prompt is from its overall one, after shrinking.
    effect: Floats
    #: Which cells have a vote that rates skill.
    voted: Bools
    #: How much each model's effects vary: τ².
    variance: Floats


@dataclass(frozen=True, slots=True, eq=False)
class _Votes:
    """Votes that rate skill by pair and prompt, seen from the model of lower code."""

    low: Ints
    high: Ints
    prompt: Ints
    weight: Floats
    score: Floats
    tie: Floats
    #: Sum of squared results: wins and a quarter of the ties.
    squares: Floats


def consistency_scores(standing: Standing) -> tuple[float | None, ...]:
    """Consistency of every model, 0 to 100; ``None`` for retired models and where there is too little."""
    # Strength of every model on every prompt, shrunk to its overall one by the votes' noise.
    votes = _gathered(standing)
    models = len(standing.models)
    pairs = pairs_by_sorting(votes.low, votes.high, (votes.weight, votes.score, votes.tie), max(models, 1))
    group = comparable_groups(pairs, prior=True)
    fitted = fit_groups(pairs, group, prior_precision=_PRIOR_SD_LOGITS**-2.0, bread=False)
    theta = np.asarray(fitted.theta[:models])
    expected = expit(theta[votes.low] - theta[votes.high])
    v = expected * (1.0 - expected)
    surprise = votes.score - votes.weight * expected
    squares = votes.squares - 2.0 * expected * votes.score + votes.weight * expected**2
    columns = (surprise, votes.weight * v, squares, votes.weight * v**2, votes.weight)
    shape = len(standing.models), len(standing.prompts)
    u, known, r2, v2, counted = (
        _by_cell(votes, shape, column, -1.0 if column is surprise else 1.0) for column in columns
    )
    noise = float(r2.sum() / max(known.sum(), 1e-300))
    variance = _variances(u**2 - r2, known, np.maximum(known**2 - v2, 0.0), noise)[:, None]
    effect = variance * u / np.maximum(noise + variance * known, 1e-300)
    effects = PromptEffects(theta, effect, counted > 0.0, variance[:, 0])
    among = np.flatnonzero(standing.enabled & ~np.isnan(effects.overall))
    answer: list[float | None] = [None] * len(standing.models)
    if len(among) < 2:
        return tuple(answer)
    strength = effects.overall[among, None] + effects.effect[among]
    # How many others each model surpasses on each prompt; those as strong as itself count one half.
    found = np.empty(strength.shape)
    for column, values in zip(found.T, strength.T, strict=True):
        ordered = np.sort(values)
        column[:] = (ordered.searchsorted(values) + ordered.searchsorted(values, "right") - 1.0) / 2.0
    percentile = 100.0 * found / (len(among) - 1)
    for row, model in enumerate(among.tolist()):
        places = np.sort(percentile[row, effects.voted[model]])
        fifth = len(places) // _QUINTILE_COUNT
        if len(places) >= MIN_CONSISTENCY_PROMPTS:
            answer[model] = 100.0 - float(places[-fifth:].mean() - places[:fifth].mean())
    return tuple(answer)


def _by_cell(votes: _Votes, shape: tuple[int, int], column: Floats, mirrored: float) -> Floats:
    """Sums by model and prompt; a pair's votes count for both its models."""
    models, prompts = shape
    low = sum_by_index(votes.low * prompts + votes.prompt, column, models * prompts)
    high = sum_by_index(votes.high * prompts + votes.prompt, column, models * prompts)
    return np.asarray(low + mirrored * high).reshape(models, prompts)


def _variances(together: Floats, known: Floats, weight: Floats, noise: float) -> Floats:
    """τ² of each model: its own estimate by moments, shrunk to the pooled one."""
    w = weight.sum(axis=1)
    measured = w > 1e-12
    if not measured.any():
        return np.zeros(len(w))
    own = (together.sum(axis=1) / np.where(measured, w, 1.0))[measured]
    own += noise / known.sum(axis=1)[measured]
    known, weight, w = known[measured], weight[measured], w[measured]
    pooled = float(w @ own / w.sum())
    error = 2.0 * ((noise + known * max(pooled, 0.0)) ** 2 * weight).sum(axis=1) / w**2
    common = max(pooled - _VARIANCE_STANDARD_ERRORS * float(np.sqrt(w**2 @ error)) / w.sum(), 0.0)
    stray = float(w @ ((own - pooled) ** 2 - error) / w.sum())
    beyond = max(stray - _VARIANCE_STANDARD_ERRORS * float(np.sqrt(2.0 * w**2 @ error**2)) / w.sum(), 0.0)
    variance = np.full(len(measured), common)
    variance[measured] += beyond / np.maximum(beyond + error, 1e-300) * (own - common)
    return np.asarray(np.maximum(variance, 0.0))


def _gathered(standing: Standing) -> _Votes:
    """All pairs' cells, laid end to end; those with both_bad alone are left out."""
    pairs = list(standing.meetings)
    sizes = [len(cells) for _, _, cells in pairs]
    low = np.repeat(np.array([low for low, _, _ in pairs], dtype=np.int64), sizes)
    high = np.repeat(np.array([high for _, high, _ in pairs], dtype=np.int64), sizes)
    prompt = np.concatenate([np.empty(0, dtype=np.int64), *(cells.prompts for _, _, cells in pairs)])
    tally = np.concatenate([np.empty((0, 4)), *(cells.tally for _, _, cells in pairs)])
    weight = tally[:, 0] + tally[:, 1] + tally[:, 2]
    rated = weight > 0.0
    tally, weight = tally[rated], weight[rated]
    wins, ties = tally[:, 0], tally[:, 2]
    codes = low[rated], high[rated], prompt[rated].astype(np.int64)
    return _Votes(*codes, weight, wins + ties / 2.0, ties, wins + ties / 4.0)
