"""Requests: what is asked of whom, and the name under which its reply is kept."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass

from tiltyard.judges.limits import Gate
from tiltyard.judging.verdict import State
from tiltyard.providers.provider import Body, Provider, Usage
from tiltyard.settings.prices import Price

__all__ = ["Caller", "Request", "request_key"]


@dataclass(frozen=True, slots=True)
class Request:
    """One request. ``judge`` names the `Caller` that sends it; ``worst`` is its dearest cost in picodollars."""

    key: str
    question_id: str
    judge: str
    dimension: str
    body: Body
    #: Bytes of the request as text.
    size: int
    worst: int | None


@dataclass(frozen=True)
class Caller:
    """How requests of one judge are sent and read."""

    name: str
    provider: Provider
    price: Price | None
    gate: Gate
    #: How a raw reply reads; truncated and unparseable ones are asked for once more.
    read: Callable[[Body], State]
    batch: bool = False
    ttl: str | None = None
    retries: int = 5

    def cost(self, usage: Usage | None, worst: int | None) -> int | None:
        """What a reply cost; where the provider does not say, the worst case; where no price is known, nothing."""
        if self.price is None:
            return None
        if usage is None:
            return worst
        return self.price.cost(usage, batch=self.batch, ttl=self.ttl)


def request_key(provider: Provider, body: Body, replicate: int) -> tuple[str, int]:
    """The hash under which a reply is kept, of all that decides it and nothing else; and the request's size.

    Names of models, ids, concurrency and whether it went by batch are no part of it.
    """
    text = json.dumps(body, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    sent = text.encode("utf-8", "surrogatepass")
    name, address = json.dumps(provider.name), json.dumps(provider.base_url)
    digest = hashlib.sha256()
    digest.update(f'{{"adapter_version":{provider.adapter_version},"base_url":{address},"body":'.encode())
    digest.update(sent)
    digest.update(f',"provider":{name},"replicate":{replicate}}}'.encode())
    return digest.hexdigest(), len(sent)
