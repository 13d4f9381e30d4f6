"""HTTP limits: sizes and timeouts of requests, and connections per address.

Uvicorn's parser accepts headers of any size and waits forever for the rest of a request. This protocol
rejects both before the application is called.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from http import HTTPStatus
from typing import ClassVar, cast

from starlette.responses import Response
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from tiltyard.settings.serving_settings import ServingSettings
from tiltyard.web.access.rate_limits import client_network, is_inside
from tiltyard.web.edge.middleware import security_headers
from tiltyard.web.edge.problem_details import problem

#: Of errors only: what is malformed is counted, and not logged, since whoever sends it would fill the log.
_LOG = logging.getLogger(f"{__name__}.protocol")
_LOG.setLevel(logging.ERROR)

#: Maximum bytes of the request line and headers together, and maximum number of headers.
HEADER_BYTES = 64 * 1024
HEADER_COUNT = 100
#: Minimum average speed of a body; it may pause for ``body_seconds``.
BODY_BYTES_PER_SECOND = 4 * 1024
#: Requests that one connection may send before the first one is answered.
PIPELINED_REQUEST_LIMIT = 8
#: Seconds that a rejected client has to read the response, while its input is discarded.
LINGER_SECONDS = 2.0
_GRACE_SECONDS = 0.1


class HttpLimits:
    """The limits of one web process, and its number of connections by address."""

    def __init__(self, settings: ServingSettings, refused: Callable[[str], None] = lambda _: None) -> None:
        self.header_seconds = settings.header_seconds
        self.body_seconds = settings.body_seconds
        #: Called for every rejected request: ``headers``, ``deadline``, ``connections`` or ``malformed``.
        self.refused = refused
        #: Of every answer.
        self.headers = security_headers(settings)
        self._most = settings.connections_per_address
        self._proxies = tuple(ipaddress.ip_network(one, strict=False) for one in settings.trusted_proxies)
        self._held: Counter[str] = Counter()

    def admit(self, host: str) -> bool:
        """Count a new connection of an address; return whether it is allowed. Trusted proxies have no limit."""
        self._held[client_network(host)] += 1
        return (
            not self._most or self._held[client_network(host)] <= self._most or is_inside(host, self._proxies)
        )

    def release(self, host: str) -> None:
        """Uncount a connection that has ended."""
        place = client_network(host)
        self._held[place] -= 1
        if not self._held[place]:
            del self._held[place]


class _Phase(Enum):
    """Which part of a request comes next."""

    NONE = "between requests"
    HEAD = "line and headers"
    BODY = "body"


class _RefusalError(Exception):
    """Ends the parser's work on what was received."""


@dataclass(slots=True)
class _Progress:
    """How far the present request has come in."""

    phase: _Phase = _Phase.NONE
    #: Bytes that came and ended no header section and were no body: what the parser may be holding.
    held: int = 0
    #: Of the address and the headers, or of the trailers, as far as they are complete.
    header_bytes: int = 0
    header_count: int = 0

    def begin(self, phase: _Phase) -> None:
        self.phase = phase
        self.held = self.header_bytes = self.header_count = 0


@dataclass(slots=True)
class _Deadline:
    """A connection's timeout, postponed without creating a new timer for every packet."""

    loop: asyncio.AbstractEventLoop
    passed: Callable[[], None]
    at: float = 0.0
    _timer: asyncio.TimerHandle | None = None
    _looked: bool = False

    @property
    def is_set(self) -> bool:
        return self._timer is not None

    def set(self, seconds: float) -> None:
        self.cancel()
        self.at = self.loop.time() + seconds
        self._looked = False
        self._timer = self.loop.call_later(seconds, self._look)

    def extend(self, seconds: float, *, most: float) -> None:
        """Postpone by ``seconds``, but to no later than ``most`` seconds from now."""
        self.at = min(self.at + seconds, self.loop.time() + most)

    def cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self) -> None:
        left = self.at - self.loop.time()
        if left > 0:
            self._timer = self.loop.call_later(left, self._look)
        elif not self._looked:
            # If this process itself was delayed, let it first read what has arrived.
            self._looked = True
            self._timer = self.loop.call_later(_GRACE_SECONDS, self._look)
        else:
            self._timer = None
            self.passed()


