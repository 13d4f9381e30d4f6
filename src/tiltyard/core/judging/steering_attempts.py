"""Finds responses that speak to their judge instead of answering the prompt.

Nothing is changed or left out because of what is found: it is reported, so that somebody reads these responses. What
only looks odd is not reported: a film review may end with "Verdict: a delight", and a lawyer may address a judge.
"""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass

from tiltyard.core.judging.untrusted_text import reveal_disguises

__all__ = ["SteeringKind", "find_steering"]


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
