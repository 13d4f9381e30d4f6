"""The models of a live arena: which model answers, where it is served, and with which parameters."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import Field, PrivateAttr, model_validator

from tiltyard.errors import BadConfig
from tiltyard.settings.config_section import (
    ConfigSection,
    Many,
    Name,
    YesNo,
    expecting,
    section_error,
    validate_section,
)
from tiltyard.settings.model_traits import request_fields
from tiltyard.settings.moderation_rules import ModerationSection
from tiltyard.settings.prices import OWN_ADDRESSES, Dollars, Price, PriceBook, PriceEntry, open_prices
from tiltyard.settings.tournament_sections import KEY_VARIABLES, GenerateSection, Prices
from tiltyard.settings.yaml_file import YamlFile, read_yaml

__all__ = [
    "LiveEntrant",
    "LiveModel",
    "LiveModels",
    "LivePrice",
    "load_live_models",
]

#: Changes when the same settings are sent as another request.
_SCHEME_VERSION = 1
#: Settings of other calls, and why they have no effect here.
_UNUSED = {
    "batch": "answers are streamed, and batches cannot be",
    "retries": "an answer that failed is asked for at most once more, whatever the model",
    "timeout_seconds": "timeouts are settings of the arena, the same for all its models",
}
_SETTINGS = (
    "name",
    "provider",
    "model",
    "base_url",
    "path",
    "query",
    "headers",
    "query_env",
    "headers_env",
    "api_key_env",
    "api_key_header",
    "system",
    "thinking_open",
    "concurrency",
    "requests_per_minute",
    "maker",
    "family",
    "licence",
    "link",
    "open_weights",
)


class LivePrice(ConfigSection):
    """What a model costs, in dollars per million tokens. A price of 0 is one that is stated."""

    #: Tokens of the prompt.
    input: Dollars
    #: Tokens of the answer, with its thinking.
    output: Dollars
    cache_write_5m: Dollars | None = None
    cache_write_1h: Dollars | None = None
    cache_read: Dollars | None = None


class LiveModel(GenerateSection):
    """One model of a live arena, as written."""

    #: Its name on the board, told after the vote.
    name: Name
    #: ``true`` for a local server whose chat template writes ``<think>`` itself, so that an answer begins with
    #: thinking and only ``</think>`` ends it.
    thinking_open: YesNo = False
    #: Its price; without it that of the price list at this address. If neither is known, the price is unknown,
    #: which is not 0: nothing with a budget is started.
    price: LivePrice | None = None
    #: Who made it; this and what follows is told with the name.
    maker: Name | None = None
    #: Its family.
    family: Name | None = None
    #: Its licence.
    licence: Name | None = None
    #: An address that begins with ``http://`` or ``https://``.
    link: (
        Annotated[
            str,
            Field(pattern=r"^https?://[^\s/\x00-\x1f\x7f][^\s\x00-\x1f\x7f]*$", max_length=500),
            expecting("an address that begins with http:// or https://"),
        ]
        | None
    ) = None
    #: ``true`` or ``false``.
    open_weights: YesNo | None = None

    @model_validator(mode="after")
    def _used(self) -> Self:
        unused = next((field for field in _UNUSED if field in self.model_fields_set), None)
        if unused is not None:
            raise section_error(f"not used by live models: {_UNUSED[unused]}; remove it", unused)
        return self


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveEntrant:
    """One model of a live arena with all its settings: what answers under its name."""

    name: str
    provider: str
    model: str
    #: ``None`` means the provider's own address.
    base_url: str | None
    path: str | None
    query: Mapping[str, str]
    headers: Mapping[str, str]
    #: The environment variables of secrets, by query field and header.
    query_env: Mapping[str, str]
    headers_env: Mapping[str, str]
    #: The environment variable with the key; ``None`` if no key is sent.
    api_key_env: str | None
    api_key_header: str | None
    system: str | None
    #: The longest answer, with its thinking.
    max_tokens: int
    #: Fields of every request: parameters, effort and thinking as the provider spells them.
    options: Mapping[str, Any]
    #: Whether its text begins with thinking that only a closing tag ends.
    thinking_open: bool
    concurrency: int
    requests_per_minute: float | None
    #: ``None`` if it is unknown; never 0 unless the file says so.
    price: Price | None
    maker: str | None
    family: str | None
    licence: str | None
    link: str | None
    open_weights: bool | None

    @property
    def version(self) -> str:
        """A hash of everything that decides what it answers. Its name, keys, price and details are no part of it."""
        decisive = {
            "scheme": _SCHEME_VERSION,
            "provider": self.provider,
            "base_url": (self.base_url or OWN_ADDRESSES[self.provider]).rstrip("/"),
            "path": self.path,
            "query": dict(self.query),
            "headers": {name.lower(): value for name, value in self.headers.items()},
            "model": self.model,
            "system": self.system,
            "max_tokens": self.max_tokens,
            "options": dict(self.options),
            **({"thinking_open": True} if self.thinking_open else {}),
        }
        text = json.dumps(decisive, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()


class LiveModels(ConfigSection):
    """The contents of a file of live models."""

    #: At least two models.
    models: Annotated[tuple[LiveModel, ...], Many, Field(min_length=2)]
    #: Your own prices, as for a tournament.
    prices: Prices | None = None
    #: How prompts and answers are checked: see moderation. Without it they are not.
    moderation: ModerationSection | None = None
    _file: YamlFile = PrivateAttr(default=YamlFile("models.yaml", {}, {(): 1}))

    @property
    def path(self) -> Path:
        """The file that they were read from."""
        return Path(self._file.name)

    def entrants(self) -> tuple[LiveEntrant, ...]:
        """The models, with all defaults filled in. Raises `BadConfig` for what a model is known not to accept."""
        prices = open_prices(self.prices, self.path.parent)
        return tuple(self._complete(number, model, prices) for number, model in enumerate(self.models))

    def _complete(self, number: int, model: LiveModel, prices: PriceBook) -> LiveEntrant:
        traits = prices.traits(model.provider, model.model)
        stated = model.model_dump(include={"options", "effort", "thinking", "temperature"})
        try:
            options = request_fields(stated, traits, model=model.model, provider=model.provider)
        except BadConfig as error:
            raise BadConfig(f"{self._file.where(('models', number))}: {error}") from None
        settings = {field: getattr(model, field) for field in _SETTINGS}
        if model.api_key_env is None and model.base_url is None:
            settings["api_key_env"] = KEY_VARIABLES[model.provider]
        limit = model.max_tokens or traits.default_limit(options)
        return LiveEntrant(**settings, max_tokens=limit, options=options, price=_price(model, prices))

    @model_validator(mode="after")
    def _coherent(self) -> Self:
        counts = Counter(model.name.casefold() for model in self.models)
        for number, model in enumerate(self.models):
            if counts[model.name.casefold()] > 1:
                raise section_error(
                    f"duplicate {model.name!r}; names must differ by more than case", "models", number, "name"
                )
        return self


def load_live_models(path: Path) -> LiveModels:
    """Read a file of live models; raises `BadConfig` if it is invalid."""
    file = read_yaml(path)
    models = validate_section(LiveModels, file, {})
    models._file = file  # noqa: SLF001
    return models


def _price(model: LiveModel, prices: PriceBook) -> Price | None:
    """The stated price; else that of the price list at this address; else unknown."""
    if model.price is not None:
        entry = PriceEntry(**model.price.model_dump())
        prices = replace(prices, own={model.model: entry})
    return prices.price(model.provider, model.model, model.base_url)