class LimitedProtocol(HttpToolsProtocol):
    """Uvicorn's protocol with limits. Create a class for one process with `limited_protocol`."""

    limits: ClassVar[HttpLimits]

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(cast("asyncio.Transport", transport))
        self.logger = _LOG
        self._progress = _Progress()
        self._deadline = _Deadline(self.loop, self._deadline_passed)
        self._refused = False
        self._host = self.client[0] if self.client else ""
        if self.limits.admit(self._host):
            self._deadline.set(self.limits.header_seconds)
        else:
            self.limits.refused("connections")
            self._answer(
                problem(
                    429,
                    "This address has too many connections open; close some, or try again later.",
                    headers={"Retry-After": "10"},
                )
            )
            self.transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self._deadline.cancel()
        self.limits.release(self._host)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._refused:
            return
        self._progress.held += len(data)
        super().data_received(data)
        self._check_progress()

    def _check_progress(self) -> None:
        """After input arrived: check how much the parser holds, and set the deadline if it waits for more."""
        progress = self._progress
        if self._refused:
            return
        if progress.held > HEADER_BYTES:
            self._refuse_headers()
        elif progress.phase is not _Phase.NONE or progress.held:
            if not self._deadline.is_set:
                self._deadline.set(self._seconds())
        else:
            self._deadline.cancel()

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002 - uvicorn passes its own words
        """Answer a request that the parser rejects, unless we have answered it already."""
        if not self._refused:
            self._deadline.cancel()
            self.limits.refused("malformed")
            self._answer(problem(400, "This is not a valid HTTP request."))
            self.transport.close()

    # Callbacks of the parser

    def on_message_begin(self) -> None:
        self._progress.begin(_Phase.HEAD)
        self._deadline.cancel()
        if len(self.pipeline) >= PIPELINED_REQUEST_LIMIT:
            self.limits.refused("headers")
            self._reject(None)
            raise _RefusalError
        super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        self._progress.header_bytes += len(url)
        self._check_headers()
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        self._progress.header_count += 1
        self._progress.header_bytes += len(name) + len(value)
        self._check_headers()
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        # Trailers are counted separately.
        self._progress.begin(_Phase.BODY)
        self._deadline.cancel()
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._progress.held = 0
        if self._deadline.is_set:
            self._deadline.extend(len(body) / BODY_BYTES_PER_SECOND, most=self.limits.body_seconds)
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._progress.begin(_Phase.NONE)
        self._deadline.cancel()
        super().on_message_complete()

    # Closing

    def _check_headers(self) -> None:
        if self._progress.header_count > HEADER_COUNT or self._progress.header_bytes > HEADER_BYTES:
            self._refuse_headers()
            raise _RefusalError

    def _seconds(self) -> float:
        return self.limits.body_seconds if self._progress.phase is _Phase.BODY else self.limits.header_seconds

    def _deadline_passed(self) -> None:
        """Close a connection whose request is late, unless the delay is ours."""
        if self.transport.is_closing():
            return
        if self._is_busy():
            self._deadline.set(self._seconds())
            return
        self.limits.refused("deadline")
        silent = self._progress.phase is _Phase.NONE
        late = problem(408, "The rest of the request did not arrive in time; send it again.")
        self._reject(None if silent else late)

    def _is_busy(self) -> bool:
        """Whether a response is in progress, which is never cut off, or the application has not requested more input."""
        if self.cycle is None or self.cycle.response_complete:
            return False
        if self._progress.phase is not _Phase.BODY or self.cycle.response_started:
            return True
        return bool(self.flow.read_paused or self.cycle.waiting_for_100_continue)

    def _refuse_headers(self) -> None:
        self.limits.refused("headers")
        self._reject(
            problem(
                431,
                f"The request has more than {HEADER_COUNT} headers, or more than {HEADER_BYTES} bytes of them with "
                "the address; send less, or delete the cookies of this site.",
            )
        )

    def _reject(self, response: Response | None) -> None:
        """Close the connection. Send the response first, if none is in progress, and give the client time to read it."""
        if response is None or not self._may_answer():
            self._refused = True
            self._deadline.cancel()
            self.transport.close()
            return
        self._answer(response)
        if self.cycle is not None:
            # The application may be waiting for the rest of the body: signal that the client has disconnected.
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        self.flow.resume_reading()
        if self.transport.can_write_eof():
            self.transport.write_eof()
        self.loop.call_later(LINGER_SECONDS, self.transport.abort)

    def _may_answer(self) -> bool:
        """Whether the current request has no response yet, and none of an earlier request is in progress."""
        # Before the first request it is None, although uvicorn's types say otherwise.
        cycle: RequestResponseCycle | None = self.cycle
        if cycle is None:
            return True
        if self._progress.phase is _Phase.BODY:
            return not self.pipeline and not cycle.response_started
        return cycle.response_complete

    def _answer(self, response: Response) -> None:
        self._refused = True
        self._deadline.cancel()
        status = HTTPStatus(response.status_code)
        lines = [f"HTTP/1.1 {status.value} {status.phrase}".encode()]
        own = dict(response.raw_headers)
        lines += [name + b": " + value for name, value in {**self.limits.headers, **own}.items()]
        lines += [b"connection: close", b"", bytes(response.body)]
        self.transport.write(b"\r\n".join(lines))


def limited_protocol(limits: HttpLimits) -> type[asyncio.Protocol]:
    """The protocol of one web process, for uvicorn's setting ``http``."""
    return cast("type[asyncio.Protocol]", type("Limited", (LimitedProtocol,), {"limits": limits}))
