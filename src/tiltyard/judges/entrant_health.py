"""Rests a model that keeps failing, and tries it again. No clock of its own: every call is given the time."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Literal

from tiltyard.errors import ProviderFault, StreamBroken

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


DEFAULT_POLICY = HealthPolicy()


@dataclass(frozen=True, slots=True)
class EntrantHealth:
    """The health of one model that has failed since its last success; a model that has not is well."""

    state: HealthState = "well"
    #: When this state began.
    since: datetime | None = None
    #: Failures and rests since the last success, and the last problem in our own words: nothing that a provider wrote
    #: is repeated.
    failures: int = 0
    rests: int = 0
    problem: str | None = None
    #: When it is tried again; ``None`` if it was not rested.
    until: datetime | None = None

    def available(self, now: datetime, policy: HealthPolicy = DEFAULT_POLICY) -> bool:
        """Whether it may be asked now. After a rest, for one call at a time."""
        if self.state == "trial" and self.since is not None:
            return now >= self.since + timedelta(seconds=policy.trial_seconds)
        return self.until is None or now >= self.until

    def started(self, now: datetime, policy: HealthPolicy = DEFAULT_POLICY) -> EntrantHealth:
        """A call begins. If it is rested, this call is the trial."""
        if self.state != "well" and self.available(now, policy):
            return replace(self, state="trial", since=now)
        return self

    def failed(
        self, fault: ProviderFault, now: datetime, policy: HealthPolicy = DEFAULT_POLICY
    ) -> EntrantHealth:
        """A call has failed. A call that was already under way when the rest began does not prolong the rest."""
        worse = replace(self, failures=self.failures + 1, problem=describe_problem(fault))
        due = self.state == "trial" or fault.fatal or worse.failures >= policy.failures
        if self.state == "rested" or not due:
            return worse
        # A growing time, and as long as its provider asked for, within the longest.
        grown = policy.first_rest_seconds
        for _ in range(self.rests):
            grown = min(2 * grown, policy.longest_rest_seconds)
        seconds = min(max(grown, fault.retry_after or 0.0), policy.longest_rest_seconds)
        until = now + timedelta(seconds=seconds)
        return replace(worse, state="rested", since=now, rests=self.rests + 1, until=until)

    def stopped(self, now: datetime) -> EntrantHealth:
        """A call was stopped before it was known how it ends. If it was the trial, another one is allowed."""
        return replace(self, state="rested", since=now) if self.state == "trial" else self


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
