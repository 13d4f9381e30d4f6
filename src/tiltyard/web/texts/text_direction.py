"""The direction of a block of text."""

from __future__ import annotations

import unicodedata

_LEFTWARD = frozenset({"R", "AL"})
#: Languages that are mostly written from right to left.
_NAMES = "ar arc ckb dv fa he iw ks ku ps sd syr ug ur yi"
_LANGUAGES = frozenset(_NAMES.split())
#: Characters that are searched for a letter with a direction.
_SEARCHED_CHARACTERS = 500


def is_right_to_left(language: str | None) -> bool:
    """Whether a language, given as a BCP 47 tag, is written from right to left."""
    return language is not None and language.lower().partition("-")[0] in _LANGUAGES


def first_strong_direction(text: str) -> str | None:
    """``rtl`` or ``ltr`` by the first letter that has a direction, if there is one."""
    for character in text[:_SEARCHED_CHARACTERS]:
        kind = unicodedata.bidirectional(character)
        if kind == "L":
            return "ltr"
        if kind in _LEFTWARD:
            return "rtl"
    return None


def has_right_to_left(text: str) -> bool:
    """Whether the text has a right-to-left letter."""
    return any(unicodedata.bidirectional(character) in _LEFTWARD for character in text[:_SEARCHED_CHARACTERS])
