"""Prices: the cost of a call. Amounts are integer picodollars; an unknown price is ``None``, never 0.

And what is known about a model besides its price.
"""

from __future__ import annotations

import functools
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import date
from decimal import ROUND_FLOOR, ROUND_HALF_EVEN, Decimal, InvalidOperation
from fractions import Fraction
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, Literal, Protocol, TypeVar

from pydantic import AfterValidator, Field

from tiltyard.errors import BadConfig, BadOption
from tiltyard.settings.config_section import (
    ConfigSection,
    Count,
    Many,
    Name,
    Share,
    Text,
    YesNo,
    expecting,
    one_of,
    resolve_path,
    validate_section,
)
from tiltyard.settings.model_endpoints import PROVIDERS, REPLAY
from tiltyard.settings.yaml_file import YamlFile, parse_yaml, read_yaml

#: Default output limits, in tokens, of models that think and of those that do not.
_THINKING_TOKENS, _PLAIN_TOKENS = 16_384, 4_096
#: Request fields that make a model think.
_THINKING_OPTIONS = frozenset({"thinking", "reasoning", "reasoning_effort"})
#: One dollar.
PICODOLLARS_PER_USD = 10**12
_PICODOLLAR_LIMIT = 10**15 * PICODOLLARS_PER_USD
#: One dollar per million tokens, in picodollars per token.
_PICODOLLARS_PER_TOKEN = 10**6
#: What is wrong with the price of a model that is not known.
HALF_A_PRICE = "unknown model; give both input and output"
_DATED = re.compile(r"-(?:\d{8}|\d{4}-\d{2}-\d{2})$")


@dataclass(frozen=True, slots=True)
class ModelTraits:
    """What is known about a model besides its price; ``None`` means unknown."""

    thinks: bool | None = None
    max_output: int | None = None
    context: int | None = None
    #: The reply forms that the model accepts, the best first.
    forms: tuple[str, ...] | None = None
    #: Request fields that the model rejects: always, and while it thinks.
    refuses: tuple[str, ...] = ()
    refuses_thinking: tuple[str, ...] = ()
    #: The values of ``effort`` that the model accepts; empty if it has none.
    efforts: tuple[str, ...] | None = None
    #: The request fields that switch thinking on and off; ``None`` if that is unknown or impossible.
    thinking_on: Mapping[str, Any] | None = field(default=None, hash=False)
    thinking_off: Mapping[str, Any] | None = field(default=None, hash=False)

    def default_limit(self, options: Mapping[str, object]) -> int:
        """The default limit of a reply, in tokens. Unknown models count as thinking."""
        limit = _THINKING_TOKENS if self.thinks_with(options) else _PLAIN_TOKENS
        return limit if self.max_output is None else min(limit, self.max_output)

    def thinks_with(self, options: Mapping[str, object]) -> bool:
        """Whether the model may think when these fields are sent."""
        if self.thinking_off and self.thinking_off.items() <= dict(options).items():
            return False
        return self.thinks is not False or not _THINKING_OPTIONS.isdisjoint(options)

    def refused(self, options: Mapping[str, object]) -> Iterable[str]:
        """Those of the fields that the model is known to reject."""
        never = {*self.refuses, *(self.refuses_thinking if self.thinks_with(options) else ())}
        return [name for name in options if name in never]


def request_fields(
    stated: Mapping[str, Any], traits: ModelTraits, *, model: str, provider: str
) -> dict[str, Any]:
    """The request fields of a model's settings: ``options``, and what ``effort``, ``thinking``, ``temperature`` become.

    Raises `BadConfig` for what the model is known not to accept.
    """
    fields: dict[str, Any] = dict(stated["options"])
    chosen = stated.get("temperature")
    for name, added in (
        ("temperature", ({} if chosen is None else {"temperature": chosen})),
        ("thinking", _thinking(stated, traits, model)),
        ("effort", _effort(stated, traits, model=model, provider=provider)),
    ):
        for key, value in added.items():
            known = fields.get(key)
            if isinstance(known, Mapping) and isinstance(value, Mapping) and known.keys().isdisjoint(value):
                fields[key] = {**known, **value}
            elif key in fields:
                raise BadConfig(f"{model}: {name} sets the request field {key}, which is set already")
            else:
                fields[key] = value
    refused = list(traits.refused(fields))
    if refused:
        raise BadConfig(
            f"{model} does not accept {' or '.join(refused)}: remove it; or, if it does now, write so under "
            f"prices: in the configuration (tiltyard plan --prices {model} shows what is known)"
        )
    return fields


