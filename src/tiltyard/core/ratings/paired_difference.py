"""Compares two models by paired values: one for each prompt or sample, so that repeated answers are not counted as several."""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtrit

from tiltyard.errors import BadOption
from tiltyard.foundation.arrays import Floats, Ints

#: A sequence says nothing before so many prompts, and no interval is given for fewer effective clusters.
MIN_SEQUENCE_PROMPTS = 30
MIN_CLUSTER_COUNT = 5
#: The share of the mixture's variance; with ``planned`` prompts the sequence is narrowest there.
_MIXTURE_RATIO = 0.1
#: The exponent is limited, so that few prompts make a wide interval, not an overflow.
_MAX_EXPONENT_RATIO = 50.0
#: No more prompts than this are ever advised.
_MAX_NEEDED_PROMPTS = 10_000_000


class ABDecision(enum.StrEnum):
    """What is said of the second of two models; ``CANNOT_TELL`` of the judge."""

    BETTER = "better"
    NOT_WORSE = "not worse"
    SAME = "same"
    WORSE = "worse"
    UNDECIDED = "undecided"
    CANNOT_TELL = "cannot tell"


@dataclass(frozen=True, slots=True)
class PairedDifference:
    """The mean difference over prompts and its interval; infinite where nothing can be said."""

    prompts: int
    mean: float
    low: float
    high: float
    level: float
    #: The standard deviation of a prompt's difference, as the interval counts it.
    deviation: float
    #: To how many even clusters the prompts amount; without clusters, their number.
    clusters: float


def paired_difference(
    values: Floats,
    reach: float | None,
    *,
    level: float = 0.95,
    planned: int | None = None,
    clusters: Ints | None = None,
) -> PairedDifference:
    """The mean of one difference for each prompt, and its interval.

    ``reach`` is the largest difference that a prompt can have; ``None`` if it has no bound. Two imaginary prompts, one with
    this difference and one with its opposite, are added for the interval: without them few prompts that all agree would
    look certain (for successes and failures this is the interval of Bonett and Price).

    ``clusters`` numbers what the prompts come in, such as passages. The variance is then that of leaving out one cluster
    at a time, and degrees of freedom are those of (Σn)²/Σn² clusters; the imaginary prompts are in none.

    Without ``planned`` the interval holds for one look at the end. With it, it is a confidence sequence that may be
    looked at after every prompt, narrowest at about ``planned`` of them: Robbins's normal mixture, in its asymptotic form.
    """
    if not 0.0 < level < 1.0:
        raise BadOption(f"level is {level}; expected a number between 0 and 1")
    values = np.asarray(values, dtype=np.float64)
    n, mean = len(values), float(values.mean()) if len(values) else math.nan
    imaginary = np.array([] if reach is None else [reach, -reach])
    total = n + len(imaginary)
    centre = float(values.sum()) / max(total, 1)
    aside = float(((imaginary - centre) ** 2).sum()) / max((total - 1) * total, 1)
    if clusters is None:
        effective = float(n)
        variance = aside + float(((values - centre) ** 2).sum()) / max((total - 1) * total, 1)
        dof = total - 1.0
    else:
        sizes = np.bincount(clusters).astype(np.float64)
        sums = np.bincount(clusters, values)[sizes > 0]
        sizes = sizes[sizes > 0]
        effective = n**2 / float((sizes**2).sum()) if n else 0.0
        shifts = (sums - sizes * centre) / np.maximum(total - sizes, 1.0)
        variance = aside + (1.0 - 1.0 / max(len(sizes), 1)) * float((shifts**2).sum())
        dof = effective - 1.0
    if not n or not variance > 0.0 or (clusters is not None and effective < MIN_CLUSTER_COUNT):
        return PairedDifference(n, mean, -math.inf, math.inf, level, math.nan, effective)
    deviation = math.sqrt(variance * total)
    half = _factor(n, dof, level, planned) * math.sqrt(variance)
    return PairedDifference(n, mean, centre - half, centre + half, level, deviation, effective)


def decide(low: float, high: float, margin: float | None) -> ABDecision:
    """What an interval of the second model's lead says; ``margin`` is how far apart models may be and count as the same.

    Within the margin they are the same even where it is sure which one is ahead.
    """
    if margin is not None and -margin <= low and high <= margin:
        return ABDecision.SAME
    if low > 0.0:
        return ABDecision.BETTER
    if high < 0.0:
        return ABDecision.WORSE
    if margin is not None and low >= -margin:
        return ABDecision.NOT_WORSE
    return ABDecision.UNDECIDED


def prompts_needed(
    found: PairedDifference,
    margin: float | None = None,
    *,
    planned: int | None = None,
    not_worse: bool = False,
) -> int | None:
    """About how many prompts would decide, if the mean stays as it is; ``None`` if no sensible number would.

    With ``not_worse`` it is enough that the second model is not worse by more than the margin. Clusters grow in number
    as the prompts do.
    """
    distance = abs(found.mean) if margin is None else max(abs(found.mean), margin - abs(found.mean))
    if not_worse and margin is not None:
        distance = max(distance, found.mean + margin)
    if not (distance > 0.0 and math.isfinite(found.deviation)):
        return None
    n, per_cluster = max(found.prompts, 2), found.prompts / found.clusters
    while n <= _MAX_NEEDED_PROMPTS:
        if (
            _factor(n, n / per_cluster + 1.0, found.level, planned) * found.deviation / math.sqrt(n + 2)
            < distance
        ):
            return n
        n += max(n // 20, 1)
    return None


def _factor(n: int, dof: float, level: float, planned: int | None) -> float:
    """Half the width of the interval of ``n`` prompts, in standard errors."""
    if planned is None:
        return float(stdtrit(dof, 0.5 + level / 2.0))
    if n < MIN_SEQUENCE_PROMPTS:
        return math.inf
    ratio = _MIXTURE_RATIO * planned / n
    squared = (1.0 + ratio) * (-2.0 * math.log(1.0 - level) + math.log1p(1.0 / ratio))
    return math.sqrt(dof * math.expm1(min(squared / (dof + 1.0), _MAX_EXPONENT_RATIO)))
