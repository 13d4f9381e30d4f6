"""The uncertainty of ratings: the variance of any contrast of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

__all__ = ["Uncertainty"]

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Uncertainty:
    """Variances of ratings and of their differences, in points squared.

    Each covariance is of the ratings as mean-zero contrasts of their group. The variance of a
    contrast is the largest over all of them, so it is not a quadratic form of a single matrix:
    use the methods of this class.
    """

    covariances: tuple[Floats, ...]
    #: Degrees of freedom of the variance of each rating; infinite at battle level.
    dof: Floats

    def ratings(self) -> Floats:
        """Variance of every rating."""
        return np.asarray(np.max([np.diag(v) for v in self.covariances], axis=0)).clip(0.0)

    def differences(self) -> Floats:
        """Variance of the rating of each row's model minus that of each column's."""
        largest = np.zeros_like(self.covariances[0])
        for v in self.covariances:
            own = np.diag(v)
            np.maximum(largest, own[:, None] + own[None, :] - 2.0 * v, out=largest)
        return largest

    def difference_dof(self) -> Floats:
        """Degrees of freedom of the variance of each difference: the smaller of the two models'."""
        return np.asarray(np.minimum(self.dof[:, None], self.dof[None, :]))
