"""Entries: what goes into the ledger, and what is read back from it."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from tiltyard.judges.providers.provider import Body, Usage

__all__ = ["Attempt", "AttemptIntent", "BatchRow", "ReservationResult", "RunRow", "Settlement"]


class ReservationResult(enum.Enum):
    """Whether the worst case of a call could be reserved."""

    YES = enum.auto()
    #: Not now: calls in flight, or batches that somebody waits for, hold what is missing.
    WAIT = enum.auto()
    #: Not at all: what is not spent does not cover it, or nothing is in flight that could be released.
    NO = enum.auto()
    #: Not needed: somebody else is asking the same, or its reply is here already.
    TAKEN = enum.auto()
    #: Not now: it was sent in a batch, perhaps paid, and nobody waits for that batch any more.
    LEFT = enum.auto()


@dataclass(frozen=True, slots=True)
class AttemptIntent:
    """An attempt about to be made. ``reserved`` is its worst case in picodollars, 0 where the price is unknown."""

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


@dataclass(frozen=True, slots=True)
class Settlement:
    """How an attempt ended, as its reply was read then; ``body`` is the reply, where there is one."""

    attempt_id: str
    run: str
    request_key: str
    ask: int
    reserved: int
    state: str
    #: Picodollars; ``None`` where the price is unknown.
    cost: int | None
    body: Body | None = None
    usage: Usage | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Attempt:
    """One row of the ledger, as it is read back."""

    attempt_id: str
    request_key: str
    ask: int
    question_id: str
    judge: str
    dimension: str
    worker: str
    #: The provider's id of the batch it went in; empty where it was never learnt.
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
    """A batch that may still bring something; without ``provider_id``, its creation went unanswered."""

    batch: str
    judge: str
    provider_id: str | None
    size: int
    created_at: float


@dataclass(frozen=True, slots=True)
class RunRow:
    """Where a run stands: ``cap``, ``held`` and ``spent`` in picodollars."""

    plan: str
    generation: int
    cap: int | None
    held: int
    spent: int
    #: What the plan expected when the run began, as text.
    estimate: str
