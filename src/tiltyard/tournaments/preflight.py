"""Preflight: a few calls of each judge before a run, under the run's budget, whose replies the run uses.

They find the reply form that works, show whether the longest pair fits, and measure how long replies are. A judge that
rejects an ordinary question in every form, or gives no verdict on several prompts, is unusable: the run stops.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from http import HTTPStatus

from tiltyard.core.judging.match_design import match_questions
from tiltyard.core.judging.matches import Match, Prompt
from tiltyard.core.judging.question import Rubric
from tiltyard.core.judging.verdict import QuestionState, VerdictForm
from tiltyard.core.ratings.findings import Finding
from tiltyard.core.ratings.sentences import first_of
from tiltyard.errors import JudgeUnusable, ProviderFault
from tiltyard.judges.concurrency_limiter import ConcurrencyLimiter
from tiltyard.judges.judging_run import JudgingDatabases, RunProgress
from tiltyard.judges.ledger import Ledger
from tiltyard.judges.ledger_batcher import LedgerBatcher
from tiltyard.judges.live_calls import LiveCalls, gather_or_cancel
from tiltyard.judges.providers.provider import Provider
from tiltyard.judges.requests import (
    FIRST_UNUSABLE_REPLY_COUNT,
    UNUSABLE,
    WITHOUT_VERDICT,
    EmptyReply,
    JudgeCaller,
    JudgeRequest,
    JudgeSetup,
    LearnedLimits,
    UnusableReplies,
    possible_forms,
)
from tiltyard.settings.tournament_config import RunMode
from tiltyard.tournaments.tournament_plan import TournamentPlan

#: As much of a rubric's words as a finding shows.
_SHOWN_CHARACTERS = 60
#: Words for a gold answer. A "gold standard" alone may be a treatment.
_GOLD = re.compile(
    r"\b(?:gold(?:en|[ -]standard)?|reference|ground[ -]truth)[ _-](?:answer|response|solution|label)s?\b"
    r"|\bground[ -]truth\b",
    re.IGNORECASE,
)
#: How rubrics ask for a reply: a verdict line, MT-bench's brackets, JSON, a last line, one of two letters, a score.
_OWN_REPLY = re.compile(
    r"""(?i:\bverdict)["*`]{0,3}\ ?[:=][*_]{0,2}\ ?["'*`<\[({]{0,3}(?!A>>?B|A=B|B>>?A)(?:(?:[AB12]|(?i:tie|draw|win\w{0,4}))\b|[<\[{])
    |\[\[(?:[ABC]|(?i:tie|rating)|\d)
    |"(?i:winner|verdict|preferred|preference|choice|score)"\ ?:
    |(?:(?i:\b(?:reply|respond|answer|output))|\bReturn)\b[^.\n]{0,40}(?i:\bJSON\b)
    |(?i:\b(?:end|finish|conclude)\b[^.\n]{0,30}\bwith\ (?:one|a\ single|exactly|your|the|this)\b[^.\n]{0,30}
        \b(?:line|verdict|letter|tag)\b)
    |(?i:\b(?:reply|respond|answer|output|print|return|write)\b[^.\n]{0,40}\b(?:with|only|just|exactly|one\ of|either)\b)
        [^.\n]{0,30}\bA\b["'”`\]]{0,3}\ ?(?:,|or|/)\ ?["'“`\[]{0,3}B\b
    |(?i:\b(?:score|rate|grade)\b[^.\n]{0,40}\b(?:from|scale\ of)\ [01]\b)""",
    re.VERBOSE,
)
#: Statuses of a request that the endpoint does not accept as it is; in another form it may.
_REJECTED = frozenset({400, 422})
#: Pairs of each dimension among which one of middling length is chosen.
_SAMPLED_PAIR_COUNT = 1000


def plan_findings(plan: TournamentPlan, mode: RunMode) -> Iterator[Finding]:
    """The findings of a plan for a mode."""
    rubrics = [section.rubric for section in plan.sections]
    yield from _gold_answers(rubrics, plan.prompts)
    for rubric in rubrics:
        yield from rubric_findings(rubric)
    yield from _prompt_caches(plan.seats, mode)


def rubric_findings(rubric: Rubric) -> Iterator[Finding]:
    """What a rubric asks of its judge that the question does not give, or gives otherwise."""
    said: dict[str, str] = {"dimension": rubric.dimension}
    gold = _GOLD.search(rubric.text)
    if gold is not None and not rubric.gold:
        yield Finding("gold-not-shown", {**said, "case": "words", "words": gold[0]})
    elif rubric.needs_gold and not rubric.gold:
        yield Finding("gold-not-shown", {**said, "case": "needs"})
    own = _OWN_REPLY.search(rubric.text)
    if own is not None:
        words = rubric.text[own.start() :].splitlines()[0][:_SHOWN_CHARACTERS].strip()
        yield Finding("own-reply-form", {**said, "words": words})


def _gold_answers(rubrics: Sequence[Rubric], prompts: Sequence[Prompt]) -> Iterator[Finding]:
    """How many prompts have a gold answer, if some have none and a rubric shows or needs it."""
    counts = {"gold": sum(prompt.gold is not None for prompt in prompts), "prompts": len(prompts)}
    for case, dimensions in (
        ("left-out", [one.dimension for one in rubrics if one.needs_gold]),
        ("judged", [one.dimension for one in rubrics if one.gold and not one.needs_gold]),
    ):
        if dimensions and counts["gold"] < counts["prompts"]:
            yield Finding("gold-missing", {"case": case, **counts, **first_of("dimensions", dimensions)})


def _prompt_caches(seats: Sequence[JudgeSetup], mode: RunMode) -> Iterator[Finding]:
    """Prompt caching and pre-warming go together, where a provider has both; a pilot need not wait for a warm cache."""
    both = [seat for seat in seats if seat.provider.capabilities.prewarm]
    for case, judges in (
        ("cache", [seat.name for seat in both if mode.prewarm and not seat.ttl]),
        ("prewarm", [seat.name for seat in both if seat.ttl and not mode.prewarm and mode.name != "pilot"]),
    ):
        if judges:
            yield Finding("prompt-cache-incomplete", {"case": case, **first_of("judges", judges)})


@dataclass(frozen=True)
class PreflightResult:
    """The judges, each with the reply form that works, and what is worth telling about them."""

    seats: tuple[JudgeSetup, ...]
    notes: Sequence[str]
    #: Why a judge cannot be used.
    unusable: str | None = None


def run_preflight(
    plan: TournamentPlan, run: str, databases: JudgingDatabases, heard: RunProgress
) -> PreflightResult:
    """Try every judge that is called live; what is cached is not asked again."""
    return asyncio.run(_try_all(plan, run, databases, heard))


def cached_forms(plan: TournamentPlan, ledger: Ledger) -> tuple[JudgeSetup, ...]:
    """The judges, each in the form in which an earlier run had a reply; nothing is sent."""
    return tuple(_cached_form(plan, seat, ledger) for seat in plan.seats)


def _cached_form(plan: TournamentPlan, seat: JudgeSetup, ledger: Ledger) -> JudgeSetup:
    forms = possible_forms(seat.settings, seat.provider, seat.traits)
    matches = _ordinary_matches(plan) if len(forms) > 1 else []
    if not matches:
        return seat
    keys = {form: _request(plan, seat, matches[0], form).key for form in forms}
    replies = ledger.replies(keys.values())
    for form, key in keys.items():
        asked = seat.with_form(form)
        if any(asked.read(body) is QuestionState.OK for body in replies.get(key, [])):
            return asked
    return seat


def _request(
    plan: TournamentPlan, seat: JudgeSetup, match: Match, form: VerdictForm, order: int = 0
) -> JudgeRequest:
    """A question of a match, in a form; the first one again if it is asked in one order."""
    question = [*match_questions(match, [seat.name], plan.design)][-order]
    asked = plan.with_seats([seat.with_form(form)]).request(question)
    # Without a question ID: a failure here must not count for a question.
    return replace(asked, question_id="")


def _ordinary_matches(plan: TournamentPlan) -> list[Match]:
    """A pair of middling length in each dimension, of a sample of them."""
    found = []
    for section in plan.sections:
        asked = plan.asked_matches(section)
        some = asked[:: -(-len(asked) // _SAMPLED_PAIR_COUNT)] if asked else []
        found += sorted(some, key=lambda match: _size(plan, match))[len(some) // 2 :][:1]
    return found


def _size(plan: TournamentPlan, match: Match) -> int:
    """The characters of the two responses."""
    return sum(len(plan.answers[model, match.prompt_id].response) for model in (match.model_a, match.model_b))


async def _try_all(
    plan: TournamentPlan, run: str, databases: JudgingDatabases, heard: RunProgress
) -> PreflightResult:
    books, worker = LedgerBatcher(databases.ledger), f"preflight {run}"
    try:
        # Calls of a preflight that was killed.
        await books.run(Ledger.lose, worker)
        tried = await gather_or_cancel([_try(plan, seat, run, worker, books, heard) for seat in plan.seats])
    finally:
        await books.drained()
        books.close()
    return PreflightResult(
        tuple(seat for one in tried for seat in one.seats),
        [note for one in tried for note in one.notes],
        next((one.unusable for one in tried if one.unusable is not None), None),
    )


async def _try(
    plan: TournamentPlan, seat: JudgeSetup, run: str, worker: str, books: LedgerBatcher, heard: RunProgress
) -> PreflightResult:
    """The result of one judge. Batches and recorded replies are not tried."""
    if seat.settings.batch or seat.provider.name == "replay":
        return PreflightResult((seat,), ())
    provider = seat.reopen()
    trial = _JudgeTrial(plan, seat, provider, run, worker, books, heard)
    try:
        found = await trial.run()
        return PreflightResult((found,), trial.notes, trial.unusable)
    finally:
        await books.drained()
        await provider.aclose()


@dataclass
class _JudgeTrial:
    """The preflight of one judge."""

    plan: TournamentPlan
    seat: JudgeSetup
    provider: Provider
    run_id: str
    worker: str
    books: LedgerBatcher
    heard: RunProgress
    notes: list[str] = field(default_factory=list)
    unusable: str | None = None
    #: The last fault of each form.
    _faults: dict[VerdictForm, ProviderFault] = field(default_factory=dict)

    def __post_init__(self) -> None:
        settings = self.seat.settings
        self._unread = UnusableReplies(
            settings.name, self.seat.form, settings.max_tokens, replies=FIRST_UNUSABLE_REPLY_COUNT
        )

    async def run(self) -> JudgeSetup:
        """The judge with the form that works."""
        matches = _ordinary_matches(self.plan)
        if not matches:
            return self.seat
        form = await self._working_form(matches[0])
        if form is None or self.unusable is not None:
            # Without a reply because of something else, such as a wrong key or a server that is down, the run reports it.
            return self.seat
        every = (match for section in self.plan.sections for match in self.plan.asked_matches(section))
        longest = max(every, key=lambda match: _size(self.plan, match))
        ended = await asyncio.gather(
            *(self._state(match, form) for match in (longest, *matches[1:])),
            # A budget may not reach these matches again: no match is left half judged.
            *(self._state(match, form, order=1) for match in (longest, *matches)),
        )
        if ended[0] is QuestionState.PROVIDER_ERROR:
            self.notes.append(
                f"{self.seat.name} did not answer the longest pair (prompt {longest.prompt_id}, {longest.model_a} "
                f"and {longest.model_b}, {_size(self.plan, longest):,} characters): {self._faults[form]}"
            )
        return self.seat.with_form(form)

    async def _working_form(self, match: Match) -> VerdictForm | None:
        """The first form in which the judge gives a verdict; ``None`` if there is none, or that cannot be told."""
        first = self.seat.form
        others = possible_forms(self.seat.settings, self.provider, self.seat.traits)
        seen: dict[VerdictForm, QuestionState] = {}
        for form in (first, *(form for form in others if form is not first)):
            seen[form] = await self._state(match, form)
            if seen[form] is QuestionState.PROVIDER_ERROR:
                fault = self._faults[form]
                if fault.fatal and fault.status == HTTPStatus.OK:
                    # Something else than a model answers, such as a website.
                    self.unusable = f"{UNUSABLE}{fault}"
                if fault.fatal or not (isinstance(fault, EmptyReply) or fault.status in _REJECTED):
                    return None
            elif seen[form] is not QuestionState.UNPARSEABLE:
                refused = "; ".join(f"{one}: {self._why(one, seen[one])}" for one in seen if one is not form)
                if refused:
                    self.notes.append(f"{self.seat.name} is asked in the reply form {form} ({refused})")
                break
        accepted = [form for form in seen if seen[form] is not QuestionState.PROVIDER_ERROR]
        if not accepted and any(isinstance(fault, EmptyReply) for fault in self._faults.values()):
            return None
        if not accepted:
            reasons = dict.fromkeys(self._why(form, state) for form, state in seen.items())
            self.unusable = (
                f"{UNUSABLE}{self.seat.name} rejected an ordinary question in every reply form ({', '.join(seen)}): "
                f"{'; '.join(reasons)}; check model, max_tokens and options, or choose another judge, then run the command again"
            )
            return None
        chosen = next((form for form in accepted if seen[form] is not QuestionState.UNPARSEABLE), accepted[0])
        if seen[chosen] in WITHOUT_VERDICT:
            await self._ask_others(match, chosen)
        return chosen

    async def _ask_others(self, match: Match, form: VerdictForm) -> None:
        """Ask on other prompts, until there is a verdict or enough replies had none: some judges fail now and then."""
        asked = self.plan.asked_matches(self.plan.sections[0])
        others = {one.prompt_id: one for one in asked if one.prompt_id != match.prompt_id}
        for other in list(others.values())[:FIRST_UNUSABLE_REPLY_COUNT]:
            if self.unusable is not None or await self._state(other, form) not in WITHOUT_VERDICT:
                return

    def _why(self, form: VerdictForm, state: QuestionState) -> str:
        if state is QuestionState.UNPARSEABLE:
            return "its reply held no verdict"
        return self._faults[form].said or str(self._faults[form])

    def _stop(self, reason: JudgeUnusable) -> None:
        self.unusable = str(reason)

    async def _state(self, match: Match, form: VerdictForm, order: int = 0) -> QuestionState:
        """Ask, unless it is cached; the state of the reply."""
        seat, request = self.seat.with_form(form), _request(self.plan, self.seat, match, form, order)
        caller = JudgeCaller(
            name=seat.name,
            provider=self.provider,
            price=seat.price,
            gate=ConcurrencyLimiter(1),
            read=seat.read,
            ttl=seat.ttl,
            retries=min(seat.settings.retries, 1),
            limits=replace(seat.limits, repeated=False),
            learned=LearnedLimits(context=seat.traits.context),
            unusable=self._unread,
            stop=self._stop,
        )
        calls = LiveCalls(
            self.run_id,
            self.worker,
            self.books,
            self.heard,
            fault=lambda one: self._faults.update({form: one}),
        )
        ended = await calls.ask([request], caller)
        return QuestionState(next(iter(ended)))
