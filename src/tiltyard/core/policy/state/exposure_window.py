"""Exposures in the window of the last served matchups, and each model's target.

A model's target is two exposures for every M matchups served while it was enabled among M models:
targets accrue over time, so that a new model is not owed the past. Targets are stored as counts of
matchups by *epoch* (a period of unchanged roster), so that folding one by one and in bulk add
up the same integers.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tiltyard.core.policy.state.policy import Policy

__all__ = ["ExposureTargets", "ExposureWindow"]

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class ExposureTargets:
    """Targets of all models, and their tolerances."""

    target: Floats
    tolerance: Floats
    guard: Floats

    @classmethod
    def of(cls, target: Floats, policy: Policy) -> ExposureTargets:
        tolerance = np.maximum(policy.tolerance * target, policy.tolerance_least)
        guard = np.minimum(np.maximum(policy.guard * target, policy.guard_least), tolerance / 2.0)
        return cls(target, tolerance, guard)

    def starved(self, exposures: Ints) -> Floats:
        """How far each model is below its lower guard; if above 0 it must be served."""
        return self.target - self.tolerance + self.guard - exposures

    def capped(self, exposures: Ints) -> Bools:
        """Which models would exceed their upper guard if they were served once more."""
        return exposures + 1.0 > self.target + self.tolerance - self.guard

    def lag(self, exposures: Ints) -> Floats:
        """(T − w) / T, limited to ±1: how far behind its target each model is."""
        return np.clip((self.target - exposures) / np.maximum(self.target, 1e-9), -1.0, 1.0)

    def outside(self, exposures: Ints) -> Bools:
        """Which models are outside their tolerance."""
        return np.abs(exposures - self.target) > self.tolerance + 1e-9


class ExposureWindow:
    """A ring buffer of the last ``policy.window`` served matchups. An expired one leaves an empty slot."""

    def __init__(self, policy: Policy, models: int) -> None:
        size = policy.window
        self._policy = policy
        #: Matchups served since the log began, which is also the next serial.
        self.served = 0
        self.a = np.zeros(size, dtype=np.int32)
        self.b = np.zeros(size, dtype=np.int32)
        #: 0 empty, 1 counted, 2 counted as a contender's if these are counted separately.
        self.state = np.zeros(size, dtype=np.uint8)
        self.epoch_of = np.zeros(size, dtype=np.int64)
        #: Exposures by model: all, and those of the contender lane.
        self.exposures = np.zeros((2, models), dtype=np.int64)
        self.epoch = 0
        #: For each epoch in the window: the enabled models, and its matchups (all, contender lane).
        self.enabled: dict[int, Bools] = {0: np.zeros(models, dtype=bool)}
        self.matchups: dict[int, list[int]] = {0: [0, 0]}
        self._due: ExposureTargets | None = None

    def open_epoch(self, enabled: Bools) -> None:
        """Start an epoch with this roster."""
        if self.matchups[self.epoch][0] == 0:
            del self.matchups[self.epoch], self.enabled[self.epoch]
        self.epoch += 1
        self.enabled[self.epoch] = enabled.copy()
        self.matchups[self.epoch] = [0, 0]
        self._due = None

    def serve(self, a: int, b: int, *, contender: bool) -> int:
        """Add a served matchup; return its serial."""
        serial = self.served
        slot = serial % len(self.state)
        left = int(self.state[slot]), int(self.epoch_of[slot])
        if left[0]:
            self._leave(slot)
        self.a[slot], self.b[slot], self.epoch_of[slot] = a, b, self.epoch
        self.state[slot] = 2 if contender else 1
        self.exposures[0, a] += 1
        self.exposures[0, b] += 1
        count = self.matchups[self.epoch]
        count[0] += 1
        if contender:
            self.exposures[1, a] += 1
            self.exposures[1, b] += 1
            count[1] += 1
        self.served = serial + 1
        if not self._even(left, contender=contender):
            self._due = None
        return serial

    def expire(self, serial: int) -> None:
        """Remove an unanswered matchup from the window, if it is still there."""
        slot = serial % len(self.state)
        if self.served - len(self.state) <= serial < self.served and self.state[slot]:
            self._leave(slot)
            self.state[slot] = 0
            self._due = None

    def fold(self, a: Ints, b: Ints, contender: Bools) -> None:
        """Add many served matchups at once."""
        size = len(self.state)
        skipped = max(len(a) - size, 0)
        if skipped:
            for slot in np.flatnonzero(self.state).tolist():
                self._leave(slot)
            self.state[:] = 0
            self.served += skipped
        for left, right, of_contenders in zip(
            a[skipped:].tolist(), b[skipped:].tolist(), contender[skipped:].tolist(), strict=True
        ):
            self.serve(left, right, contender=of_contenders)

    def counted(self) -> Ints:
        """Exposures that count for fairness: all, or all except the contender lane's."""
        if self._policy.fairness == "strict":
            return np.asarray(self.exposures[0])
        return np.asarray(self.exposures[0] - self.exposures[1])

    def due(self) -> ExposureTargets:
        """Targets for `counted`, and their tolerances."""
        if self._due is None:
            self._due = ExposureTargets.of(
                self.even_shares(scoped=self._policy.fairness == "scoped"), self._policy
            )
        return self._due

    def even_shares(self, *, scoped: bool) -> Floats:
        """The exposures each model would have with equal shares while it was enabled.

        ``scoped`` leaves out the contender lane's matchups.
        """
        shares = np.zeros(self.exposures.shape[1])
        for epoch in sorted(self.matchups):
            total, contenders = self.matchups[epoch]
            among = self.enabled[epoch]
            shares += among * (2.0 * (total - contenders if scoped else total) / max(int(among.sum()), 1))
        return shares

    def active(self) -> bool:
        """Whether enough matchups have been served for the fairness controller to act."""
        return self.served >= self._policy.settling * int(self.enabled[self.epoch].sum())

    def settled(self) -> bool:
        """Whether the window is full and has one roster: only then is the tolerance guaranteed."""
        return self.served >= len(self.state) and len(self.matchups) == 1

    def under(self, policy: Policy) -> None:
        """Switch to another policy with a window of the same size."""
        self._policy = policy
        self._due = None

    def widen(self, models: int) -> None:
        """Add more models, not enabled yet."""
        more = models - self.exposures.shape[1]
        self.exposures = np.pad(self.exposures, ((0, 0), (0, more)))
        self.enabled = {epoch: np.pad(among, (0, more)) for epoch, among in self.enabled.items()}
        self._due = None

    def _even(self, left: tuple[int, int], *, contender: bool) -> bool:
        """Whether the matchups that left and entered the window have equal weight in every target."""
        state, epoch = left
        alike = self._policy.fairness == "strict" or (state == 2) == contender
        return state > 0 and epoch == self.epoch and alike

    def _leave(self, slot: int) -> None:
        a, b, epoch = self.a[slot], self.b[slot], int(self.epoch_of[slot])
        self.exposures[0, a] -= 1
        self.exposures[0, b] -= 1
        count = self.matchups[epoch]
        count[0] -= 1
        if self.state[slot] == 2:
            self.exposures[1, a] -= 1
            self.exposures[1, b] -= 1
            count[1] -= 1
        if count[0] == 0 and epoch != self.epoch:
            del self.matchups[epoch], self.enabled[epoch]
            self._due = None
