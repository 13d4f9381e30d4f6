"""Conditions on battles: ``language = "en" and turn > 2``, parsed and evaluated without running code.

Three values as in SQL: a comparison with a missing value is neither true nor false, and only battles for
which the whole condition is true are kept.
"""

from __future__ import annotations

import operator
import re
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tiltyard.core.battles.outcome import parse_outcome
from tiltyard.errors import BadBattle, BadOption
from tiltyard.files.canonical_columns import REQUIRED
from tiltyard.foundation.option_names import option_name

#: The outcomes of a test, so that "and" is the minimum and "or" the maximum.
_FALSE_CODE, _UNKNOWN_CODE, _TRUE_CODE = 0, 1, 2
_MAX_TEXT_CHARACTERS = 10_000
_MAX_NESTING_COUNT = 50
_SHOWN_CHARACTERS = 40

_COMPARISONS: Mapping[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_TOKEN = re.compile(
    r"""(?P<number>-?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?)"""
    r"""|(?P<text>"(?:[^"]|"")*"|'(?:[^']|'')*')"""
    r"""|(?P<column>`[^`]+`)"""
    r"""|(?P<word>[^\W\d]\w*(?:\.\w+)*)"""
    r"""|(?P<sign><=|>=|!=|==|[=<>(),])"""
)
_KEYWORDS = frozenset({"and", "or", "not", "in", "is", "null", "true", "false"})

_Codes = npt.NDArray[np.int8]
_Literal = str | int | float | bool


@dataclass(frozen=True)
class _Test:
    """One column against values; ``is null`` has none."""

    column: str
    sign: str
    values: tuple[_Literal, ...] = ()

    def outcome(self, value: object) -> int:
        """The outcome for one value of the column."""
        missing = _is_missing(value)
        if self.sign == "is null":
            return _TRUE_CODE if missing else _FALSE_CODE
        if missing:
            return _UNKNOWN_CODE
        compare = _COMPARISONS["=" if self.sign == "in" else self.sign]
        pairs = [_comparable(self.column, value, literal) for literal in self.values]
        if _is_missing(pairs[0][0]):
            return _UNKNOWN_CODE
        return _TRUE_CODE if any(compare(left, right) for left, right in pairs) else _FALSE_CODE

    def outcomes(self, column: pa.Array) -> _Codes:
        """The outcomes for a column; equal values are tested once."""
        try:
            places, values = _distinct(column)
        except (pa.ArrowException, ValueError, OverflowError) as error:
            raise _problem(f"column {self.column} cannot be compared: {error}") from None
        codes = np.full(len(values), _UNKNOWN_CODE, np.int8)
        for place in np.unique(places):
            codes[place] = self.outcome(values[place])
        return codes[places]


@dataclass(frozen=True)
class _Not:
    part: _Part


@dataclass(frozen=True)
class _All:
    parts: tuple[_Part, ...]


@dataclass(frozen=True)
class _Any:
    parts: tuple[_Part, ...]


_Part = _Test | _Not | _All | _Any


@dataclass(frozen=True)
class Condition:
    """A parsed condition, and the columns it speaks of."""

    text: str
    columns: tuple[str, ...]
    _root: _Part

    @property
    def reason(self) -> str:
        """Why a battle is left out."""
        return f"the condition is not met: {self.text}"

    def holds(self, value: Callable[[str], object]) -> bool:
        """Whether it is true for one battle; ``value`` gives the value of a column, ``None`` if there is none."""
        return bool(
            _outcome(self._root, lambda test: np.int8(test.outcome(value(test.column)))) == _TRUE_CODE
        )

    def rows(self, columns: Mapping[str, pa.Array], count: int) -> npt.NDArray[np.bool_]:
        """For which of ``count`` battles it is true; a column that is not there is missing in all of them."""
        absent = pa.nulls(count)
        found = _outcome(self._root, lambda test: test.outcomes(columns.get(test.column, absent)))
        return np.asarray(found == _TRUE_CODE)

    def kept(self, batch: pa.RecordBatch, tally: Counter[str]) -> pa.RecordBatch:
        """The battles of a batch for which it is true; the others are counted."""
        rows = self.rows(dict(zip(batch.schema.names, batch.columns, strict=True)), batch.num_rows)
        left_out = batch.num_rows - int(rows.sum())
        if not left_out:
            return batch
        tally[self.reason] += left_out
        return batch.filter(pa.array(rows))

    def renamed(self, names: Mapping[str, str]) -> Condition:
        """The same condition on columns of other names."""
        columns = tuple(dict.fromkeys(names.get(name, name) for name in self.columns))
        return Condition(self.text, columns, _renamed(self._root, names))


def wanted_columns(
    columns: Sequence[str], condition: Condition | None, available: Collection[str]
) -> list[str]:
    """The columns to read: those asked for, and those that the condition needs, as far as they are available."""
    needed = () if condition is None else condition.columns
    # A winner may be named as a model, so that it is read beside both.
    needed = (*REQUIRED, *needed) if "winner" in needed else needed
    return [*columns, *dict.fromkeys(name for name in needed if name in available and name not in columns)]


def _outcome(part: _Part, tested: Callable[[_Test], Any]) -> Any:
    if isinstance(part, _Test):
        return tested(part)
    if isinstance(part, _Not):
        return _TRUE_CODE - _outcome(part.part, tested)
    outcomes = [_outcome(each, tested) for each in part.parts]
    return np.minimum.reduce(outcomes) if isinstance(part, _All) else np.maximum.reduce(outcomes)


def _renamed(part: _Part, names: Mapping[str, str]) -> _Part:
    if isinstance(part, _Test):
        return _Test(names.get(part.column, part.column), part.sign, part.values)
    if isinstance(part, _Not):
        return _Not(_renamed(part.part, names))
    return type(part)(tuple(_renamed(each, names) for each in part.parts))


def _distinct(column: pa.Array) -> tuple[npt.NDArray[np.int64], list[Any]]:
    """The place of every row's value in a list of values."""
    if pa.types.is_timestamp(column.type) and column.type.unit == "ns":
        column = column.cast(pa.timestamp("us", column.type.tz), safe=False)
    try:
        encoded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
    except pa.ArrowNotImplementedError:
        return np.arange(len(column)), column.to_pylist()
    values = [*encoded.dictionary.to_pylist(), None]
    places = encoded.indices.cast(pa.int64()).fill_null(len(values) - 1)
    return places.to_numpy(), values


def _is_missing(value: object) -> bool:
    return value is None or (isinstance(value, float) and value != value)


def _comparable(column: str, value: object, literal: _Literal) -> tuple[Any, Any]:
    """Both sides in one type; raises if the column's value is of another kind than the literal."""
    if isinstance(literal, bool):
        return _flag(column, value), literal
    if isinstance(literal, str):
        return _text_pair(column, value, literal)
    if isinstance(value, int | float | Decimal) and not isinstance(value, bool):
        return value, literal
    if isinstance(value, str):
        for kind in (int, float):
            try:
                return kind(value), literal
            except ValueError:
                continue
    raise _clash(column, value, f"the number {literal}")


def _flag(column: str, value: object) -> bool:
    if isinstance(value, bool):
        return value
    flag = {"true": True, "false": False}.get(value.strip().lower()) if isinstance(value, str) else None
    if flag is None:
        raise _clash(column, value, "true or false")
    return flag


def _text_pair(column: str, value: object, literal: str) -> tuple[Any, Any]:
    if isinstance(value, str):
        return (_outcome_name(value), _outcome_name(literal)) if column == "winner" else (str(value), literal)
    if isinstance(value, date):
        try:
            moment = datetime.fromisoformat(literal)
        except ValueError:
            raise _problem(
                f'column {column} holds times; write {literal!r} as "2026-05-31" or "2026-05-31T12:00"'
            ) from None
        return _in_utc(value), _in_utc(moment)
    raise _clash(column, value, f"the text {_shown(literal)}")


def _in_utc(moment: date) -> datetime:
    """The moment, in UTC if no zone is stated; a date is its first moment."""
    if not isinstance(moment, datetime):
        moment = datetime(moment.year, moment.month, moment.day)  # noqa: DTZ001 - the zone is set below
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


def _outcome_name(word: str) -> str:
    """An outcome as battles spell it; any other text unchanged."""
    try:
        return parse_outcome(word).value
    except BadBattle:
        return word


def _clash(column: str, value: object, literal: str) -> BadOption:
    kinds = {bool: "true or false", str: "text", int: "numbers", float: "numbers", Decimal: "numbers"}
    held = "times" if isinstance(value, date) else kinds.get(type(value), "lists, objects or bytes")
    return _problem(
        f"column {column} holds {held} such as {_shown(value)}; it cannot be compared with {literal}"
    )


def _shown(value: object) -> str:
    text = value.isoformat() if isinstance(value, date) else repr(value)
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}…"


