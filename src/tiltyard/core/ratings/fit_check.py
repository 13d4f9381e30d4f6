"""Checks whether one number per model describes the battles."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from scipy.special import gammaincc

from tiltyard.core.battles import Table
from tiltyard.core.ratings.findings import Finding
from tiltyard.core.ratings.group_fit import fit_groups
from tiltyard.core.ratings.pairs import (
    PairScores,
    Scoring,
    comparable_groups,
    pairs_by_sorting,
    score_pairs,
    sum_by_index,
    tie_share,
)
from tiltyard.core.ratings.sentences import first_of
from tiltyard.foundation.arrays import Floats

#: A pair's own battles decide it if its score is this many standard errors from one half.
_DECIDED_STANDARD_ERRORS = 3.0
#: A poor fit is reported if pairs vary this many times more than expected by chance.
_POOR_FIT_DISPERSION_RATIO = 1.5
_REFIT_BLOCK_COUNT = 20
#: Further cycles are not listed.
_CYCLE_LIMIT = 100


@dataclass(frozen=True, slots=True)
class PairResidual:
    """A pair's observed and expected score; ``z`` in standard errors."""

    model_a: str
    model_b: str
    battles: float
    observed: float
    expected: float
    z: float


@dataclass(frozen=True, slots=True)
class Cycle:
    """Three models, each of which won against the next by more than chance explains."""

    models: tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class FitCheck:
    """Residuals by pair (worst first), their dispersion, cycles, and the resulting findings.

    ``dispersion`` is Pearson's χ² over its degrees of freedom: near 1 if the ratings describe the
    battles completely; larger if pairs deviate from the ratings, or if battles depend on each other.
    """

    residuals: tuple[PairResidual, ...]
    dispersion: float
    p_value: float
    cycles: tuple[Cycle, ...]
    findings: tuple[Finding, ...]


def check_fit(table: Table, scoring: Scoring | None = None) -> FitCheck:
    """Compare every pair's score with the score that Bradley–Terry expects.

    Battles count by their weights. To check ratings that limit what one prompt or voter weighs, pass the table of
    `BradleyTerry.limited`.
    """
    scoring = scoring or Scoring()
    m = len(table.models)
    pairs = score_pairs(table.counts, m, scoring)
    fitted = fit_groups(pairs, comparable_groups(pairs, prior=False), bread=False)
    s = fitted.expected()[pairs.i, pairs.j]
    known = ~np.isnan(s)
    # The sum of the squared weights of each pair's battles; their number, if each counts one.
    counts = table.counts
    weight, squares = counts.moments()[:, :2].T
    used = ~np.isnan(scoring.by_kind()[counts.kind]) & (counts.a != counts.b) & (weight > 0.0)
    squared = sum_by_index(pairs.places(counts.a[used], counts.b[used]), squares[used], len(pairs.i))
    variance = _variance(pairs, s) * (squared / pairs.weight)
    z = (pairs.score - pairs.weight * s) / np.sqrt(variance)
    dof = int(known.sum()) - int((fitted.group >= 0).sum()) + len(np.unique(fitted.group[fitted.group >= 0]))
    chi2 = float(np.sum(z[known] ** 2))
    dispersion = chi2 / dof if dof > 0 else float("nan")
    p_value = float(gammaincc(dof / 2.0, chi2 / 2.0)) if dof > 0 else float("nan")
    worst = np.flatnonzero(known)[np.argsort(-np.abs(z[known]), kind="stable")]
    residuals = tuple(
        PairResidual(
            table.models[pairs.i[k]],
            table.models[pairs.j[k]],
            float(pairs.weight[k]),
            float(pairs.score[k] / pairs.weight[k]),
            float(s[k]),
            float(z[k]),
        )
        for k in worst
    )
    cycles = _cycles(table.models, pairs, squared)
    return FitCheck(residuals, dispersion, p_value, cycles, _findings(residuals, dispersion, p_value, cycles))


def _variance(pairs: PairScores, s: Floats) -> Floats:
    """The variance of each pair's score at expected score ``s``, each battle counting one: ties reduce it by a quarter, in proportion to s(1 − s)."""
    decisive = pairs.weight * s * (1.0 - s)
    known = ~np.isnan(s)
    tied = pairs.tie[known].sum() / max(4.0 * decisive[known].sum(), 1e-300)
    return np.asarray(decisive * max(1.0 - tied, 1e-3))


