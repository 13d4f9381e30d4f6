"""Requests to judges, and the judges that are asked: keys and sizes, how long replies may be, when a judge is unusable."""

from __future__ import annotations

import hashlib
import json
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from http import HTTPStatus
from typing import Any, ClassVar

from tiltyard.core.judging.matches import Match
from tiltyard.core.judging.verdict import ParsedReply, QuestionState, Reply, VerdictForm, read_reply
from tiltyard.errors import BadConfig, JudgeUnusable, ProviderFault
from tiltyard.judges.concurrency_limiter import ConcurrencyLimiter
from tiltyard.judges.providers.local_replies import open_provider
from tiltyard.judges.providers.provider import (
    Body,
    Provider,
    Usage,
    allowed_tokens,
    alternative_limit_field,
    token_limit,
    with_token_limit,
)
from tiltyard.settings.environment import Environment
from tiltyard.settings.model_endpoints import REPLAY
from tiltyard.settings.prices import ModelRetirement, ModelTraits, Price, PriceBook, open_prices
from tiltyard.settings.tournament_config import JudgeSettings, RunMode, TournamentConfig

#: Bytes of text per token. English prose has four to five; code, other languages and numbers have fewer.
LOW_BYTES_PER_TOKEN, EXPECTED_BYTES_PER_TOKEN = 5.0, 4.0
#: An upper bound of the tokens of one image; most models bill far fewer.
IMAGE_TOKENS = 50_000
#: Tokens that a provider may add to a request: roles, the schema's grammar, the tool definition.
_OVERHEAD_TOKENS = 1024
#: A request is sent at most twice: once more if its reply cannot be parsed.
ASK_LIMIT = 2
#: How often one request is adapted to the limits of its endpoint.
ADAPTATION_LIMIT = 4
#: A truncated reply is retried with this many times the tokens.
_RAISED_LIMIT_RATIO = 4
#: The lowest limit to send, even if less space seems to be left: our count is only an estimate.
_MIN_REPLY_TOKENS = 64
#: Statuses of a rejected request; items of a batch have none.
_REFUSALS = frozenset({None, 400, 422})
#: Prefix of the reason, by which it is recognised among the failures of other workers.
UNUSABLE = "judge unusable: "
#: Consecutive replies without a verdict, retries included, and finished prompts among them.
_UNUSABLE_REPLY_COUNT, _UNUSABLE_PROMPT_COUNT = 10, 3
#: The replies that are enough where a judge has given no verdict yet, and is asked one question after the other.
FIRST_UNUSABLE_REPLY_COUNT = 6
WITHOUT_VERDICT = (QuestionState.TRUNCATED, QuestionState.UNPARSEABLE, QuestionState.REFUSED)


class EmptyReply(ProviderFault):
    """A reply of a judge that says nothing."""


def token_upper_bound(size: int) -> int:
    """An upper bound: a token has at least one byte, and providers add a little."""
    return size + _OVERHEAD_TOKENS


def expected_tokens(size: int, bytes_per_token: float = EXPECTED_BYTES_PER_TOKEN) -> int:
    """An estimate, and marked as one wherever it is shown."""
    return round(size / bytes_per_token)


@dataclass(frozen=True, slots=True)
class ReplyLimits:
    """The known limits of a model in tokens: its output, and its context (request and reply together)."""

    max_output: int | None = None
    context: int | None = None
    #: Whether to retry a truncated reply with a larger limit, and one that cannot be parsed with the same.
    raised: bool = True
    repeated: bool = True

    def next_limit(self, states: Sequence[QuestionState], planned: int, size: int) -> int | None:
        """The limit of the next attempt after replies with these states; ``None`` if none is needed.

        ``planned`` is the request's own limit, ``size`` its bytes. A truncated reply is never retried
        with the same limit: it would be truncated again.
        """
        if not states:
            return planned
        if len(states) >= ASK_LIMIT:
            return None
        if states[0] is QuestionState.UNPARSEABLE:
            return planned if self.repeated else None
        if states[0] is not QuestionState.TRUNCATED or not self.raised:
            return None
        room = math.inf if self.context is None else self.context - expected_tokens(size)
        raised = min(
            _RAISED_LIMIT_RATIO * planned, math.inf if self.max_output is None else self.max_output, room
        )
        return int(raised) if raised > planned else None


