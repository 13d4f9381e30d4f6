"""Answers as streams: what a model is asked, and the pieces in which its answer arrives."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from tiltyard.errors import ProviderFault, StreamBroken
from tiltyard.judges.providers.provider import Body, Usage

__all__ = [
    "ChatProvider",
    "ChatRequest",
    "ChatTurn",
    "StreamEnd",
    "StreamPiece",
    "StreamStop",
    "StreamTimeouts",
    "StreamingProvider",
    "broken_stream",
]

#: Why an answer ended: the model was done, its limit of tokens was reached, or it or its provider refused.
StreamStop = Literal["end", "length", "refused"]


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


class ChatProvider(Protocol):
    """One model with its parameters, ready to answer."""

    def stream(self, request: ChatRequest) -> AsyncGenerator[StreamPiece | StreamEnd]:
        """Ask once. Closing the iterator closes the connection.

        Raises only `ProviderFault`; once a piece has been given, only its subclass `StreamBroken`.
        """
        ...

    async def aclose(self) -> None: ...


class StreamingProvider(Protocol):
    """A provider that can answer as a stream."""

    @property
    def name(self) -> str: ...
    @property
    def address(self) -> str: ...

    def chat_body(self, model: str, request: ChatRequest, options: Mapping[str, Any]) -> Body:
        """The exact request for a streamed answer. ``options`` are the user's own fields of the request."""
        ...

    def stream(
        self, body: Body, timeouts: StreamTimeouts, *, thinking_open: bool = False
    ) -> AsyncGenerator[StreamPiece | StreamEnd]:
        """Send a request once. Raises only `ProviderFault`.

        ``thinking_open``: the server's template has opened the model's thinking, which only a closing tag ends.
        """
        ...

    async def aclose(self) -> None: ...


def broken_stream(fault: ProviderFault) -> StreamBroken:
    """The fault of a stream of which a part has arrived: that part was billed."""
    return StreamBroken(
        str(fault),
        status=fault.status,
        retryable=fault.retryable,
        throttled=fault.throttled,
        billed=True,
        fatal=fault.fatal,
        retry_after=fault.retry_after,
        said=fault.said,
    )
