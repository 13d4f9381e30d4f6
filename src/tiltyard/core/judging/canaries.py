"""Canaries: control questions with a known answer, to test the judge; and repeated questions.

Those that show a spoilt answer are the proof that a judge can tell answers apart at all.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product, takewhile
from types import MappingProxyType

from tiltyard.core.judging.judged_question import JudgedQuestion
from tiltyard.core.judging.match_design import BOTH_ORDERS, MatchDesign, match_questions
from tiltyard.core.judging.matches import Match, stable_id
from tiltyard.core.judging.question import Question, QuestionPurpose, QuestionTexts
from tiltyard.core.judging.reconciliation import passes

#: A response this short is neither truncated nor shuffled.
_MIN_RESPONSE_CHARACTERS = 40
#: Fewer words than this are not worth shuffling.
_MIN_SHUFFLED_WORDS = 6
#: The share of a response that is kept when it is truncated.
_TRUNCATED_SHARE = 0.4
#: How an answer is spoilt to prove that a judge can tell.
SPOILT_KINDS = tuple(map(QuestionPurpose, ("empty", "garbage", "swapped", "truncated")))
#: Spoilt answers that are planted for each judge and dimension, and where an earlier proof is kept.
PLANTED_COUNT, KEPT_PLANTED_COUNT = 16, 4
#: Spoilt ones are made of so many answers, and one is swapped with that to one of so many prompts before.
_SPOILT_ANSWER_COUNT, _SWAP_PROMPT_COUNT = 120, 8
#: The fewest pairs of a proof: with fewer, a judge that guesses finds all of them too often.
MIN_PROOF_COUNT = 7
#: From so many pairs on, an eighth of them may be missed.
_FORGIVING_PROOF_COUNT = 12

#: Model and prompt_id of a response.
_Place = tuple[str, str]


@dataclass(frozen=True, slots=True)
class CheckCounts:
    """The number of questions of each kind for every judge in every dimension."""

    identical: int = 2
    truncated: int = 2
    garbage: int = 2
    repeats: int = 4
    #: Spoilt answers of all kinds together, those above among them.
    planted: int = PLANTED_COUNT


def missed_kinds(kinds: Mapping[str, tuple[int, int]]) -> dict[str, tuple[int, int]]:
    """The kinds of spoilt answers of which a judge missed too many: found and asked, by kind.

    It passes with 14 of 16, and with 3 of 4 of each kind.
    """
    asked = sum(count for _, count in kinds.values())
    missed = asked - sum(found for found, _ in kinds.values())
    many = asked >= MIN_PROOF_COUNT and missed > (asked // 8 if asked >= _FORGIVING_PROOF_COUNT else 0)
    return {
        kind: (found, count)
        for kind, (found, count) in kinds.items()
        if 4 * (count - found) > count or (many and found < count)
    }


def check_questions(
    matches: Sequence[Match],
    responses: Mapping[tuple[str, str], str],
    judges: Sequence[str],
    checks: CheckCounts,
    drawn_prompts: Sequence[str] = (),
    design: MatchDesign = BOTH_ORDERS,
) -> list[Question]:
    """The canaries and repeats of one dimension, and the further spoilt answers of a proof.

    The choice of spoilt responses and repeated questions depends only on their names, so that
    it is the same in every run. ``responses`` contains texts by (model, prompt_id). A proof is made of prompts
    in the order of ``drawn_prompts``, so that a run on more of them plants the same.
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
        found += [_repeat(match, judge, k % 2, design) for k, match in enumerate(again)]
    if checks.planted:
        known = [(purpose, place) for purpose, places in drawn.items() for place in places]
        rank = {prompt_id: number for number, prompt_id in enumerate(drawn_prompts)}
        first = sorted((rank[place[1]], place) for place in shown if place[1] in rank)[:_SPOILT_ANSWER_COUNT]
        texts = {place: responses[place] for _, place in first}
        planted = list(_planted(texts, dimension, checks.planted, known))
        found += [replace(one, judge=judge) for judge in judges for one in planted]
    return found


