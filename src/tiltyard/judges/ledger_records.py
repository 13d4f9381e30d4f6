"""Records of the ledger."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from tiltyard.judges.providers.provider import Body, Usage

__all__ = ["Attempt", "AttemptIntent", "BatchRow", "ReservationResult", "RunRow", "Settlement"]


class ReservationResult(enum.Enum):
    """Whether the worst-case cost of a call was reserved."""

    YES = enum.auto()
    #: Not now: calls in flight, or batches with a valid lease, may release enough.
    WAIT = enum.auto()
    #: No: the budget does not cover it, and nothing in flight could release enough.
    NO = enum.auto()
    #: Not needed: the same request is in flight, or its reply is already stored.
    TAKEN = enum.auto()
    #: Not now: it was sent in a batch, and may be paid, but no worker waits for that batch any more.
    LEFT = enum.auto()


@dataclass(frozen=True, slots=True)
class AttemptIntent:
    """A planned attempt. ``reserved`` is its worst-case cost in picodollars, 0 if the price is unknown."""

    attempt_id: str
    run: str
    request_key: str
    ask: int
    question_id: str
    judge: str
    dimension: str
    worker: str
    reserved: int
    batch: str | None = None
    place: int | None = None
    priced: bool = True
    #: Picodollars that must be left in the budget after ``reserved``.
    headroom: int = 0


@dataclass(frozen=True, slots=True)
class Settlement:
    """How an attempt ended. ``state`` is how the reply was parsed then; ``body`` is the raw reply, if any."""

    attempt_id: str
    run: str
    request_key: str
    ask: int
    reserved: int
    state: str
    #: Picodollars; ``None`` if the price is unknown.
    cost: int | None
    body: Body | None = None
    usage: Usage | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attempt as stored in the ledger."""

    attempt_id: str
    request_key: str
    ask: int
    question_id: str
    judge: str
    dimension: str
    worker: str
    #: The provider's ID of its batch; empty if the ID is not known.
    batch: str | None
    state: str
    reserved: int
    cost: int | None
    input_tokens: int | None
    output_tokens: int | None
    cache_write_tokens: int | None
    cache_read_tokens: int | None
    error: str | None
    started_at: float
    finished_at: float | None


@dataclass(frozen=True, slots=True)
class BatchRow:
    """An open batch; without ``provider_id``, its creation got no response."""

    batch: str
    judge: str
    provider_id: str | None
    size: int
    created_at: float


@dataclass(frozen=True, slots=True)
class RunRow:
    """The state of a run; ``cap``, ``held`` (reserved) and ``spent`` in picodollars."""

    plan: str
    generation: int
    cap: int | None
    held: int
    spent: int
    #: The cost estimate of the plan when the run started, as text.
    estimate: str
