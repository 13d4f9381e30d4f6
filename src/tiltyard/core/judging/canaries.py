"""Canaries: control questions with a known answer, to test the judge; and repeated questions."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from tiltyard.core.judging.matches import Match, stable_id
from tiltyard.core.judging.question import Question, QuestionPurpose, QuestionTexts

#: A response this short is neither truncated nor shuffled.
_MIN_RESPONSE_CHARACTERS = 40
#: Fewer words than this are not worth shuffling.
_MIN_SHUFFLED_WORDS = 6
#: The share of a response that is kept when it is truncated.
_TRUNCATED_SHARE = 0.4

#: Model and prompt_id of a response.
_Place = tuple[str, str]


@dataclass(frozen=True, slots=True)
class CheckCounts:
    """The number of questions of each kind for every judge in every dimension."""

    identical: int = 2
    truncated: int = 2
    garbage: int = 2
    repeats: int = 4


def match_questions(match: Match, judges: Sequence[str]) -> Iterator[Question]:
    """The questions of one match: every judge, both orders."""
    for judge in judges:
        for first, second in ((match.model_a, match.model_b), (match.model_b, match.model_a)):
            yield Question(judge, match.dimension, match.prompt_id, first, second)


def check_questions(
    matches: Sequence[Match],
    responses: Mapping[tuple[str, str], str],
    judges: Sequence[str],
    checks: CheckCounts,
) -> list[Question]:
    """The canaries and repeats of one dimension.

    The choice of spoilt responses and repeated questions depends only on their names, so that
    it is the same in every run. ``responses`` contains texts by (model, prompt_id).
    """
    if not matches:
        return []
    dimension = matches[0].dimension
    shown = dict.fromkeys((model, one.prompt_id) for one in matches for model in (one.model_a, one.model_b))
    again = heapq.nsmallest(checks.repeats, matches, key=lambda match: stable_id(["repeat", match.id]))
    wanted = {
        QuestionPurpose.IDENTICAL: checks.identical,
        QuestionPurpose.TRUNCATED: checks.truncated,
        QuestionPurpose.GARBAGE: checks.garbage,
    }
    drawn = {
        purpose: _drawn(responses, shown, purpose, count, dimension) for purpose, count in wanted.items()
    }
    found: list[Question] = []
    for judge in judges:
        for purpose, places in drawn.items():
            found += [
                Question(judge, dimension, prompt_id, model, model, purpose, spoilt=k % 2)
                for k, (model, prompt_id) in enumerate(places)
            ]
        found += [_repeat(match, judge, k % 2) for k, match in enumerate(again)]
    return found


def _drawn(
    responses: Mapping[_Place, str],
    shown: Iterable[_Place],
    purpose: QuestionPurpose,
    count: int,
    dimension: str,
) -> list[_Place]:
    """Responses that can be spoilt, at most as many as requested, in a hashed order."""
    line = [(stable_id([dimension, purpose.value, *place]), place) for place in shown] if count else []
    heapq.heapify(line)
    found: list[_Place] = []
    while line and len(found) < count:
        _, place = heapq.heappop(line)
        if _spoils(responses[place], purpose):
            found.append(place)
    return found


def _spoils(text: str, purpose: QuestionPurpose) -> bool:
    """Whether the copy visibly differs from the response."""
    if purpose is QuestionPurpose.IDENTICAL:
        return True
    whole = text.strip()
    return len(whole) >= _MIN_RESPONSE_CHARACTERS and (
        purpose is QuestionPurpose.TRUNCATED or _shuffled(whole).split() != whole.split()
    )


def _repeat(match: Match, judge: str, order: int) -> Question:
    question = list(match_questions(match, [judge]))[order]
    return replace(question, purpose=QuestionPurpose.REPEAT, replicate=1)


def question_texts(question: Question, texts: QuestionTexts) -> QuestionTexts:
    """The texts shown for a question, given the texts of its prompt and models; a canary's copy is spoilt here."""
    if question.spoilt is None or question.purpose is QuestionPurpose.IDENTICAL:
        return texts
    whole = texts.first
    copy = _cut(whole) if question.purpose is QuestionPurpose.TRUNCATED else _shuffled(whole)
    return replace(texts, first=copy) if question.spoilt == 0 else replace(texts, second=copy)


def _cut(text: str) -> str:
    """The beginning of a text, cut off in the middle of a word."""
    whole = text.strip()
    return whole[: max(1, int(len(whole) * _TRUNCATED_SHARE))].rstrip()


def _shuffled(text: str) -> str:
    """The words of a text in random order, or its characters if it has hardly any words (a link, or Chinese)."""
    words = text.split()
    if len(words) < _MIN_SHUFFLED_WORDS:
        return "".join(_out_of_order(list(text.strip())))
    return " ".join(_out_of_order(words))


def _out_of_order(pieces: Sequence[str]) -> list[str]:
    return [piece for _, piece in sorted(enumerate(pieces), key=lambda one: stable_id([*one]))]
