"""The ledger's attempts as a run folder publishes them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime

from tiltyard.judges.ledger import Attempt
from tiltyard.runs.judged_run import AttemptRow
from tiltyard.runs.money import dollars_text


def attempt_rows(attempts: Iterable[Attempt]) -> Iterator[AttemptRow]:
    """The published form of the ledger's attempts."""
    for one in attempts:
        yield {
            "attempt_id": one.attempt_id,
            "question_id": one.question_id,
            "request_key": one.request_key,
            "ask": one.ask,
            "judge_model": one.judge,
            "dimension": one.dimension,
            "mode": "live" if one.batch is None else "batch",
            "batch_id": one.batch or None,
            # Another worker is still waiting for it, or its batch was not collected.
            "state": "in_flight" if one.state == "intent" else one.state,
            "input_tokens": one.input_tokens,
            "output_tokens": one.output_tokens,
            "cache_write_tokens": one.cache_write_tokens,
            "cache_read_tokens": one.cache_read_tokens,
            "usd": None if one.cost is None else dollars_text(one.cost),
            "reserved_usd": dollars_text(one.reserved),
            "error": one.error,
            "worker": one.worker,
            "started_at": _moment(one.started_at),
            "finished_at": None if one.finished_at is None else _moment(one.finished_at),
        }


def _moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, tz=UTC).isoformat(timespec="milliseconds")
