"""Fields of a dataclass that say what they are, so that checks, forms, options and reference pages follow from them.

The type of a field says what it holds: a `Literal` its choices, ``int | None`` that it may have no value. `defined`
adds the default, the bounds and the words.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import cache
from types import MappingProxyType, NoneType, UnionType
from typing import Any, Literal, TypedDict, Union, Unpack, get_args, get_origin, get_type_hints

from tiltyard.errors import BadOption

_MEANING = "meaning"
#: At most as many digits as fit in all our columns.
_WHOLE_NUMBER = re.compile(r"-?[0-9]{1,15}")
_YES_AND_NO = {"1": True, "yes": True, "true": True, "0": False, "no": False, "false": False}
#: Bounds beyond this are limits of storage, which nobody needs to be told.
_NAMED_BOUND_LIMIT = 1e15


class FieldWords(TypedDict, total=False):
    """What a field may say of itself besides its type, its default and its meaning."""

    #: What people call it; by default its name.
    label: str
    #: The least and the greatest number.
    bounds: tuple[float, float]
    #: What is counted, or measured.
    unit: str
    #: Its group: that of the field before it, unless it begins one.
    group: str
    #: Whether it is decided once, and cannot change like the others.
    fixed: bool
    #: Whether it is one of the few that everybody chooses.
    basic: bool
    #: A page of the documentation that says more.
    page: str
    #: What may be given, where type and bounds do not say it.
    expected: str


@dataclass(frozen=True, slots=True)
class FieldDefinition:
    """Everything that is known of one field."""

    name: str
    default: Any
    #: What it holds: ``int``, ``float``, ``bool``, ``str`` or ``tuple``.
    kind: type
    choices: tuple[str, ...]
    optional: bool
    #: What it means, in a part of a sentence that follows its name.
    meaning: str
    label: str
    bounds: tuple[float, float]
    unit: str
    group: str
    fixed: bool
    basic: bool
    page: str
    stated: str

    @property
    def expected(self) -> str:
        """What may be given, in words."""
        if self.stated:
            return self.stated
        if self.choices:
            return " or ".join(filter(None, (", ".join(self.choices[:-1]), self.choices[-1])))
        if self.kind is bool:
            return "yes or no"
        if self.kind is int:
            what = f"a number of {self.unit}" if self.unit else "a whole number"
        else:
            what = self.unit or ("a number" if self.kind is float else "text")
        return ", ".join(filter(None, (what, self._bounds())))

    def _bounds(self) -> str:
        if math.isinf(self.bounds[0]):
            return ""
        least, most = (f"{one:g}" if one % 1 else f"{one:,.0f}" for one in self.bounds)
        return f"{least} or more" if self.bounds[1] >= _NAMED_BOUND_LIMIT else f"{least} to {most}"

    def check(self, value: object) -> None:
        """Raise `BadOption` unless the field may have this value."""
        if value is None:
            allowed = self.optional
        elif self.choices and self.kind is str:
            allowed = value in self.choices
        elif self.kind is int or self.kind is float:
            allowed = _is_number(value, self.kind) and self.bounds[0] <= value <= self.bounds[1]  # type: ignore[operator]
        else:
            allowed = isinstance(value, self.kind) and not (
                self.choices and isinstance(value, tuple) and set(value) - set(self.choices)
            )
        if not allowed:
            raise self._refused(repr(self.text(value) if isinstance(value, tuple) else value))

    def read(self, text: str) -> Any:
        """The value that a text means, in a form or an environment variable; raise `BadOption` if it means none."""
        if not text and self.optional:
            return None
        value: Any = text
        if self.kind is int:
            value = whole_number(text)
        elif self.kind is float:
            value = finite_number(text)
        elif self.kind is bool:
            value = _YES_AND_NO.get(text.lower())
        elif self.kind is tuple:
            value = tuple(part.strip() for part in text.split(",") if part.strip())
        if value is None:
            raise self._refused(repr(text[:100]))
        return value

    def text(self, value: Any) -> str:
        """A value as `read` takes it."""
        if value is None:
            return ""
        if isinstance(value, bool):
            return "yes" if value else "no"
        if isinstance(value, tuple):
            return ", ".join(map(self.text, value))
        return f"{value:.12g}" if isinstance(value, float) else str(value)

    def _refused(self, shown: str) -> BadOption:
        none = ", or nothing" if self.optional else ""
        return BadOption(f"{self.name} is {shown[:200]}; expected {self.expected}{none}", option=self.name)


def defined(default: Any, meaning: str, **words: Unpack[FieldWords]) -> Any:
    """A field of a dataclass with its default, its meaning and what else it says of itself."""
    return field(default=default, metadata={_MEANING: meaning, **words})


@cache
def definitions(owner: Any) -> Mapping[str, FieldDefinition]:
    """The definitions of a dataclass by name, in the order of its fields."""
    types = get_type_hints(owner)
    found: dict[str, FieldDefinition] = {}
    group = ""
    for one in fields(owner):
        kind, choices, optional = _read_type(types[one.name])
        group = one.metadata.get("group", group)
        found[one.name] = FieldDefinition(
            name=one.name,
            default=one.default,
            kind=kind,
            choices=choices,
            optional=optional,
            meaning=one.metadata[_MEANING],
            label=one.metadata.get("label", one.name.replace("_", " ").capitalize()),
            bounds=one.metadata.get("bounds", (-math.inf, math.inf)),
            unit=one.metadata.get("unit", ""),
            group=group,
            fixed=one.metadata.get("fixed", False),
            basic=one.metadata.get("basic", False),
            page=one.metadata.get("page", ""),
            stated=one.metadata.get("expected", ""),
        )
    return MappingProxyType(found)


def check_fields(instance: Any) -> None:
    """Raise `BadOption` for the first field whose value its definition does not allow."""
    for name, definition in definitions(instance.__class__).items():
        definition.check(getattr(instance, name))


def whole_number(text: str) -> int | None:
    """Parse an integer; ``None`` if the text is not one, or is too long."""
    return int(text) if _WHOLE_NUMBER.fullmatch(text) else None


def finite_number(text: str) -> float | None:
    """Parse a number; ``None`` if the text is not one, or not finite."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _read_type(annotation: Any) -> tuple[type, tuple[str, ...], bool]:
    """What a type says: what is held, which choices there are, and whether there may be no value."""
    origin, parts = get_origin(annotation), get_args(annotation)
    if origin in (Union, UnionType):
        (inner,) = (part for part in parts if part is not NoneType)
        kind, choices, _ = _read_type(inner)
        return kind, choices, True
    if origin is Literal:
        return str, parts, False
    if origin is tuple:
        return tuple, _read_type(parts[0])[1], False
    assert isinstance(annotation, type), annotation
    return annotation, (), False


def _is_number(value: object, kind: type) -> bool:
    if isinstance(value, bool) or not isinstance(value, int if kind is int else (int, float)):
        return False
    return isinstance(value, int) or math.isfinite(value)
