"""Text as it is meant: without outer spaces, and models called as an option says. Every change is counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from tiltyard.core.battles.alike_names import spelling_key
from tiltyard.files.canonical_columns import OTHER_NAMES, TEXT, is_text_type, text_array
from tiltyard.files.read_options import is_outcome

#: The columns that name models; a winner may be the name of one.
_NAMES = frozenset({"model_a", "model_b", "winner"})
_RENAMED = "renamed"


@dataclass(frozen=True)
class ValueRepairs:
    """What is done to the values of one source. A name that is renamed to itself stands for all that are spelled alike."""

    rename: Mapping[str, str] = field(default_factory=dict)
    #: Headers that are read without their outer spaces.
    headers: tuple[str, ...] = ()
    #: How many rows were changed since the last `clear`, by column, and by renaming.
    changes: Counter[str] = field(default_factory=Counter, compare=False, repr=False)

    @property
    def stripped(self) -> Counter[str]:
        """How many values of each column had outer spaces."""
        return Counter({name: rows for name, rows in sorted(self.changes.items()) if name != _RENAMED})

    def remarks(self) -> list[str]:
        """What was changed, in sentences."""
        found = [
            f"outer spaces removed from {name} in rows: {rows:,}" for name, rows in self.stripped.items()
        ]
        if self.headers:
            found.append(f"outer spaces removed from headers: {len(self.headers)}")
        if self.rename:
            found.append(f"names of models changed: {self.changes[_RENAMED]:,}")
        return found

    def array(self, name: str, array: pa.Array) -> pa.Array:
        """A column of text, repaired; other columns as they are."""
        coded = pt.is_dictionary(array.type)
        values = array.dictionary if coded else array
        if name not in TEXT or not is_text_type(values.type):
            return array
        if not (self.rename and name in _NAMES):
            plain = text_array(values)
            if pc.utf8_trim_whitespace(plain).equals(plain):
                return array
        encoded = array if coded else array.dictionary_encode()
        before = encoded.dictionary.to_pylist()
        after = [self._meant(name, value, rows) for value, rows in zip(before, _rows(encoded), strict=True)]
        if after == before:
            return array
        read = pa.array(after, pa.string()).take(encoded.indices)
        return read.dictionary_encode() if coded else read

    def row(self, row: Mapping[str, object]) -> Mapping[str, object]:
        """The fields of a row, repaired."""
        changed = {
            key: meant
            for key, value in row.items()
            if isinstance(value, str)
            and (name := OTHER_NAMES.get(key, key)) in TEXT
            and (meant := self._meant(name, value, 1)) is not value
        }
        return {**row, **changed} if changed else row

    def _meant(self, name: str, value: str | None, rows: int) -> str | None:
        if value is None or not rows:
            return value
        stripped = value.strip()
        if stripped != value:
            self.changes[name] += rows
        if self.rename and name in _NAMES and not (name == "winner" and is_outcome(stripped)):
            called = self.rename.get(stripped, stripped)
            called = self._alike.get(spelling_key(stripped), called) if called == stripped else called
            if called != stripped:
                self.changes[_RENAMED] += rows if name != "winner" else 0
                return called
        # A name of spaces alone stays what it is, for the error that shows it.
        return value if stripped == value or (name in _NAMES and not stripped) else stripped or None

    @cached_property
    def _alike(self) -> Mapping[str, str]:
        return {spelling_key(name): name for name, called in self.rename.items() if name == called}


def _rows(encoded: pa.DictionaryArray) -> list[int]:
    """How many rows have each value of the dictionary."""
    counted = {one["values"]: one["counts"] for one in encoded.indices.value_counts().to_pylist()}
    return [counted.get(code, 0) for code in range(len(encoded.dictionary))]
