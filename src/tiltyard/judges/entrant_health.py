"""Rests a model that keeps failing, and tries it again. No clock of its own: every call is given the time."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from tiltyard.errors import ProviderFault, StreamBroken

__all__ = ["EntrantHealth", "HealthPolicy", "HealthReport", "HealthState", "describe_problem"]

#: ``well``: it is asked. ``rested``: it is not. ``trial``: it was rested, and one call finds out whether it answers.
HealthState = Literal["well", "rested", "trial"]

_PROBLEMS = {
    401: "its key was refused",
    402: "its account has no credit",
    403: "its key lacks permission",
    404: "its address or its model does not exist",
    410: "its model is no longer served",
    200: "its answer could not be read",
}


@dataclass(frozen=True, slots=True)
class HealthPolicy:
    """When a model is rested, and for how long."""

    #: Consecutive failures that rest it. A failure that every call would share, such as a wrong key, rests it at once.
    failures: int = 3
    #: The first rest. Each one that follows without a success between is twice as long, up to the longest.
    first_rest_seconds: float = 30.0
    longest_rest_seconds: float = 3600.0
    #: A trial of which nothing is heard for so long is forgotten, and another one allowed.
    trial_seconds: float = 900.0


@dataclass(frozen=True, slots=True)
class HealthReport:
    """What an operator is told about one model."""

    state: HealthState
    #: When this state began.
    since: datetime
    #: Failures since the last success.
    failures: int
    #: The last problem since the last success, in our own words: nothing that a provider wrote is repeated.
    problem: str | None
    #: When it is tried again; ``None`` if it is not rested.
    tries_again_at: datetime | None


class EntrantHealth:
    """The health of one model. Call `started` for every call, and one of the three `record_…` when it has ended."""

    def __init__(self, now: datetime, policy: HealthPolicy | None = None) -> None:
        self._policy = policy or HealthPolicy()
        self._state: HealthState = "well"
        self._since = now
        self._failures = 0
        #: Rests since the last success.
        self._rests = 0
        self._problem: str | None = None
        self._until: datetime | None = None

    def available(self, now: datetime) -> bool:
        """Whether it may be asked now. After a rest, for one call at a time."""
        if self._state == "trial":
            return now >= self._since + timedelta(seconds=self._policy.trial_seconds)
        return self._until is None or now >= self._until

    def started(self, now: datetime) -> None:
        """A call begins. If it is rested, this call is the trial."""
        if self._state != "well" and self.available(now):
            self._become("trial", now)

    def record_success(self, now: datetime) -> None:
        """It has answered: it is well."""
        self._failures, self._rests, self._problem, self._until = 0, 0, None, None
        if self._state != "well":
            self._become("well", now)

    def record_failure(self, fault: ProviderFault, now: datetime) -> None:
        """A call has failed. A call that was already under way when the rest began does not prolong the rest."""
        self._failures += 1
        self._problem = describe_problem(fault)
        due = self._state == "trial" or fault.fatal or self._failures >= self._policy.failures
        if self._state != "rested" and due:
            self._rest(now, fault.retry_after or 0.0)

    def record_stopped(self, now: datetime) -> None:
        """A call was stopped before it was known how it ends. If it was the trial, another one is allowed."""
        if self._state == "trial":
            self._become("rested", now)

    def report(self) -> HealthReport:
        """What to tell the operator."""
        return HealthReport(self._state, self._since, self._failures, self._problem, self._until)

    def _rest(self, now: datetime, asked_seconds: float) -> None:
        """Rest it for a growing time, and for as long as its provider asked for, within the longest."""
        policy = self._policy
        grown = policy.first_rest_seconds
        for _ in range(self._rests):
            grown = min(2 * grown, policy.longest_rest_seconds)
        seconds = min(max(grown, asked_seconds), policy.longest_rest_seconds)
        self._rests += 1
        self._until = now + timedelta(seconds=seconds)
        self._become("rested", now)

    def _become(self, state: HealthState, now: datetime) -> None:
        self._state, self._since = state, now


def describe_problem(fault: ProviderFault) -> str:
    """A failure in our own words, to follow a model's name."""
    status = fault.status
    if isinstance(fault, StreamBroken):
        return "an answer broke off"
    if fault.throttled:
        return "its provider asks for fewer calls"
    if status in _PROBLEMS:
        return _PROBLEMS[status]
    if status is not None:
        return f"its server {'failed' if status >= 500 else 'rejected the request'} with status {status}"
    if fault.billed:
        return "it did not answer in time, or the connection was lost"
    return "its server could not be reached" if fault.retryable else "it could not be asked"
