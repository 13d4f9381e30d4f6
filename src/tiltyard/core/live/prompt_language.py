"""The language of a prompt, by its letters and most common words; ``unknown`` where they do not tell."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from types import MappingProxyType

from tiltyard.core.live.common_words import COMMON_WORDS, TELLING_LETTERS

__all__ = ["UNKNOWN_LANGUAGE", "detect_language"]

UNKNOWN_LANGUAGE = "unknown"

#: Characters of a prompt that are looked at.
_MAX_CHARACTERS = 4_000
_WORD = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)*")
#: Signs of code, and the share of a prompt that they may have.
_CODE_SIGNS = frozenset("{}()[];=<>*/\\|&#$_^+")
_CODE_SHARE = 0.08
#: The first and the last letter of each script, and its language if it has only one here.
_SCRIPTS = (
    ("latin", 0x0041, 0x024F),
    ("latin", 0x1E00, 0x1EFF),
    ("el", 0x0370, 0x03FF),
    ("cyrillic", 0x0400, 0x052F),
    ("hy", 0x0530, 0x058F),
    ("he", 0x0590, 0x05FF),
    ("arabic", 0x0600, 0x077F),
    ("hi", 0x0900, 0x097F),
    ("bn", 0x0980, 0x09FF),
    ("pa", 0x0A00, 0x0A7F),
    ("gu", 0x0A80, 0x0AFF),
    ("ta", 0x0B80, 0x0BFF),
    ("te", 0x0C00, 0x0C7F),
    ("kn", 0x0C80, 0x0CFF),
    ("ml", 0x0D00, 0x0D7F),
    ("si", 0x0D80, 0x0DFF),
    ("th", 0x0E00, 0x0E7F),
    ("lo", 0x0E80, 0x0EFF),
    ("my", 0x1000, 0x109F),
    ("ka", 0x10A0, 0x10FF),
    ("ko", 0x1100, 0x11FF),
    ("am", 0x1200, 0x137F),
    ("km", 0x1780, 0x17FF),
    ("ja", 0x3040, 0x30FF),
    ("han", 0x3400, 0x9FFF),
    ("ko", 0xAC00, 0xD7AF),
)
#: A character of these says as much as a few letters of others.
_DENSE_WEIGHT = 3
_DENSE = frozenset({"ja", "han", "ko"})
_CYRILLIC = frozenset({"ru", "uk", "bg", "sr"})
#: Languages that share a script.
_WRITTEN_IN = MappingProxyType({"latin": frozenset(COMMON_WORDS) - _CYRILLIC, "cyrillic": _CYRILLIC})
_PERSIAN, _URDU = frozenset("پچژگک"), frozenset("ٹڈڑےںھ")
#: How much is said by a common word of at most two letters, by a longer one, and by a letter of one language only.
_SHORT_WORD_WEIGHT, _WORD_WEIGHT, _LETTER_WEIGHT = 1, 2, 4
_SHORT_WORD_CHARACTERS = 2
#: What must be said: so much, and so large a share of all words; or a larger share, and twice as much as of any other.
_SURE_WEIGHT, _SURE_SHARE = 4, 0.1
_CLEAR_WEIGHT, _CLEAR_SHARE = 2, 0.15


def detect_language(text: str) -> str:
    """The language as an ISO 639-1 code, or ``unknown``. Code and addresses do not count."""
    words = _words(text[:_MAX_CHARACTERS])
    scripts = _count_scripts(words)
    total = sum(scripts.values())
    if not total:
        return UNKNOWN_LANGUAGE
    script, weight = max(scripts.items(), key=lambda one: one[1])
    if script in ("han", "ja") and scripts["ja"]:
        return "ja"
    if 2 * weight <= total:
        return UNKNOWN_LANGUAGE
    if script in _WRITTEN_IN:
        return _by_words(words, _WRITTEN_IN[script])
    if script == "arabic":
        letters = frozenset("".join(words))
        return "ur" if letters & _URDU else "fa" if letters & _PERSIAN else "ar"
    return "zh" if script == "han" else script


def _words(text: str) -> list[str]:
    """The words in small letters, without fenced code and addresses."""
    prose = " ".join(text.split("```")[::2])
    parts = [part for part in prose.split() if "://" not in part and "@" not in part]
    signs = sum(character in _CODE_SIGNS for part in parts for character in part)
    if signs > _CODE_SHARE * sum(map(len, parts)):
        return []
    return [word.replace("’", "'") for word in _WORD.findall(" ".join(parts).lower())]


def _count_scripts(words: Iterable[str]) -> Counter[str]:
    found: Counter[str] = Counter()
    for letter, count in Counter("".join(words)).items():
        script = next((name for name, first, last in _SCRIPTS if first <= ord(letter) <= last), None)
        if script is not None:
            found[script] += count * (_DENSE_WEIGHT if script in _DENSE else 1)
    return found


def _by_words(words: list[str], languages: frozenset[str]) -> str:
    """The language with most common words, if they are enough and no other has as many."""
    hits: Counter[str] = Counter()
    for word in words:
        weight = _WORD_WEIGHT if len(word) > _SHORT_WORD_CHARACTERS else _SHORT_WORD_WEIGHT
        hits.update({language: weight for language in languages if word in COMMON_WORDS[language]})
        hits.update(
            {TELLING_LETTERS[letter]: _LETTER_WEIGHT for letter in set(word) if letter in TELLING_LETTERS}
        )
    ranked = sorted(
        ((count, language) for language, count in hits.items() if language in languages), reverse=True
    )
    count, language = ranked[0] if ranked else (0, UNKNOWN_LANGUAGE)
    second = ranked[1][0] if len(ranked) > 1 else 0
    share = count / (_WORD_WEIGHT * len(words))
    sure = count > second and count >= _SURE_WEIGHT and share >= _SURE_SHARE
    clear = count >= 2 * second and count >= _CLEAR_WEIGHT and share >= _CLEAR_SHARE and len(words) > 1
    return language if sure or clear else UNKNOWN_LANGUAGE
