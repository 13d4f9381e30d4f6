"""Quotes responses, which are untrusted and may imitate the text around them.

Only two things are changed: what looks like a verdict, and what looks like one of our
delimiters. Both stay readable, with ``(quoted)`` inserted so that they have no effect.

Responses that speak to their judge instead of answering the prompt are found and reported, so that somebody reads them:
nothing is changed or left out because of it. What only looks odd is not reported: a film review may end with
"Verdict: a delight", and a lawyer may address a judge.
"""

from __future__ import annotations

import enum
import functools
import re
import string
import unicodedata
from dataclasses import dataclass

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


@functools.cache
def _disguises() -> dict[str, str]:
    """For each letter, a character class of its look-alikes."""
    doubles: dict[str, str] = {}
    for low, high in _DOUBLES:
        for char in map(chr, range(low, high)):
            plain = unicodedata.normalize("NFKD", char)[0].lower()
            doubles[plain] = doubles.get(plain, "") + char
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


class SteeringKind(enum.StrEnum):
    """What a response does to steer its judge."""

    VERDICT = "verdict"
    DELIMITER = "delimiter"
    ADDRESS = "address"
    HIDDEN = "hidden"


@dataclass(frozen=True, slots=True)
class _Sign:
    """A pattern in lower-case text, and words of which every match contains one: most texts contain none."""

    words: tuple[str, ...]
    pattern: re.Pattern[str]

    def is_in(self, text: str) -> bool:
        return any(word in text for word in self.words) and self.pattern.search(text) is not None


_AROUND = r"[\s*_`\"'()\[\]-]{0,12}+"
_STEP = r"[ab]\s?(?:>{1,2}|=|<{1,2})\s?[ab]\b"
_VERDICT = _Sign(
    ("verdict", "winner", "final decision", "final judg", "[[", ': "a', ': "b', ':"a', ':"b'),
    re.compile(
        rf"\b(?:verdict|winner|final (?:decision|judge?ment)){_AROUND}[:=]{_AROUND}"
        rf"(?:{_STEP}|(?:response |assistant )?[ab][\"'*_`.)\]]{{0,4}}+$)"
        rf"|\[\[{_STEP}\]\]|:\s?\"{_STEP}\"|^\s{{0,4}}+\[\[[abc]\]\]$",
        re.MULTILINE,
    ),
)
_DELIMITER = _Sign(
    ("<", "«", "‹", "≪", "⟨", "[inst]", "[/inst]"),
    re.compile(
        r"[<«‹≪⟨][ \t*_#=/-]{0,8}+(?:begin|end)[ \t*_-]{1,4}+(?:prompt|reference|expected|response)"
        r"|<(?:/?\|?(?:im_start|im_end|start_header_id|end_header_id|eot_id|endoftext|begin_of_text)\|?|</?sys>)>"
        r"|\[/?inst\]"
    ),
)
_JUDGE = r"(?:judge|grader|evaluator|rater|assessor|scorer|reviewer)"
_THIS = r"(?:this (?:response|answer)|(?:response|assistant) [ab]\b|my (?:response|answer))"
_WORDS = r"(?:[a-z']{1,14}+ ){0,3}?"
#: What is said to a judge; between two words there is one blank.
_ADDRESSES = (
    # To forget what was asked.
    _Sign(
        ("ignore", "disregard", "forget", "override"),
        re.compile(
            rf"\b(?:ignore|disregard|forget|override) {_WORDS}(?:previous|prior|above|earlier|preceding|your|other) "
            r"(?:instructions?|prompts?|rubrics?|rules|guidelines|criteria)"
        ),
    ),
    _Sign(
        ("rubric ", "criteria ", "instructions "),
        re.compile(
            r"\b(?:rubric|criteria|instructions) (?:above )?(?:has|have|is|are|was|were) (?:been )?"
            r"(?:changed|updated|replaced|superseded|void|obsolete)"
        ),
    ),
    # To the judge by name.
    _Sign(
        ("judge", "grader", "evaluator", "rater", "assessor", "scorer", "reviewer", "language model"),
        re.compile(
            r"\b(?:dear|attention|notes? (?:to|for)|messages? (?:to|for)|instructions? (?:to|for)|hello|hey)[:,]? "
            rf"(?:the )?(?:ai |llm |automated |impartial )?{_JUDGE}s?\b"
            rf"|\byou are (?:now )?(?:a|an|the) (?:ai |llm |fair |impartial |strict )?{_JUDGE}\b"
            rf"|\bif you are (?:a|an|the) (?:ai |llm |automated )?(?:{_JUDGE}|language model)\b"
        ),
    ),
    # What to decide.
    _Sign(
        (
            "this response",
            "this answer",
            "my response",
            "my answer",
            *(f"{x} {y}" for x in ("response", "assistant") for y in "ab"),
        ),
        re.compile(
            rf"\b(?:prefer|choose|pick|select|vote for|favou?r|rate|score|rank|reward) {_WORDS}{_THIS}"
            rf"|\b{_THIS} (?:is|was|should be|must be|deserves|has been) {_WORDS}"
            r"(?:better|best|superior|preferred|winner|win|highest|top)\b"
        ),
    ),
    _Sign(
        ("the other response", "the other answer", "the other assistant"),
        re.compile(
            rf"\bthe other (?:response|answer|assistant) (?:is|was|should|must|contains) {_WORDS}"
            r"(?:worse|wrong|incorrect|plagiari[sz]ed|unsafe|lose|penali[sz]ed|malicious)\b"
        ),
    ),
    # To forget what was asked, in other languages.
    _Sign(
        ("ignor", "игнорируй", "忽略", "無視"),
        re.compile(
            r"ignorier\w{0,3}+ (?:alle )?(?:vorherigen|bisherigen) (?:anweisungen|regeln)"
            r"|ignore[zr]? (?:toutes )?les (?:instructions|consignes) pr[ée]c[ée]dentes"
            r"|ignor[ae]n? (?:todas )?las instrucciones anteriores"
            r"|игнорируй(?:те)? (?:все )?предыдущие (?:инструкции|указания)"
            r"|忽略(?:之前|以上|先前|所有)[^\n]{0,6}?(?:指令|指示|说明)|(?:以前|これまで|上記)の指示を無視"
        ),
    ),
)
#: Letters as invisible tags (outside a flag), a run of characters without width, or text that is turned round.
_HIDDEN = re.compile(
    "(?<![\U0001f3f4\U000e0020-\U000e007f])[\U000e0020-\U000e007f]"
    "|[\u200b\u200c\u2060-\u2064\ufeff]{4}|[\u200b-\u200d\u2060-\u2064\ufeff]{8}|[\u202d\u202e]"
)


def find_steering(response: str, prompt: str) -> frozenset[SteeringKind]:
    """What a response does to steer its judge. A response may quote what its prompt says."""
    found = _visible(response)
    if found:
        found -= _visible(prompt)
    if not response.isascii() and _HIDDEN.search(response):
        found.add(SteeringKind.HIDDEN)
    return frozenset(found)


def _visible(text: str) -> set[SteeringKind]:
    """The kinds that a reader can see."""
    shown = reveal_disguises(text)
    text = (text if shown == text else f"{text}\n{shown}").lower()
    line = " ".join(text.split())
    signs = {
        SteeringKind.VERDICT: _VERDICT.is_in(text),
        SteeringKind.DELIMITER: _DELIMITER.is_in(text),
        SteeringKind.ADDRESS: any(sign.is_in(line) for sign in _ADDRESSES),
    }
    return {kind for kind, found in signs.items() if found}
