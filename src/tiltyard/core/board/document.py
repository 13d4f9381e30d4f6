"""Published boards as typed values: what a snapshot keeps, what the API sends, what a hash is taken of.

Everything that a board shows is in its document, with the place in the log that it was made from and the parameters that
made it; so anybody who has the log can make it again and compare the bytes. Numbers are rounded: batch fits call the
processor's linear algebra, whose last bits differ between machines, by about 10⁻¹² where it was measured. Seven digits
are more than any vote supports, and far coarser than that.
"""

from __future__ import annotations

import hashlib
import json
import math
import types
from collections.abc import Callable, Hashable, Mapping
from dataclasses import asdict, dataclass, field, fields, is_dataclass, replace
from datetime import UTC, datetime
from enum import Enum
from functools import cache
from typing import Any, Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from tiltyard.core.board.arena_board import ArenaBoard, ArenaRow, FirstPlaceMargin, Order, ShownOrder
from tiltyard.core.board.cross_check import CrossCheck
from tiltyard.core.policy.state.policy import Policy
from tiltyard.core.policy.state.rating_fold import RaterSettings, method_from_dict, method_to_dict
from tiltyard.core.policy.validity.rules import float_or_none
from tiltyard.core.ratings import BradleyTerry, Finding
from tiltyard.errors import BadOption, InputError

T = TypeVar("T")
Reader = Callable[[Any], Any]

_SCALARS: Mapping[type, frozenset[type]] = {
    bool: frozenset({bool}),
    float: frozenset({float, int}),
    int: frozenset({int}),
    str: frozenset({str}),
}

#: What a reader finds in ``format``; raised when a field changes its meaning.
FORMAT = "tiltyard-board/1"
FILTERED_FORMAT = "tiltyard-filtered-board/2"
#: What becomes of votes that the official board leaves out: excluded ones are counted, or all: also those that are not blind,
#: came before a look at both responses, or wait.
LeftOutVotes = Literal["left-out", "counted", "all"]
#: All votes, or only those on matchups of the exploration lane, whose pairs are chosen at random.
LaneFilter = Literal["all", "exploration"]
_KEPT_DIGITS = 7
#: Ratings, and numbers that may be counts, keep these decimals all the same.
_LEAST_DECIMALS = 6


def to_plain(value: Any) -> Any:
    """Dataclasses, enumerations and tuples as JSON knows them; a number that is none as ``None``."""
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, float):
        return float_or_none(value)
    if value is None or isinstance(value, str | int):
        return value
    if isinstance(value, Mapping):
        return {str(name): to_plain(part) for name, part in value.items()}
    if is_dataclass(value):
        return {field.name: to_plain(getattr(value, field.name)) for field in fields(value)}
    return [to_plain(part) for part in value]


def from_plain(kind: type[T], value: Any) -> T:
    """A record of this kind; `InputError` if a value is missing or has another type than its field."""
    record: T = _reader(cast("Hashable", kind))(value)
    return record


@cache
def _reader(kind: Any) -> Reader:
    """What reads one type. Unions are those with ``None`` only."""
    origin, parts = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        (present,) = (part for part in parts if part is not type(None))
        reader = _reader(present)
        return lambda value: None if value is None else reader(value)
    if origin is tuple:
        return _sequence(_reader(parts[0]))
    if origin is Literal:
        return _one_of({part: part for part in parts}, " or ".join(parts))
    return _mapping if origin is not None else _plain_reader(kind)


def _plain_reader(kind: type[Any]) -> Reader:
    if kind in _SCALARS:
        return _scalar(_SCALARS[kind], kind.__name__)
    if is_dataclass(kind):
        return _record(kind)
    return _one_of({member.value: member for member in kind}, kind.__name__)


def _record(kind: Any) -> Reader:
    hints = get_type_hints(kind)
    parts = [
        (field.name, _as_they_are(hints[field.name]), _reader(hints[field.name])) for field in fields(kind)
    ]

    def read(value: Any) -> Any:
        if type(value) is not dict:
            raise _wrong(kind.__name__, value)
        found = []
        for name, plain, reader in parts:
            if name not in value:
                raise InputError(
                    f"a document lacks {name} of {kind.__name__}: another version of Tiltyard made it; read it with that"
                )
            part = value[name]
            found.append(part if type(part) in plain else reader(part))
        return kind(*found)

    return read


