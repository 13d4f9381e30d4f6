"""What is known about responses besides their bytes: what they took to make, and how their text is written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np
import numpy.typing as npt

from tiltyard.arena.log.buckets import fetch_one, fetch_rows
from tiltyard.errors import InputError
from tiltyard.files.answer import AnswerUsage
from tiltyard.files.style_text import TextStyle
from tiltyard.postgres.connections import Connection, ConnectionPool
from tiltyard.postgres.statements import statement

#: More tokens are a mistake.
_MAX_TOKENS = 2**40


@dataclass(frozen=True, slots=True)
class ResponseDetails:
    """What is known about one response; ``None`` is unknown."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    cost_usd: float | None = None
    latency_seconds: float | None = None
    #: Characters, and Markdown marks outside code.
    length: int | None = None
    headers: int | None = None
    lists: int | None = None
    bold: int | None = None


@dataclass(frozen=True, slots=True)
class ModelUsage:
    """What a model's current responses took on average; each average is over those that say it."""

    model: str
    responses: int
    #: Responses with a stated cost, and their mean cost in US dollars.
    costed: int
    mean_cost_usd: float | None
    #: Responses with stated tokens, and their mean numbers.
    counted: int
    mean_input_tokens: float | None
    mean_output_tokens: float | None
    #: Responses with a stated latency, and its median and 95th percentile.
    timed: int
    median_latency_seconds: float | None
    p95_latency_seconds: float | None
    #: Responses that are text, and their mean style.
    written: int
    mean_length: float | None
    mean_headers: float | None
    mean_lists: float | None
    mean_bold: float | None


def response_details(usage: AnswerUsage | None, style: TextStyle | None) -> ResponseDetails:
    """The details of an answer; `InputError` for numbers that cannot be true."""
    usage = usage or AnswerUsage()
    for name in ("input_tokens", "output_tokens"):
        tokens = getattr(usage, name)
        if tokens is not None and tokens > _MAX_TOKENS:
            raise InputError(f"{name} of usage is {tokens:.3g}; expected a number of tokens")
    return ResponseDetails(
        usage.input_tokens,
        usage.output_tokens,
        usage.cost_usd,
        usage.latency_seconds,
        *((None,) * 4 if style is None else (style.length, style.headers, style.lists, style.bold)),
    )


async def add_response_details(
    connection: Connection, arena: int, details: Sequence[tuple[int, ResponseDetails]]
) -> None:
    """Store what is known about new responses, by number; nothing is stored where nothing is known."""
    known = [(number, one) for number, one in details if one != ResponseDetails()]
    if not known:
        return
    columns = {part.name: [getattr(one, part.name) for _, one in known] for part in fields(ResponseDetails)}
    values = {"arena": arena, "response": [number for number, _ in known], **columns}
    await connection.execute(statement("response_details_add"), values)


async def read_known_details(pool: ConnectionPool, arena: int) -> tuple[bool, bool]:
    """Whether any response of an arena says what it took, and whether the style of any is known."""
    row = await fetch_one(pool, "response_details_known", {"arena": arena})
    return bool(row[0]), bool(row[1])


async def read_usage(pool: ConnectionPool, arena: int) -> list[ModelUsage]:
    """What the current responses of each model took."""
    found = await fetch_rows(pool, "response_details_usage", {"arena": arena})
    return [ModelUsage(*row) for row in found]


async def read_styles(connection: Connection, arena: int) -> npt.NDArray[np.int64]:
    """Model, prompt, length, headers, lists and bold of each text that was never replaced by another."""
    found = await fetch_rows(connection, "response_details_styles", {"arena": arena})
    return np.array(found, dtype=np.int64).reshape(-1, 6)
