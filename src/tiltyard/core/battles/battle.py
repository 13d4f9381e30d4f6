"""The record: one settled comparison of two models on one prompt."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any

from tiltyard.core.battles.outcome import (
    TIE_BOTH_BAD,
    Kind,
    Label,
    Outcome,
    kind_of,
    parse_label,
    parse_outcome,
)
from tiltyard.errors import BadBattle
from tiltyard.foundation.option_names import quoted

#: How far the preference of a tie may be from one half.
TIE_PREF_TOLERANCE = 0.25

#: The largest weight. Weights are squared, and larger ones would lose precision.
MAX_WEIGHT = 1e12

#: The field of an arena-hard judgment that says what it weighs in win rates; ratings do not use it.
JUDGMENT_WEIGHT = "judgment_weight"

_NOTHING: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class Battle:
    """One battle. ``extra`` keeps unknown fields, so that they are written back."""

    model_a: str
    model_b: str
    winner: Outcome
    label: Label | None = None
    #: For a judge's battle: whether it called both responses bad in both orders. The battle is rated anyway.
    both_bad: bool | None = None
    source: str | None = None
    question_id: str | None = None
    judge_model: str | None = None
    dimension: str | None = None
    category: str | None = None
    language: str | None = None
    pref: float | None = None
    voter: str | None = None
    time: datetime | None = None
    position: int | None = None
    weight: float | None = None
    extra: Mapping[str, Any] = field(default_factory=lambda: _NOTHING)
    #: How the winner is written, if not in our spelling: ``tie (bothbad)`` where it was read so.
    spelling: str | None = field(default=None, compare=False)

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuilt, (tuple(getattr(self, name) for name in _FIELDS), dict(self.extra), self.spelling)

    @property
    def kind(self) -> Kind:
        return kind_of(self.winner, self.label, both_bad=bool(self.both_bad))

    @classmethod
    def from_dict(cls, row: Mapping[str, object]) -> Battle:
        """Parse one row: optional fields may be missing, unknown ones are kept, invalid ones raise."""
        text = _winner_text(row)
        winner = parse_outcome(text)
        label = parse_label(row.get("label"))
        kind_of(winner, label)
        pref = _number(row, "pref", low=0.0, high=1.0)
        if pref is not None and pref_contradicts(winner, label, pref):
            raise BadBattle(f"pref {pref} (the probability that A is better) contradicts winner {winner}")
        return cls(
            model_a=_name(row, "model_a"),
            model_b=_name(row, "model_b"),
            winner=winner,
            label=label,
            both_bad=_flag(row.get("both_bad")),
            pref=pref,
            time=_time(row.get("time")),
            position=_position(row.get("position")),
            weight=_number(row, "weight", low=0.0, high=MAX_WEIGHT),
            extra=MappingProxyType({k: v for k, v in row.items() if k not in _READ}),
            spelling=TIE_BOTH_BAD if text == TIE_BOTH_BAD else None,
            **{name: _text(row, name) for name in _TEXT_FIELDS},
        )

    @property
    def spelled_winner(self) -> str:
        """The winner as it is written."""
        return (self.winner is Outcome.BOTH_BAD and self.spelling) or self.winner.value

    def value(self, name: str) -> object:
        """A field by its name; ``None`` if it is not set."""
        return getattr(self, name) if name in _FIELDS else self.extra.get(name)

    def to_dict(self) -> dict[str, object]:
        """The row as written: required keys always, others if set, then the unknown ones."""
        row: dict[str, object] = {}
        for name in _FIELDS:
            value = getattr(self, name)
            if value is not None or name in ALWAYS_WRITTEN:
                row[name] = _written(value)
        row["winner"] = self.spelled_winner
        return row | dict(self.extra)


_FIELDS = tuple(f.name for f in dataclasses.fields(Battle) if f.name not in ("extra", "spelling"))
_TEXT_FIELDS = ("source", "question_id", "judge_model", "dimension", "category", "language", "voter")
ALWAYS_WRITTEN = frozenset({"source", "question_id", "judge_model"})
_READ = frozenset(_FIELDS) | {"outcome"}


def _rebuilt(values: tuple[Any, ...], extra: Mapping[str, object], spelling: str | None) -> Battle:
    return Battle(**dict(zip(_FIELDS, values, strict=True)), extra=MappingProxyType(extra), spelling=spelling)


def pref_contradicts(winner: Outcome, label: Label | None, pref: float) -> bool:
    """Whether a stated preference contradicts the recorded winner."""
    if winner is Outcome.MODEL_A:
        return pref < 0.5
    if winner is Outcome.MODEL_B:
        return pref > 0.5
    if winner is Outcome.TIE and label is not Label.INCONSISTENT:
        return abs(pref - 0.5) > TIE_PREF_TOLERANCE
    return False


def _written(value: object) -> object:
    match value:
        case datetime():
            return value.isoformat()
        case Outcome() | Label():
            return value.value
        case _:
            return value


def _winner_text(row: Mapping[str, object]) -> object:
    winner, outcome = row.get("winner"), row.get("outcome")
    if winner is not None and outcome is not None and parse_outcome(winner) is not parse_outcome(outcome):
        raise BadBattle(f"winner {quoted(winner)} and outcome {quoted(outcome)} disagree")
    return outcome if winner is None else winner


def _name(row: Mapping[str, object], key: str) -> str:
    value = row.get(key)
    name = str(value) if isinstance(value, str | int) and not isinstance(value, bool) else ""
    if not name.strip():
        raise BadBattle(f"{key} is {quoted(value)}; expected the name of a model")
    return name


def _text(row: Mapping[str, object], key: str) -> str | None:
    value = row.get(key)
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    raise BadBattle(f"{key} is {quoted(value)}; expected text")


def _number(row: Mapping[str, object], key: str, *, low: float, high: float) -> float | None:
    value = row.get(key)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
        raise BadBattle(f"{key} is {quoted(value)}; expected a number from {low:g} to {high:g}")
    return float(value)


def _flag(value: object) -> bool | None:
    """A boolean, also as text from CSV; ``None`` if absent."""
    if value is None or isinstance(value, bool):
        return value
    spelled = str(value).strip().lower() if isinstance(value, str | int) else None
    if spelled in _FLAGS:
        return _FLAGS[spelled]
    raise BadBattle(f"both_bad is {quoted(value)}; expected true or false")


_FLAGS: Mapping[str | None, bool | None] = {
    "true": True,
    "false": False,
    "1": True,
    "0": False,
    "": None,
}


def _position(value: object) -> int | None:
    if value is None or (isinstance(value, int) and not isinstance(value, bool) and value >= 0):
        return value
    raise BadBattle(f"position is {quoted(value)}; expected the battle's place in its log, 0 or more")


def _time(value: object) -> datetime | None:
    """A UTC time, from ISO 8601 text, seconds since 1970 or a datetime."""
    moment: datetime | None = None
    try:
        match value:
            case None:
                return None
            case datetime():
                moment = value
            case str():
                moment = datetime.fromisoformat(value)
            case int() | float() if not isinstance(value, bool):
                moment = datetime.fromtimestamp(value, tz=UTC)
        if moment is not None:
            return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except (ValueError, OverflowError, OSError):
        pass
    raise BadBattle(f"time is {quoted(value)}; expected ISO 8601 or seconds since 1970")
