"""Prices: what a call costs. Money is whole picodollars; an unknown price is ``None``, never 0."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import ROUND_FLOOR, ROUND_HALF_EVEN, Decimal, InvalidOperation
from fractions import Fraction
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Protocol

from pydantic import AfterValidator, Field

from tiltyard.errors import BadConfig, BadOption
from tiltyard.settings.sections import Count, Many, Name, Section, Share, Text, YesNo, checked, expecting
from tiltyard.settings.yaml_file import parse_yaml, read_yaml

__all__ = [
    "FREE",
    "OWN_ADDRESSES",
    "ModelTraits",
    "Price",
    "PriceBook",
    "PriceEntry",
    "Tokens",
    "dollars",
    "open_prices",
    "picodollars",
]

#: One dollar.
_DOLLAR = 10**12
_TOO_MUCH = 10**15 * _DOLLAR
#: A dollar for each million tokens is this many picodollars for each token.
_PER_MILLION = 10**6
_DATED = re.compile(r"-(?:\d{8}|\d{4}-\d{2}-\d{2})$")

#: Where each provider itself serves: the shipped prices are those of these addresses only.
OWN_ADDRESSES: Mapping[str, str] = {
    "anthropic": "https://api.anthropic.com",
    "openai": "https://api.openai.com/v1",
}


def _six_decimals(value: float) -> float:
    if Decimal(repr(value)) * _PER_MILLION % 1:
        raise ValueError(value)
    return value


Dollars = Annotated[
    float,
    Field(ge=0, lt=1e9),
    AfterValidator(_six_decimals),
    expecting("dollars for a million tokens: a number, 0 or more, of at most 6 decimals"),
]


class PriceEntry(Section):
    """One model's prices as they are written: dollars for a million tokens.

    What is not stated is never taken for less than a provider may charge: writing to a prompt
    cache 1.25 times (5m) or twice (1h) the input price, reading from it the input price, no
    discount for batches.
    """

    provider: Name | None = None
    input: Dollars | None = None
    output: Dollars | None = None
    cache_write_5m: Dollars | None = None
    cache_write_1h: Dollars | None = None
    cache_read: Dollars | None = None
    #: What a call in a batch costs, as a share of its price.
    batch: Share | None = None
    #: Whether the model thinks before it answers unless it is told not to; thoughts count as output.
    thinks: YesNo | None = None
    #: Tokens: the longest reply, and request and reply together.
    max_output: Count | None = None
    context: Count | None = None

    def over(self, other: PriceEntry | None) -> PriceEntry:
        """This entry, with what it leaves open taken from another."""
        stated = self.model_dump(exclude_none=True)
        return self if other is None else PriceEntry(**{**other.model_dump(), **stated})


class _PriceFile(Section):
    as_of: Text | None = None
    source: Annotated[tuple[Text, ...], Many] = ()
    models: Mapping[Name, PriceEntry]


class Tokens(Protocol):
    """Tokens as billed; ``input`` does not include those of the prompt cache."""

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
    """Picodollars for each token."""

    input: int
    output: int
    cache_write_5m: int
    cache_write_1h: int
    cache_read: int
    #: What a call in a batch costs, as a share of the same call made live.
    batch_share: Fraction = Fraction(1)

    def cost(self, usage: Tokens, *, batch: bool, ttl: str | None = None) -> int:
        """What a call cost, rounded up to whole picodollars. ``ttl``: the prompt cache's, ``5m`` or ``1h``."""
        whole = (
            usage.input * self.input
            + usage.output * self.output
            + usage.cache_write * self._cache_write(ttl)
            + usage.cache_read * self.cache_read
        )
        return self._billed(whole, batch)

    def worst(self, input_tokens: int, max_tokens: int, *, batch: bool, ttl: str | None = None) -> int:
        """The most that a call can cost: all input at its dearest, and as much output as it may have."""
        dearest = max(self.input, self.cache_read, self._cache_write(ttl) if ttl else 0)
        return self._billed(input_tokens * dearest + max_tokens * self.output, batch)

    def _cache_write(self, ttl: str | None) -> int:
        return self.cache_write_1h if ttl == "1h" else self.cache_write_5m

    def _billed(self, whole: int, batch: bool) -> int:
        share = self.batch_share if batch else Fraction(1)
        return -(-whole * share.numerator // share.denominator)


#: Output limits, in tokens, for models that think and for those that do not, unless one is stated.
_THINKING_TOKENS, _PLAIN_TOKENS = 16_384, 4_096
#: Fields of a request by which a model is told to think.
_THINKING_OPTIONS = frozenset({"thinking", "reasoning", "reasoning_effort"})


@dataclass(frozen=True, slots=True)
class ModelTraits:
    """What is known of a model beside its price; ``None`` where nobody said."""

    thinks: bool | None = None
    max_output: int | None = None
    context: int | None = None

    def default_limit(self, options: Mapping[str, object]) -> int:
        """How many tokens a reply may have, where the user states no number. Unknown models count as thinking."""
        thinks = self.thinks is not False or not _THINKING_OPTIONS.isdisjoint(options)
        limit = _THINKING_TOKENS if thinks else _PLAIN_TOKENS
        return limit if self.max_output is None else min(limit, self.max_output)


#: What a recorded reply costs.
FREE = Price(0, 0, 0, 0, 0)


@dataclass(frozen=True)
class PriceBook:
    """The shipped prices, and the user's own over them."""

    as_of: str
    source: tuple[str, ...]
    shipped: Mapping[str, PriceEntry]
    own: Mapping[str, PriceEntry]

    def price(self, provider: str, model: str, base_url: str | None = None) -> Price | None:
        """What a model costs at an address (``None``: the provider's own); ``None`` where nobody said.

        A price that the user stated holds at every address, a shipped one only at the
        provider's own: a model of the same name elsewhere may cost anything.
        """
        if provider == "replay":
            return FREE
        known = _entry(self.shipped, provider, model)
        stated = _entry(self.own, provider, model)
        if stated is not None:
            return _price(stated.over(known))
        at_home = base_url is None or base_url.rstrip("/") == OWN_ADDRESSES.get(provider)
        return _price(known) if known is not None and at_home else None

    def traits(self, provider: str, model: str) -> ModelTraits:
        """What is known of a model, wherever it is served; a recorded reply has no thoughts to wait for."""
        if provider == "replay":
            return ModelTraits(thinks=False)
        known = _entry(self.shipped, provider, model)
        stated = _entry(self.own, provider, model)
        entry = known if stated is None else stated.over(known)
        return ModelTraits() if entry is None else ModelTraits(entry.thinks, entry.max_output, entry.context)


def open_prices(
    stated: str | Mapping[str, PriceEntry] | None = None, folder: Path | None = None
) -> PriceBook:
    """The shipped prices with the user's over them: a table, or the path of a file relative to ``folder``."""
    shipped = _shipped()
    if stated is None:
        own: Mapping[str, PriceEntry] = {}
    elif isinstance(stated, str):
        own = checked(_PriceFile, read_yaml((folder or Path()) / stated), {}).models
    else:
        own = stated
    for model, entry in own.items():
        whole = entry.over(shipped.models.get(model) or shipped.models.get(_DATED.sub("", model)))
        if whole.input is None or whole.output is None:
            raise BadConfig(f"prices.{model}: the model is not known here; state both input and output")
    return PriceBook(shipped.as_of or "", shipped.source, shipped.models, own)


@functools.cache
def _shipped() -> _PriceFile:
    text = files("tiltyard.settings").joinpath("prices.yaml").read_text(encoding="utf-8")
    return checked(_PriceFile, parse_yaml(text, "prices.yaml"), {})


def _entry(table: Mapping[str, PriceEntry], provider: str, model: str) -> PriceEntry | None:
    """The entry of a model, or of the model without the date at the end of its name."""
    for name in (model, _DATED.sub("", model)):
        entry = table.get(name)
        if entry is not None and entry.provider in (None, provider):
            return entry
    return None


def _price(entry: PriceEntry) -> Price | None:
    if entry.input is None or entry.output is None:
        return None
    plain = _per_token(entry.input)
    return Price(
        input=plain,
        output=_per_token(entry.output),
        cache_write_5m=_or(entry.cache_write_5m, -(-plain * 5 // 4)),
        cache_write_1h=_or(entry.cache_write_1h, 2 * plain),
        cache_read=_or(entry.cache_read, plain),
        batch_share=Fraction(1) if entry.batch is None else Fraction(repr(entry.batch)),
    )


def _or(stated: float | None, otherwise: int) -> int:
    return otherwise if stated is None else _per_token(stated)


def _per_token(usd: float) -> int:
    """Exact: a price has at most six decimals."""
    return int(Decimal(repr(usd)) * _PER_MILLION)


def picodollars(usd: Decimal | str | float) -> int:
    """Dollars as whole picodollars, rounded down."""
    try:
        value = Decimal(repr(usd) if isinstance(usd, float) else usd)
        whole = (value * _DOLLAR).to_integral_value(ROUND_FLOOR) if value.is_finite() else None
    except (InvalidOperation, TypeError, ValueError):
        whole = None
    if whole is None or not 0 <= whole < _TOO_MUCH:
        raise BadOption(f"{usd!r} is no sum of money; expected dollars, e.g. 2.50")
    return int(whole)


def dollars(sum: int | None) -> str:
    """A sum for people: two digits after the point, more where they would hide that it is above 0."""
    if sum is None:
        return "unknown"
    if sum == 0:
        return "$0"
    value = abs(Decimal(sum)) / _DOLLAR
    digits = 2 if value >= Decimal("0.1") else min(1 - value.adjusted(), 12)
    shown = value.quantize(Decimal(1).scaleb(-digits), ROUND_HALF_EVEN)
    return f"{'-' if sum < 0 else ''}${shown:,f}"
