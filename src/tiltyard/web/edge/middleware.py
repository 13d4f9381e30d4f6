"""The outermost layer: what every request must satisfy and what every response carries.

Plain ASGI, because it stands in the way of every vote.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Final
from urllib.parse import urlsplit

from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tiltyard.arena.content.upload_review import MAX_UPLOAD_BYTES
from tiltyard.foundation.telemetry import describe_span, span
from tiltyard.settings.serving_settings import ServingSettings, is_loopback
from tiltyard.web.access.cookies import OPERATOR_COOKIE
from tiltyard.web.edge.logs import RequestScope, log_event, make_request_id
from tiltyard.web.edge.metrics import ProcessMetrics
from tiltyard.web.edge.problem_details import ANSWERED_KEY, problem, problem_for_unexpected

#: Maximum bytes of a request body, of an import, and of an upload form.
MAX_BODY_BYTES = 1024 * 1024
MAX_IMPORT_BYTES = 1024 * 1024 * 1024
MAX_UPLOAD_FORM_BYTES = MAX_UPLOAD_BYTES + 64 * 1024

#: Formats an error response for the client.
ResponseFormatter = Callable[[Scope, Response], Response]

_SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
_STATUS_PAGES = frozenset({"/healthz", "/readyz", "/metrics"})
#: Paths with larger limits: imports and uploads of answers and past votes.
_IMPORTS = re.compile(r"/api/v1/arenas/[^/]+/(responses|past-votes)")
_UPLOADS = re.compile(r"/operator/arenas/([^/]+)/(?:uploads|past-votes)")
_OPERATOR = f"{OPERATOR_COOKIE}=".encode()


class EdgeMiddleware:
    """Rejects requests that are too large or cross-site, adds headers, counts requests, and catches all errors."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        settings: ServingSettings,
        metrics: ProcessMetrics,
        dressed: ResponseFormatter,
    ) -> None:
        self._app = app
        self._dressed = dressed
        self._settings = settings
        self._metrics = metrics
        secure = {b"strict-transport-security": _HSTS} if settings.secure else {}
        self._headers = {**_HEADERS, **secure}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = _Headers(scope["headers"])
        request_id = make_request_id(headers.request_id)
        with RequestScope(request_id), span("request"):
            await self._answer(scope, receive, send, headers, request_id)

    async def _answer(
        self, scope: Scope, receive: Receive, send: Send, headers: _Headers, request_id: str
    ) -> None:
        started = time.perf_counter()
        status = 0

        async def sending(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                present = {name for name, _ in message["headers"]}
                message["headers"] += [item for item in self._headers.items() if item[0] not in present]
                message["headers"].append((b"x-request-id", request_id.encode()))
            await send(message)

        try:
            refusal, receiving = self._checked(scope, receive, headers)
            await (self._app if refusal is None else refusal)(scope, receiving, sending)
        except Exception as error:  # noqa: BLE001 - every request must get a response
            if ANSWERED_KEY not in scope:
                answer = problem_for_unexpected(error)
                if not status:
                    await answer(scope, receive, sending)
        finally:
            self._note(scope, status, time.perf_counter() - started)

    def _note(self, scope: Scope, status: int, seconds: float) -> None:
        route = getattr(scope.get("endpoint"), "__name__", "none")
        method = scope["method"] if scope["method"] in _METHODS else "OTHER"
        self._metrics.answered(route, method, status, seconds)
        describe_span(f"{method} {route}", http__response__status_code=status)
        if self._settings.log_requests:
            log_event("request", route=route, method=method, status=status, ms=round(seconds * 1000, 1))

    def _checked(self, scope: Scope, receive: Receive, headers: _Headers) -> tuple[Response | None, Receive]:
        """An error response, or ``None`` and how the body may be read."""
        if not self._host_is_ours(scope, headers):
            return problem(
                403, "This server accepts requests from its own machine only; set base_url to open it."
            ), receive
        if scope["method"] in _SAFE:
            return None, receive
        if (headers.cookies or headers.authorization is None) and not self._is_own_page(scope, headers):
            return problem(403, "The request comes from a page of another site."), receive
        limit = _limit(scope, headers)
        if headers.length is None:
            return None, _counted(receive, limit)
        if not headers.length.isdigit() or int(headers.length) > limit:
            return self._dressed(scope, _too_large(scope, limit)), receive
        return None, receive

    def _host_is_ours(self, scope: Scope, headers: _Headers) -> bool:
        """Whether the ``Host`` header is ours. Without a base_url only loopback names are, against DNS rebinding."""
        if self._settings.base_url is not None or headers.host is None or scope["path"] in _STATUS_PAGES:
            return True
        return _is_loopback(headers.host)

    def _is_own_page(self, scope: Scope, headers: _Headers) -> bool:
        """Whether the request comes from our own page, according to the browser; programs send no such headers."""
        if headers.site not in {None, "same-origin", "none"}:
            return False
        if headers.origin is None:
            return True
        own = self._settings.origin or f"{scope['scheme']}://{(headers.host or '').lower()}"
        return headers.origin.lower() == own


_METHODS = frozenset({"GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE"})


@lru_cache(maxsize=256)
def _is_loopback(host: str) -> bool:
    try:
        return is_loopback(urlsplit(f"//{host}").hostname or "")
    except ValueError:
        return False


def _limit(scope: Scope, headers: _Headers) -> int:
    """The maximum size of the body. Only imports and uploads with credentials may be large."""
    if scope["method"] != "POST":
        return MAX_BODY_BYTES
    if _IMPORTS.fullmatch(scope["path"]) and (headers.authorization is not None or headers.operator):
        return MAX_IMPORT_BYTES
    if _UPLOADS.fullmatch(scope["path"]) and headers.operator:
        return MAX_UPLOAD_FORM_BYTES
    return MAX_BODY_BYTES


def _too_large(scope: Scope, limit: int) -> Response:
    """The response for a body that is too large, with alternatives."""
    upload = _UPLOADS.fullmatch(scope["path"]) if limit == MAX_UPLOAD_FORM_BYTES else None
    if upload is None:
        return problem(413, f"The body has more than {limit} bytes; split it into smaller requests.")
    return problem(
        413,
        f"The file has more than {MAX_UPLOAD_BYTES // 1024**2} MiB. Split it and upload the pieces one after the other; "
        f"or send it whole to /api/v1/arenas/{upload[1]}/responses, which accepts up to {MAX_IMPORT_BYTES // 1024**3} GiB from a "
        "program with a token for imports (the page where you chose the file shows the command).",
    )


class _Headers:
    """The headers that are checked here."""

    __slots__ = ("authorization", "cookies", "host", "length", "operator", "origin", "request_id", "site")

    def __init__(self, headers: Iterable[tuple[bytes, bytes]]) -> None:
        self.authorization: str | None = None
        self.host: str | None = None
        self.length: str | None = None
        #: Whether there are cookies, and an operator's; it is verified later.
        self.cookies = self.operator = False
        self.origin: str | None = None
        self.request_id: str | None = None
        self.site: str | None = None
        for name, value in headers:
            slot = _SLOTS.get(name)
            if slot is not None:
                setattr(self, slot, value.decode("latin-1"))
            elif name == b"cookie":
                self.cookies = True
                self.operator |= _OPERATOR in value


_SLOTS = {
    b"authorization": "authorization",
    b"content-length": "length",
    b"host": "host",
    b"origin": "origin",
    b"sec-fetch-site": "site",
    b"x-request-id": "request_id",
}


def _counted(receive: Receive, limit: int) -> Receive:
    """Count the bytes of a body without ``Content-Length``, and raise if it is too large."""
    seen = 0

    async def receiving() -> Message:
        nonlocal seen
        message = await receive()
        seen += len(message.get("body", b""))
        if seen > limit:
            raise HTTPException(413, f"The body has more than {limit} bytes; split it into smaller requests.")
        return message

    return receiving


_HEADERS: Final[Mapping[bytes, bytes]] = {
    b"cache-control": b"no-store",
    b"content-security-policy": b"default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
    b"cross-origin-opener-policy": b"same-origin",
    b"cross-origin-resource-policy": b"same-origin",
    b"permissions-policy": b"camera=(), geolocation=(), microphone=()",
    b"referrer-policy": b"no-referrer",
    b"x-content-type-options": b"nosniff",
}
_HSTS = b"max-age=31536000"
