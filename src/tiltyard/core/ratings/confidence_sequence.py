"""A confidence sequence of rating differences: intervals that may be looked at after every vote.

An interval of a fixed number of battles, looked at again and again, ends up excluding whatever is true.
A confidence sequence holds at all looks at once, with the same probability.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tiltyard.core.ratings.findings import MIN_DOF
from tiltyard.core.ratings.ranks import close_order
from tiltyard.core.ratings.uncertainty import Uncertainty
from tiltyard.core.ratings.variance import ZERO_VARIANCE_TOLERANCE
from tiltyard.errors import BadOption

__all__ = ["ConfidenceSequence"]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

#: The exponent is limited, so that few degrees of freedom make a wide interval, not an overflow.
_MAX_EXPONENT_RATIO = 50.0


@dataclass(frozen=True, slots=True)
class ConfidenceSequence:
    """Differences that are told apart at every look, with probability 1 − ``alpha`` that none is ever wrong.

    The half-width of a difference with standard error s is s·z with z² = (1 + r)(2 ln(1/level) + ln(1 + 1/r)): Robbins's
    normal mixture, in its asymptotic form for estimated variances (Waudby-Smith, Arbour, Sinha, Kennedy and
    Ramdas, Annals of Statistics 52, 2024). r = ``reference_ratio``·(s/``reference_se``)² makes it narrowest around the standard
    errors at which models are told apart; any r that is fixed beforehand is valid. For ν degrees of freedom, z² becomes
    ν(e^{z²/(ν+1)} − 1), the t² that weighs as much.

    Alpha is shared by both orders of every pair. As in Holm's procedure, what settled orders had of it is shared by the others:
    at the first false claim of any look all claims before it are true, so the false orders never have less than their share.

    Until ``min_votes`` votes, and for differences with fewer than three degrees of freedom, nothing is told apart.
    """

    alpha: float = 0.05
    reference_ratio: float = 0.08
    reference_se: float = 25.0
    min_votes: int = 300

    def __post_init__(self) -> None:
        if not 0.0 < self.alpha < 1.0:
            raise BadOption(f"alpha is {self.alpha}; expected a number between 0 and 1")
        if not (self.reference_ratio > 0.0 and self.reference_se > 0.0 and self.min_votes >= 0):
            raise BadOption("reference_ratio and reference_se must be above 0, min_votes 0 or more")

    def half_width(self, uncertainty: Uncertainty, level: Floats) -> Floats:
        """Half of the sequence of each difference, in points; infinite where it says nothing.

        ``level`` is the probability of ever being wrong about each pair.
        """
        variance, dof = uncertainty.differences(), uncertainty.difference_dof()
        known = (variance > ZERO_VARIANCE_TOLERANCE) & (dof >= MIN_DOF)
        r = self.reference_ratio * np.where(known, variance, 1.0) / self.reference_se**2
        z2 = (1.0 + r) * (2.0 * np.log(1.0 / level) + np.log1p(1.0 / r))
        finite = np.where(known & np.isfinite(dof), dof, MIN_DOF)
        t2 = finite * np.expm1(np.minimum(z2 / (finite + 1.0), _MAX_EXPONENT_RATIO))
        return np.where(known, np.sqrt(np.where(np.isfinite(dof), t2, z2) * variance), np.inf)

    def settled(
        self, rating: Floats, group: Ints, uncertainty: Uncertainty, level: Floats, votes: int
    ) -> Bools:
        """Which model (row) is settled above which (column), after so many votes.

        ``level`` is the part of alpha that each pair has; the parts add up to alpha or less. What follows from two
        settled orders is settled too.
        """
        above = np.zeros((len(rating), len(rating)), dtype=bool)
        if votes < self.min_votes:
            return above
        same = (group[:, None] == group[None, :]) & (group >= 0)[:, None]
        value = np.nan_to_num(rating)
        difference = np.where(same, value[:, None] - value[None, :], 0.0)
        while True:
            left = 1.0 - 0.5 * float(level[above].sum()) / self.alpha
            more = close_order(difference > self.half_width(uncertainty, level / left))
            if (more == above).all():
                return above
            above = more
