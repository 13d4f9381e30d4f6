"""The judges of a run, each with its provider, price and reply form."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar

from tiltyard.core.judging.verdict import ParsedReply, QuestionState, Reply, VerdictForm, read_reply
from tiltyard.errors import BadConfig
from tiltyard.judges.providers.json_bodies import token_limit
from tiltyard.judges.providers.provider import Body, Provider
from tiltyard.judges.providers.provider_factory import open_provider
from tiltyard.judges.requests import JudgeRequest, ReplyLimits, token_upper_bound
from tiltyard.settings.environment import Environment
from tiltyard.settings.model_endpoints import REPLAY
from tiltyard.settings.prices import ModelRetirement, ModelTraits, Price, PriceBook, open_prices
from tiltyard.settings.tournament_config import JudgeSettings, RunMode, TournamentConfig


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
