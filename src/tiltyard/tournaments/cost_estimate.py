"""Estimates the calls, cost and precision of a plan before anything is sent; widths also from an earlier run."""

from __future__ import annotations

import asyncio
import json
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any, get_args

import numpy as np

from tiltyard.core.judging.match_design import Design, MatchDesign
from tiltyard.core.judging.matches import Match
from tiltyard.core.judging.power_analysis import (
    ExpectedPrecision,
    PowerAssumptions,
    detectable_difference,
    expected_precision,
    scale_pilot_width,
)
from tiltyard.core.judging.question import Question, build_chat_prompt
from tiltyard.core.judging.verdict import QuestionState
from tiltyard.errors import BrokenArtifact, CannotRate, ProviderFault
from tiltyard.foundation.local_files import read_regular
from tiltyard.judges.ledger import Ledger
from tiltyard.judges.providers.provider import Usage
from tiltyard.judges.requests import (
    EXPECTED_BYTES_PER_TOKEN,
    LOW_BYTES_PER_TOKEN,
    JudgeRequest,
    JudgeSetup,
    expected_tokens,
    token_upper_bound,
)
from tiltyard.report.run_documents import (
    WAYS,
    CostRange,
    EstimateLine,
    PilotForecast,
    PlanEstimate,
    add_amounts,
)
from tiltyard.runs.manifest import DIMENSION_RATINGS
from tiltyard.settings.prices import ModelRetirement, dollars_text, format_dollars, price_option
from tiltyard.tournaments.tournament_plan import PlanDimension, TournamentPlan

_QUESTION_BATCH_COUNT = 500
#: Output tokens of a verdict: with almost no reasoning, with typical written reasoning, and with typical
#: thinking before it.
_LOW_OUTPUT_TOKENS, _EXPECTED_OUTPUT_TOKENS, _EXPECTED_THINKING_TOKENS = 16, 250, 2000
#: The share of ties where orders cannot contradict each other.
_ONE_ORDER_TIE_SHARE = 0.15
#: Requests per judge and dimension whose tokens the provider counts.
_COUNTED_REQUESTS = 8


@dataclass(frozen=True, slots=True)
class PlannedQuestion:
    """One question with its request, and whether it must be sent."""

    question: Question
    request: JudgeRequest
    #: ``cached``, ``call``, or ``same`` if an earlier question has the same request.
    standing: str
    #: The usage of its cached replies, where they state it.
    used: tuple[Usage, ...] = ()

    def to_dict(self) -> dict[str, object]:
        """The question as `tiltyard plan --questions` writes it."""
        question = self.question
        return {
            "question_id": question.id,
            "judge_model": question.judge,
            "dimension": question.dimension,
            "prompt_id": question.prompt_id,
            "first": question.first,
            "second": question.second,
            "purpose": question.purpose.value,
            "replicate": question.replicate,
            "request_key": self.request.key,
            "bytes": self.request.size,
            "worst_usd": None if self.request.worst is None else dollars_text(self.request.worst),
            "standing": self.standing,
        }


def planned_questions(plan: TournamentPlan, ledger: Ledger | None) -> Iterator[PlannedQuestion]:
    """All questions of a plan, in order, with their requests and whether they are cached."""
    questions = enumerate(plan.questions())
    seen: set[bytes] = set()
    while together := list(islice(questions, _QUESTION_BATCH_COUNT)):
        requests = [plan.request(question) for _, question in together]
        replies = ledger.replies(request.key for request in requests) if ledger is not None else {}
        for (number, question), request in zip(together, requests, strict=True):
            seat, bodies = plan.seat(question), replies.get(request.key, [])
            free = request.match is not None and plan.is_free(request.match)
            asks = not free and seat.asks(request, bodies)
            short = bytes.fromhex(request.key)[:16]
            standing = "cached" if not asks else "same" if short in seen else "call"
            seen.add(short)
            plan.remember(number, request.key)
            used = (seat.provider.read(body)[1] for body in bodies)
            yield PlannedQuestion(question, request, standing, tuple(one for one in used if one is not None))


