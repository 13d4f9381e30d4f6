"""Many small connection pools instead of a large one.

The HTTP client's pool scans all its connections on every call. With hundreds of calls in flight that costs
more than everything else; with pools of sixteen it is negligible.
"""

from __future__ import annotations

import socket
import ssl
from functools import cache
from typing import Any
from urllib.request import getproxies

import httpx2

__all__ = ["client_settings"]

_POOL_CONNECTIONS = 16
_CONNECTION_LIMIT = 1000
#: A call may take minutes without traffic: keep-alive packets keep it open and detect a dead peer.
_KEEP_ALIVE = {"TCP_KEEPIDLE": 60, "TCP_KEEPINTVL": 60, "TCP_KEEPCNT": 5}


def client_settings(timeout_seconds: float) -> dict[str, Any]:
    """Timeouts, limits and transport for an SDK's HTTP client. With a proxy, a single pool is used."""
    settings: dict[str, Any] = {
        "timeout": httpx2.Timeout(timeout_seconds, connect=min(timeout_seconds, 10.0)),
        "limits": httpx2.Limits(
            max_connections=_CONNECTION_LIMIT, max_keepalive_connections=_CONNECTION_LIMIT
        ),
    }
    return settings if getproxies() else settings | {"transport": _ConnectionPools()}


class _ConnectionPools(httpx2.AsyncBaseTransport):
    """Sends each call to the first pool with a free connection, so that few calls use few connections."""

    def __init__(self) -> None:
        self._pools: list[httpx2.AsyncHTTPTransport] = []
        self._busy: list[int] = []

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        at = self._pool_with_room()
        self._busy[at] += 1
        try:
            return await self._pools[at].handle_async_request(request)
        finally:
            self._busy[at] -= 1

    async def aclose(self) -> None:
        for pool in self._pools:
            await pool.aclose()

    def _pool_with_room(self) -> int:
        for at, busy in enumerate(self._busy):
            if busy < _POOL_CONNECTIONS:
                return at
        if len(self._pools) * _POOL_CONNECTIONS >= _CONNECTION_LIMIT:
            return self._busy.index(min(self._busy))
        limits = httpx2.Limits(max_connections=None, max_keepalive_connections=_POOL_CONNECTIONS)
        self._pools.append(
            httpx2.AsyncHTTPTransport(verify=_certificates(), limits=limits, socket_options=_socket_options())
        )
        self._busy.append(0)
        return len(self._busy) - 1


@cache
def _certificates() -> ssl.SSLContext:
    """Loaded once: it takes longer than a call."""
    return httpx2.create_ssl_context()


def _socket_options() -> list[tuple[int, int, int]]:
    known = [(getattr(socket, name, None), value) for name, value in _KEEP_ALIVE.items()]
    tcp = [(socket.IPPROTO_TCP, option, value) for option, value in known if option is not None]
    return [(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1), *tcp]
