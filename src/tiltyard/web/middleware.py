"""The outermost layer: what every request must satisfy and what every response carries.

Plain ASGI, because it stands in the way of every vote.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable
from functools import lru_cache
from urllib.parse import urlsplit

from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tiltyard.arena.content.uploads import MAX_UPLOAD_BYTES
from tiltyard.settings.serving_settings import ServingSettings, is_loopback
from tiltyard.web.cookies import OPERATOR_COOKIE
from tiltyard.web.logs import log_event
from tiltyard.web.metrics import ProcessMetrics
from tiltyard.web.problem_details import TOLD, problem, problem_for_unexpected

__all__ = ["MAX_BODY_BYTES", "MAX_IMPORT_BYTES", "MAX_UPLOAD_FORM_BYTES", "EdgeMiddleware"]

#: Bytes of a request's body; answers come in larger pieces, and on the operator's pages in a form.
MAX_BODY_BYTES = 1024 * 1024
MAX_IMPORT_BYTES = 1024 * 1024 * 1024
MAX_UPLOAD_FORM_BYTES = MAX_UPLOAD_BYTES + 64 * 1024

#: A refusal as its reader can read it.
ResponseFormatter = Callable[[Scope, Response], Response]

_SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
_STATUS_PAGES = frozenset({"/healthz", "/readyz", "/metrics"})
#: Where answers are let in, which are large.
_IMPORTS = re.compile(r"/api/v1/arenas/[^/]+/responses")
_UPLOADS = re.compile(r"/operator/arenas/([^/]+)/uploads")
_OPERATOR = f"{OPERATOR_COOKIE}=".encode()
#: What a response carries unless it says otherwise.
_HEADERS = {
    b"cache-control": b"no-store",
    b"content-security-policy": b"default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
    b"cross-origin-opener-policy": b"same-origin",
    b"cross-origin-resource-policy": b"same-origin",
    b"permissions-policy": b"camera=(), geolocation=(), microphone=()",
    b"referrer-policy": b"no-referrer",
    b"x-content-type-options": b"nosniff",
}
_HSTS = b"max-age=31536000"


class EdgeMiddleware:
    """Refuses what is too large or comes from another site's page; adds headers; counts; catches what is left."""

    def __init__(
        self, app: ASGIApp, *, settings: ServingSettings, figures: ProcessMetrics, dressed: ResponseFormatter
    ) -> None:
        self._app = app
        self._dressed = dressed
        self._settings = settings
        self._figures = figures
        self._headers = dict(_HEADERS)
        if settings.secure:
            self._headers[b"strict-transport-security"] = _HSTS

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started = time.perf_counter()
        status = 0

        async def sending(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                present = {name for name, _ in message["headers"]}
                message["headers"] += [item for item in self._headers.items() if item[0] not in present]
            await send(message)

        try:
            refusal, receiving = self._checked(scope, receive)
            if refusal is None:
                await self._app(scope, receiving, sending)
            else:
                await refusal(scope, receive, sending)
        except Exception as error:  # noqa: BLE001 - nothing may leave a request without an answer
            if TOLD not in scope:
                answer = problem_for_unexpected(error)
                if not status:
                    await answer(scope, receive, sending)
        finally:
            self._note(scope, status, time.perf_counter() - started)

    def _note(self, scope: Scope, status: int, seconds: float) -> None:
        route = getattr(scope.get("endpoint"), "__name__", "none")
        method = scope["method"] if scope["method"] in _METHODS else "OTHER"
        self._figures.answered(route, method, status, seconds)
        if self._settings.log_requests:
            log_event("request", route=route, method=method, status=status, ms=round(seconds * 1000, 1))

    def _checked(self, scope: Scope, receive: Receive) -> tuple[Response | None, Receive]:
        """A refusal, or how the body may be read."""
        headers = _Headers(scope["headers"])
        if not self._host_is_ours(scope, headers):
            return problem(
                403, "This server is for the machine it runs on; set base_url to open it."
            ), receive
        if scope["method"] in _SAFE:
            return None, receive
        if headers.authorization is None and not self._is_own_page(scope, headers):
            return problem(403, "The request comes from a page of another site."), receive
        limit = _limit(scope, headers)
        if headers.length is None:
            return None, _counted(receive, limit)
        if not headers.length.isdigit() or int(headers.length) > limit:
            return self._dressed(scope, _too_large(scope, limit)), receive
        return None, receive

    def _host_is_ours(self, scope: Scope, headers: _Headers) -> bool:
        """Without a base_url only this machine's own names lead here: a page elsewhere cannot borrow one."""
        if self._settings.base_url is not None or headers.host is None or scope["path"] in _STATUS_PAGES:
            return True
        return _is_loopback(headers.host)

    def _is_own_page(self, scope: Scope, headers: _Headers) -> bool:
        """Whether a browser says that the request comes from a page of ours. Programs say nothing."""
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
    """Bytes of a body. Large ones go only where answers are let in, from somebody who says who they are."""
    if scope["method"] != "POST":
        return MAX_BODY_BYTES
    if _IMPORTS.fullmatch(scope["path"]) and (headers.authorization is not None or headers.operator):
        return MAX_IMPORT_BYTES
    if _UPLOADS.fullmatch(scope["path"]) and headers.operator:
        return MAX_UPLOAD_FORM_BYTES
    return MAX_BODY_BYTES


def _too_large(scope: Scope, limit: int) -> Response:
    """What to do with so much instead."""
    upload = _UPLOADS.fullmatch(scope["path"]) if limit == MAX_UPLOAD_FORM_BYTES else None
    if upload is None:
        return problem(413, f"The body has more than {limit} bytes; send it in pieces.")
    return problem(
        413,
        f"The file has more than {MAX_UPLOAD_BYTES // 1024**2} MiB. Split it and upload the pieces one after the other; "
        f"or send it whole to /api/v1/arenas/{upload[1]}/responses, which takes {MAX_IMPORT_BYTES // 1024**3} GiB from a "
        "program with a token for imports (the page where you chose the file shows the command).",
    )


class _Headers:
    """The few that are looked at here."""

    __slots__ = ("authorization", "host", "length", "operator", "origin", "site")

    def __init__(self, headers: Iterable[tuple[bytes, bytes]]) -> None:
        self.authorization: str | None = None
        self.host: str | None = None
        self.length: str | None = None
        #: Whether there is a cookie of that name; who it is, is looked up later.
        self.operator = False
        self.origin: str | None = None
        self.site: str | None = None
        for name, value in headers:
            slot = _SLOTS.get(name)
            if slot is not None:
                setattr(self, slot, value.decode("latin-1"))
            elif name == b"cookie":
                self.operator |= _OPERATOR in value


_SLOTS = {
    b"authorization": "authorization",
    b"content-length": "length",
    b"host": "host",
    b"origin": "origin",
    b"sec-fetch-site": "site",
}


def _counted(receive: Receive, limit: int) -> Receive:
    """The same body, which fails once it is too long: its length was not announced."""
    seen = 0

    async def receiving() -> Message:
        nonlocal seen
        message = await receive()
        seen += len(message.get("body", b""))
        if seen > limit:
            raise HTTPException(413, f"The body has more than {limit} bytes; send it in pieces.")
        return message

    return receiving