@dataclass
class _Sums:
    questions: int = 0
    cached: int = 0
    calls: int = 0
    size: int = 0
    #: Size of the largest request in bytes.
    largest: int = 0
    #: Replies that state their usage: how many, and their output tokens.
    measured: int = 0
    output: int = 0

    def hear(self, used: Sequence[Usage]) -> None:
        self.measured += len(used)
        self.output += sum(one.output for one in used)

    def expected_output(self, seat: JudgeSetup) -> int:
        """Output tokens of a reply: the mean of those so far; else an assumption, that unknown models think."""
        if self.measured:
            return -(-self.output // self.measured)
        return (
            _EXPECTED_THINKING_TOKENS
            if seat.traits.thinks_with(seat.settings.options)
            else _EXPECTED_OUTPUT_TOKENS
        )


@dataclass
class _Worst:
    """Worst-case costs of all pending calls; ``None`` once a price is unknown."""

    once: int | None = 0
    dearest: int | None = 0
    twice: int | None = 0

    def add(self, request: JudgeRequest, seat: JudgeSetup) -> None:
        self.once = add_amounts(self.once, request.worst)
        if self.once is None or request.worst is None:
            self.dearest = self.twice = None
            return
        self.dearest = max(self.dearest or 0, request.worst)
        # What retrying a truncated reply costs at worst.
        limit = seat.limits.next_limit([QuestionState.TRUNCATED], seat.settings.max_tokens, request.size)
        again = limit and seat.worst(request.size, batch=seat.settings.batch, max_tokens=limit)
        self.twice = add_amounts(self.twice, request.worst + (again or 0))


def estimate_plan(
    plan: TournamentPlan,
    ledger: Ledger | None,
    *,
    bytes_per_token: Mapping[str, float] | None = None,
    on_count: Callable[[int, int], None] = lambda _done, _total: None,
) -> PlanEstimate:
    """Count and price all calls of a plan, in one pass. ``on_count`` is told how many questions of how many are done."""
    sums = {(judge, section.rubric.dimension): _Sums() for section in plan.sections for judge in plan.judges}
    worst = _Worst()
    for number, planned in enumerate(planned_questions(plan, ledger)):
        if number % _QUESTION_BATCH_COUNT == 0:
            on_count(number, len(plan))
        line = sums[planned.question.judge, planned.question.dimension]
        line.questions += 1
        line.hear(planned.used)
        if planned.standing == "call":
            line.calls += 1
            line.size += planned.request.size
            line.largest = max(line.largest, planned.request.size)
            worst.add(planned.request, plan.seat(planned.question))
        else:
            line.cached += 1
    stated = dict(bytes_per_token or {})
    per_token = {judge: stated.get(judge, EXPECTED_BYTES_PER_TOKEN) for judge in plan.judges}
    lines = [
        _line(plan, section, seat, sums[seat.name, section.rubric.dimension], per_token[seat.name])
        for section in plan.sections
        for seat in plan.seats
    ]
    return PlanEstimate(
        lines=lines,
        counted=bool(stated),
        bytes_per_token=per_token,
        expectation=_expectation(plan.matches.matches, plan.design),
        # The oldest date, so that no price is older than stated.
        prices_as_of=min((seat.price_date for seat in plan.seats if seat.price_date), default=None),
        worst=worst.once,
        dearest=worst.dearest,
        worst_twice=worst.twice,
        notes=tuple(_notes(plan, lines)),
        sent_by=tuple(sorted({"batch" if seat.settings.batch else "live" for seat in plan.seats})),
    )


def _line(
    plan: TournamentPlan, section: PlanDimension, seat: JudgeSetup, sums: _Sums, per_token: float
) -> EstimateLine:
    prefix = len(_prefix(plan, section, seat).encode("utf-8", "surrogatepass"))
    tokens = expected_tokens(sums.size, per_token)
    prefix_tokens = expected_tokens(prefix, per_token)
    costs = {
        (way, cache): _cost(seat, sums, prefix, per_token, batch=way == "batch", hits=cache == "cache hits")
        for way, cache in WAYS
    }
    return EstimateLine(
        judge=seat.name,
        dimension=section.rubric.dimension,
        questions=sums.questions,
        cached=sums.cached,
        calls=sums.calls,
        input_tokens=tokens,
        prefix_tokens=prefix_tokens,
        output_tokens=sums.calls * min(sums.expected_output(seat), seat.settings.max_tokens),
        max_tokens=seat.settings.max_tokens,
        measured=sums.measured,
        costs=costs,
    )


def _prefix(plan: TournamentPlan, section: PlanDimension, seat: JudgeSetup) -> str:
    """The common prefix of all requests of a rubric, which a provider may cache."""
    if not section.matches:
        return ""
    question = next(plan.dimension(section.rubric.dimension))
    return build_chat_prompt(plan.shown(question), section.rubric, seat.form, seat.settings.max_tokens).system


def _cost(
    seat: JudgeSetup, sums: _Sums, prefix: int, per_token: float, *, batch: bool, hits: bool
) -> CostRange:
    price = seat.price
    if price is None:
        return CostRange(None, None, None)
    most = seat.settings.max_tokens
    spread = EXPECTED_BYTES_PER_TOKEN / per_token

    def billed(bytes_per_token: float, output: int) -> int:
        tokens = expected_tokens(sums.size, bytes_per_token)
        shared = expected_tokens(prefix, bytes_per_token)
        cached = min(shared * max(sums.calls - 1, 0), tokens) if hits else 0
        # With explicit caching, a prefix that is not read from the cache is written to it, which costs more.
        written = min(shared * (1 if hits else sums.calls), tokens - cached) if seat.ttl else 0
        usage = Usage(max(tokens - cached - written, 0), sums.calls * min(output, most), written, cached)
        each = tokens // max(sums.calls, 1)
        return price.of_prompt(each).cost(usage, batch=batch, ttl=seat.ttl)

    return CostRange(
        low=billed(LOW_BYTES_PER_TOKEN / spread, _LOW_OUTPUT_TOKENS),
        expected=billed(per_token, sums.expected_output(seat)),
        worst=price.of_prompt(token_upper_bound(sums.largest)).worst(
            sums.size + sums.calls * token_upper_bound(0), sums.calls * most, batch=batch, ttl=seat.ttl
        ),
    )


def _notes(plan: TournamentPlan, lines: Sequence[EstimateLine]) -> Iterator[str]:
    short = [line for line in lines if line.prefix_tokens < 1024]
    asked = [seat.name for seat in plan.seats if seat.settings.prompt_cache != "off"]
    if asked and short:
        fewest = min(line.prefix_tokens for line in short)
        yield (
            f"prompt caching is enabled, but a rubric's part of the request has only about {fewest} tokens; "
            "depending on the model, providers silently cache nothing below 512 to 4,096 tokens"
        )
    for seat in plan.seats:
        if seat.price is None:
            yield (
                f"the price of {seat.name} is unknown: give it with {price_option(seat.settings.model)}, in dollars "
                "per million tokens, or under prices: in the configuration"
            )
        if seat.retirement is not None:
            yield retirement_note(seat.settings.model, seat.retirement)


def retirement_note(model: str, retirement: ModelRetirement) -> str:
    """A note about a model that its provider has retired or will retire."""
    past = retirement.on <= datetime.now(UTC).date()
    note = (
        f"{model} was retired on {retirement.on}" if past else f"{model} will be retired on {retirement.on}"
    )
    return note if retirement.successor is None else f"{note}; its provider recommends {retirement.successor}"


def compare_designs(plan: TournamentPlan, estimate: PlanEstimate) -> Iterator[list[str]]:
    """Each design's calls without a cache, their cost at the mean of this plan's calls, and what it detects.

    Of an adaptive one these are the calls of its first round and of all pairs, and what all pairs detect.
    """
    expected = [estimate.total(way, "no cache hits").expected for way in estimate.sent_by]
    each = None if len(expected) != 1 or expected[0] is None else expected[0] / max(estimate.calls, 1)
    checks = sum(len(section.checks) for section in plan.sections)
    asked = len(plan.seats) * (2 if plan.design.orders == "both" else 1 + plan.design.audit)
    centre = plan.design.baseline or plan.every.matches[0].model_a
    for name in get_args(Design):
        design = replace(plan.design, design=name, baseline=centre)
        pool = design.pool(plan.every)
        first = design.first(pool)
        found = _expectation((pool if design.adaptive else first).matches, design)
        counts = dict.fromkeys(len(one.matches) for one in ((first, pool) if design.adaptive else (first,)))
        calls = [checks + round(count * asked) for count in counts]
        costs = ["unknown"] if each is None else [format_dollars(round(each * count)) for count in calls]
        points = "–" if found is None else f"{found.detectable:.0f}"
        yield [name, " – ".join(f"{count:,}" for count in calls), " – ".join(costs), points]


def _expectation(matches: Sequence[Match], design: MatchDesign) -> ExpectedPrecision | None:
    """The expected precision of a dimension, of the one with the fewest pairs."""
    by_dimension: dict[str, list[Match]] = defaultdict(list)
    for match in matches:
        by_dimension[match.dimension].append(match)
    if not by_dimension:
        return None
    fewest = min(by_dimension.values(), key=len)
    models = sorted({model for match in fewest for model in (match.model_a, match.model_b)})
    place = {model: k for k, model in enumerate(models)}
    met = Counter((place[match.model_a], place[match.model_b]) for match in fewest)
    assumed = (
        PowerAssumptions() if design.orders == "both" else PowerAssumptions(tie_rate=_ONE_ORDER_TIE_SHARE)
    )
    met_counts = np.zeros((len(models), len(models)), dtype=np.int64)
    for (a, b), n in met.items():
        met_counts[a, b] = met_counts[b, a] = n
    prompts = len({match.prompt_id for match in fewest})
    try:
        return expected_precision(met_counts, prompts, assumed)
    except CannotRate:
        return None


def measure_bytes_per_token(plan: TournamentPlan) -> dict[str, float]:
    """Bytes per token by judge, counted by the provider on a sample of requests, where supported."""
    return asyncio.run(_measured(plan))


async def _measured(plan: TournamentPlan) -> dict[str, float]:
    measured: dict[str, float] = {}
    for seat in plan.seats:
        if not seat.provider.capabilities.count_tokens:
            continue
        size = tokens = 0
        try:
            for question in _sample(plan, seat):
                request = plan.request(question)
                tokens += await seat.provider.count_tokens(request.body)
                size += request.size
        except ProviderFault as fault:
            raise ProviderFault(f"{seat.name}: cannot count tokens: {fault}") from None
        finally:
            await seat.provider.aclose()
        if tokens:
            measured[seat.name] = size / tokens
    return measured


def _sample(plan: TournamentPlan, seat: JudgeSetup) -> Iterator[Question]:
    """A few evenly spaced questions of each dimension."""
    for section in plan.sections:
        step = max(1, math.ceil(len(section.matches) / _COUNTED_REQUESTS))
        for match in section.matches[::step]:
            yield Question(seat.name, match.dimension, match.prompt_id, match.model_a, match.model_b)


def pilot_expectation(folder: Path, planned: ExpectedPrecision | None) -> dict[str, PilotForecast]:
    """By dimension: the pilot's mean half-width, scaled to the planned number of prompts.

    ``detectable_difference`` assumes that the errors of two models are equal and independent: √2 times one
    half-width.
    """
    if planned is None:
        return {}
    forecast: dict[str, PilotForecast] = {}
    path = folder / DIMENSION_RATINGS
    try:
        for name, group in _groups(path).items():
            interval = group["interval"]
            widths = [
                (entry["ci_high"] - entry["ci_low"]) / 2.0
                for entry in group["ratings"]
                if entry["ci_low"] is not None and entry["ci_high"] is not None
            ]
            if interval is None or not widths:
                continue
            if interval["clusters"] == "prompt" and interval["n_clusters"] > 1:
                then = interval["n_clusters"]
                half_width = scale_pilot_width(sum(widths) / len(widths), then, planned.prompts)
                forecast[name] = {
                    "pilot_prompts": then,
                    "half_width": half_width,
                    "detectable": detectable_difference(2.0**0.5 * half_width, planned.prompts),
                }
    except (ValueError, KeyError, TypeError, AttributeError):
        raise BrokenArtifact(f"{path}: not the ratings of a tournament") from None
    return forecast


def _groups(path: Path) -> dict[str, Any]:
    """The groups of an earlier run's ratings, as they stand in the file."""
    try:
        return dict(json.loads(read_regular(path))["groups"])
    except FileNotFoundError:
        raise BrokenArtifact(f"{path.parent} has no {path.name}: name the folder of a finished run") from None
    except OSError as error:
        raise BrokenArtifact(f"{path}: cannot be read: {error.strerror or error}") from None