def _cycles(models: tuple[str, ...], pairs: PairScores, squared: Floats) -> tuple[Cycle, ...]:
    """Triples that beat each other in a cycle, each pair decided by its own battles."""
    edge = (pairs.score - 0.5 * pairs.weight) * 2.0 / np.sqrt(squared)
    beats = np.zeros((pairs.n_models,) * 2, dtype=bool)
    won, lost = edge > _DECIDED_STANDARD_ERRORS, edge < -_DECIDED_STANDARD_ERRORS
    beats[pairs.i[won], pairs.j[won]] = True
    beats[pairs.j[lost], pairs.i[lost]] = True
    found: list[Cycle] = []
    for a in range(pairs.n_models):
        for b in np.flatnonzero(beats[a]):
            for c in np.flatnonzero(beats[b] & beats[:, a]):
                if a < b and a < c and len(found) < _CYCLE_LIMIT:
                    found.append(Cycle((models[a], models[b], models[c])))
    return tuple(found)


def _findings(
    residuals: tuple[PairResidual, ...], dispersion: float, p_value: float, cycles: tuple[Cycle, ...]
) -> tuple[Finding, ...]:
    findings: list[Finding] = []
    if dispersion > _POOR_FIT_DISPERSION_RATIO and p_value < 1e-3:
        worst = residuals[0]
        findings.append(
            Finding(
                "poor-fit",
                {
                    "times": float(dispersion),
                    "model_a": worst.model_a,
                    "model_b": worst.model_b,
                    "scored": float(worst.observed),
                    "expected": float(worst.expected),
                },
            )
        )
    if cycles:
        rings = [dict(zip(("first", "second", "third"), cycle.models, strict=True)) for cycle in cycles]
        findings.append(Finding("cycles", first_of("rings", rings, most=2)))
    return tuple(findings)


@dataclass(frozen=True, slots=True)
class Prediction:
    """Battles predicted from earlier ones. ``log_loss`` is per battle, in nats.

    ``coin`` is the loss of always predicting one half; ``calibration`` rows are (mean
    prediction, mean score, battles) by tenths of the prediction.
    """

    battles: int
    log_loss: float
    coin: float
    calibration: tuple[tuple[float, float, int], ...]


def predict_ahead(
    table: Table, scoring: Scoring | None = None, *, prior_sd: float = 2.0
) -> Prediction | None:
    """One-step-ahead log-loss in log order, refitting before each of twenty blocks.

    A weak normal prior (``prior_sd`` logits) rates models with few battles. Weights count in the
    fits; in the loss every battle counts one. ``None`` if there are too few battles.
    """
    scoring = scoring or Scoring()
    log = table.log()
    y = scoring.of(log)
    rows = np.flatnonzero(~np.isnan(y))
    if len(rows) < 2 * _REFIT_BLOCK_COUNT:
        return None
    a, b, y, m = log.a[rows].astype(np.int64), log.b[rows].astype(np.int64), y[rows], len(table.models)
    weight = np.ones(len(rows)) if log.weight is None else log.weight[rows]
    bounds = np.linspace(0, len(rows), _REFIT_BLOCK_COUNT + 1).astype(int)
    predicted = np.full(len(rows), np.nan)
    for seen, until in pairwise(bounds[1:]):
        w, scored = weight[:seen], y[:seen]
        pairs = pairs_by_sorting(a[:seen], b[:seen], (w, w * scored, w * tie_share(scored)), m)
        group = comparable_groups(pairs, prior=True)
        theta = np.nan_to_num(fit_groups(pairs, group, prior_precision=1.0 / prior_sd**2, bread=False).theta)
        predicted[seen:until] = 1.0 / (1.0 + np.exp(theta[b[seen:until]] - theta[a[seen:until]]))
    p, y = predicted[bounds[1] :], y[bounds[1] :]
    loss = -np.mean(y * np.log(p) + (1.0 - y) * np.log1p(-p))
    return Prediction(len(p), float(loss), float(np.log(2.0)), _calibration(p, y))


def _calibration(p: Floats, y: Floats) -> tuple[tuple[float, float, int], ...]:
    tenth = np.minimum((p * 10).astype(int), 9)
    return tuple(
        (float(p[tenth == k].mean()), float(y[tenth == k].mean()), int((tenth == k).sum()))
        for k in np.unique(tenth)
    )
