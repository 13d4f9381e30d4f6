"""What one connection may hold, and for how long: bounds that uvicorn's parser in C does not have.

The reverse proxy bounds more of it, and by address. These bounds keep a server without one alive, at the price of a few
comparisons for each request.
"""

from __future__ import annotations

import asyncio
import math
from typing import cast

from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

#: Connections of one process at once. More are closed.
CONNECTION_LIMIT = 4_096
#: Maximum bytes of the request line and headers together, and of trailers. What is more gets 400.
HEADER_BYTES = 64 * 1024
#: Time for a request line with its headers; time for which a body may pause, and its minimum average speed.
HEADER_SECONDS, BODY_SECONDS = 15.0, 30.0
BODY_BYTES_PER_SECOND = 4 * 1024
#: Requests that one connection may send before the first one is answered.
PIPELINED_REQUEST_LIMIT = 8


class LimitedProtocol(HttpToolsProtocol):
    """Uvicorn's protocol with limits. An error that a parser's callback raises is answered by 400 and closes."""

    #: When the part of a request that is coming in must be here.
    _due = math.inf
    #: Bytes that came since the last complete part: what the parser may be holding.
    _held = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(cast("asyncio.Transport", transport))
        self._begin_part(HEADER_SECONDS)
        if len(self.connections) > CONNECTION_LIMIT:
            self.transport.close()

    def data_received(self, data: bytes) -> None:
        self._held += len(data)
        if self._due == math.inf:
            self._due = self.loop.time() + HEADER_SECONDS
        super().data_received(data)
        if self._held > HEADER_BYTES and not self.transport.is_closing():
            self.send_400_response("Too many bytes of headers.")

    def on_message_begin(self) -> None:
        if len(self.pipeline) >= PIPELINED_REQUEST_LIMIT:
            raise ValueError("too many requests before the first is answered")
        self._begin_part(HEADER_SECONDS)
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        if len(self.url) + sum(len(name) + len(value) for name, value in self.headers) > HEADER_BYTES:
            raise ValueError("too many bytes of headers")
        self._begin_part(BODY_SECONDS)
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._held = 0
        earned = self._due + len(body) / BODY_BYTES_PER_SECOND
        self._due = min(earned, self.loop.time() + BODY_SECONDS)
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._held, self._due = 0, math.inf
        super().on_message_complete()

    def _begin_part(self, seconds: float) -> None:
        self._held, self._due = 0, self.loop.time() + seconds

    def close_if_late(self, now: float) -> None:
        """Close the connection if a part of a request is late, unless the delay is ours."""
        # Before the first request it is None, although uvicorn's types say otherwise.
        cycle: RequestResponseCycle | None = self.cycle
        if now > self._due and (cycle is None or cycle.response_complete or _wants_body(cycle, self.flow)):
            self.transport.close()


def _wants_body(cycle: RequestResponseCycle, flow: FlowControl) -> bool:
    """Whether a request that is not answered waits for its client: the application reads what comes, and has said nothing."""
    asked = not (cycle.waiting_for_100_continue or flow.read_paused)
    return cycle.more_body and asked and not cycle.response_started


def close_late_connections(state: ServerState) -> None:
    """Close the connections of a server that keep it waiting for the rest of a request."""
    now = asyncio.get_running_loop().time()
    for connection in [one for one in state.connections if isinstance(one, LimitedProtocol)]:
        connection.close_if_late(now)