def _problem(text: str) -> BadOption:
    return BadOption(f"{option_name('where')}: {text}")


def parse_condition(text: str) -> Condition:
    """Parse a condition; raises `BadOption` that says what was expected, and where."""
    if not isinstance(text, str):
        raise _problem(f"expected text such as 'language = \"en\"', not {type(text).__name__}")
    if len(text) > _MAX_TEXT_CHARACTERS:
        raise _problem(f"the condition is longer than {_MAX_TEXT_CHARACTERS:,} characters")
    parser = _Parser(_tokens(text))
    root = parser.any_part(0)
    parser.expect_end()
    return Condition(text.strip(), tuple(dict.fromkeys(parser.columns)), root)


@dataclass(frozen=True)
class _Token:
    kind: str
    text: str
    position: int

    def is_word(self, word: str) -> bool:
        return self.kind == "word" and self.text.lower() == word


def _tokens(text: str) -> list[_Token]:
    tokens, position = [], 0
    while position < len(text):
        if text[position].isspace():
            position += 1
            continue
        found = _TOKEN.match(text, position)
        if found is None:
            quoted = text[position] in "\"'`"
            unread = "a quote that is not closed" if quoted else repr(text[position])
            raise _problem(f"cannot read {unread} at character {position + 1}")
        tokens.append(_Token(str(found.lastgroup), found[0], position))
        position = found.end()
    return [*tokens, _Token("end", "the end", len(text))]


