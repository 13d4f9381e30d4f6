"""Makes a sentence from a name and values, in any language.

A `Template` is a sentence with placeholders of ``str.format``: ``{share:.0%}``. A list is formatted item by item, and
the value ``more`` counts the items that were left out. A value ``case`` selects one of several sentences of the same
name. Other languages translate the English texts; names are not translated, and numbers get the language's decimal
and group separators.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Any

#: Numbers, texts and lists by name. An item of a list is a text, or values of its own.
Values = Mapping[str, Any]


def _(text: str) -> str:
    """Mark a text for the catalogue."""
    return text


_MORE = _("{list} and {more} more")
_BOTH = _("{first} and {second}")


@dataclass(frozen=True, slots=True)
class Language:
    """How sentences and numbers are written; the default is English."""

    say: Callable[[str], str] = str
    point: str = "."
    group: str = ","


ENGLISH = Language()


@dataclass(frozen=True, slots=True)
class Template:
    """A sentence with placeholders, its advice, and the texts for items of its list."""

    text: str
    advice: str = ""
    #: Items by the value ``items_by`` of each; the empty name is the usual one.
    items: Mapping[str, str] = field(default_factory=dict)
    items_by: str = "case"
    #: Whether the items are joined by "and" rather than by commas.
    both: bool = False


@dataclass(frozen=True, slots=True)
class _Number:
    """A number in a placeholder. ``.0 %`` is a percentage with a space, ``.0p`` one without its sign."""

    value: float
    language: Language

    def __format__(self, form: str) -> str:
        return self._plain(form).translate({44: self.language.group, 46: self.language.point})

    def _plain(self, form: str) -> str:
        if form.endswith(" %"):
            return f"{100.0 * self.value:{form[:-2]}f} %"
        if form.endswith("p"):
            return f"{100.0 * self.value:{form[:-1]}f}"
        return format(self.value, form)


def first_of(name: str, items: Sequence[object], most: int = 5) -> dict[str, object]:
    """Values of a list in a sentence: the first few items by name, and how many ``more`` there are."""
    return {name: tuple(items[:most]), "more": max(len(items) - most, 0)}


def plural(name: str) -> str:
    """The plural of an English noun, such as the name of a column: ``categories``."""
    if name.endswith("y") and name[-2:-1] not in "aeiou":
        return f"{name[:-1]}ies"
    return name if name.endswith("s") else f"{name}s"


def frozen_values(values: Values) -> dict[str, object]:
    """Values whose lists are tuples, however they were read."""
    return {
        name: tuple(value) if isinstance(value, list | tuple) else value for name, value in values.items()
    }


def template_of(templates: Mapping[str, Template], name: str, values: Values) -> Template | None:
    """The template of a name, or of its case; ``None`` if there is none."""
    case = values.get("case")
    return templates.get(name if case is None else f"{name}/{case}")


def sentence(text: str, template: Template, values: Values, language: Language = ENGLISH) -> str:
    """A text of a template with its gaps filled; `LookupError` or `ValueError` if a value is missing or wrong."""
    return language.say(text).format_map(
        {name: _said(template, value, values, language) for name, value in values.items()}
    )


def _said(template: Template, value: Any, values: Values, language: Language) -> Any:
    if isinstance(value, tuple):
        more = values.get("more", 0)
        said = [_item(template, item, language) for item in value]
        if template.both:
            both = language.say(_BOTH)
            return reduce(lambda first, second: both.format(first=first, second=second), said)
        shown = ", ".join(said)
        return language.say(_MORE).format(list=shown, more=_Number(more, language)) if more else shown
    return value if value is None or isinstance(value, str) else _Number(value, language)


def _item(template: Template, item: Any, language: Language) -> str:
    if isinstance(item, str):
        return item
    text = template.items[item.get(template.items_by, "")]
    gaps = {
        name: value if isinstance(value, str) else _Number(value, language) for name, value in item.items()
    }
    return language.say(text).format_map(gaps)
