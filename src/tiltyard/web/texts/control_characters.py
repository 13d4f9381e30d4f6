"""Characters that hide, reorder or confuse text, made visible.

What counts: every control character but tab and newline; unpaired surrogates and noncharacters; characters that
set the direction of text; spaces without width; soft hyphens, fillers, invisible operators, separators of lines
and paragraphs; tags. Some of these are needed by honest text and then stay as they are:

- a joiner (U+200D) between two parts of an emoji;
- a joiner or non-joiner (U+200C, U+200D) between two letters of a script that is written with them, such as
  Arabic, Persian or Hindi;
- one variation selector after a character that can be seen;
- the tags that make the flags of England, Scotland and Wales;
- up to four combining marks on one letter.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

from markupsafe import Markup, escape

#: A text with more than this many places to mark gets them spelled, but not marked up.
_MARKED_PLACE_LIMIT = 2_000
#: This many of a run of hidden characters are spelled; the rest are counted.
_SPELLED_RUN_CHARACTERS = 6

_CONTROL = "\x00-\x08\x0b-\x1f\x7f-\x9f"
_DIRECTION = "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
_WIDTHLESS = (
    "\u00ad\u034f\u180e\u200b\u2028\u2029\u2060-\u2064\u206a-\u206f\ufeff\ufff9-\ufffb\U0001d173-\U0001d17a"
)
_FILLER = "\u115f\u1160\u17b4\u17b5\u3164\uffa0"
_NOBODY = "\ud800-\udfff\ufdd0-\ufdef" + "".join(
    chr(0x10000 * n + k) for n in range(17) for k in (0xFFFE, 0xFFFF)
)
_TAG = "\U000e0000-\U000e007f"
_ALWAYS = _CONTROL + _DIRECTION + _WIDTHLESS + _FILLER + _NOBODY + _TAG
_SELECTOR = "\ufe00-\ufe0f\U000e0100-\U000e01ef\u180b-\u180d\u180f"
_JOINER = "\u200c\u200d"

_EMOJI = "\u2190-\u2bff\u3030\u303d\u3297\u3299\U0001f000-\U0001faff"
_JOINED = (
    "\u0620-\u065f\u066e-\u06d3\u06d5-\u06dc\u06df-\u06ef\u06fa-\u074f\u0750-\u07ff\u0840-\u089f\u08a0-\u08ff"
    "\u0900-\u0dff\u0f00-\u109f\u1780-\u17b3\u17b6-\u17ff\u1820-\u18aa\u1b00-\u1b7f\ua840-\ua87f\ua8e0-\ua8ff"
    "\ua980-\ua9df\ufb50-\ufdcf\ufe70-\ufefc\U00011000-\U00011fff"
)
_MARK = "\u0300-\u034e\u0350-\u036f\u0483-\u0489\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f"
_FLAGS = "|".join(
    "".join(chr(0xE0000 + ord(letter)) for letter in nation) + "\U000e007f"
    for nation in ("gbeng", "gbsct", "gbwls")
)

#: First the characters that ordinary text needs, then all that must be made visible.
_HIDDEN = re.compile(
    f"(?P<kept>(?<=[{_JOINED}])[{_JOINER}](?=[{_JOINED}])"
    f"|(?<=[{_EMOJI}\ufe0f])\u200d(?=[{_EMOJI}])"
    f"|(?<=[^\\s{_ALWAYS}{_JOINER}{_SELECTOR}])[{_SELECTOR}]"
    f"|(?<=\U0001f3f4)(?:{_FLAGS}))"
    f"|[{_ALWAYS}{_JOINER}{_SELECTOR}]+"
    f"|(?<=[{_MARK}][{_MARK}][{_MARK}][{_MARK}])[{_MARK}]+"
)
#: A fast check: most texts have none of these.
_SUSPECT = re.compile(f"[{_ALWAYS}{_JOINER}{_SELECTOR}{_MARK}]")
#: Characters that PostgreSQL or UTF-8 cannot encode.
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
#: Names of control characters, which Unicode does not define.
_CONTROL_NAMES = {
    0x00: "NULL",
    0x07: "BELL",
    0x08: "BACKSPACE",
    0x0D: "CARRIAGE RETURN",
    0x1B: "ESCAPE",
    0x7F: "DELETE",
}


def make_storable(text: str) -> str:
    """The text with characters that cannot be encoded replaced by their code points."""
    return _UNSTORABLE.sub(lambda found: _spell(found.group()), text)


def spell_hidden_characters(text: str) -> str:
    """The text for an attribute, not escaped: hidden characters spelled as ``U+202E``."""
    if _SUSPECT.search(text) is None:
        return text
    return _HIDDEN.sub(lambda found: found["kept"] or _bracketed(found.group()), text)


def mark_hidden_characters(text: str) -> str:
    """The text as HTML, escaped: every hidden character in a span that names it."""
    if _SUSPECT.search(text) is None:
        return str(escape(text))
    pieces: list[str] = []
    end = 0
    for found in _HIDDEN.finditer(text):
        if found["kept"]:
            continue
        if len(pieces) == 2 * _MARKED_PLACE_LIMIT:
            break
        pieces.extend((str(escape(text[end : found.start()])), _marked(found.group())))
        end = found.end()
    pieces.append(str(escape(spell_hidden_characters(text[end:]))))
    return "".join(pieces)


def _spell(run: str) -> str:
    codes = " ".join(f"U+{ord(each):04X}" for each in run[:_SPELLED_RUN_CHARACTERS])
    return codes if len(run) <= _SPELLED_RUN_CHARACTERS else f"{codes} … ×{len(run)}"


@lru_cache(maxsize=1_000)
def _bracketed(run: str) -> str:
    return f"[{_spell(run)}]"


def _marked(run: str) -> str:
    names = ", ".join(f"U+{ord(each):04X} {_name(each)}" for each in run[:_SPELLED_RUN_CHARACTERS])
    return f'<span class="control" title="{names}">{_spell(run)}</span>'


def _name(character: str) -> str:
    code = ord(character)
    named = unicodedata.name(character, "") or _CONTROL_NAMES.get(code)
    if named is not None:
        return named
    if 0xD800 <= code <= 0xDFFF:
        return "UNPAIRED SURROGATE"
    return "CONTROL CHARACTER" if code < 0xA0 else "NOT A CHARACTER"


#: Longer names are truncated in the title attribute.
_MAX_TITLE_CHARACTERS = 10_000
#: Tabs and newlines are no part of a name.
_SPACES = str.maketrans({"\t": "\u2409", "\n": "\u240a"})


def format_name(text: str, *, most: int = 120) -> Markup:
    """A name on one line, shortened in the middle to ``most`` characters, with the full name in its title."""
    name = text.translate(_SPACES)
    if len(name) <= most and spell_hidden_characters(name) == name:
        return Markup("<bdi>{}</bdi>").format(name)
    title = escape(
        spell_hidden_characters(name[:_MAX_TITLE_CHARACTERS])
        + ("…" if len(name) > _MAX_TITLE_CHARACTERS else "")
    )
    if len(name) > most:
        end = most // 3
        name = f"{name[: most - end - 1]}…{name[len(name) - end :]}"
    return Markup(f'<bdi title="{title}">{mark_hidden_characters(name)}</bdi>')  # noqa: S704 - escaped


def plain_text(text: str) -> Markup:
    """Plain text as HTML, with its line breaks."""
    lines = text.replace("\r\n", "\n").replace("\r", "\n")
    return Markup(mark_hidden_characters(lines).replace("\n", "<br>\n"))  # noqa: S704 - escaped
