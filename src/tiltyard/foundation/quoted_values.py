"""Values of others in messages: quoted, and no longer than a reader can take in."""

from __future__ import annotations

from collections.abc import Sequence

_VALUE_CHARACTERS = 80
_LISTED_COUNT = 30


def quoted(value: object) -> str:
    """The value as Python writes it, cut where it is long."""
    text = repr(value[: _VALUE_CHARACTERS + 1] if isinstance(value, str) else value)
    return text if len(text) <= _VALUE_CHARACTERS + 2 else f"{text[:_VALUE_CHARACTERS]}…"


def quoted_list(values: Sequence[str]) -> str:
    """The first of some values, each quoted, joined by commas; ``(none)`` if there are none."""
    shown = [*map(quoted, values[:_LISTED_COUNT]), *(["…"] if len(values) > _LISTED_COUNT else [])]
    return ", ".join(shown) or "(none)"
