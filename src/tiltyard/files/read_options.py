"""How the battles of a source are read: headers and words of the file's own, winners that are given by name."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypedDict

import pyarrow as pa
import pyarrow.types as pt

from tiltyard.core.battles.outcome import parse_outcome
from tiltyard.errors import BadBattle, BadOption
from tiltyard.files.canonical_columns import (
    CANONICAL,
    OTHER_NAMES,
    RESPONSES,
    STYLE,
    is_text_type,
    text_array,
)
from tiltyard.files.input_file import ColumnRecords, Record, Records
from tiltyard.files.memory_records import FrameRecords
from tiltyard.files.parquet_records import ParquetRecords
from tiltyard.foundation.option_names import option_name, require_flag

_MAPPINGS = {"columns": "{'model_a': 'left'}", "outcomes": "{'left': 'a', 'right': 'b'}"}
#: Follows a winner that is a name and an outcome at once, so that it is neither.
_AMBIGUOUS = " (the name of "
_WORDS = (*CANONICAL, *OTHER_NAMES, *RESPONSES, *STYLE, "blind", "loser", "unrated")
#: Spellings beyond case, spaces and punctuation.
_ALIASES = {
    "modela": "model_a",
    "modelb": "model_b",
    "model_1": "model_a",
    "model_2": "model_b",
    "model1": "model_a",
    "model2": "model_b",
}
#: Names of the column of questions in files of battles that have none with its own name.
QUESTION_NAMES = {"prompt_id": "question_id"}


class ReadDataOptions(TypedDict, total=False):
    """Options of reading any data."""

    #: Which header holds which field: ``{"model_a": "left", "winner": "who"}``.
    columns: Mapping[str, str] | None
    #: The format of the files, where it must not be detected.
    format: str | None
    #: What words of the winner column mean: ``{"left": "a", "right": "b"}``.
    outcomes: Mapping[Any, str] | None
    #: Leave out rows that are no battles, and count them.
    skip_invalid: bool
    #: What models are called instead: ``{"GPT-4": "gpt-4"}``; of names alone each stands for all that are spelled alike.
    rename: Mapping[str, str] | Sequence[str] | None


READ_DEFAULTS: dict[str, Any] = {**dict.fromkeys(ReadDataOptions.__annotations__), "skip_invalid": False}


@dataclass(frozen=True)
class ReadOptions:
    """Options of reading, checked. Headers and words of outcomes may be given as numbers, as in a frame."""

    #: The name of a format; by default it is detected.
    format: str | None = None
    #: Canonical names and the headers that hold them.
    columns: Mapping[str, Any] | None = None
    #: What words of the winner column mean: ``{"left": "a", "right": "b"}``.
    outcomes: Mapping[Any, str] | None = None
    #: Leave out rows that are no battles, and count them.
    skip_invalid: bool = False
    #: The baseline of judgments that do not name it.
    baseline: str | None = None
    #: What models are called instead of their names, or names that stand for all that are spelled alike.
    rename: Mapping[str, str] | Sequence[str] | None = None
    mapped: dict[str, str] = field(init=False)
    meanings: dict[str, str] = field(init=False)
    renamed: dict[str, str] = field(init=False)

    def __post_init__(self) -> None:
        require_flag("skip_invalid", self.skip_invalid)
        for name in ("columns", "outcomes"):
            value = getattr(self, name)
            if value is not None and not isinstance(value, Mapping):
                raise BadOption(
                    f"{option_name(name)}: expected a mapping such as {_MAPPINGS[name]}, not {value!r}"
                )
        mapped = {name: str(header) for name, header in (self.columns or {}).items()}
        for name in mapped:
            if name not in CANONICAL:
                raise BadOption(
                    f"{option_name('columns')}: {name!r} is not a column of a battle; choose from {', '.join(CANONICAL)}"
                )
        object.__setattr__(self, "mapped", mapped)
        object.__setattr__(self, "renamed", checked_names(self.rename))
        object.__setattr__(self, "meanings", checked_outcomes(self.outcomes))


def outcome_word(value: object) -> str:
    """A value of the winner column as it is written in the option: ``left``, ``1``, ``0.5``, ``true``; empty if missing."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return f"{value:g}"
    return str(value).strip().partition(_AMBIGUOUS)[0]


def checked_outcomes(outcomes: Mapping[Any, str] | None) -> dict[str, str]:
    """What each word means, as an outcome in canonical spelling."""
    meanings: dict[str, str] = {}
    for value, meaning in (outcomes or {}).items():
        try:
            meanings[outcome_word(value)] = parse_outcome(meaning).value
        except BadBattle:
            raise BadOption(
                f"outcomes: {outcome_word(value)} is said to mean {meaning!r}; expected a, b, tie or both_bad"
            ) from None
    return meanings


def checked_names(rename: Mapping[str, str] | Sequence[str] | None) -> dict[str, str]:
    """What each model is called; a name alone is called as it is, and so are those that are spelled alike."""
    listed = [rename] if isinstance(rename, str) else rename or ()
    pairs = listed.items() if isinstance(listed, Mapping) else [(name, name) for name in listed]
    for pair in pairs:
        if not all(isinstance(name, str) and name.strip() for name in pair):
            raise BadOption(
                f"{option_name('rename')}: {pair!r} are not two names of models; give old and new name"
            )
    return {old.strip(): new.strip() for old, new in pairs}