class _Parser:
    """Reads tokens from left to right; one method for each level of the grammar."""

    def __init__(self, tokens: Sequence[_Token]) -> None:
        self._tokens = tokens
        self._next = 0
        self.columns: list[str] = []

    def any_part(self, depth: int) -> _Part:
        parts = [self._all_part(depth)]
        while self._takes("or"):
            parts.append(self._all_part(depth))
        return parts[0] if len(parts) == 1 else _Any(tuple(parts))

    def expect_end(self) -> None:
        if self._token.kind != "end":
            raise self._expected("and, or, or the end")

    def _all_part(self, depth: int) -> _Part:
        parts = [self._part(depth)]
        while self._takes("and"):
            parts.append(self._part(depth))
        return parts[0] if len(parts) == 1 else _All(tuple(parts))

    def _part(self, depth: int) -> _Part:
        if depth > _MAX_NESTING_COUNT:
            raise _problem(f"the condition is nested more than {_MAX_NESTING_COUNT} deep")
        if self._takes("not"):
            return _Not(self._part(depth + 1))
        if self._takes("("):
            inner = self.any_part(depth + 1)
            self._expect(")")
            return inner
        token = self._token
        if token.kind not in ("column", "word") or token.text.lower() in _KEYWORDS:
            raise self._expected("the name of a column")
        self._next += 1
        name = token.text.strip("`") if token.kind == "column" else token.text
        self.columns.append(name)
        if self._takes("is"):
            negated = self._takes("not")
            self._expect("null")
            test = _Test(name, "is null")
            return _Not(test) if negated else test
        if self._takes("not"):
            self._expect("in")
            return _Not(self._membership(name))
        if self._takes("in"):
            return self._membership(name)
        sign = "=" if self._token.text == "==" else self._token.text
        if self._token.kind != "sign" or sign not in _COMPARISONS:
            raise self._expected(f"=, !=, <, <=, >, >=, in or is after {name}")
        self._next += 1
        value = self._value()
        if isinstance(value, bool) and sign not in ("=", "!="):
            raise _problem(f"{name} {sign} {str(value).lower()}: true and false have no order; use = or !=")
        return _Test(name, sign, (value,))

    def _membership(self, name: str) -> _Test:
        self._expect("(")
        values = [self._value()]
        while self._takes(","):
            values.append(self._value())
        self._expect(")")
        if len({_literal_kind(value) for value in values}) > 1:
            raise _problem(f"{name} in (…): the values must be all text, all numbers, or all true or false")
        return _Test(name, "in", tuple(values))

    def _value(self) -> _Literal:
        token = self._token
        self._next += 1
        if token.kind == "text":
            quote = token.text[0]
            return token.text[1:-1].replace(quote * 2, quote)
        if token.kind == "number":
            try:
                return int(token.text)
            except ValueError:
                number = float(token.text)
            if number in (float("inf"), float("-inf")):
                raise _problem(f"the number at character {token.position + 1} is too large")
            return number
        if token.is_word("true") or token.is_word("false"):
            return token.is_word("true")
        self._next -= 1
        if token.is_word("null"):
            raise self._expected("a value; write: is null, or: is not null")
        if token.kind == "word":
            raise self._expected(f'a value; put text in quotes: "{token.text}"')
        raise self._expected("a value: text in quotes, a number, true or false")

    @property
    def _token(self) -> _Token:
        return self._tokens[self._next]

    def _takes(self, text: str) -> bool:
        """Whether the next token is this word or sign; if so it is read."""
        token = self._token
        same = token.is_word(text) or (token.kind == "sign" and token.text == text)
        self._next += same
        return same

    def _expect(self, text: str) -> None:
        if not self._takes(text):
            raise self._expected(text)

    def _expected(self, wanted: str) -> BadOption:
        token = self._token
        found = (
            token.text if token.kind == "end" else f"{_shown(token.text)} at character {token.position + 1}"
        )
        return _problem(f"found {found}; expected {wanted}")


def _literal_kind(value: _Literal) -> str:
    return "flag" if isinstance(value, bool) else "text" if isinstance(value, str) else "number"
