"""The mean of paired differences: two models on the same prompts, with an interval for prompts like these.

One value for each prompt, so that repeated answers to one prompt are not counted as several prompts.
"""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import stdtrit

from tiltyard.errors import BadOption

Floats = npt.NDArray[np.float64]

#: A sequence says nothing before so many prompts.
MIN_SEQUENCE_PROMPTS = 30
#: The share of the mixture's variance; with ``planned`` prompts the sequence is narrowest there.
_MIXTURE_RATIO = 0.1
#: The exponent is limited, so that few prompts make a wide interval, not an overflow.
_MAX_EXPONENT_RATIO = 50.0
#: No more prompts than this are ever advised.
_MAX_NEEDED_PROMPTS = 10_000_000


class ABDecision(enum.StrEnum):
    """What an interval says about the second of two models."""

    BETTER = "better"
    SAME = "same"
    WORSE = "worse"
    UNDECIDED = "undecided"


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


def paired_difference(
    values: Floats, reach: float, *, level: float = 0.95, planned: int | None = None
) -> PairedDifference:
    """The mean of one difference for each prompt, and its interval.

    ``reach`` is the largest difference that a prompt can have. Two imaginary prompts, one with this difference and one
    with its opposite, are added for the interval: without them few prompts that all agree would look certain (for
    successes and failures this is the interval of Bonett and Price).

    Without ``planned`` the interval holds for one look at the end. With it, it is a confidence sequence that may be
    looked at after every prompt, narrowest at about ``planned`` of them: Robbins's normal mixture, in its asymptotic form.
    """
    if not 0.0 < level < 1.0:
        raise BadOption(f"level is {level}; expected a number between 0 and 1")
    values = np.asarray(values, dtype=np.float64)
    n, mean = len(values), float(values.mean()) if len(values) else math.nan
    if n == 0 or not reach > 0.0:
        return PairedDifference(n, mean, -math.inf, math.inf, level, math.nan)
    extended = np.concatenate([values, [reach, -reach]])
    centre, deviation = float(extended.mean()), float(extended.std(ddof=1))
    half = _half_width(deviation, n, level, planned)
    return PairedDifference(n, mean, centre - half, centre + half, level, deviation)


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
    return ABDecision.UNDECIDED


def prompts_needed(
    found: PairedDifference, margin: float | None = None, *, planned: int | None = None
) -> int | None:
    """About how many prompts would decide, if the mean stays as it is; ``None`` if no sensible number would."""
    distance = abs(found.mean) if margin is None else max(abs(found.mean), margin - abs(found.mean))
    if not (distance > 0.0 and math.isfinite(found.deviation)):
        return None
    n = max(found.prompts, 2)
    while n <= _MAX_NEEDED_PROMPTS:
        if _half_width(found.deviation, n, found.level, planned) < distance:
            return n
        n += max(n // 20, 1)
    return None


def _half_width(deviation: float, n: int, level: float, planned: int | None) -> float:
    """Of the mean of ``n`` prompts and the two imaginary ones."""
    if planned is None:
        factor = float(stdtrit(n + 1, 0.5 + level / 2.0))
    elif n < MIN_SEQUENCE_PROMPTS:
        return math.inf
    else:
        ratio = _MIXTURE_RATIO * planned / n
        squared = (1.0 + ratio) * (-2.0 * math.log(1.0 - level) + math.log1p(1.0 / ratio))
        factor = math.sqrt((n + 1) * math.expm1(min(squared / (n + 2), _MAX_EXPONENT_RATIO)))
    return factor * deviation / math.sqrt(n + 2)