@dataclass(slots=True)
class LearnedLimits:
    """Limits learnt from error messages of an endpoint, kept for the rest of the run."""

    output: int | None = None
    context: int | None = None
    #: Input tokens per byte of a request: the highest seen.
    tokens_per_byte: float = 1.0 / EXPECTED_BYTES_PER_TOKEN
    #: The field name for the limit, if the endpoint wants another one.
    field: str | None = None

    def bounded(self, limit: int, size: int) -> int:
        """The limit, reduced to what is known to be allowed for a request of this size."""
        most = limit if self.output is None else min(limit, self.output)
        if self.context is None:
            return most
        room = self.context - math.ceil(size * self.tokens_per_byte)
        return min(most, max(room, _MIN_REPLY_TOKENS))

    def learn(self, fault: ProviderFault, body: Body, size: int) -> bool:
        """Learn from a rejection; return whether the request will be sent differently now."""
        if fault.status not in _REFUSALS or fault.billed:
            return False
        self.field = alternative_limit_field(fault.said, body) or self.field
        sent = token_limit(body)
        allowed = allowed_tokens(fault.said, sent)
        if allowed is not None and allowed.context is not None:
            self.context = allowed.context
            self.tokens_per_byte = max(self.tokens_per_byte, (allowed.input or 0) / max(size, 1))
        elif allowed is not None:
            self.output = min(allowed.output, self.output or allowed.output)
        renamed = self.field is not None and self.field not in body
        return renamed or self.bounded(sent, size) < sent


class UnusableReplies:
    """Counts consecutive replies of one judge without a verdict.

    A prompt counts once a question on it has ended: many calls are in flight together, and all of
    their first replies may be truncated although the retries, with a larger limit, are not.
    """

    def __init__(
        self, judge: str, form: VerdictForm, max_tokens: int, replies: int = _UNUSABLE_REPLY_COUNT
    ) -> None:
        self._judge = judge
        self._replies = replies
        self._advice = {
            QuestionState.TRUNCATED: f"raise max_tokens ({max_tokens:,} now), or choose a judge that thinks less",
            QuestionState.UNPARSEABLE: f"use another reply form ({form} now), or choose another judge",
            QuestionState.REFUSED: "check the prompts, or choose another judge",
        }
        self._states: Counter[QuestionState] = Counter()
        self._prompts: set[str] = set()

    @property
    def has_long_streak(self) -> bool:
        """Whether the last verdict was many replies ago."""
        return self._states.total() >= self._replies

    def add(self, prompt_id: str, state: str, *, ended: bool) -> JudgeUnusable | None:
        """Record the state of a reply; return the reason once the judge is unusable.

        ``ended``: the question needs no further request.
        """
        if state not in WITHOUT_VERDICT:
            self._states.clear()
            self._prompts.clear()
            return None
        self._states[QuestionState(state)] += 1
        if ended:
            self._prompts.add(prompt_id)
        if not self.has_long_streak or len(self._prompts) < _UNUSABLE_PROMPT_COUNT:
            return None
        common = self._states.most_common(1)[0][0]
        states = ", ".join(f"{state} {count}" for state, count in self._states.most_common())
        return JudgeUnusable(
            f"{UNUSABLE}the last {self._states.total()} replies of {self._judge}, on {len(self._prompts)} or more "
            f"prompts, contained no verdict ({states}); {self._advice[common]}, then run the command again"
        )


@dataclass(frozen=True, slots=True)
class JudgeRequest:
    """One request. ``judge`` names the `JudgeCaller` that sends it; ``worst`` is its worst-case cost in picodollars."""

    key: str
    question_id: str
    judge: str
    dimension: str
    body: Body
    #: Size of the request in bytes, but of an image what it may cost in tokens.
    size: int
    worst: int | None
    #: The prompt of the question.
    prompt_id: str = ""
    #: The bytes of images beyond what ``size`` counts for them.
    image_bytes: int = 0
    #: The match that it is an order of; ``None`` for checks.
    match: Match | None = None
    #: Picodollars that must be left for the other order of the match, so that it is not left half judged.
    headroom: int = 0


