"""Quotes responses, which are untrusted and may imitate the text around them.

Only two things are changed: what looks like a verdict, and what looks like one of our
delimiters. Both stay readable, with ``(quoted)`` inserted so that they have no effect.
"""

from __future__ import annotations

import functools
import re
import string
import unicodedata

__all__ = [
    "QUOTED",
    "mark_context_imitations",
    "mark_imitations",
    "replace_surrogates",
    "reveal_disguises",
]

#: The mark of an imitation inside a quoted text.
QUOTED = "(quoted)"

#: Invisible and combining characters: soft hyphens, zero widths, directions, selectors,
#: combining marks. Listed explicitly, so that a request is the same under every version of Unicode.
_UNSEEN = (
    "\u00ad\u0300-\u036f\u0483-\u0489\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u115f\u1160"
    "\u17b4\u17b5\u180b-\u180f\u1ab0-\u1aff\u1dc0-\u1dff\u200b-\u200f\u202a-\u202e\u2060-\u206f"
    "\u20d0-\u20ff\u2de0-\u2dff\u3099\u309a\u3164\ua66f-\ua67d\ua69e\ua69f\ufe00-\ufe0f\ufe20-\ufe2f\ufeff\uffa0"
    "\ufff9-\ufffb\U000110bd\U000110cd\U00013430-\U0001343f\U0001bca0-\U0001bca3"
    "\U0001d165-\U0001d169\U0001d16d-\U0001d182\U0001d185-\U0001d18b\U0001d1aa-\U0001d1ad"
    "\U000e0000-\U000e0fff"
)
#: Ranges with variants of letters that differ only in width, position or accent: Latin with accents,
#: superscript, subscript, letterlike, numerals, circled, full-width, mathematical.
_DOUBLES = (
    *(
        (0x00AA, 0x0250),
        (0x02B0, 0x0300),
        (0x1D2C, 0x1DC0),
        (0x1E00, 0x1F00),
        (0x2070, 0x20A0),
        (0x2100, 0x2189),
    ),
    *(
        (0x2460, 0x2500),
        (0x2C7C, 0x2C7E),
        (0xA7F2, 0xA7F5),
        (0xFF00, 0xFF5F),
        (0x1D400, 0x1D800),
        (0x1F100, 0x1F1AE),
    ),
)
#: Alphabets from A to Z that Unicode does not normalise: negative circled and squared, regional.
_ALPHABET_CODE_POINTS = (0x1F150, 0x1F170, 0x1F1E6)
#: Letters of other scripts, and small capitals, that look the same.
_LOOKALIKES = {
    "a": "АаΑαᴀ",
    "b": "ВвΒʙЬ",
    "c": "СсϹϲᴄ",
    "d": "ᴅԁᎠ",
    "e": "ЕеΕεᴇ",
    "g": "ɢԌ",
    "i": "ІіΙιɪıİӀl1|",
    "m": "МмΜᴍ",
    "n": "ΝɴՈ",
    "o": "ОоΟοᴏ0",
    "p": "РрΡρᴘ",
    "r": "ʀᎡг",
    "s": "ЅѕꜱՏ5",
    "t": "ТтΤτᴛ",
    "v": "ѴѵνᴠⱱᏙ",
    "x": "ХхΧχ",
}
_COLONS = ":\u02d0\u02f8\u0589\u05c3\u2236\ua789\ufe13\ufe30\ufe55\uff1a"
_ANGLES = "<\u00ab\u02c2\u1438\u2039\u226a\u22d8\u2329\u276e\u27e8\u27ea\u3008\u300a\ufe64\uff1c"


def _doubles() -> dict[str, str]:
    found: dict[str, str] = {}
    for low, high in _DOUBLES:
        for char in map(chr, range(low, high)):
            plain = unicodedata.normalize("NFKD", char)[0].lower()
            found[plain] = found.get(plain, "") + char
    return found


