"""Calls of readers: arenas, boards, models, reports, battles."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tiltyard.client.api_call import Call, api_path
from tiltyard.client.decoder import decode_list, decode_value
from tiltyard.errors import TiltyardError
from tiltyard.wire.arenas import ArenaInfo
from tiltyard.wire.boards import ReportInfo, SnapshotInfo

if TYPE_CHECKING:
    from tiltyard.core.board.document import BoardDocument, FilteredBoard

__all__ = [
    "ArenaInfo",
    "JsonDocument",
    "ReportInfo",
    "SnapshotInfo",
    "arena",
    "arenas",
    "battles",
    "board",
    "effects",
    "model",
    "report",
    "reports",
    "snapshot",
    "snapshots",
]


@dataclass(frozen=True, slots=True)
class JsonDocument:
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

    def board(self) -> BoardDocument:
        """The board that it is, typed; `InputError` if it is another document."""
        from tiltyard.core.board.document import BoardDocument

        return BoardDocument.from_json(self.data)

    def filtered_board(self) -> FilteredBoard:
        """The same of a board of some votes only."""
        from tiltyard.core.board.document import FilteredBoard

        return FilteredBoard.from_json(self.data)


def arenas() -> Call[list[ArenaInfo]]:
    return Call("GET", api_path("arenas"), decode_list(ArenaInfo, "arenas"))


def arena(name: str) -> Call[ArenaInfo]:
    return Call("GET", api_path("arenas", name), decode_value(ArenaInfo))


def board(
    arena: str,
    *,
    source: str = "human",
    category: str | None = None,
    language: str | None = None,
    retired: bool = True,
    excluded: str = "left-out",
    identity: str = "with",
    lane: str = "all",
) -> Call[JsonDocument]:
    query = {
        "source": source,
        "category": category,
        "language": language,
        "retired": retired,
        "excluded": excluded,
        "identity": identity,
        "lane": lane,
    }
    return Call("GET", api_path("arenas", arena, "board"), _document(), query, raw=True)


def effects(arena: str) -> Call[JsonDocument]:
    return Call("GET", api_path("arenas", arena, "effects"), _document(), raw=True)


def snapshots(
    arena: str, *, source: str = "human", before: SnapshotInfo | None = None, limit: int = 100
) -> Call[list[SnapshotInfo]]:
    query: dict[str, str | int] = {"source": source, "limit": limit}
    if before is not None:
        query |= {"generation": before.generation, "position": before.position}
    return Call("GET", api_path("arenas", arena, "snapshots"), decode_list(SnapshotInfo, "snapshots"), query)


def snapshot(
    arena: str,
    sha256: str,
    *,
    category: str | None = None,
    language: str | None = None,
    excluded: str = "left-out",
    identity: str = "with",
    lane: str = "all",
) -> Call[JsonDocument]:
    query = {
        "category": category,
        "language": language,
        "excluded": excluded,
        "identity": identity,
        "lane": lane,
    }
    whole = (category, language, excluded, identity, lane) == (None, None, "left-out", "with", "all")
    # The hash is that of the whole board.
    found = _document(sha256) if whole else _document()
    return Call("GET", api_path("arenas", arena, "snapshots", sha256), found, query, raw=True)


def model(arena: str, name: str, *, source: str = "human") -> Call[JsonDocument]:
    return Call("GET", api_path("arenas", arena, "models", name), _document(), {"source": source}, raw=True)


def reports(arena: str) -> Call[list[ReportInfo]]:
    return Call("GET", api_path("arenas", arena, "reports"), decode_list(ReportInfo, "reports"))


def report(arena: str, sha256: str) -> Call[JsonDocument]:
    return Call("GET", api_path("arenas", arena, "reports", sha256), _document(sha256), raw=True)


def battles(
    arena: str,
    *,
    format: str = "jsonl",
    source: str = "human",
    table: str = "voters",
    snapshot: str | None = None,
) -> Call[bytes]:
    query = {"format": format, "source": source, "table": table, "snapshot": snapshot}
    return Call("GET", api_path("arenas", arena, "battles"), bytes, query, raw=True)


def exact_battles(
    arena: str,
    *,
    format: str = "jsonl",
    source: str | None = None,
    upto: int | None = None,
    release: str | None = None,
) -> Call[bytes]:
    query = {"format": format, "source": source, "upto": upto, "release": release}
    return Call("GET", api_path("arenas", arena, "battles", "exact"), bytes, query, raw=True)


def _document(sha256: str | None = None) -> Callable[[bytes], JsonDocument]:
    """Reads a document; where its hash is known, other bytes are refused."""

    def read(data: bytes) -> JsonDocument:
        found = hashlib.sha256(data).hexdigest()
        if sha256 is not None and found != sha256:
            raise TiltyardError(
                f"what the server sent has the hash {found}, not {sha256}; something on the way changed it"
            )
        return JsonDocument(found, data)

    return read
