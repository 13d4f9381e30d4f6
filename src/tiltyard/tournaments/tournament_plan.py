"""The plan of a run, and how it is built from a configuration: all questions in canonical order, their requests, and the order of asking."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from itertools import islice
from typing import Any

import numpy as np

from tiltyard.core.judging.canaries import (
    SPOILT_KINDS,
    CheckCounts,
    check_questions,
    question_texts,
)
from tiltyard.core.judging.conversation import (
    context_texts,
    image_urls,
    shared_context,
)
from tiltyard.core.judging.judged_question import JudgedQuestion, match_id_of, reparse
from tiltyard.core.judging.match_design import BOTH_ORDERS, MatchDesign, match_questions
from tiltyard.core.judging.matches import (
    Match,
    MatchList,
    PairRules,
    Prompt,
    all_pairs,
    draw_order,
    pilot_subset,
    spread_order,
)
from tiltyard.core.judging.question import (
    ChatPrompt,
    Question,
    QuestionPurpose,
    QuestionTexts,
    Rubric,
    build_chat_prompt,
)
from tiltyard.core.judging.verdict import QuestionState, Reply, VerdictForm, VerdictStep
from tiltyard.errors import BadConfig
from tiltyard.files.answer import Answer
from tiltyard.foundation.arrays import Ints
from tiltyard.jobs.engine import Shard
from tiltyard.judges.requests import IMAGE_TOKENS, JudgeRequest, JudgeSetup, request_key
from tiltyard.settings.tournament_config import RunMode, TournamentConfig
from tiltyard.tournaments.inputs import TournamentInputs

#: Length of a key.
_KEY_BYTES = 32
#: Matches that each judge is asked first, in both orders, as a trial.
_TRIAL_MATCH_COUNT = 5
#: The reason of a tie that no judge was asked about.
_EQUAL = "Both responses are the same, byte for byte: no judge was asked."


class AskingOrder:
    """Numbers the questions of all dimensions so that every beginning is spread evenly.

    Each dimension, pair of models and prompt has about the same share of any first part. The questions of one match,
    in both orders, are next to each other, so that an end leaves few matches half judged.
    """

    def __init__(
        self, matches: Sequence[Sequence[Match]], checks: Sequence[int], counts: Sequence[Ints]
    ) -> None:
        """``matches`` and the number of ``checks`` by dimension; ``counts`` are the numbers of questions of the matches."""
        #: Places of the matches of a dimension, in the order in which they are asked.
        self.spread = [
            spread_order([(one.prompt_id, one.model_a, one.model_b) for one in some]) for some in matches
        ]
        places, shares, sections, sizes = [], [], [], []
        for section, (order, count, asked) in enumerate(zip(self.spread, checks, counts, strict=True)):
            # Checks have places after the matches of their dimension.
            for part, size in ((order, asked[order]), (len(order) + np.arange(count), np.ones(count))):
                places.append(part)
                shares.append((np.arange(len(part)) + 0.5) / max(len(part), 1))
                sections.append(np.full(len(part), section))
                sizes.append(size)
        owners = np.concatenate(sections)
        line = np.lexsort((owners, np.concatenate(shares)))
        self._sections = owners[line].astype(np.int32)
        self._places = np.concatenate(places)[line].astype(np.int32)
        self._ends = np.cumsum(np.concatenate(sizes)[line].astype(np.int64))

    def units(self, first: int, last: int) -> Iterator[tuple[int, int, int, int]]:
        """The matches and checks that have the questions ``first`` (included) to ``last`` (excluded).

        Of each, the dimension and place, and which of its own questions are in the range.
        """
        unit = int(np.searchsorted(self._ends, first, side="right"))
        start = int(self._ends[unit - 1]) if unit else 0
        while unit < len(self._ends) and start < last:
            end = int(self._ends[unit])
            yield (
                int(self._sections[unit]),
                int(self._places[unit]),
                max(first - start, 0),
                min(last, end) - start,
            )
            unit, start = unit + 1, end


def cut_into_shards(length: int, run: str, generation: int, size: int) -> Iterator[Shard]:
    """Divide the range from 0 to ``length`` into shards of ``size``."""
    for index, first in enumerate(range(0, length, size)):
        yield Shard(run, generation, index, first, min(first + size, length))


@dataclass(frozen=True)
class PlanDimension:
    """One dimension of a plan: its matches, then its canaries and repeats."""

    rubric: Rubric
    matches: Sequence[Match]
    checks: Sequence[Question]


@dataclass(frozen=True)
class TournamentPlan:
    """All questions of a run, in canonical order for files and reports. A shard is a range in the order of asking."""

    seats: Sequence[JudgeSetup]
    prompts: Sequence[Prompt]
    #: Responses by (model, prompt_id).
    answers: Mapping[tuple[str, str], Answer]
    sections: Sequence[PlanDimension]
    matches: MatchList
    #: All matches that there are, and those that the design chooses from.
    every: MatchList
    pool: MatchList
    #: Whether equal responses are a tie that no judge is asked about.
    free_ties: bool = False
    design: MatchDesign = BOTH_ORDERS
    #: Concatenated keys of the questions computed so far.
    _keys: bytearray = field(default_factory=bytearray, repr=False, compare=False)

    def with_seats(self, seats: Sequence[JudgeSetup]) -> TournamentPlan:
        """The same questions to these judges; their keys may differ."""
        return replace(self, seats=seats, _keys=bytearray())

    def __len__(self) -> int:
        checks = sum(len(section.checks) for section in self.sections)
        return checks + sum(int(counts.sum()) for counts in self._counts)

    @cached_property
    def _counts(self) -> list[Ints]:
        """How many questions each match has, by dimension."""
        return [
            np.array([len(list(self._match(one))) for one in section.matches], dtype=np.int64)
            if self.design.orders == "random"
            else np.full(len(section.matches), 2 * len(self.seats))
            for section in self.sections
        ]

    def grown(self, more: Collection[Match]) -> TournamentPlan:
        """The same with more matches of its pool, and no more checks."""
        chosen = {*self.matches.matches, *more}
        sections = [
            replace(section, matches=[one for one in own if one in chosen])
            for section, own in ((one, self.pool_of(one)) for one in self.sections)
        ]
        matches = [match for section in sections for match in section.matches]
        whole = replace(self.matches, matches=matches)
        return replace(self, sections=sections, matches=whole, _keys=bytearray())

    def pool_of(self, section: PlanDimension) -> list[Match]:
        """All matches of a dimension that the design can choose from."""
        return [match for match in self.pool.matches if match.dimension == section.rubric.dimension]

    @cached_property
    def _prompts(self) -> Mapping[str, Prompt]:
        return {prompt.prompt_id: prompt for prompt in self.prompts}

    @cached_property
    def _seats(self) -> Mapping[str, JudgeSetup]:
        return {seat.name: seat for seat in self.seats}

    @cached_property
    def _rubrics(self) -> Mapping[str, Rubric]:
        return {section.rubric.dimension: section.rubric for section in self.sections}

    @property
    def judges(self) -> tuple[str, ...]:
        return tuple(seat.name for seat in self.seats)

    def seat(self, question: Question) -> JudgeSetup:
        return self._seats[question.judge]

    def seat_named(self, judge: str) -> JudgeSetup:
        return self._seats[judge]

    def questions(self) -> Iterator[Question]:
        for section in self.sections:
            yield from self._section(section)

    def dimension(self, name: str) -> Iterator[Question]:
        """The questions of one dimension."""
        for section in self.sections:
            if section.rubric.dimension == name:
                yield from self._section(section)

    def _section(self, section: PlanDimension) -> Iterator[Question]:
        for match in section.matches:
            yield from self._match(match)
        yield from section.checks

    def _match(self, match: Match) -> Iterator[Question]:
        return match_questions(match, self.judges, self.design)

    def shown(self, question: Question) -> QuestionTexts:
        """The texts of a question."""
        prompt = self._prompts[question.prompt_id]
        first, second = (self.answers[name, question.prompt_id] for name in (question.first, question.second))
        texts = QuestionTexts(
            prompt=prompt.text,
            first=first.response,
            second=second.response,
            gold=prompt.gold,
            expected_behavior=prompt.expected_behavior,
            context=shared_context(first.context, second.context),
        )
        place = question.first, question.swapped or question.prompt_id
        return question_texts(question, texts, {place: self.answers[place].response})

    def is_free(self, match: Match) -> bool:
        """Whether both responses are the same, so that nobody need be asked."""
        if not self.free_ties:
            return False
        one, other = (self.answers[name, match.prompt_id] for name in (match.model_a, match.model_b))
        return (one.response, one.context) == (other.response, other.context)

    def asked_matches(self, section: PlanDimension) -> Sequence[Match]:
        """The matches that judges are asked about."""
        return [match for match in section.matches if not self.is_free(match)]

    def free_tie(self, question: Question) -> JudgedQuestion | None:
        """The verdict on equal responses."""
        match = Match.between(question.dimension, question.prompt_id, question.first, question.second)
        if question.purpose is not QuestionPurpose.MATCH or not self.is_free(match):
            return None
        said = json.dumps({"reasoning": _EQUAL, "verdict": VerdictStep.EVEN.value, "both_bad": False})
        match_id, reply = match_id_of(question), Reply(said)
        form, key, unread = VerdictForm.SCHEMA, self.key(question), QuestionState.UNASKED
        return reparse(JudgedQuestion(question, match_id, unread, None, None, reply, form, key, asks=0))

    def spoilt(self) -> Iterator[tuple[Question, str]]:
        """The questions that show a spoilt answer, with their cache keys."""
        for section in self.sections:
            for question in section.checks:
                if question.purpose in SPOILT_KINDS:
                    yield question, self.key(question)

    def key(self, question: Question) -> str:
        """The cache key of a question."""
        return self.request(question).key

    def remember(self, number: int, key: str) -> None:
        """Remember the key of a question if it is the next one that is unknown."""
        if len(self._keys) == _KEY_BYTES * number:
            self._keys.extend(bytes.fromhex(key))

    def keys(self, dimension: str) -> Iterator[tuple[Question, str]]:
        """The questions of one dimension with their cache keys."""
        place = 0
        for section, counts in zip(self.sections, self._counts, strict=True):
            if section.rubric.dimension == dimension:
                break
            place += int(counts.sum()) + len(section.checks)
        for number, question in enumerate(self.dimension(dimension), start=place):
            known = self._keys[_KEY_BYTES * number : _KEY_BYTES * (number + 1)]
            yield question, known.hex() if len(known) == _KEY_BYTES else self.key(question)

    def chat_prompt(self, question: Question) -> ChatPrompt:
        """The words of a question, whoever is asked."""
        seat, rubric = self.seat(question), self._rubrics[question.dimension]
        return build_chat_prompt(self.shown(question), rubric, seat.form, seat.settings.max_tokens)

    def request(self, question: Question) -> JudgeRequest:
        """The exact request of a question, with its cache key."""
        seat, ask = self.seat(question), self.chat_prompt(question)
        body = seat.provider.body(seat.settings.model, ask, seat.options)
        key, size = request_key(seat.provider, body, question.replicate)
        # Images are billed by their size in pixels, not in bytes.
        images = sum(len(url) - IMAGE_TOKENS for url in ask.images)
        size -= images
        worst = seat.worst(size, batch=seat.settings.batch)
        match = None
        if question.purpose is QuestionPurpose.MATCH:
            match = Match.between(question.dimension, question.prompt_id, question.first, question.second)
        return JudgeRequest(
            key,
            question.id,
            seat.name,
            question.dimension,
            body,
            size,
            worst,
            question.prompt_id,
            max(images, 0),
            match=match,
        )

    @cached_property
    def _order(self) -> AskingOrder:
        return AskingOrder(
            [section.matches for section in self.sections],
            [len(section.checks) for section in self.sections],
            self._counts,
        )

    def asked(self, first: int, last: int) -> Iterator[Question]:
        """Questions ``first`` (included) to ``last`` (excluded) in the order in which they are asked."""
        for number, place, low, high in self._order.units(first, last):
            section = self.sections[number]
            if place < len(section.matches):
                if self.is_free(section.matches[place]):
                    continue
                yield from islice(self._match(section.matches[place]), low, high)
            else:
                yield section.checks[place - len(section.matches)]

    def requests(self, first: int, last: int) -> Iterator[JudgeRequest]:
        """The requests of a range of questions, in the order in which they are asked."""
        return map(self.request, self.asked(first, last))

    def prewarm_requests(self) -> Iterator[JudgeRequest]:
        """For each judge with a prompt cache and each rubric, a request with the common prefix.

        It is sent and priced as a live call, even if the others are sent by batch.
        """
        for section in self.sections:
            for seat in self.seats:
                if seat.ttl and seat.provider.capabilities.prewarm and section.matches:
                    request = self.request(
                        next(match_questions(section.matches[0], [seat.name], self.design))
                    )
                    yield replace(request, worst=seat.worst(request.size, batch=False))

    def trial(self) -> Iterator[JudgeRequest]:
        """For each judge that is called live, the first matches to be asked, on as many prompts as possible."""
        for section, order in zip(self.sections, self._order.spread, strict=True):
            for place in order[:_TRIAL_MATCH_COUNT]:
                for seat in self.seats:
                    if not seat.settings.batch and not self.is_free(section.matches[place]):
                        yield from map(
                            self.request, match_questions(section.matches[place], [seat.name], self.design)
                        )
            if section.matches:
                return

    def shards(self, run: str, generation: int, size: int) -> Iterator[Shard]:
        """The whole plan in shards of ``size`` questions."""
        return cut_into_shards(len(self), run, generation, size)

    @cached_property
    def sha256(self) -> str:
        """The identity of the plan: texts, rubrics, judges and matches; not file names or the order of entrants."""
        digest = hashlib.sha256()
        for part in self._identity_parts():
            digest.update(json.dumps(part, sort_keys=True).encode())
            digest.update(b"\n")
        return digest.hexdigest()

    def _identity_parts(self) -> Iterator[Any]:
        yield [seat.identity for seat in self.seats]
        yield {name: rubric.sha256 for name, rubric in self._rubrics.items()}
        for prompt in self.prompts:
            yield [prompt.prompt_id, prompt.text, prompt.gold, prompt.expected_behavior]
        for (model, prompt_id), answer in sorted(self.answers.items()):
            context = list(context_texts(answer.context))
            yield [model, prompt_id, answer.response, *([context] if context else [])]
        for section in self.sections:
            for match in section.matches:
                yield [match.dimension, match.prompt_id, match.model_a, match.model_b]
            # How many answers are spoilt depends on the proofs that are kept.
            yield [question.id for question in section.checks if question.purpose not in SPOILT_KINDS]
        if self.design.adaptive or self.design.orders != "both":
            yield asdict(self.design)


def select_prompts(bank: Sequence[Prompt], mode: RunMode) -> Sequence[Prompt]:
    """The prompts of a mode: all, or a stratified sample; the whole bank if it is smaller than the sample."""
    if mode.prompts.all:
        return bank
    if mode.prompts.sizes is not None:
        return pilot_subset(bank, mode.prompts.sizes, mode.seed)
    if mode.prompts.ids is not None:
        unknown = sorted(set(mode.prompts.ids).difference(prompt.prompt_id for prompt in bank))
        if unknown:
            raise BadConfig(f"mode {mode.name}: the bank has no prompt {', '.join(unknown[:5])}")
        return [prompt for prompt in bank if prompt.prompt_id in mode.prompts.ids]
    assert mode.prompts.n is not None
    return pilot_subset(bank, min(mode.prompts.n, len(bank)), mode.seed)


def make_plan(
    config: TournamentConfig,
    mode: RunMode,
    inputs: TournamentInputs,
    seats: Sequence[JudgeSetup],
    around: str | None = None,
) -> TournamentPlan:
    """All pairs of entrants on all selected prompts in all dimensions, or a sample; or only the pairs of one model."""
    prompts = select_prompts(inputs.bank, mode)
    entrants = [one.entrant_id for one in config.entrants]
    gold_only = [name for name, rubric in inputs.rubrics.items() if rubric.needs_gold]
    if len(gold_only) == len(inputs.rubrics) and all(prompt.gold is None for prompt in prompts):
        where = config.where("rubrics", gold_only[0], "needs")
        raise BadConfig(
            f"{where}: no prompt of mode {mode.name} has a gold answer; add gold to the prompts, or remove needs"
        )
    has = inputs.answers.keys()
    rules = PairRules(mode.limit_pairs, around, gold_only, config.missing == "prompt")
    every = all_pairs(prompts, entrants, config.dimensions, has, rules)
    pool = mode.design.pool(every, mode.sample_pairs)
    matches = mode.design.first(pool)
    if not matches.matches:
        raise BadConfig(
            f"{config.path}: no two entrants have answered the same prompt; "
            f"missing answers: {', '.join(f'{name} {n}' for name, n in matches.missing.items())}"
        )
    checks = CheckCounts(**config.checks.model_dump())
    # A plan for exactly the given matches.
    answers = inputs.answers
    rubrics = inputs.rubrics
    names = [seat.name for seat in seats]
    by_dimension: dict[str, list[Match]] = {name: [] for name in rubrics}
    for match in matches.matches:
        by_dimension[match.dimension].append(match)
    shown = {
        (model, match.prompt_id)
        for match in (pool if mode.design.adaptive else matches).matches
        for model in (match.model_a, match.model_b)
    }
    _check_images([answers[place] for place in sorted(shown)], seats)
    responses = {place: answers[place].response for place in shown}
    drawn = draw_order(prompts, mode.seed) if checks.planted else ()
    sections = [
        PlanDimension(
            rubric,
            by_dimension[name],
            check_questions(by_dimension[name], responses, names, checks, drawn, mode.design),
        )
        for name, rubric in rubrics.items()
    ]
    kept = {place: answers[place] for place in shown}
    return TournamentPlan(seats, prompts, kept, sections, matches, every, pool, design=mode.design)


def _check_images(answers: Sequence[Answer], seats: Sequence[JudgeSetup]) -> None:
    """Reject conversations with images for a judge that does not see them."""
    blind = [seat.name for seat in seats if not seat.settings.images]
    for answer in answers if blind else ():
        if any(image_urls(message) for message in answer.messages):
            raise BadConfig(
                f"the conversation of prompt {answer.prompt_id} has an image, but the judge {blind[0]} is not said to see "
                "images; set images: true for judges that do, or leave the prompt out of the bank"
            )
