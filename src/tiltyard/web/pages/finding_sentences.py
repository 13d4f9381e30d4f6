"""Sentences of rules and findings in the language of a page.

A rule or finding is a name and values. English pages show the sentence that was published in the document. Other
languages fill in the translated template. A sentence without a template or with missing values stays in English and is
marked as English. Advice is always that for readers of an arena.
"""

from __future__ import annotations

from typing import Literal

from markupsafe import Markup

from tiltyard.core.board.cross_check import arena_advice
from tiltyard.core.policy.validity.rules import RULES, Rule
from tiltyard.core.ratings import Finding
from tiltyard.core.ratings.finding_templates import FINDINGS
from tiltyard.core.ratings.sentences import Language, sentence, template_of
from tiltyard.web.pages.localization import DEFAULT, Localization
from tiltyard.web.texts import plain_text

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
