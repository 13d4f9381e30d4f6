"""The pace at which live answers are shown, in tests that do not measure it: the same rules, ten times the speed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tiltyard.core.live import stream_pace

_QUICK = {
    "FASTEST_CHARACTERS_PER_SECOND": 4_000.0,
    "_GROWTH_CHARACTERS_PER_SECOND": 40_000.0,
    "_MEMORY_SECONDS": 0.1,
    "_RESERVE_SECONDS": 0.1,
    "_SEEN_SECONDS": 0.2,
}
_USUAL = {name: getattr(stream_pace, name) for name in _QUICK}


@contextmanager
def quick_pace() -> Iterator[None]:
    """Show answers nearly as fast as they come, in this process."""
    with _pace(_QUICK):
        yield


@contextmanager
def usual_pace() -> Iterator[None]:
    """The real pace, within the other."""
    with _pace(_USUAL):
        yield


@contextmanager
def _pace(values: dict[str, float]) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patched:
        for name, value in values.items():
            patched.setattr(stream_pace, name, value)
        yield
