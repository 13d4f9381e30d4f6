"""Localization of the pages: a Babel catalogue for each language, and its formats of numbers and times.

Catalogues are ``locale/LANGUAGE.po``; add a file to add a language. The keys are the English sentences of the
templates, so English needs none. Pages of operators are in English only.
"""

from __future__ import annotations

import gettext
import io
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable
from typing import Literal

from babel import Locale, UnknownLocaleError, negotiate_locale
from babel.dates import format_datetime
from babel.messages.mofile import write_mo
from babel.messages.pofile import read_po
from markupsafe import Markup

from tiltyard.core.board.cross_check import arena_advice
from tiltyard.core.policy.validity.rules import RULES, Rule
from tiltyard.core.ratings import Finding
from tiltyard.core.ratings.finding_templates import FINDINGS
from tiltyard.core.ratings.sentences import Language, sentence, template_of
from tiltyard.web.texts import plain_text

DEFAULT = "en"
#: Shown instead of a missing number.
NO_VALUE = "–"


@dataclass(frozen=True, slots=True, eq=False)
class Localization:
    """One language: its texts, and its formats of numbers and times."""

    language: str
    texts: gettext.NullTranslations
    locale: Locale
    point: str
    group: str
    #: Keeps a sign beside its number where text runs from right to left.
    mark: str = ""

    @property
    def direction(self) -> str:
        """``ltr`` or ``rtl``."""
        return str(self.locale.text_direction)

    def number(self, value: float | None, digits: int = 0, *, sign: bool = False) -> str:
        """Format a number with ``digits`` decimal digits; a dash for ``None``."""
        if value is None:
            return NO_VALUE
        plain = format(value, f"{'+' if sign else ''},.{digits}f")
        if not float(plain.replace(",", "")):
            plain = plain.lstrip("-+")
        return plain.translate({43: f"{self.mark}+", 44: self.group, 45: f"{self.mark}−", 46: self.point})

    def percent(self, value: float | None, digits: int = 0) -> str:
        """Format a share as a percentage."""
        if value is None:
            return NO_VALUE
        return f"{self.mark}{self.number(100.0 * value, digits)}\u202f%{self.mark}"

    def moment(self, at: datetime | str | None, form: str = "medium") -> str:
        """Format a time, in UTC."""
        if at is None:
            return NO_VALUE
        moment = datetime.fromisoformat(at) if isinstance(at, str) else at
        return f"{format_datetime(moment.astimezone(UTC), form, locale=self.locale)} UTC"

    def language_name(self, tag: str) -> str:
        """The name of a language in this one; a tag that is none is shown as it is."""
        try:
            return Locale.parse(tag, sep="-").get_display_name(self.locale) or tag
        except (ValueError, UnknownLocaleError):
            return tag

    def chart_locale(self) -> dict[str, object] | None:
        """The D3 locale for charts; ``None`` for English, which is the default."""
        if self.locale.language == DEFAULT:
            return None
        days, months = self.locale.days["format"], self.locale.months["format"]
        number = {"decimal": self.point, "thousands": self.group, "grouping": [3], "currency": ["", ""]}
        time: dict[str, object] = {
            "dateTime": "%x %X",
            "date": "%Y-%m-%d",
            "time": "%H:%M:%S",
            "periods": ["AM", "PM"],
        }
        for width, day, month in (("wide", "days", "months"), ("abbreviated", "shortDays", "shortMonths")):
            time[day] = [days[width][k] for k in (6, *range(6))]
            time[month] = [months[width][k] for k in range(1, 13)]
        return {"number": number, "time": time}


@cache
def languages() -> tuple[str, ...]:
    """English, and the languages that have a catalogue; listed once, since every page asks."""
    folder = _folder()
    names = [one.name for one in folder.iterdir()] if folder.is_dir() else []
    return tuple(sorted({DEFAULT, *(name.removesuffix(".po") for name in names if name.endswith(".po"))}))


def _folder() -> Traversable:
    return resources.files("tiltyard.web") / "locale"


def localization_for(accepted: str | None) -> Localization:
    """The localization for an ``Accept-Language`` header; English if no language matches."""
    wanted = [part.partition(";")[0].strip() for part in (accepted or "").split(",")[:20]]
    try:
        found = negotiate_locale([one for one in wanted if one and len(one) < 20], languages(), sep="-")
    except ValueError:
        found = None
    return _read(found or DEFAULT)


@cache
def _read(language: str) -> Localization:
    locale = Locale.parse(language, sep="-")
    symbols = locale.number_symbols.get("latn", locale.number_symbols)
    texts = gettext.NullTranslations() if language == DEFAULT else _read_catalogue(language)
    mark = "\u200e" if locale.text_direction == "rtl" else ""
    return Localization(language, texts, locale, str(symbols["decimal"]), str(symbols["group"]), mark)


def _read_catalogue(language: str) -> gettext.GNUTranslations:
    source = io.BytesIO((_folder() / f"{language}.po").read_bytes())
    compiled = io.BytesIO()
    write_mo(compiled, read_po(source, locale=language))
    compiled.seek(0)
    return gettext.GNUTranslations(compiled)


#: Findings have ``advice``, rules have ``detail``.
Part = Literal["text", "advice", "detail"]


def translate_sentence(
    localization: Localization, one: Finding | Rule, part: Part = "text", most: int | None = None
) -> Markup:
    """A sentence of a rule or finding for a page, truncated to ``most`` characters."""
    own = arena_advice(one) if part == "advice" and isinstance(one, Finding) else None
    written: str = getattr(one, part) if own is None else own
    known = written if localization.language == DEFAULT else translate_exactly(localization, one, part)
    shown = written if known is None else known
    if most is not None and len(shown) > most:
        shown = f"{shown[: most - 1]}…"
    if known is None:
        return Markup('<span lang="en" dir="ltr">{}</span>').format(plain_text(shown))
    return plain_text(shown)


def translate_exactly(localization: Localization, one: Finding | Rule, part: Part = "text") -> str | None:
    """The sentence in another language; ``None`` if it has no template, or not all values."""
    values = one.detail_values if part == "detail" and isinstance(one, Rule) else one.values
    key = f"{one.name}.detail" if part == "detail" else one.name
    template = template_of(RULES if isinstance(one, Rule) else FINDINGS, key, values)
    if template is None:
        return None
    text = template.advice if part == "advice" else template.text
    if part == "advice" and isinstance(one, Finding):
        text = arena_advice(one) or text
    language = Language(localization.texts.gettext, localization.point, localization.group)
    try:
        return sentence(text, template, values, language)
    except (LookupError, TypeError, ValueError):
        return None
