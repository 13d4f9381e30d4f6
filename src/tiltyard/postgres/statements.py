"""Loads named SQL statements from the ``*.sql`` files beside the modules that use them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache, lru_cache
from importlib.resources import files
from importlib.resources.abc import Traversable

_HEAD = re.compile(r"^-- name: (\w+)\n((?:--.*\n)+)", re.MULTILINE)
#: Tables that are partitioned by bucket; a parameter may have the name of one.
_BUCKETED = re.compile(r"(?<!%\()\b(events|matchups|endings|battles)\b")


def statement(name: str) -> str:
    """A statement by its name; `ValueError` if it must be made for a bucket by `bucket_statement`."""
    if is_bucketed(name):
        raise ValueError(f"{name} reads or writes tables of a bucket, and none was named")
    return statements()[name]


@lru_cache(maxsize=10_000)
def bucket_statement(name: str, bucket: int) -> str:
    """A statement on the partitions of one bucket instead of the partitioned tables.

    It cannot touch or lock the partitions of another bucket, however it is planned.
    """
    return _BUCKETED.sub(lambda table: bucket_table(table[1], bucket), statements()[name])


def bucket_table(table: str, bucket: int) -> str:
    """The partition of a table for a bucket."""
    return f"{table}_b{bucket}"


def is_bucketed(name: str) -> bool:
    """Whether a statement reads or writes tables that are partitioned by bucket."""
    return name in _bucketed_names()


@cache
def _bucketed_names() -> frozenset[str]:
    return frozenset(name for name, text in statements().items() if _BUCKETED.search(text))


@cache
def statements() -> Mapping[str, str]:
    """All statements of the arenas by name."""
    return load_statements(files("tiltyard") / "postgres" / "sql", files("tiltyard") / "arena")


def load_statements(*folders: Traversable) -> Mapping[str, str]:
    """The named statements of the ``.sql`` files in these folders and their subfolders.

    Raises `ValueError` for a duplicate name or a missing description.
    """
    by_name: dict[str, str] = {}
    for file in _files(*folders):
        for name, body in _parsed(file.name, file.read_text(encoding="utf-8")):
            if name in by_name:
                raise ValueError(f"{file.name}: duplicate name {name}")
            by_name[name] = body
    return by_name


def _files(*folders: Traversable) -> Iterator[Traversable]:
    """All ``.sql`` files in these folders and their subfolders."""
    for folder in folders:
        for path in sorted(folder.iterdir(), key=lambda path: path.name):
            if path.is_dir():
                yield from _files(path)
            elif path.name.endswith(".sql"):
                yield path


def _parsed(file: str, text: str) -> list[tuple[str, str]]:
    pieces = _HEAD.split(text)
    if len(pieces) // 3 != text.count("-- name:"):
        raise ValueError(f"{file}: a name has no description line after it")
    return [(name, body.strip().rstrip(";")) for name, body in zip(pieces[1::3], pieces[3::3], strict=True)]
