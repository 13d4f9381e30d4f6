"""What is known about a model besides its price, and the request fields that a judge's settings become."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tiltyard.errors import BadConfig
from tiltyard.settings.model_endpoints import PROVIDERS

#: Default output limits, in tokens, of models that think and of those that do not.
_THINKING_TOKENS, _PLAIN_TOKENS = 16_384, 4_096
#: Request fields that make a model think.
_THINKING_OPTIONS = frozenset({"thinking", "reasoning", "reasoning_effort"})


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