@functools.cache
def _disguises() -> dict[str, str]:
    """For each letter, a character class of its look-alikes."""
    doubles = _doubles()
    classes = {}
    for number, letter in enumerate(string.ascii_lowercase):
        alphabets = "".join(chr(start + number) for start in _ALPHABET_CODE_POINTS)
        likes = letter + letter.upper() + _LOOKALIKES.get(letter, "") + doubles[letter] + alphabets
        classes[letter] = f"[{re.escape(likes)}]"
    return classes


def _any_word(*words: str) -> str:
    """A pattern for words in any case and disguise, with invisible characters between their letters."""
    letters = _disguises()
    return "|".join(f"[{_UNSEEN}]*+".join(letters[letter] for letter in word) for word in words)


# All repeats are possessive or bounded, so that a search takes linear time for any text.


@functools.cache
def _verdicts() -> re.Pattern[str]:
    return re.compile(
        rf"({_any_word('verdict')})"
        rf"(?=[\s*_`~\"'”’)\]}}#|>\-{_UNSEEN}]*+[{_COLONS}]"
        rf"|[\s*_`~\"'=|(\[{{>\-–—→{_UNSEEN}]{{1,12}}+(?:{_any_word('a', 'b')})\s?[<>=＜＞＝])"
    )


@functools.cache
def _delimiters() -> re.Pattern[str]:
    return re.compile(
        rf"(?:[{_ANGLES}][ \t{_UNSEEN}]*+){{1,8}}+(?=[ \t*_#=/\-]*+(?:{_any_word('begin', 'end')})"
        rf"[ \t*_\-{_UNSEEN}]*+(?:{_any_word('prompt', 'reference', 'expected', 'response')}))"
    )


@functools.cache
def _context_delimiters() -> re.Pattern[str]:
    return re.compile(
        rf"(?:[{_ANGLES}][ \t{_UNSEEN}]*+){{1,8}}+(?=[ \t*_#=/\-]*+(?:{_any_word('begin', 'end')})"
        rf"[ \t*_\-{_UNSEEN}]*+(?:{_any_word('system', 'earlier', 'step')}))"
    )


def mark_imitations(text: str) -> str:
    """``text`` with imitations of verdicts and delimiters marked as quoted, otherwise unchanged."""
    plain = text.isascii()
    if not plain or "verd" in text.lower():
        text = _verdicts().sub(rf"\1 {QUOTED}", text)
    if not plain or "<" in text:
        text = _delimiters().sub(f"{QUOTED} ", text)
    return text


def mark_context_imitations(text: str) -> str:
    """``text`` with imitations of the delimiters of conversations and steps marked as quoted."""
    if text.isascii() and "<" not in text:
        return text
    return _context_delimiters().sub(f"{QUOTED} ", text)


def replace_surrogates(text: str) -> str:
    """``text`` with lone surrogates, which no request can contain, replaced by U+FFFD."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


@functools.cache
def _unseen() -> re.Pattern[str]:
    return re.compile(f"[{_UNSEEN}]++")


@functools.cache
def _latin_letters() -> dict[int, str]:
    """Letters of other scripts, each with the Latin one that it looks like."""
    return {
        ord(like): letter for letter, likes in _LOOKALIKES.items() for like in likes if not like.isascii()
    }


@functools.cache
def _disguised() -> re.Pattern[str]:
    """A character that may disguise a word; accents in ordinary words do not."""
    ranges = "".join(f"{chr(low)}-{chr(high - 1)}" for low, high in _DOUBLES if low > 0x2000)
    return re.compile(f"[{_UNSEEN}{ranges}{''.join(map(chr, _latin_letters()))}]")


def reveal_disguises(text: str) -> str:
    """``text`` as it looks: without invisible characters, and letters that look like Latin ones as those."""
    if text.isascii() or not _disguised().search(text):
        return text
    plain = _unseen().sub("", unicodedata.normalize("NFKC", text))
    return plain.translate(_latin_letters())
