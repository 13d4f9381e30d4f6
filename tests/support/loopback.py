"""Keeps a test on loopback: any other address is an error, not a connection."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

_HOSTS = frozenset({"127.0.0.1", "::1", "localhost"})


class LeftLoopback(BaseException):
    """A test tried to reach another machine. No code under test catches it."""


@contextmanager
def only_loopback() -> Iterator[None]:
    """Refuse to look up or connect to other hosts."""
    connect, getaddrinfo = socket.socket.connect, socket.getaddrinfo

    def checked_connect(self, address):
        if isinstance(address, tuple) and address[0] not in _HOSTS:
            raise LeftLoopback(address)
        return connect(self, address)

    def checked_getaddrinfo(host, *arguments, **options):
        if host not in _HOSTS and not str(host).replace(".", "").isdecimal():
            raise LeftLoopback(host)
        return getaddrinfo(host, *arguments, **options)

    with (
        patch.object(socket.socket, "connect", checked_connect),
        patch.object(socket, "getaddrinfo", checked_getaddrinfo),
    ):
        yield
