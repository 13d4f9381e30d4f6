"""The protocols that providers implement: for replies as a whole, as streams, and for checks of conversations."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, Protocol

from tiltyard.core.judging.question import ChatPrompt
from tiltyard.core.judging.verdict import Reply
from tiltyard.errors import ProviderFault

#: A provider that asks to wait longer, or serves nothing for so long, ends the run, which can be resumed.
LONGEST_WAIT_SECONDS = 900.0

#: A request or reply as the exact JSON document.
Body = dict[str, Any]

#: Why an answer ended: the model was done, its limit of tokens was reached, or it or its provider refused.
StreamStop = Literal["end", "length", "refused"]


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a provider can do, and the limits of its batches."""

    schema: bool = False
    tool: bool = False
    batch: bool = False
    #: Prompt caching must be requested explicitly.
    prompt_cache: bool = False
    #: A call with ``max_tokens=0`` fills the prompt cache.
    prewarm: bool = False
    count_tokens: bool = False
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
    """The status of a batch. ``mark`` is the mark we gave it at creation, if the provider stores it."""

    id: str
    created_at: datetime
    ended: bool
    #: Number of requests, if the provider states it.
    size: int | None = None
    mark: str | None = None
    #: Why the whole batch failed, if it did: then it has no results, and nothing was billed.
    failed: str | None = None


@dataclass(frozen=True, slots=True)
class BatchEntry:
    """The result of one request in a batch: ``succeeded`` with a body, else ``errored``, ``expired`` or ``canceled``."""

    name: str
    outcome: str
    body: Body | None = None
    error: str | None = None
    #: For ``errored``: whether asking again may help (a server's fault), or not (a bad request).
    retryable: bool = False
    #: For ``errored``: the provider's own words.
    said: str = ""


class Provider(Protocol):
    """One provider at one address. Every method that talks raises only `ProviderFault`.

    A provider that lacks a capability inherits the method of it, which refuses.
    """

    @property
    def name(self) -> str: ...
    @property
    def base_url(self) -> str: ...
    @property
    def address(self) -> str:
        """Who answers: the base URL, and path, query and headers of the configuration if there are any."""
        ...

    @property
    def adapter_version(self) -> int:
        """Must change when a `ChatPrompt` is sent as a different body, or a reply is parsed differently."""
        ...

    @property
    def capabilities(self) -> Capabilities: ...

    def body(self, model: str, ask: ChatPrompt, options: Mapping[str, Any]) -> Body:
        """The exact request. ``options`` are the user's own fields of the request, e.g. ``temperature``;
        ``prompt_cache`` (``5m``, ``1h``) is ours and marks the system text if the provider needs it."""
        ...

    def read(self, body: Body) -> tuple[Reply, Usage | None]:
        """Parse a raw reply; pure. Usage is ``None`` if the provider stated none."""
        ...

    async def complete(self, body: Body) -> Body:
        """Send a request once, without retries; return the raw reply."""
        ...

    async def count_tokens(self, body: Body) -> int:
        """Input tokens of a request, as counted by the provider."""
        raise self._lacks(f"cannot count tokens of {body.get('model')}")

    async def prewarm(self, body: Body) -> Body:
        """Fill the prompt cache with the request's prefix, without output."""
        raise self._lacks(f"has no prompt cache to fill in advance for {body.get('model')}")

    async def submit_batch(self, items: Sequence[BatchItem], mark: str) -> str:
        """Create a batch and return its ID. ``mark`` is stored with it if the provider supports that.

        After a fault that is ``billed``, the batch may or may not exist.
        """
        raise self._lacks(f"does not support batches (of {len(items)}, marked {mark}); set batch: false")

    async def poll(self, batch_id: str) -> BatchStatus:
        raise self._lacks(f"has no batch {batch_id}")

    def list_batches(self, since: datetime) -> AsyncGenerator[BatchStatus]:
        """Batches created since a time, newest first: used to find one whose creation got no response."""
        raise self._lacks(f"has no batches since {since:%Y-%m-%d}")

    def results(self, batch_id: str) -> AsyncGenerator[BatchEntry]:
        """Stream the results of an ended batch, in any order."""
        raise self._lacks(f"has no batch {batch_id}")

    async def aclose(self) -> None: ...

    def _lacks(self, what: str) -> ProviderFault:
        return ProviderFault(f"{self.name} at {self.base_url}: {what}")


@dataclass(frozen=True, slots=True)
class ChatTurn:
    """One message of a conversation."""

    role: Literal["user", "assistant"]
    text: str


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """A conversation whose next message a model is to write. The last turn is the user's."""

    turns: tuple[ChatTurn, ...]
    system: str | None
    max_tokens: int

    def __post_init__(self) -> None:
        if not self.turns or self.turns[-1].role != "user":
            raise ValueError("the last turn of a request must be the user's")


@dataclass(frozen=True, slots=True)
class StreamPiece:
    """Some more of the answer, of the model's thinking, or of both."""

    text: str
    thinking: str = ""


@dataclass(frozen=True, slots=True)
class StreamEnd:
    """The end of a whole answer: always the last item of a stream, and only of one that did not break off.

    Tokens are ``None`` if the provider did not state them. ``input_tokens`` includes those read from or written
    to a prompt cache, which ``usage`` counts apart, because they have other prices.
    """

    input_tokens: int | None
    output_tokens: int | None
    stop: StreamStop
    usage: Usage | None = None


@dataclass(frozen=True, slots=True)
class StreamTimeouts:
    """How long a stream may be silent. Only text and thinking count: keep-alives do not prolong it."""

    #: From the call to the first piece.
    first_token_seconds: float = 60.0
    #: From a piece to the next, or to the end.
    gap_seconds: float = 30.0
    #: From the call to the end.
    total_seconds: float = 900.0