def named_winner(winner: object, model_a: object, model_b: object) -> str | None:
    """The winner as an outcome, if it is the name of one of the two models and of that one only.

    A name that is also the outcome of the other side (a model called ``B`` as model A) stays no outcome at all.
    """
    if not isinstance(winner, str) or model_a == model_b or winner not in (model_a, model_b):
        return None
    side = "model_a" if winner == model_a else "model_b"
    return f"{winner}{_AMBIGUOUS}{side})" if is_outcome(winner) and parse_outcome(winner) != side else side


def outcome_array(array: pa.Array, meanings: Mapping[str, str]) -> pa.Array:
    """The winner column as text, with the words that have a meaning replaced by it."""
    coded = array if pt.is_dictionary(array.type) else array.dictionary_encode()
    if not meanings and is_text_type(coded.type.value_type):
        return array
    words = [None if value is None else outcome_word(value) for value in coded.dictionary.to_pylist()]
    texts = [None if word is None else meanings.get(word, word) for word in words]
    read = pa.array(texts, pa.string()).take(coded.indices)
    return read.fill_null(meanings[""]) if "" in meanings else read


def winners_by_name(winner: pa.Array, model_a: pa.Array, model_b: pa.Array) -> pa.Array:
    """The winner column with outcomes in the place of models' names."""
    coded = winner if pt.is_dictionary(winner.type) else winner.dictionary_encode()
    words = {word for word in coded.dictionary.to_pylist() if word is not None}
    names = {name for side in (model_a, model_b) for name in text_array(side.unique()).to_pylist()}
    if words.isdisjoint(names):
        return winner
    texts = text_array(coded).to_pylist()
    sides = zip(texts, text_array(model_a).to_pylist(), text_array(model_b).to_pylist(), strict=True)
    return pa.array([named_winner(text, a, b) or text for text, a, b in sides], pa.string())


def is_outcome(text: str) -> bool:
    """Whether a text is an outcome in a known spelling."""
    try:
        parse_outcome(text)
    except BadBattle:
        return False
    return True


def respelled(records: Records, mapped: Mapping[str, str]) -> Records:
    """The records with their headers in canonical spelling, where exactly one header can be meant.

    Headers that the caller has mapped, and fields that the caller has mapped to a header, are left alone.
    """
    meant: dict[str, list[str]] = {}
    for header in records.columns:
        if header not in mapped.values():
            letters = "".join(letter if letter.isalnum() else " " for letter in header.lower())
            word = "_".join(letters.split())
            meant.setdefault(_ALIASES.get(word, word), []).append(header)
    # Files without pairs are no battles, and messages name their columns as they are.
    if "model_b" in meant or "model_b" in mapped:
        for other, name in QUESTION_NAMES.items():
            if other in meant and name not in meant:
                meant[name] = meant.pop(other)
    names = {
        headers[0]: word
        for word, headers in meant.items()
        if word in _WORDS and word not in records.columns and word not in mapped and len(headers) == 1
    }
    taken = {*records.columns, *names.values(), *mapped.values()}
    for header in records.columns:
        if header not in names and header not in mapped.values() and header.strip() not in taken:
            names[header] = header.strip()
            taken.add(header.strip())
    return with_headers(records, names)


def with_headers(records: Records, names: Mapping[str, str]) -> Records:
    """The records under other headers; the same object if there are none."""
    if not names:
        return records
    if isinstance(records, ParquetRecords | FrameRecords):
        return RenamedColumns(records, names)
    return RenamedRecords(records, names)


@dataclass(frozen=True)
class RenamedRecords:
    """Records under other names. ``names`` maps headers to the names they get."""

    origin: Records
    names: Mapping[str, str]

    @property
    def kind(self) -> str:
        return self.origin.kind

    @property
    def name(self) -> str:
        return self.origin.name

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(self.names.get(header, header) for header in self.origin.columns)

    @property
    def rows(self) -> int | None:
        return self.origin.rows

    def records(self, columns: Collection[str] | None = None, /) -> Iterator[Record]:
        wanted = None if columns is None else set(self._headers(list(columns)))
        for where, record in self.origin.records(wanted):
            yield where, {self.names.get(header, header): value for header, value in record.items()}

    def _headers(self, columns: Sequence[str]) -> list[str]:
        headers = {name: header for header, name in self.names.items()}
        return [headers.get(name, name) for name in columns]


@dataclass(frozen=True)
class RenamedColumns(RenamedRecords):
    """Columns under other names."""

    origin: ColumnRecords

    @property
    def column_types(self) -> Mapping[str, pa.DataType]:
        return {self.names.get(header, header): kind for header, kind in self.origin.column_types.items()}

    def batches(
        self, columns: Sequence[str], batch_size: int, codes: Collection[str] = (), /
    ) -> Iterator[pa.RecordBatch]:
        coded = self._headers(list(codes))
        for batch in self.origin.batches(self._headers(columns), batch_size, coded):
            yield pa.RecordBatch.from_arrays(batch.columns, names=list(columns))
