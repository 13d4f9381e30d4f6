"""Calls of readers: arenas, boards, models, reports, battles."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from tiltyard.client.reading import listed, value_of
from tiltyard.client.wire import Call, path_of
from tiltyard.errors import TiltyardError

__all__ = [
    "ArenaInfo",
    "Document",
    "ReportInfo",
    "SnapshotInfo",
    "arena",
    "arenas",
    "battles",
    "board",
    "model",
    "report",
    "reports",
    "snapshot",
    "snapshots",
]


@dataclass(frozen=True, slots=True)
class ArenaInfo:
    """An arena as everybody who may see it does."""

    arena: str
    title: str
    created_at: datetime
    settings: Mapping[str, Any]
    #: Of its prompts, where one arena is asked for.
    categories: tuple[str, ...] | None = None
    languages: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class Document:
    """A JSON document exactly as it was sent, and the hash of its bytes."""

    sha256: str
    data: bytes = field(repr=False)

    @property
    def value(self) -> dict[str, Any]:
        """The document as plain values."""
        value: dict[str, Any] = json.loads(self.data)
        return value

    def __getitem__(self, name: str) -> Any:
        """One field of it."""
        return self.value[name]


@dataclass(frozen=True, slots=True)
class SnapshotInfo:
    """A published board, without its contents; ``snapshot`` is its hash."""

    snapshot: str
    generation: int
    position: int
    votes: int
    #: Whether an evaluation of the rules fell on it; such boards are kept for ever.
    evaluated: bool
    #: Whether to cite it: it is kept for ever, and no vote was excluded or restored since.
    citable: bool
    made_at: datetime


@dataclass(frozen=True, slots=True)
class ReportInfo:
    """A weekly validity report, without its contents; ``report`` is its hash."""

    report: str
    since: datetime
    until: datetime
    position: int
    made_at: datetime


def arenas() -> Call[list[ArenaInfo]]:
    return Call("GET", path_of("arenas"), listed(ArenaInfo, "arenas"))


def arena(name: str) -> Call[ArenaInfo]:
    return Call("GET", path_of("arenas", name), value_of(ArenaInfo))


def board(
    arena: str,
    *,
    source: str = "human",
    category: str | None = None,
    language: str | None = None,
    retired: bool = True,
    excluded: str = "left-out",
) -> Call[Document]:
    query = {
        "source": source,
        "category": category,
        "language": language,
        "retired": retired,
        "excluded": excluded,
    }
    return Call("GET", path_of("arenas", arena, "board"), _document(), query, raw=True)


def snapshots(
    arena: str, *, source: str = "human", before: SnapshotInfo | None = None, limit: int = 100
) -> Call[list[SnapshotInfo]]:
    query: dict[str, Any] = {"source": source, "limit": limit}
    if before is not None:
        query |= {"generation": before.generation, "position": before.position}
    return Call("GET", path_of("arenas", arena, "snapshots"), listed(SnapshotInfo, "snapshots"), query)


def snapshot(arena: str, sha256: str) -> Call[Document]:
    return Call("GET", path_of("arenas", arena, "snapshots", sha256), _document(sha256), raw=True)


def model(arena: str, name: str, *, source: str = "human") -> Call[Document]:
    return Call("GET", path_of("arenas", arena, "models", name), _document(), {"source": source}, raw=True)


def reports(arena: str) -> Call[list[ReportInfo]]:
    return Call("GET", path_of("arenas", arena, "reports"), listed(ReportInfo, "reports"))


def report(arena: str, sha256: str) -> Call[Document]:
    return Call("GET", path_of("arenas", arena, "reports", sha256), _document(sha256), raw=True)


def battles(
    arena: str,
    *,
    format: str = "jsonl",
    source: str | None = None,
    upto: int | None = None,
    release: str | None = None,
) -> Call[bytes]:
    query = {"format": format, "source": source, "upto": upto, "release": release}
    return Call("GET", path_of("arenas", arena, "battles"), bytes, query, raw=True)


def _document(sha256: str | None = None) -> Callable[[bytes], Document]:
    """Reads a document; where its hash is known, other bytes are refused."""

    def read(data: bytes) -> Document:
        found = hashlib.sha256(data).hexdigest()
        if sha256 is not None and found != sha256:
            raise TiltyardError(
                f"what the server sent has the hash {found}, not {sha256}; something on the way changed it"
            )
        return Document(found, data)

    return read
