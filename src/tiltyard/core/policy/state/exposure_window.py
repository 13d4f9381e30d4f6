"""Exposures in the window of the last matchups that were shown, and each model's target.

A model's target is two exposures for every M matchups shown while it was enabled among M models:
targets accrue over time, so that a new model is not owed the past. Targets are stored as counts of
matchups by *epoch* (a period of unchanged roster), so that folding one by one and in bulk add
up the same integers.

A matchup that was prefetched is no exposure before it is shown. Meanwhile its exposures are *reserved*: the
choice of the next matchup takes them into account, or all simultaneous voters would get the model that is
most behind. Reservations are in no count, and a checkpoint does not contain them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tiltyard.core.policy.state.policy import Policy
from tiltyard.foundation.arrays import Bools, Floats, Ints

_NO_SERIAL = -1


@dataclass(frozen=True, slots=True, eq=False)
class ExposureTargets:
    """Targets of all models, and their tolerances."""

    target: Floats
    tolerance: Floats
    guard: Floats
    #: The guarded bounds: who is below the lower one must be served, who would exceed the upper one must not.
    lower: Floats
    upper: Floats

    @classmethod
    def of(cls, target: Floats, policy: Policy) -> ExposureTargets:
        tolerance = np.maximum(policy.tolerance * target, policy.tolerance_least)
        guard = np.minimum(np.maximum(policy.guard * target, policy.guard_least), tolerance / 2.0)
        return cls(target, tolerance, guard, target - tolerance + guard, target + tolerance - guard)

    def starved(self, exposures: Ints) -> Floats:
        """How far each model is below its lower guard; if above 0 it must be served."""
        return self.lower - exposures

    def capped(self, exposures: Ints) -> Bools:
        """Which models would exceed their upper guard if they were served once more."""
        return exposures + 1.0 > self.upper

    def lag(self, exposures: Ints) -> Floats:
        """(T − w) / T, limited to ±1: how far behind its target each model is."""
        # Exposures are never below 0, so that the upper limit needs no comparison.
        return np.maximum((self.target - exposures) / np.maximum(self.target, 1e-9), -1.0)

    def outside(self, exposures: Ints) -> Bools:
        """Which models are outside their tolerance."""
        return np.abs(exposures - self.target) > self.tolerance + 1e-9


class ExposureWindow:
    """A ring buffer of the last ``policy.window`` matchups shown. An expired one leaves an empty slot."""

    def __init__(self, policy: Policy, models: int) -> None:
        size = policy.window
        self._policy = policy
        #: Matchups shown since the log began.
        self.served = 0
        #: By slot: the matchup's serial. Serials number matchups as they were served, not as they were shown.
        self.serial = np.full(size, _NO_SERIAL, dtype=np.int64)
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
        #: Exposures of matchups that wait to be shown, as in `exposures`, and the number of these matchups.
        self.reserved = np.zeros((2, models), dtype=np.int64)
        self._reserved_matchups = [0, 0]
        self._planned: tuple[ExposureTargets, int, ExposureTargets] | None = None

    def open_epoch(self, enabled: Bools) -> None:
        """Start an epoch with this roster."""
        if self.matchups[self.epoch][0] == 0:
            del self.matchups[self.epoch], self.enabled[self.epoch]
        self.epoch += 1
        self.enabled[self.epoch] = enabled.copy()
        self.matchups[self.epoch] = [0, 0]
        self._due = None

    def serve(self, a: int, b: int, *, contender: bool, serial: int | None = None) -> int:
        """Add a matchup that is shown; return its serial, which is by default the number of those before it."""
        serial = self.served if serial is None else serial
        slot = self.served % len(self.state)
        left = int(self.state[slot]), int(self.epoch_of[slot])
        if left[0]:
            self._leave(slot)
        self.a[slot], self.b[slot], self.epoch_of[slot] = a, b, self.epoch
        self.state[slot] = 2 if contender else 1
        self.serial[slot] = serial
        self.exposures[0, a] += 1
        self.exposures[0, b] += 1
        count = self.matchups[self.epoch]
        count[0] += 1
        if contender:
            self.exposures[1, a] += 1
            self.exposures[1, b] += 1
            count[1] += 1
        self.served += 1
        # Whether the matchups that left and entered the window have equal weight in every target.
        state, epoch = left
        alike = self._policy.fairness == "strict" or (state == 2) == contender
        if not (state > 0 and epoch == self.epoch and alike):
            self._due = None
        return serial

    def expire(self, serial: int) -> None:
        """Remove an unanswered matchup from the window, if it is still there."""
        for slot in np.flatnonzero((self.serial == serial) & (self.state > 0)).tolist():
            self._leave(slot)
            self.state[slot] = 0
            self._due = None

    def pass_over(self, matchups: int) -> None:
        """Add matchups that will have left when the next ones, a full window of them, are added."""
        for slot in np.flatnonzero(self.state).tolist():
            self._leave(slot)
        self.state[:] = 0
        self.served += matchups

    def serials(self) -> Ints:
        """The serials of the matchups that are counted in the window, in no order."""
        return np.asarray(self.serial[self.state > 0])

    def reserve(self, a: int, b: int, *, contender: bool, matchups: int = 1) -> None:
        """Expect a matchup to be shown; with ``matchups`` −1, no longer."""
        for counted in range(1 + contender):
            self.reserved[counted, a] += matchups
            self.reserved[counted, b] += matchups
            self._reserved_matchups[counted] += matchups

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

    def planned(self) -> tuple[ExposureTargets, Ints]:
        """`due` and `counted` as they would be if all matchups that wait to be shown were shown now."""
        due, counted = self.due(), self.counted()
        strict = self._policy.fairness == "strict"
        matchups = self._reserved_matchups[0] - (0 if strict else self._reserved_matchups[1])
        if not self._reserved_matchups[0]:
            return due, counted
        if self._planned is None or self._planned[0] is not due or self._planned[1] != matchups:
            among = self.enabled[self.epoch]
            target = due.target + among * (2.0 * matchups / max(int(among.sum()), 1))
            self._planned = due, matchups, ExposureTargets.of(target, self._policy)
        reserved = self.reserved[0] if strict else self.reserved[0] - self.reserved[1]
        return self._planned[2], counted + reserved

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
        """Whether enough matchups have been shown for the fairness controller to act."""
        return self.served >= self._policy.settling * int(np.count_nonzero(self.enabled[self.epoch]))

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
        self.reserved = np.pad(self.reserved, ((0, 0), (0, more)))
        self.enabled = {epoch: np.pad(among, (0, more)) for epoch, among in self.enabled.items()}
        self._due = None

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