def _thinking(stated: Mapping[str, Any], traits: ModelTraits, model: str) -> Mapping[str, Any]:
    chosen = stated.get("thinking")
    if chosen is None:
        return {}
    known = traits.thinking_on if chosen else traits.thinking_off
    if known is not None:
        return known
    if traits.thinks is not None and traits.thinks is chosen:
        return {}
    word = "on" if chosen else "off"
    raise BadConfig(
        f"{model}: it is not known how its thinking is switched {word}; remove thinking, and if its provider "
        f"documents request fields for it, give them under options"
    )


def _effort(stated: Mapping[str, Any], traits: ModelTraits, *, model: str, provider: str) -> dict[str, Any]:
    chosen = stated.get("effort")
    if chosen is None:
        return {}
    if traits.efforts is not None and chosen not in traits.efforts:
        allowed = f"one of {', '.join(traits.efforts)}" if traits.efforts else "none: remove it"
        raise BadConfig(f"{model}: effort is {chosen!r}; it accepts {allowed}")
    known = PROVIDERS.get(provider)
    # Recorded replies take any field.
    return {"reasoning_effort": chosen} if known is None else known.effort_fields(chosen)


def _six_decimals(value: float) -> float:
    if Decimal(repr(value)) * _PICODOLLARS_PER_TOKEN % 1:
        raise ValueError(value)
    return value


Dollars = Annotated[
    float,
    Field(ge=0, lt=1e9),
    AfterValidator(_six_decimals),
    expecting("dollars for a million tokens: a number, 0 or more, of at most 6 decimals"),
]


ReplyForm = Annotated[Literal["schema", "tool", "text"], one_of("schema", "tool", "text")]


class PriceEntry(ConfigSection):
    """The prices of one model, as written: dollars per million tokens.

    Defaults never underestimate what a provider may charge: writing to a prompt cache costs 1.25
    times (5m) or twice (1h) the input price, reading from it the input price, and batches have
    no discount.
    """

    provider: Name | None = None
    #: The addresses to which the price applies; all, if none is given.
    base_url: Annotated[tuple[Text, ...], Many] = ()
    input: Dollars | None = None
    output: Dollars | None = None
    cache_write_5m: Dollars | None = None
    cache_write_1h: Dollars | None = None
    cache_read: Dollars | None = None
    #: Whether the provider writes to its prompt cache, and bills it, without a request.
    caches_unasked: YesNo | None = None
    #: The price of a batch call, as a share of the normal price.
    batch: Share | None = None
    #: Requests with more prompt tokens than this are billed at these prices; cache prices grow in proportion.
    long_above: Count | None = None
    long_input: Dollars | None = None
    long_output: Dollars | None = None
    #: Whether the model thinks by default before it answers; thoughts are billed as output.
    thinks: YesNo | None = None
    #: Limits in tokens: the longest reply, and request and reply together.
    max_output: Count | None = None
    context: Count | None = None
    #: The reply forms that the model accepts, the best first.
    forms: Annotated[tuple[ReplyForm, ...], Many, Field(min_length=1)] | None = None
    #: Request fields that the model rejects: always, and while it thinks.
    refuses: Annotated[tuple[Text, ...], Many] | None = None
    refuses_thinking: Annotated[tuple[Text, ...], Many] | None = None
    #: The values of ``effort`` that the model accepts; an empty list if it has none.
    efforts: Annotated[tuple[Text, ...], Many] | None = None
    #: The request fields that switch thinking on and off, where that is possible.
    thinking_on: Mapping[Text, Any] | None = None
    thinking_off: Mapping[Text, Any] | None = None

    def over(self, other: PriceEntry | None) -> PriceEntry:
        """This entry, with missing values (except the addresses) taken from another."""
        if other is None:
            return self
        known = other.model_dump(include=set(PriceEntry.model_fields) - {"base_url"})
        return PriceEntry(**{**known, **self.model_dump(exclude_none=True)})


def _iso_date(value: str) -> str:
    date.fromisoformat(value)
    return value


Day = Annotated[Text, AfterValidator(_iso_date), expecting("a date such as 2026-01-31")]