def _as_they_are(kind: Any) -> frozenset[type]:
    """Types of JSON values that need no reader: most of a document is numbers, and calls are slow."""
    if get_origin(kind) in (Union, types.UnionType):
        return frozenset().union(*map(_as_they_are, get_args(kind)))
    return frozenset({kind}) if kind is type(None) else _SCALARS.get(kind, frozenset())


def _scalar(allowed: frozenset[type], called: str) -> Reader:
    def read(value: Any) -> Any:
        if type(value) not in allowed:
            raise _wrong(called, value)
        return value

    return read


def _one_of(allowed: Mapping[Any, Any], called: str) -> Reader:
    """A text or number that stands for one of a few values."""

    def read(value: Any) -> Any:
        if type(value) not in (str, int) or value not in allowed:
            raise _wrong(called, value)
        return allowed[value]

    return read


def _sequence(reader: Reader) -> Reader:
    def read(value: Any) -> Any:
        if type(value) is not list:
            raise _wrong("list", value)
        return tuple([reader(part) for part in value])

    return read


def _mapping(value: Any) -> Any:
    if type(value) is not dict:
        raise _wrong("object", value)
    return value


def _wrong(expected: str, value: Any) -> InputError:
    return InputError(f"a document has {str(value)[:40]!r}; expected {expected}")


@dataclass(frozen=True, slots=True)
class BoardMethod:
    """How a board was made: the policy, the ratings that it follows, the order, and the cross-check."""

    policy: Policy = field(default_factory=Policy)
    rater: RaterSettings = field(default_factory=RaterSettings)
    order: Order = "conservative"
    settled_family: int | None = None
    #: See `BatchRatings`.
    least_days: int | None = None
    cross_check: BradleyTerry = field(default_factory=BradleyTerry)

    @classmethod
    def from_dict(cls, said: Mapping[str, Any]) -> BoardMethod:
        """The method of `to_dict`."""
        policy, rater = method_from_dict(said)
        named = {name: said[name] for name in ("order", "settled_family")}
        batch, days = batch_from_dict(said["cross_check"]), said.get("least_days")
        return cls(policy, rater, **named, least_days=days, cross_check=batch)

    def to_dict(self) -> dict[str, object]:
        """Plain values for JSON."""
        return method_to_dict(self.policy, self.rater) | {
            "order": self.order,
            "settled_family": self.settled_family,
            **({} if self.least_days is None else {"least_days": self.least_days}),
            "cross_check": batch_to_dict(self.cross_check),
        }


