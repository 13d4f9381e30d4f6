"""The history of one model's responses: when each was added and withdrawn. Never their content."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from tiltyard.arena.log.buckets import fetch_rows
from tiltyard.postgres.connections import Connection, translate_errors


@dataclass(frozen=True, slots=True)
class ResponseHistory:
    """One response that a model has, or had, to a prompt."""

    prompt: str
    category: str | None
    #: Text, image, audio or app; ``None`` where it would reveal which model a response is from.
    kind: str | None
    added_at: datetime
    withdrawn_at: datetime | None
    #: When another response replaced it after it was withdrawn.
    replaced_at: datetime | None


async def read_response_history(connection: Connection, arena: int, model: int) -> list[ResponseHistory]:
    """All responses of a model, newest first."""
    with translate_errors("read a model's responses"):
        found = await fetch_rows(connection, "histories_responses", {"arena": arena, "model": model})
        return [ResponseHistory(*row) for row in found]
