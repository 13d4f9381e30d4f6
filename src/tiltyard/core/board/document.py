"""A board as a plain document: what a snapshot keeps, what the API sends, what a hash is taken of.

Everything that the board shows is in it, with the place in the log that it was made from and the
parameters that made it; so anybody who has the log can make it again and compare the bytes.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime
from enum import Enum
from typing import Any

from tiltyard.core.board.arena_board import ArenaBoard, ArenaRow
from tiltyard.core.board.serving_fairness import ServingFairness
from tiltyard.core.policy.validity.rules import float_or_none
from tiltyard.errors import BadOption

__all__ = ["FORMAT", "board_document", "canonical_json", "document_hash"]

#: What a reader finds in ``format``; raised when a field changes its meaning.
FORMAT = "tiltyard-board/1"


def board_document(
    board: ArenaBoard,
    *,
    arena: str,
    source: str,
    position: int,
    generation: int,
    at: datetime,
    method: Mapping[str, Any],
) -> dict[str, Any]:
    """Plain values for JSON. What the votes do not support is ``None``.

    ``position`` is the last event that the board knows and ``at`` its time; ``generation`` counts the
    exclusions and restorations behind it. ``method`` says how it was made: policy, ratings, order.
    """
    if at.tzinfo is None:
        raise BadOption(f"at is {at.isoformat()}, without a time zone; expected UTC")
    whole = {field.name: _plain(getattr(board, field.name)) for field in fields(board)}
    return {
        **whole,
        "format": FORMAT,
        "arena": arena,
        "source": source,
        "position": position,
        "generation": generation,
        "at": at.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z"),
        "method": _plain(method),
        "rows": [_row(row) for row in board.rows],
        "serving": None if board.serving is None else _serving(board.serving),
    }


def canonical_json(document: Mapping[str, Any]) -> bytes:
    """The one way to write a document: sorted keys, no spaces, UTF-8, shortest numbers, no NaN."""
    text = json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return text.encode()


def document_hash(written: bytes) -> str:
    """The SHA-256 of a canonical document: the name of a snapshot."""
    return hashlib.sha256(written).hexdigest()


def _row(row: ArenaRow) -> dict[str, Any]:
    record = {"votes": row.votes, "rated": row.record.rated, "win_rate": row.record.win_rate}
    plain: dict[str, Any] = _plain(row)
    return plain | {"votes": row.votes, "record": plain["record"] | record}


def _serving(serving: ServingFairness) -> dict[str, Any]:
    plain: dict[str, Any] = _plain(serving)
    return plain | {"deviation": float_or_none(serving.deviation), "within": serving.within}


def _plain(value: Any) -> Any:
    """Dataclasses, enumerations and tuples as JSON knows them; a number that is none as ``None``."""
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, float):
        return float_or_none(value)
    if value is None or isinstance(value, str | int):
        return value
    if isinstance(value, Mapping):
        return {str(name): _plain(part) for name, part in value.items()}
    if is_dataclass(value):
        return {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
    return [_plain(part) for part in value]