def _planted(
    texts: Mapping[_Place, str], dimension: str, count: int, known: Iterable[tuple[QuestionPurpose, _Place]]
) -> Iterator[Question]:
    """Spoilt answers, as many of each kind; kinds that cannot be made give their share to the others.

    ``known`` are asked already, and count. A response is spoilt in a second way only after every other has been.
    """
    used = {one for one in known if one[0] in SPOILT_KINDS}
    counts, turns = Counter(kind for kind, _ in used), Counter(place for _, place in used)
    possible = {place: _possible_kinds(place, texts) for place in texts}
    start = int(stable_id(["side", dimension]), 16)
    shares = (-(-count // len(SPOILT_KINDS)), count)
    for most, turn, (place, kinds) in product(shares, range(len(SPOILT_KINDS)), possible.items()):
        left = [kind for kind in kinds if counts[kind] < most and (kind, place) not in used]
        if not left or turns[place] > turn or (most == count and counts.total() >= count):
            continue
        kind = min(left, key=counts.__getitem__)
        side = (start + counts[kind] + SPOILT_KINDS.index(kind)) % 2
        counts[kind] += 1
        turns[place] += 1
        used.add((kind, place))
        model, prompt_id = place
        yield Question("", dimension, prompt_id, model, model, kind, spoilt=side, swapped=kinds[kind])


def _possible_kinds(place: _Place, texts: Mapping[_Place, str]) -> dict[QuestionPurpose, str | None]:
    """How a response can be spoilt; for a swapped copy, the prompt whose response is shown.

    That is one of the last before it, with other words: the response to a similar prompt may fit.
    """
    kinds: dict[QuestionPurpose, str | None] = {
        kind: None
        for kind in SPOILT_KINDS
        if kind is not QuestionPurpose.SWAPPED and _spoils(texts[place], kind)
    }
    model, prompt_id = place
    before = [one for name, one in takewhile(lambda other: other[1] != prompt_id, texts) if name == model]
    for other in reversed(before[-_SWAP_PROMPT_COUNT:]):
        if _differ(texts[place], texts[model, other]):
            return kinds | {QuestionPurpose.SWAPPED: other}
    return kinds


def _differ(one: str, other: str) -> bool:
    """Whether two responses are long enough to be about something, and share less than half of their words."""
    words = [set(text.casefold().split()) for text in (one, other)]
    short = min(len(one.strip()), len(other.strip())) < _MIN_RESPONSE_CHARACTERS
    return not short and 2 * len(words[0] & words[1]) < min(map(len, words))


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
    if purpose is QuestionPurpose.EMPTY:
        return bool(whole)
    return len(whole) >= _MIN_RESPONSE_CHARACTERS and (
        purpose is QuestionPurpose.TRUNCATED or shuffled(whole).split() != whole.split()
    )


def _repeat(match: Match, judge: str, order: int, design: MatchDesign) -> Question:
    questions = list(match_questions(match, [judge], design))
    question = questions[order % len(questions)]
    return replace(question, purpose=QuestionPurpose.REPEAT, replicate=1)


def question_texts(
    question: Question, texts: QuestionTexts, responses: Mapping[_Place, str] = MappingProxyType({})
) -> QuestionTexts:
    """The texts shown for a question, given the texts of its prompt and models; a canary's copy is spoilt here.

    ``responses`` have the text of a swapped copy.
    """
    if question.spoilt is None or question.purpose is QuestionPurpose.IDENTICAL:
        return texts
    whole = texts.first
    if question.swapped is not None:
        copy = responses[question.first, question.swapped]
    elif question.purpose is QuestionPurpose.EMPTY:
        copy = ""
    else:
        copy = _cut(whole) if question.purpose is QuestionPurpose.TRUNCATED else shuffled(whole)
    return replace(texts, first=copy) if question.spoilt == 0 else replace(texts, second=copy)


def _cut(text: str) -> str:
    """The beginning of a text, cut off in the middle of a word."""
    whole = text.strip()
    return whole[: max(1, int(len(whole) * _TRUNCATED_SHARE))].rstrip()


def shuffled(text: str) -> str:
    """The words of a text in random order, or its characters if it has hardly any words (a link, or Chinese)."""
    words = text.split()
    if len(words) < _MIN_SHUFFLED_WORDS:
        return "".join(_out_of_order(list(text.strip())))
    return " ".join(_out_of_order(words))


def _out_of_order(pieces: Sequence[str]) -> list[str]:
    return [piece for _, piece in sorted(enumerate(pieces), key=lambda one: stable_id([*one]))]


@dataclass(frozen=True, slots=True)
class JudgeProof:
    """How many spoilt answers a judge found in one dimension."""

    judge: str
    dimension: str
    #: By kind: those that it found, and all of them. One without a verdict is not found.
    kinds: Mapping[str, tuple[int, int]]
    #: Whether an earlier proof is kept, so that few were planted.
    kept: bool = False

    @property
    def found(self) -> int:
        return sum(found for found, _ in self.kinds.values())

    @property
    def asked(self) -> int:
        return sum(asked for _, asked in self.kinds.values())

    @property
    def holds(self) -> bool:
        """Whether it found enough; two that it misses void a kept proof."""
        if self.kept:
            return self.asked > 0 and self.asked - self.found <= 1
        return self.asked >= MIN_PROOF_COUNT and not missed_kinds(self.kinds)

    @property
    def not_made(self) -> tuple[str, ...]:
        """The kinds that could not be made of these answers."""
        return tuple(kind.value for kind in SPOILT_KINDS if kind.value not in self.kinds)


def judge_proofs(judged: Iterable[JudgedQuestion], *, kept: bool = False) -> tuple[JudgeProof, ...]:
    """What each judge made of the spoilt answers; other questions are passed over."""
    counts: dict[tuple[str, str], dict[str, tuple[int, int]]] = {}
    for one in judged:
        if one.question.purpose in SPOILT_KINDS:
            kinds = counts.setdefault((one.question.judge, one.question.dimension), {})
            found, asked = kinds.get(one.question.purpose.value, (0, 0))
            kinds[one.question.purpose.value] = found + (passes(one) is True), asked + 1
    return tuple(JudgeProof(*place, kinds, kept) for place, kinds in counts.items())