def ranks_above(one_high: int | None, other_low: int | None) -> bool:
    """Whether a board has settled that one model is above another: by the last rank of one and the first of the other."""
    return one_high is not None and other_low is not None and one_high < other_low


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
    #: How many of its votes were cast elsewhere and imported.
    imported: int = 0

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
        about = from_plain(_About, {"imported": 0, **said})
        return cls(
            **_parts(from_plain(ArenaBoard, said)),
            arena=about.arena,
            source=about.source,
            position=about.position,
            generation=about.generation,
            imported=about.imported,
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

    def settles(self, one: str, other: str) -> bool:
        """Whether the ranges of ranks of two models do not overlap; where the board claims none, its places count."""
        rows = {row.model: row for row in self.rows}
        first, second = rows[one], rows[other]
        if first.rank_low is None or second.rank_low is None:
            return True
        return ranks_above(first.rank_high, second.rank_low) or ranks_above(second.rank_high, first.rank_low)

    def without_retired(self) -> BoardDocument:
        """The same without the rows of retired models."""
        return replace(self, rows=tuple(row for row in self.rows if row.enabled))

    def to_dict(self) -> dict[str, object]:
        """Plain values for JSON. What the votes do not support is ``None``."""
        shown = {part.name: to_plain(getattr(self, part.name)) for part in _SHOWN}
        return {
            **shown,
            # Boards had no such field before votes could be imported, and keep their hashes.
            **({"imported": self.imported} if self.imported else {}),
            "format": FORMAT,
            "arena": self.arena,
            "source": self.source,
            "position": self.position,
            "generation": self.generation,
            "at": self.at_text,
            "method": to_plain(self.method.to_dict()),
            "rows": [row_to_dict(row) for row in self.rows],
            "serving": None
            if self.serving is None
            else {
                **to_plain(self.serving),
                "deviation": float_or_none(self.serving.deviation),
                "within": self.serving.within,
            },
        }

    def to_json(self) -> bytes:
        """The bytes that are published and hashed."""
        return canonical_json(self.to_dict())


@dataclass(frozen=True, slots=True)
class _About:
    arena: str
    source: str
    position: int
    generation: int
    imported: int


#: Fields that are written as they are; rows and serving have more than their fields.
_SHOWN = tuple(part for part in fields(ArenaBoard) if part.name not in ("rows", "serving"))


def _parts(board: ArenaBoard) -> dict[str, Any]:
    return {part.name: getattr(board, part.name) for part in fields(ArenaBoard)}


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


@dataclass(frozen=True, slots=True)
class PromptFilter:
    """Which prompts: those of a category, of a language, or of any; and which lane."""

    category: str | None
    language: str | None
    lane: LaneFilter = "all"


@dataclass(frozen=True, slots=True)
class _Counted:
    """What a filtered board says in plain values."""

    arena: str
    source: str
    #: The published board whose votes were counted.
    snapshot: str
    position: int
    generation: int
    filter: PromptFilter
    #: Votes that the operator excluded, or all that the official board leaves out.
    excluded: LeftOutVotes
    #: How many prompts of this filter had responses, and how many votes they have.
    prompts: int
    votes: int
    order: ShownOrder
    phase: int
    #: What is settled about the order, as one sentence; ``None`` in phase 1.
    settled: Finding | None
    #: How many votes would change first place; ``None`` with fewer than two ranked models.
    first_place: FirstPlaceMargin | None
    cross_check: CrossCheck | None
    rows: tuple[ArenaRow, ...]
    findings: tuple[Finding, ...]


@dataclass(frozen=True, slots=True)
class FilteredBoard(_Counted):
    """A board of some of the votes behind a published board."""

    method: BoardMethod

    @classmethod
    def from_json(cls, written: str | bytes) -> FilteredBoard:
        """Read a document; `InputError` if it is none."""
        said: Mapping[str, Any] = parsed_object(written, FILTERED_FORMAT)
        try:
            method = BoardMethod.from_dict(said["method"])
        except (KeyError, TypeError, AttributeError) as error:
            raise InputError(f"a filtered board's document cannot be read: {error!r}") from None
        counted = from_plain(_Counted, said)
        shown = {part.name: getattr(counted, part.name) for part in fields(_Counted)}
        return cls(**shown, method=method)

    def to_dict(self) -> dict[str, object]:
        """Plain values for JSON."""
        counted = {part.name: to_plain(getattr(self, part.name)) for part in fields(_Counted)}
        return {
            **counted,
            "format": FILTERED_FORMAT,
            "rows": [row_to_dict(row) for row in self.rows],
            "method": to_plain(self.method.to_dict()),
        }

    def to_json(self) -> bytes:
        """The bytes that are sent and hashed."""
        return canonical_json(self.to_dict())


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


def published_number(value: float) -> float:
    """A number with seven digits, and at least six decimals."""
    # Adding 0.0 turns a negative zero into an ordinary one.
    if value == 0 or not math.isfinite(value):
        return value + 0.0
    decimals = _KEPT_DIGITS - 1 - math.floor(math.log10(abs(value)))
    return round(value, max(decimals, _LEAST_DECIMALS))


def with_published_numbers(record: T) -> T:
    """A frozen record with every number in it as it is published."""
    rounded: T = _rounded(record)
    return rounded


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return published_number(value)
    if value is None or isinstance(value, str | int | Enum):
        return value
    if isinstance(value, Mapping):
        return {name: _rounded(part) for name, part in value.items()}
    if is_dataclass(value) and not isinstance(value, type):
        return type(value)(*[_rounded(getattr(value, part.name)) for part in fields(value)])
    return tuple(_rounded(part) for part in value)
