"""The named statements of PostgreSQL: ``*.sql`` beside the modules that use them, each with a description."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache, lru_cache
from importlib.resources import files
from importlib.resources.abc import Traversable

__all__ = ["arena_statement", "statement", "statements"]

_HEAD = re.compile(r"^-- name: (\w+)\n((?:--.*\n)+)", re.MULTILINE)
#: Tables that are partitioned by arena.
_PARTITIONED = re.compile(r"\b(events|matchups|endings)\b")


def statement(name: str) -> str:
    """A statement by its name."""
    return statements()[name]


@lru_cache(maxsize=10_000)
def arena_statement(name: str, arena: int) -> str:
    """A statement that names the partitions of one arena instead of the tables that they are part of.

    Its plan can be kept and used again without a look at the partitions of other arenas.
    """
    return _PARTITIONED.sub(lambda table: f"{table[1]}_{arena}", statement(name))


@cache
def statements() -> Mapping[str, str]:
    """All of them by name. A name that stands twice is a mistake of ours, and so is a name without a description."""
    found: dict[str, str] = {}
    for file in _files(files("tiltyard") / "postgres" / "sql", files("tiltyard") / "arena"):
        for name, body in _parsed(file.name, file.read_text(encoding="utf-8")):
            if name in found:
                raise ValueError(f"{file.name}: the name {name} stands twice")
            found[name] = body
    return found


def _files(*folders: Traversable) -> Iterator[Traversable]:
    """Every file of statements in these folders and those inside them."""
    for folder in folders:
        for each in sorted(folder.iterdir(), key=lambda each: each.name):
            if each.is_dir():
                yield from _files(each)
            elif each.name.endswith(".sql"):
                yield each


def _parsed(file: str, text: str) -> list[tuple[str, str]]:
    pieces = _HEAD.split(text)
    if len(pieces) // 3 != text.count("-- name:"):
        raise ValueError(f"{file}: a name stands without a line of description after it")
    return [(name, body.strip().rstrip(";")) for name, body in zip(pieces[1::3], pieces[3::3], strict=True)]