@dataclass(frozen=True)
class JudgeCaller:
    """How the requests of one judge are sent and its replies parsed."""

    name: str
    provider: Provider
    price: Price | None
    gate: ConcurrencyLimiter
    #: Returns the state of a raw reply; truncated and unparseable replies are retried once.
    read: Callable[[Body], QuestionState]
    batch: bool = False
    ttl: str | None = None
    retries: int = 5
    limits: ReplyLimits = field(default_factory=ReplyLimits)
    learned: LearnedLimits = field(default_factory=LearnedLimits)
    #: Counts replies without a verdict; ``None`` for models that are not judges.
    unusable: UnusableReplies | None = None
    #: Called when the judge is found to be unusable.
    stop: Callable[[JudgeUnusable], None] = lambda _reason: None

    def due(self, request: JudgeRequest, bodies: Sequence[Body]) -> JudgeRequest | None:
        """The request to send after these replies; ``None`` if none is needed.

        The key does not change: adapting the token limit does not make it another question.
        """
        states = [self.read(body) for body in bodies]
        planned = token_limit(request.body)
        limit = self.limits.next_limit(states, planned, request.size)
        if limit is None:
            return None
        limit = self.learned.bounded(limit, request.size)
        if states and states[0] is QuestionState.TRUNCATED and limit <= self._had(request, bodies[0]):
            return None
        field = self.learned.field
        if limit == planned and (field is None or field in request.body):
            return request
        worst = None
        if self.price is not None:
            worst = self.price.worst(token_upper_bound(request.size), limit, batch=self.batch, ttl=self.ttl)
        return replace(request, body=with_token_limit(request.body, limit, field), worst=worst)

    def empty_reply(self, body: Body) -> EmptyReply | None:
        """The failure that an empty reply of a judge is; ``None`` for other replies, recorded ones, and other models."""
        if self.unusable is None or self.provider.name == REPLAY or not self.provider.read(body)[0].is_empty:
            return None
        problem = f"{self.name} at {self.provider.base_url}: the reply is empty; check the server, or choose another judge"
        return EmptyReply(problem, status=HTTPStatus.OK, retryable=True)

    def heard(self, request: JudgeRequest, bodies: Sequence[Body]) -> None:
        """Record a new reply, the last of these."""
        if self.unusable is None:
            return
        ended = self.due(request, bodies) is None
        reason = self.unusable.add(request.prompt_id, self.read(bodies[-1]), ended=ended)
        if reason is not None:
            self.stop(reason)

    def _had(self, request: JudgeRequest, body: Body) -> int:
        """The tokens of a truncated reply: at least the limit that we sent."""
        _, usage = self.provider.read(body)
        allowed = self.learned.bounded(token_limit(request.body), request.size)
        return allowed if usage is None else max(allowed, usage.output)

    def cost(self, usage: Usage | None, worst: int | None) -> int | None:
        """The cost of a reply: the worst case if the usage is unknown, ``None`` if the price is unknown."""
        if self.price is None:
            return None
        if usage is None:
            return worst
        return self.price.cost(usage, batch=self.batch, ttl=self.ttl)


