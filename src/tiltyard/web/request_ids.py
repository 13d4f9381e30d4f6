"""The id of the request that is being answered, for logs and for the client.

It is a variable of the context, so that everything that a request awaits or runs in a thread has it. A task that
outlives the request inherits it too, but no longer reports it.
"""

from __future__ import annotations

import re
import secrets
from contextvars import ContextVar, Token

__all__ = ["RequestScope", "current_request_id", "make_request_id"]

_WELL_FORMED = re.compile(r"[A-Za-z0-9._-]{1,64}")


class _AnsweredRequest:
    """A request that is being answered; its id is ``None`` afterwards."""

    __slots__ = ("id",)

    def __init__(self, id: str) -> None:
        self.id: str | None = id


_current: ContextVar[_AnsweredRequest | None] = ContextVar("tiltyard_request", default=None)


def make_request_id(stated: str | None) -> str:
    """The id that a client or proxy stated if it is well formed, or a new one."""
    if stated is not None and _WELL_FORMED.fullmatch(stated):
        return stated
    return secrets.token_hex(8)


def current_request_id() -> str | None:
    """The id of the request that is being answered here, if any."""
    request = _current.get()
    return None if request is None else request.id


class RequestScope:
    """A block in which the request with this id is answered. No generator, which would cost more on the way of every vote."""

    __slots__ = ("_request", "_token")

    def __init__(self, id: str) -> None:
        self._request = _AnsweredRequest(id)
        self._token: Token[_AnsweredRequest | None]

    def __enter__(self) -> None:
        self._token = _current.set(self._request)

    def __exit__(self, *_: object) -> None:
        self._request.id = None
        _current.reset(self._token)
