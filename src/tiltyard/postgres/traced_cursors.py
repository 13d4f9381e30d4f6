"""Cursors that record a span for every statement, by its name and without its values."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any, Self

from psycopg import AsyncCursor, Cursor

from tiltyard.foundation.telemetry import span
from tiltyard.postgres.statements import statements

#: Partitions that stand in a statement in place of the partitioned table.
_PARTITIONS = re.compile(r"\b(events|matchups|endings|battles)_b\d+\b")
_WORD = re.compile(r"\s*+([A-Za-z]{1,20})")


@lru_cache(maxsize=10_000)
def name_statement(text: str) -> str:
    """The name of a statement's text; of one without a name, its first word."""
    names = _names()
    found = names.get(text) or names.get(_PARTITIONS.sub(r"\1", text))
    if found is not None:
        return f"sql {found}"
    word = _WORD.match(text)
    return "sql" if word is None else f"sql {word[1].upper()}"


@lru_cache(maxsize=1)
def _names() -> dict[str, str]:
    return {text: name for name, text in statements().items()}


def _name(query: object) -> str:
    return name_statement(query) if isinstance(query, str) else "sql"


class TracedCursor(Cursor[Any]):
    """A cursor of a synchronous connection."""

    def execute(self, query: Any, params: Any = None, **options: Any) -> Self:
        with span(_name(query)):
            return super().execute(query, params, **options)


class TracedAsyncCursor(AsyncCursor[Any]):
    """A cursor of an asynchronous connection."""

    async def execute(self, query: Any, params: Any = None, **options: Any) -> Self:
        with span(_name(query)):
            return await super().execute(query, params, **options)
