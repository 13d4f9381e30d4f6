"""How far exposures stray from their targets, in tolerances."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tiltyard.core.policy.state.exposure_window import ExposureWindow

__all__ = ["ExposureDeviation", "largest_exposure_deviation"]

Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class ExposureDeviation:
    """How far one model's exposures stood from their target in one window."""

    model: str
    #: The arena's matchups served so far, when the window ended.
    served: int
    exposures: int
    target: float
    tolerance: float

    @property
    def strain(self) -> float:
        """|exposures − target| over the tolerance: more than 1 is outside."""
        return abs(self.exposures - self.target) / max(self.tolerance, 1e-9)

    @property
    def within(self) -> bool:
        """Whether it is within tolerance."""
        return self.strain <= 1.0 + 1e-9


def largest_exposure_deviation(
    window: ExposureWindow, models: tuple[str, ...], enabled: Bools
) -> ExposureDeviation | None:
    """The enabled model whose exposures stand furthest from their target, in tolerances."""
    due, exposures = window.due(), window.counted()
    codes = np.flatnonzero(enabled)
    if not len(codes):
        return None
    stray = np.abs(exposures - due.target) / np.maximum(due.tolerance, 1e-9)
    model = int(codes[np.argmax(stray[codes])])
    return ExposureDeviation(
        models[model],
        window.served,
        int(exposures[model]),
        float(due.target[model]),
        float(due.tolerance[model]),
    )
