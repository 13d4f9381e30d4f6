"""The protocol: all that the house asks of a provider of models."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from tiltyard.core.judging.question import ChatPrompt
from tiltyard.core.judging.verdict import Reply

__all__ = ["BatchEntry", "BatchItem", "BatchStatus", "Body", "Capabilities", "Provider", "Usage"]

#: The exact JSON document that is sent, and the exact one that comes back.
Body = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a provider can do, and the limits of its batches."""

    schema: bool
    tool: bool
    batch: bool
    #: Prompt caching must be asked for, and can be.
    prompt_cache: bool
    #: A call with ``max_tokens=0`` fills the prompt cache.
    prewarm: bool
    count_tokens: bool
    batch_requests: int = 0
    batch_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens as billed. ``input`` does not include those written to or read from a prompt cache."""

    input: int
    output: int
    cache_write: int = 0
    cache_read: int = 0


@dataclass(frozen=True, slots=True)
class BatchItem:
    """One request of a batch. ``name`` matches ``^[a-zA-Z0-9_-]{1,64}$``."""

    name: str
    body: Body


@dataclass(frozen=True, slots=True)
class BatchStatus:
    """One batch as its provider lists it. ``mark`` is what we gave it at creation, where it keeps such a thing."""

    id: str
    created_at: datetime
    ended: bool
    #: How many requests it holds, where the provider says so.
    size: int | None = None
    mark: str | None = None
    #: Why the whole batch failed, where it did: it then has no results, and nothing was billed.
    failed: str | None = None


@dataclass(frozen=True, slots=True)
class BatchEntry:
    """The end of one request of a batch: ``succeeded`` with a body, else ``errored``, ``expired`` or ``canceled``."""

    name: str
    outcome: str
    body: Body | None = None
    error: str | None = None
    #: For ``errored``: whether asking again may help (a server's fault), or not (a bad request).
    retryable: bool = False
    #: For ``errored``: the provider's own words.
    said: str = ""


class Provider(Protocol):
    """One provider at one address. Every method that talks raises only `ProviderFault`."""

    @property
    def name(self) -> str:
        """``anthropic``, ``openai`` or ``replay``."""
        ...

    @property
    def base_url(self) -> str: ...
    @property
    def adapter_version(self) -> int:
        """Changes when the same `ChatPrompt` would be sent as another body, or a body be read otherwise."""
        ...

    @property
    def capabilities(self) -> Capabilities: ...

    def body(self, model: str, ask: ChatPrompt, options: Mapping[str, Any]) -> Body:
        """The exact request. ``options`` are the user's own fields of the request, e.g. ``temperature``;
        ``prompt_cache`` (``5m``, ``1h``) is ours and marks the system text where the provider wants a mark."""
        ...

    def read(self, body: Body) -> tuple[Reply, Usage | None]:
        """A raw reply, reduced; pure. Usage is ``None`` where the provider stated none."""
        ...

    async def complete(self, body: Body) -> Body:
        """Ask once, no retries of the SDK's own; the raw reply."""
        ...

    async def count_tokens(self, body: Body) -> int:
        """Input tokens of a request, by the provider's own count."""
        ...

    async def prewarm(self, body: Body) -> Body:
        """Fill the prompt cache with the request's prefix, asking for no output."""
        ...

    async def submit_batch(self, items: Sequence[BatchItem], mark: str) -> str:
        """Create a batch; its id. ``mark`` is kept with it where the provider keeps such a thing.

        A fault that is ``billed`` leaves open whether there is such a batch now.
        """
        ...

    async def poll(self, batch_id: str) -> BatchStatus: ...

    def list_batches(self, since: datetime) -> AsyncGenerator[BatchStatus]:
        """Batches created since a moment, newest first: where one whose creation went unanswered is found."""
        ...

    def results(self, batch_id: str) -> AsyncGenerator[BatchEntry]:
        """Every request of an ended batch, in any order, as it is read from the wire."""
        ...

    async def aclose(self) -> None: ...