class ShippedEntry(PriceEntry):
    """A built-in price, its sources, and whether the model is still served."""

    #: The date of the newest source of the price, and the names of the sources.
    as_of: Day
    source: Annotated[tuple[Text, ...], Many]
    #: The names of the sources of forms, refused fields, efforts and thinking.
    traits_source: Annotated[tuple[Text, ...], Many] = ()
    #: The date from which the provider no longer serves the model, and the replacement it recommends.
    retired: Day | None = None
    successor: Name | None = None


class _Source(ConfigSection):
    address: Text
    date: Day | None = None


class _ShippedFile(ConfigSection):
    as_of: Day
    sources: Mapping[Name, _Source]
    models: Mapping[Name, ShippedEntry]


class _PriceFile(ConfigSection):
    as_of: Text | None = None
    source: Annotated[tuple[Text, ...], Many] = ()
    models: Mapping[Name, PriceEntry]


class TokenUsage(Protocol):
    """Billed tokens; ``input`` does not include those of the prompt cache."""

    @property
    def input(self) -> int: ...
    @property
    def output(self) -> int: ...
    @property
    def cache_write(self) -> int: ...
    @property
    def cache_read(self) -> int: ...


@dataclass(frozen=True, slots=True)
class Price:
    """Prices in picodollars per token."""

    input: int
    output: int
    cache_write_5m: int
    cache_write_1h: int
    cache_read: int
    #: The price of a batch call, as a share of the same call made live.
    batch_share: Fraction = Fraction(1)
    #: Whether writing to the prompt cache is billed even if it was not requested.
    caches_unasked: bool = False
    #: The price of a request whose prompt has more than ``long_above`` tokens.
    long_above: int = 0
    long: Price | None = None

    def of_prompt(self, tokens: int) -> Price:
        """The price of requests whose prompts have this many tokens each, regardless of their sum."""
        long = self.long is not None and tokens > self.long_above
        return replace(self.long if long and self.long is not None else self, long=None)

    def cost(self, usage: TokenUsage, *, batch: bool, ttl: str | None = None) -> int:
        """The cost of a call, rounded up to whole picodollars. ``ttl``: the prompt cache's, ``5m`` or ``1h``."""
        if self.long is not None:
            prompt = usage.input + usage.cache_write + usage.cache_read
            return self.of_prompt(prompt).cost(usage, batch=batch, ttl=ttl)
        whole = (
            usage.input * self.input
            + usage.output * self.output
            + usage.cache_write * self._cache_write(ttl)
            + usage.cache_read * self.cache_read
        )
        return self._billed(whole, batch)

    def worst(self, input_tokens: int, max_tokens: int, *, batch: bool, ttl: str | None = None) -> int:
        """The maximum cost of a call: all input at the highest price, and the maximum output."""
        if self.long is not None:
            return self.of_prompt(input_tokens).worst(input_tokens, max_tokens, batch=batch, ttl=ttl)
        written = self._cache_write(ttl) if ttl or self.caches_unasked else 0
        dearest = max(self.input, self.cache_read, written)
        return self._billed(input_tokens * dearest + max_tokens * self.output, batch)

    def _cache_write(self, ttl: str | None) -> int:
        return self.cache_write_1h if ttl == "1h" else self.cache_write_5m

    def _billed(self, whole: int, batch: bool) -> int:
        share = self.batch_share if batch else Fraction(1)
        return -(-whole * share.numerator // share.denominator)


#: The price of a recorded reply.
FREE = Price(0, 0, 0, 0, 0)


@dataclass(frozen=True, slots=True)
class ModelRetirement:
    """A model that its provider stops serving on a date, and the recommended replacement, if any."""

    on: date
    successor: str | None


@dataclass(frozen=True)
class PriceBook:
    """The built-in prices, overridden by the user's."""

    as_of: str
    #: URLs of the sources by name, each with its date.
    sources: Mapping[str, tuple[str, str | None]]
    shipped: Mapping[str, ShippedEntry]
    own: Mapping[str, PriceEntry]

    def price(self, provider: str, model: str, base_url: str | None = None) -> Price | None:
        """The price of a model at an address (``None``: the provider's own); ``None`` if unknown.

        A price given by the user applies to every address, unless it lists addresses; a built-in
        price applies only to the addresses it lists or to the provider's own, because a model of
        the same name elsewhere may have any price.
        """
        if provider == REPLAY:
            return FREE
        stated = _entry(self.own, provider, model)
        if stated is not None and (not stated.base_url or _is_at(stated, provider, base_url)):
            return _price(stated.over(_entry(self.shipped, provider, model)))
        known = self._shipped_at(provider, model, base_url)
        return None if known is None else _price(known)

    def retirement(self, provider: str, model: str, base_url: str | None = None) -> ModelRetirement | None:
        """The announced or past retirement of a model, if any."""
        known = self._shipped_at(provider, model, base_url)
        if known is None or known.retired is None:
            return None
        return ModelRetirement(date.fromisoformat(known.retired), known.successor)

    def date_of(self, provider: str, model: str, base_url: str | None = None) -> str | None:
        """The date of the built-in price, if that is the one that applies."""
        known = self._shipped_at(provider, model, base_url)
        return None if known is None or _entry(self.own, provider, model) is not None else known.as_of

    def known(self) -> list[dict[str, Any]]:
        """All models that are known, each with what is known about it."""
        names = dict.fromkeys((*self.own, *self.shipped))
        return [{"model": name, **self._known(name).model_dump(mode="json")} for name in names]

    def _known(self, model: str) -> PriceEntry:
        shipped, own = self.shipped.get(model), self.own.get(model)
        if own is None or shipped is None:
            return own or self.shipped[model]
        return shipped.model_copy(update=own.over(shipped).model_dump())

    def _shipped_at(self, provider: str, model: str, base_url: str | None) -> ShippedEntry | None:
        known = _entry(self.shipped, provider, model)
        return known if known is not None and _is_at(known, provider, base_url) else None

    def traits(self, provider: str, model: str) -> ModelTraits:
        """What is known about a model, wherever it is served; recorded replies do not think."""
        if provider == REPLAY:
            return ModelTraits(thinks=False)
        known = _entry(self.shipped, provider, model)
        stated = _entry(self.own, provider, model)
        entry = known if stated is None else stated.over(known)
        if entry is None:
            return ModelTraits()
        known_traits = {field.name: getattr(entry, field.name) for field in fields(ModelTraits)}
        return ModelTraits(**{name: value for name, value in known_traits.items() if value is not None})


def open_prices(
    stated: str | Mapping[str, PriceEntry] | None = None, folder: Path | None = None
) -> PriceBook:
    """The built-in prices overridden by the user's: a table, or the path of a file relative to ``folder``."""
    shipped = _shipped()
    if stated is None:
        own: Mapping[str, PriceEntry] = {}
    elif isinstance(stated, str):
        own = validate_section(_PriceFile, read_yaml(resolve_path(folder or Path(), stated)), {}).models
    else:
        own = stated
    for model in unpriced_models(own):
        raise BadConfig(f"prices.{model}: {HALF_A_PRICE}")
    sources = {name: (one.address, one.date) for name, one in shipped.sources.items()}
    return PriceBook(shipped.as_of, sources, shipped.models, own)


def unpriced_models(own: Mapping[str, PriceEntry]) -> Iterator[str]:
    """Models without a built-in price, of which these do not state input and output."""
    shipped = _shipped().models
    for model, entry in own.items():
        whole = entry.over(shipped.get(model) or shipped.get(_DATED.sub("", model)))
        if whole.input is None or whole.output is None:
            yield model


def merged_prices(
    stated: str | Mapping[str, PriceEntry] | None, given: Mapping[str, PriceEntry], folder: Path
) -> Mapping[str, PriceEntry]:
    """A configuration's prices, read from a file if it names one, overridden by the ones given."""
    own = open_prices(stated, folder).own
    return {**own, **{model: entry.over(own.get(model)) for model, entry in given.items()}}


def read_prices(stated: Mapping[str, Mapping[str, Any]]) -> Mapping[str, PriceEntry]:
    """Check prices that a program states: the fields of each model, as in a configuration."""
    return validate_section(_PriceFile, YamlFile("prices", {"models": dict(stated)}, {(): 1}), {}).models


def parse_price_option(text: str) -> tuple[str, PriceEntry]:
    """Parse ``NAME=INPUT,OUTPUT`` (dollars per million tokens) into a model's name and its price."""
    name, _, numbers = text.rpartition("=")
    try:
        input_usd, output_usd = (float(part) for part in numbers.split(","))
        entry = PriceEntry(input=input_usd, output=output_usd)
    except ValueError:
        entry = None
    if entry is None or not name.strip():
        raise BadOption(
            f"--price {text!r} is not of the form NAME=INPUT,OUTPUT; expected a model's name and dollars per "
            "million tokens, 0 or more, with at most 6 decimals, e.g. --price my-model=0.25,1.5"
        )
    return name.strip(), entry


def price_option(model: str) -> str:
    """The command-line option that sets a model's price, for messages."""
    return f"--price {shlex.quote(model)}=INPUT,OUTPUT"


@functools.cache
def _shipped() -> _ShippedFile:
    text = files("tiltyard.settings").joinpath("prices.yaml").read_text(encoding="utf-8")
    return validate_section(_ShippedFile, parse_yaml(text, "prices.yaml"), {})


def _is_at(entry: PriceEntry, provider: str, base_url: str | None) -> bool:
    """Whether an entry applies to an address; an entry without addresses applies to the provider's own."""
    own = PROVIDERS[provider].base_url if provider in PROVIDERS else None
    address = own if base_url is None else base_url.rstrip("/")
    return address in (entry.base_url or (own,))


_Entry = TypeVar("_Entry", bound=PriceEntry)


def _entry(table: Mapping[str, _Entry], provider: str, model: str) -> _Entry | None:
    """The entry of a model, or of the model without the date suffix of its name."""
    for name in (model, _DATED.sub("", model)):
        entry = table.get(name)
        if entry is not None and entry.provider in (None, provider):
            return entry
    return None


def _price(entry: PriceEntry) -> Price | None:
    if entry.input is None or entry.output is None:
        return None
    plain = _per_token(entry.input)
    price = Price(
        input=plain,
        output=_per_token(entry.output),
        cache_write_5m=_or(entry.cache_write_5m, -(-plain * 5 // 4)),
        cache_write_1h=_or(entry.cache_write_1h, 2 * plain),
        cache_read=_or(entry.cache_read, plain),
        batch_share=Fraction(1) if entry.batch is None else Fraction(repr(entry.batch)),
        caches_unasked=bool(entry.caches_unasked),
    )
    if entry.long_above is None:
        return price
    return replace(price, long_above=entry.long_above, long=_long(price, entry))


def _long(price: Price, entry: PriceEntry) -> Price:
    """The price of long prompts; cache prices grow in proportion to the input price."""
    dearer = price.input if entry.long_input is None else _per_token(entry.long_input)

    def grown(per_token: int) -> int:
        return -(-per_token * dearer // price.input) if price.input else dearer

    return replace(
        price,
        input=dearer,
        output=_or(entry.long_output, price.output),
        cache_write_5m=grown(price.cache_write_5m),
        cache_write_1h=grown(price.cache_write_1h),
        cache_read=grown(price.cache_read),
    )


def _or(stated: float | None, otherwise: int) -> int:
    return otherwise if stated is None else _per_token(stated)


def _per_token(usd: float) -> int:
    """Exact, because a price has at most six decimals."""
    return int(Decimal(repr(usd)) * _PICODOLLARS_PER_TOKEN)


def dollars_text(picodollars: int) -> str:
    """The amount as decimal text, without trailing zeros."""
    whole, rest = divmod(picodollars, PICODOLLARS_PER_USD)
    return f"{whole}.{rest:012d}".rstrip("0").rstrip(".")


def to_picodollars(usd: Decimal | str | float) -> int:
    """Convert dollars to whole picodollars, rounded down."""
    try:
        value = Decimal(repr(usd) if isinstance(usd, float) else usd)
        whole = (value * PICODOLLARS_PER_USD).to_integral_value(ROUND_FLOOR) if value.is_finite() else None
    except (InvalidOperation, TypeError, ValueError):
        whole = None
    if whole is None or not 0 <= whole < _PICODOLLAR_LIMIT:
        raise BadOption(f"{usd!r} is not an amount of money; expected dollars, e.g. 2.50")
    return int(whole)


def format_dollars(sum: int | None) -> str:
    """Format an amount: two decimals, or more if a small positive amount would be shown as 0."""
    if sum is None:
        return "unknown"
    if sum == 0:
        return "$0"
    value = abs(Decimal(sum)) / PICODOLLARS_PER_USD
    digits = 2 if value >= Decimal("0.1") else min(1 - value.adjusted(), 12)
    shown = value.quantize(Decimal(1).scaleb(-digits), ROUND_HALF_EVEN)
    return f"{'-' if sum < 0 else ''}${shown:,f}"
