"""Reports downloads of input files to whoever listens; nobody does unless asked to."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar


class FetchListener:
    """Is told of downloads, and ignores it."""

    def receive(self, name: str, size: int, total: int | None, /) -> None:
        """So many bytes of a file have arrived, out of ``total`` if that is known."""

    def finish(self, note: str, /) -> None:
        """All files of an address are there; the note says which bytes they are."""


_LISTENER: ContextVar[FetchListener | None] = ContextVar("fetch_listener", default=None)


def fetch_listener() -> FetchListener:
    """Who listens now."""
    return _LISTENER.get() or FetchListener()


@contextmanager
def listen_to_fetches(listener: FetchListener) -> Iterator[None]:
    """Tell ``listener`` of downloads within this block."""
    token = _LISTENER.set(listener)
    try:
        yield
    finally:
        _LISTENER.reset(token)
