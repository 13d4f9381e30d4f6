"""Rows that are no battles, counted by what is wrong, with the first place of each; and values that are repaired."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import cached_property

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from tiltyard.core.battles.alike_names import spelling_key
from tiltyard.errors import BadBattle
from tiltyard.files.canonical_columns import OTHER_NAMES, TEXT, is_text_type, text_array
from tiltyard.files.read_options import is_outcome, outcome_word
from tiltyard.foundation.option_names import option_name, quoted

#: Distinct problems that are kept apart; the rest is counted as one.
_MAX_PROBLEMS = 1000
_SHOWN_PROBLEMS = 5
_SHOWN_WORDS = 8
#: Values of one field that a reason shows if there are many.
_SHOWN_VALUE_LIMIT = 3

#: A preference that contradicts its row's winner, with the two values that make each row's sentence another one.
_PREFERENCE = re.compile(r"pref \S+ (\([^)]*\)) contradicts winner \w+")

#: The columns that name models; a winner may be the name of one.
_NAMES = frozenset({"model_a", "model_b", "winner"})
_RENAMED = "renamed"


@dataclass
class _Problem:
    first: str
    #: What is wrong with the first row, with its values.
    text: str
    rows: int = 0
    #: The models of the first row, where the winner is what is wrong.
    models: str | None = None


@dataclass
class InvalidRows:
    """What one read of a source found."""

    problems: dict[str, _Problem] = field(default_factory=dict)
    #: Values of the winner column that mean nothing known, in the order of their appearance.
    unknown_words: dict[str, None] = field(default_factory=dict)
    #: Models whose names are winners in another spelling, and rows without a winner; with the number of rows.
    misspelt_names: Counter[str] = field(default_factory=Counter)
    empty_winners: int = 0

    @property
    def rows(self) -> int:
        return sum(found.rows for found in self.problems.values())

    def add(self, where: str, problem: str, row: Mapping[str, object]) -> None:
        """Count one row with what is wrong with it."""
        kind = _PREFERENCE.sub(r"pref \1 contradicts the winner", problem)
        if kind not in self.problems and len(self.problems) >= _MAX_PROBLEMS:
            kind = "other problems"
        found = self.problems.setdefault(kind, _Problem(where, problem))
        found.rows += 1
        winner = row.get("winner", row.get("outcome"))
        if not problem.startswith("winner is "):
            return
        models = [name for name in (row.get("model_a"), row.get("model_b")) if isinstance(name, str)]
        if found.rows == 1 and len(models) == 2:
            found.models = f"the row's models are {quoted(models[0])} and {quoted(models[1])}"
        word = outcome_word(winner)
        self.empty_winners += not word
        # A name can stand on either side, so that no outcome is its meaning.
        meant = [name for name in models if spelling_key(name) == spelling_key(word)]
        if meant and word not in models:
            self.misspelt_names[meant[0].strip()] += 1
        elif len(self.unknown_words) < _MAX_PROBLEMS:
            self.unknown_words.setdefault(word)

    def clear(self) -> None:
        self.problems.clear()
        self.unknown_words.clear()
        self.misspelt_names.clear()
        self.empty_winners = 0

    def notes(self) -> list[tuple[str, int]]:
        """Reasons and numbers, for rows that were left out. Many values of one field are one reason."""
        kinds: dict[str, list[tuple[str, _Problem]]] = {}
        for problem, found in self.problems.items():
            field_name, _, value = _brief(problem).partition(" is ")
            kinds.setdefault(field_name, []).append((value, found))
        notes: list[tuple[str, int]] = []
        for name, same in kinds.items():
            apart = [same] if len(same) > _SHOWN_PROBLEMS else [[one] for one in same]
            notes += [_note(name, values) for values in apart]
        return notes

    def error(self, offered: Collection[str]) -> BadBattle:
        """All of it as one error: the first place as it stands, then the others, then what to do with the options offered."""
        (_, first), *others = self.problems.items()
        parts = [first.text, *([first.models] if first.models else [])]
        if first.rows > 1:
            parts.append(f"{first.rows:,} rows like it")
        others.sort(key=lambda item: -item[1].rows)
        for other, found in others[:_SHOWN_PROBLEMS]:
            rows = f"{found.rows:,} row{'' if found.rows == 1 else 's'}"
            parts.append(f"{_brief(other)} ({rows}, first: {_place(found.first)})")
        rest = sum(found.rows for _, found in others[_SHOWN_PROBLEMS:])
        if rest:
            parts.append(f"{rest:,} more rows with other problems")
        names = [*self.misspelt_names]
        ways = []
        if 0 < len(names) <= _SHOWN_WORDS and "rename" in offered:
            ways.append(f"let names count in any spelling with {option_name('rename', names)}")
        elif names:
            ways.append("spell winners as the models of their rows")
        if "outcomes" in offered and 0 < len(self.unknown_words) <= _SHOWN_WORDS:
            option = option_name("outcomes", dict.fromkeys(self.unknown_words, "…"))
            ways.append(f"say what words mean with {option} (a, b, tie or both_bad)")
        if "skip_invalid" in offered:
            ways.append(f"leave out invalid rows with {option_name('skip_invalid', True)}")
        else:
            ways.append("correct these rows, or remove them from the file")
        return BadBattle("; ".join([*parts, ", or ".join(ways)]), where=first.first)


def _note(name: str, same: list[tuple[str, _Problem]]) -> tuple[str, int]:
    """One reason for all rows in which a field has one of these values, and their number."""
    shown = [value for value, _ in same[:_SHOWN_VALUE_LIMIT] if value]
    reason = f"{name} is {', '.join(shown)}" if shown else name
    if len(same) > len(shown) > 0:
        reason += f" or one of {len(same) - len(shown):,} more"
    return f"{reason} (first: {_place(same[0][1].first)})", sum(found.rows for _, found in same)


def _brief(problem: str) -> str:
    """What is wrong, without what was expected: the first problem says that."""
    return problem.partition("; expected")[0]


def _place(where: str) -> str:
    """The line or row, without the file: the first problem names that."""
    return where.rpartition(", ")[2]


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
