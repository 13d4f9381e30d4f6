"""Sentences of rules and findings in the language of a page.

Rooms below the pages know no language: they make English sentences with names and numbers in them, the same in
documents and in files. Every such sentence has a pattern here, under the name of its rule or finding. A page
reads names and numbers out of the sentence and puts them into what the catalogue makes of the pattern. A
sentence without a pattern stays as it is and is marked as English.

``%(list)s`` is a list of items, ``%(name)s`` and ``%(other)s`` are names, everything else is a number.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

from markupsafe import Markup

from tiltyard.web.pages.localization import DEFAULT, Localization
from tiltyard.web.pages.message_patterns import ANYTHING, ITEMS, SENTENCES
from tiltyard.web.texts import plain_text

__all__ = ["translate_exactly", "translate_sentence"]

_NUMBER = r"-?[\d.,]+%?"
_WORDS = frozenset({"list", "name", "other"})
#: How a long list ends.
_MORE = re.compile(r"(?P<list>.+) and (?P<more>\d+) more", re.DOTALL)


@dataclass(frozen=True, slots=True)
class _Pattern:
    """A sentence with gaps, and what finds them."""

    text: str
    finds: re.Pattern[str]


def translate_sentence(localization: Localization, name: str, text: str, most: int | None = None) -> Markup:
    """A sentence of the rule or finding ``name`` for a page, cut to ``most`` characters."""
    known = text if localization.language == DEFAULT else translate_exactly(localization, name, text)
    shown = text if known is None else known
    if most is not None and len(shown) > most:
        shown = f"{shown[: most - 1]}…"
    if known is None:
        return Markup('<span lang="en" dir="ltr">{}</span>').format(plain_text(shown))
    return plain_text(shown)


def translate_exactly(localization: Localization, name: str, text: str) -> str | None:
    """The sentence in another language; ``None`` if it has no pattern."""
    return _first(
        localization, _patterns(SENTENCES.get(name, ())), text, lambda items: _list(localization, name, items)
    )


def _list(localization: Localization, name: str, items: str) -> str | None:
    """A list in another language, the count of what it leaves out too; ``None`` if an item has no pattern."""
    longer = _MORE.fullmatch(items)
    if longer is None:
        return _items(localization, name, items)
    shown, say = _items(localization, name, longer["list"]), localization.texts.gettext
    return (
        None if shown is None else say("%(list)s and %(more)s more") % {"list": shown, "more": longer["more"]}
    )


def _items(localization: Localization, name: str, items: str) -> str | None:
    patterns = ITEMS.get(name, ANYTHING)
    if patterns == ANYTHING:
        return items
    found = [_first(localization, _patterns(patterns), item) for item in items.split(", ")]
    known = [item for item in found if item is not None]
    return ", ".join(known) if len(known) == len(found) else None


def _first(
    localization: Localization,
    patterns: tuple[_Pattern, ...],
    text: str,
    listed: Callable[[str], str | None] = str,
) -> str | None:
    """What the first pattern that fits makes of a text."""
    for pattern in patterns:
        match = pattern.finds.fullmatch(text)
        if match is None:
            continue
        values = {gap: _value(localization, gap, value, listed) for gap, value in match.groupdict().items()}
        return None if None in values.values() else localization.texts.gettext(pattern.text) % values
    return None


def _value(
    localization: Localization, gap: str, value: str, listed: Callable[[str], str | None]
) -> str | None:
    if gap == "list":
        return listed(value)
    return value if gap in _WORDS else value.translate({44: localization.group, 46: localization.point})


@cache
def _patterns(texts: tuple[str, ...]) -> tuple[_Pattern, ...]:
    return tuple(_Pattern(text, _compiled(text)) for text in texts)


def _compiled(text: str) -> re.Pattern[str]:
    """What matches every sentence that a pattern can make.

    The end is looked for first: it would otherwise be sought once for every place where a gap may end.
    """
    parts = re.split(r"%\((\w+)\)s", text.replace("%%", "%"))
    gaps = (f"(?P<{gap}>{'.+' if gap in _WORDS else _NUMBER})" for gap in parts[1::2])
    literal = [re.escape(part) for part in parts[::2]]
    pieces = (piece for pair in zip(literal, [*gaps, ""], strict=True) for piece in pair)
    return re.compile(rf"(?=.*{literal[-1]}\Z)" + "".join(pieces), re.DOTALL)