def request_key(provider: Provider, body: Body, replicate: int) -> tuple[str, int]:
    """The cache key of a request, a hash of everything that determines its reply, and the size of the request.

    Names of entrants, IDs, concurrency and batching are not part of it.
    """
    text = json.dumps(body, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    sent = text.encode("utf-8", "surrogatepass")
    name, address = json.dumps(provider.name), json.dumps(provider.address)
    digest = hashlib.sha256()
    digest.update(f'{{"adapter_version":{provider.adapter_version},"base_url":{address},"body":'.encode())
    digest.update(sent)
    digest.update(f',"provider":{name},"replicate":{replicate}}}'.encode())
    return digest.hexdigest(), len(sent)


def _closed() -> Provider:
    raise AssertionError("opened without a way to open it again")


@dataclass(frozen=True)
class JudgeSetup:
    """One judge of a run."""

    settings: JudgeSettings
    provider: Provider
    form: VerdictForm
    #: ``None`` if it is unknown.
    price: Price | None
    traits: ModelTraits = field(default_factory=ModelTraits)
    #: When its provider stops serving the model, if known.
    retirement: ModelRetirement | None = None
    #: The date of its price, if it is a shipped one.
    price_date: str | None = None
    #: Opens its provider again, for calls on another event loop.
    reopen: Callable[[], Provider] = field(default=_closed, compare=False)
    #: Whether its replies are verdicts: a reply without one is retried, and too many end the run.
    judges: ClassVar[bool] = True

    @property
    def name(self) -> str:
        return self.settings.name

    @property
    def ttl(self) -> str | None:
        """The lifetime to request for the prompt cache, if the provider supports it."""
        return self.settings.ttl if self.provider.capabilities.prompt_cache else None

    @cached_property
    def options(self) -> Mapping[str, Any]:
        cache = {} if self.ttl is None else {"prompt_cache": self.ttl}
        return {**self.settings.options, **cache}

    @property
    def identity(self) -> list[Any]:
        """Everything that determines the requests of this judge and who answers them."""
        return [
            self.name,
            self.provider.name,
            self.provider.address,
            self.provider.adapter_version,
            self.settings.model,
            # The first choice, even if a preflight found that another form works.
            possible_forms(self.settings, self.provider, self.traits)[0].value,
            self.settings.max_tokens,
            dict(self.options),
        ]

    def with_form(self, form: VerdictForm) -> JudgeSetup:
        """The same judge, asked in this form; it is noted if it is not the first choice."""
        first = possible_forms(self.settings, self.provider, self.traits)[0]
        found = None if form is first else form.value
        return replace(self, form=form, settings=replace(self.settings, found_form=found))

    @property
    def limits(self) -> ReplyLimits:
        """The limits of its replies."""
        return ReplyLimits(self.traits.max_output, self.traits.context, raised=self.judges)

    def asks(self, request: JudgeRequest, bodies: Sequence[Body]) -> bool:
        """Whether the request must be sent again after these replies."""
        states = [self.read(body) for body in bodies]
        return self.limits.next_limit(states, token_limit(request.body), request.size) is not None

    def worst(self, size: int, *, batch: bool, max_tokens: int | None = None) -> int | None:
        """The most that a request of this many bytes can cost: the amount to reserve."""
        if self.price is None:
            return None
        limit = max_tokens or self.settings.max_tokens
        return self.price.worst(token_upper_bound(size), limit, batch=batch, ttl=self.ttl)

    def read(self, body: Body) -> QuestionState:
        """The state of a raw reply."""
        return self.reading(body)[1].state

    def reading(self, body: Body) -> tuple[Reply, ParsedReply]:
        reply, _ = self.provider.read(body)
        return reply, read_reply(reply, self.form)


def open_judges(
    config: TournamentConfig, mode: RunMode, environment: Environment, *, asking: bool
) -> Sequence[JudgeSetup]:
    """The judges of a mode. ``asking``: they will be called, so API keys are required."""
    prices = open_prices(config.prices, config.folder)
    seats: list[JudgeSetup] = []
    for settings in mode.judges:
        if settings.provider == REPLAY and settings.base_url is not None:
            settings = replace(settings, base_url=str(config.at(settings.base_url).resolve()))  # noqa: PLW2901
        seats.append(open_judge(settings, environment, prices, asking=asking))
    return seats


def open_judge(
    settings: JudgeSettings, environment: Environment, prices: PriceBook, *, asking: bool = True
) -> JudgeSetup:
    """A judge with its provider, price and model traits."""
    provider, price = open_model(settings, environment, prices, asking=asking)
    traits = prices.traits(settings.provider, settings.model)
    forms = possible_forms(settings, provider, traits)
    return JudgeSetup(
        settings,
        provider,
        forms[0] if settings.found_form is None else VerdictForm(settings.found_form),
        price,
        traits,
        prices.retirement(settings.provider, settings.model, provider.base_url),
        prices.date_of(settings.provider, settings.model, provider.base_url),
        lambda: open_model(settings, environment, prices, asking=asking)[0],
    )


def open_model(
    settings: JudgeSettings, environment: Environment, prices: PriceBook, *, asking: bool = True
) -> tuple[Provider, Price | None]:
    """The provider of a model, and the price of the model there."""
    key = environment.api_key(settings) if asking else None
    route = environment.route(settings, asking=asking)
    provider = open_provider(settings.provider, settings.base_url, key, settings.timeout_seconds, route)
    return provider, prices.price(settings.provider, settings.model, provider.base_url)


def judge_price(seat: JudgeSetup, prices: PriceBook) -> Price | None:
    """The price of a judge's model at its provider."""
    return prices.price(seat.settings.provider, seat.settings.model, seat.provider.base_url)


def possible_forms(
    settings: JudgeSettings, provider: Provider, traits: ModelTraits
) -> tuple[VerdictForm, ...]:
    """The configured form; or those that the model accepts and the provider supports, the strictest first."""
    can = provider.capabilities
    if settings.batch and not can.batch:
        raise BadConfig(
            f"judge {settings.name}: {settings.provider} does not support batches; set batch: false"
        )
    if settings.form != "auto":
        return (VerdictForm(settings.form),)
    able = {VerdictForm.SCHEMA: can.schema, VerdictForm.TOOL: can.tool, VerdictForm.TEXT: True}
    return tuple(form for form in map(VerdictForm, traits.forms or able) if able[form]) or (VerdictForm.TEXT,)
