"""A published board as one typed value: what a snapshot keeps, what the API sends, what a hash is taken of.

Everything that the board shows is in it, with the place in the log that it was made from and the
parameters that made it; so anybody who has the log can make it again and compare the bytes.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from datetime import UTC, datetime
from typing import Any

from tiltyard.core.board.arena_board import ArenaBoard, ArenaRow, Order
from tiltyard.core.board.plain_values import from_plain, to_plain
from tiltyard.core.board.published_numbers import with_published_numbers
from tiltyard.core.policy.state.policy import Policy
from tiltyard.core.policy.state.rating_fold import RaterSettings, method_from_dict, method_to_dict
from tiltyard.core.policy.validity.rules import float_or_none
from tiltyard.core.policy.validity.serving_fairness import ServingFairness
from tiltyard.core.ratings import BradleyTerry
from tiltyard.errors import BadOption, InputError

__all__ = [
    "FORMAT",
    "BoardDocument",
    "BoardMethod",
    "batch_from_dict",
    "batch_to_dict",
    "canonical_json",
    "document_hash",
    "parsed_object",
    "row_to_dict",
]

#: What a reader finds in ``format``; raised when a field changes its meaning.
FORMAT = "tiltyard-board/1"


@dataclass(frozen=True, slots=True)
class BoardMethod:
    """How a board was made: the policy, the ratings that it follows, the order, and the cross-check."""

    policy: Policy = field(default_factory=Policy)
    rater: RaterSettings = field(default_factory=RaterSettings)
    order: Order = "conservative"
    settled_family: int | None = None
    cross_check: BradleyTerry = field(default_factory=BradleyTerry)

    @classmethod
    def from_dict(cls, said: Mapping[str, Any]) -> BoardMethod:
        """The method of `to_dict`."""
        policy, rater = method_from_dict(said)
        named = {name: said[name] for name in ("order", "settled_family")}
        return cls(policy, rater, **named, cross_check=batch_from_dict(said["cross_check"]))

    def to_dict(self) -> dict[str, object]:
        """Plain values for JSON."""
        return method_to_dict(self.policy, self.rater) | {
            "order": self.order,
            "settled_family": self.settled_family,
            "cross_check": batch_to_dict(self.cross_check),
        }


@dataclass(frozen=True, slots=True)
class BoardDocument(ArenaBoard):
    """A board with the arena, the place in its log and the method behind it."""

    arena: str
    #: Whose votes: ``human`` or ``llm-judge``.
    source: str
    #: The last event that the board knows, and its time.
    position: int
    at: datetime
    #: Counts the exclusions and restorations behind it.
    generation: int
    method: BoardMethod

    def __post_init__(self) -> None:
        if self.at.tzinfo is None:
            raise BadOption(f"at is {self.at.isoformat()}, without a time zone; expected UTC")

    @classmethod
    def of(
        cls,
        board: ArenaBoard,
        *,
        arena: str,
        source: str,
        position: int,
        generation: int,
        at: datetime,
        method: BoardMethod,
    ) -> BoardDocument:
        """A board as it is published, its numbers rounded."""
        return cls(
            **_parts(with_published_numbers(board)),
            arena=arena,
            source=source,
            position=position,
            at=at,
            generation=generation,
            method=method,
        )

    @classmethod
    def from_json(cls, written: str | bytes) -> BoardDocument:
        """Read a document; `InputError` if it is none."""
        return cls.from_dict(parsed_object(written, FORMAT))

    @classmethod
    def from_dict(cls, said: Mapping[str, Any]) -> BoardDocument:
        """The document of `to_dict`."""
        try:
            at, method = datetime.fromisoformat(said["at"]), BoardMethod.from_dict(said["method"])
        except (KeyError, TypeError, ValueError) as error:
            raise InputError(f"a board's document cannot be read: {error!r}") from None
        about = from_plain(_About, said)
        return cls(
            **_parts(from_plain(ArenaBoard, said)),
            arena=about.arena,
            source=about.source,
            position=about.position,
            generation=about.generation,
            at=at,
            method=method,
        )

    @property
    def at_text(self) -> str:
        """The time of the last event in UTC, as the document writes it."""
        return self.at.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")

    @property
    def ranks(self) -> dict[str, int]:
        """The place of every model that has one, by name."""
        return {row.model: row.rank for row in self.rows if row.rank is not None}

    def without_retired(self) -> BoardDocument:
        """The same without the rows of retired models."""
        return replace(self, rows=tuple(row for row in self.rows if row.enabled))

    def to_dict(self) -> dict[str, object]:
        """Plain values for JSON. What the votes do not support is ``None``."""
        shown = {part.name: to_plain(getattr(self, part.name)) for part in _SHOWN}
        return {
            **shown,
            "format": FORMAT,
            "arena": self.arena,
            "source": self.source,
            "position": self.position,
            "generation": self.generation,
            "at": self.at_text,
            "method": to_plain(self.method.to_dict()),
            "rows": [row_to_dict(row) for row in self.rows],
            "serving": None if self.serving is None else _serving(self.serving),
        }

    def to_json(self) -> bytes:
        """The bytes that are published and hashed."""
        return canonical_json(self.to_dict())


@dataclass(frozen=True, slots=True)
class _About:
    """What a document says of itself in plain values."""

    arena: str
    source: str
    position: int
    generation: int


#: Fields that are written as they are; rows and serving have more than their fields.
_SHOWN = tuple(part for part in fields(ArenaBoard) if part.name not in ("rows", "serving"))


def _parts(board: ArenaBoard) -> dict[str, Any]:
    return {part.name: getattr(board, part.name) for part in fields(ArenaBoard)}


def canonical_json(document: Mapping[str, object]) -> bytes:
    """The one way to write a document: sorted keys, no spaces, UTF-8, shortest numbers, no NaN."""
    text = json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return text.encode()


def document_hash(written: bytes) -> str:
    """The SHA-256 of a canonical document: the name of a snapshot."""
    return hashlib.sha256(written).hexdigest()


def parsed_object(written: str | bytes, expected: str) -> dict[str, Any]:
    """The JSON object of a document of this format; `InputError` if it is none."""
    try:
        said = json.loads(written)
    except (ValueError, RecursionError) as error:
        raise InputError(f"a document is not JSON: {error}") from None
    found = said.get("format") if isinstance(said, dict) else None
    if not isinstance(said, dict) or found != expected:
        raise InputError(f"a document has the format {found!r}; expected {expected!r}")
    return said


def row_to_dict(row: ArenaRow) -> dict[str, object]:
    """One row as plain values, with what is computed from its record."""
    record = {"votes": row.votes, "rated": row.record.rated, "win_rate": row.record.win_rate}
    plain = to_plain(row)
    return {**plain, "votes": row.votes, "record": {**plain["record"], **record}}


def batch_to_dict(method: BradleyTerry) -> dict[str, object]:
    """A batch method by name, with its parameters."""
    return {"name": method.name, **asdict(method)}


def batch_from_dict(said: Mapping[str, Any]) -> BradleyTerry:
    """The method of `batch_to_dict`."""
    return BradleyTerry(**{name: value for name, value in said.items() if name != "name"})


def _serving(serving: ServingFairness) -> dict[str, object]:
    deviation = float_or_none(serving.deviation)
    return {**to_plain(serving), "deviation": deviation, "within": serving.within}
