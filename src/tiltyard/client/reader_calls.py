"""What readers do: arenas, boards, models, reports, battles."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tiltyard.client.api_call import Call, LineStream, api_path, read_list, read_value
from tiltyard.client.transport import sends, streams
from tiltyard.errors import TiltyardError
from tiltyard.wire.arenas import ArenaInfo, NewestBoards, ReportInfo, SnapshotInfo

if TYPE_CHECKING:
    from tiltyard.core.board.document import BoardDocument, FilteredBoard


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


class ReaderCalls:
    """The calls of readers."""

    @sends
    def arenas(self, *, q: str = "", after: str = "", limit: int = 100) -> Call[list[ArenaInfo]]:
        """A page of the open arenas, and of closed ones that this client has a right to, ordered by name.

        ``q``: words with which words of their names or titles begin; ``after``: the last arena of the page before.
        """
        query = {"q": q or None, "after": after or None, "limit": limit}
        return Call("GET", api_path("arenas"), read_list(ArenaInfo, "arenas"), query)

    @sends
    def arena(self, name: str) -> Call[ArenaInfo]:
        """What an arena is called and how it is run."""
        return Call("GET", api_path("arenas", name), read_value(ArenaInfo))

    @sends
    def newest(self, arena: str) -> Call[NewestBoards]:
        """The hashes of the newest boards by source: a few bytes, to be asked for often."""
        return Call("GET", api_path("arenas", arena, "newest"), read_value(NewestBoards))

    @sends
    def board(
        self,
        arena: str,
        *,
        source: str = "human",
        category: str | None = None,
        language: str | None = None,
        retired: bool = True,
        excluded: str = "left-out",
        lane: str = "all",
    ) -> Call[JsonDocument]:
        """The newest board; with a category or a language, that of those prompts alone.

        ``excluded="counted"`` counts excluded votes, too; ``lane="exploration"`` counts only votes on pairs that were chosen
        at random.
        """
        query = {
            "source": source,
            "category": category,
            "language": language,
            "retired": retired,
            "excluded": excluded,
            "lane": lane,
        }
        return Call("GET", api_path("arenas", arena, "board"), _document(), query)

    @sends
    def effects(self, arena: str) -> Call[JsonDocument]:
        """Whether longer answers, or slower models, win more often in a live arena."""
        return Call("GET", api_path("arenas", arena, "effects"), _document())

    @sends
    def snapshots(
        self, arena: str, *, source: str = "human", before: SnapshotInfo | None = None, limit: int = 100
    ) -> Call[list[SnapshotInfo]]:
        """Published boards, newest first; ``before`` is the last one of the page before."""
        query: dict[str, str | int] = {"source": source, "limit": limit}
        if before is not None:
            query |= {"generation": before.generation, "position": before.position}
        read = read_list(SnapshotInfo, "snapshots")
        return Call("GET", api_path("arenas", arena, "snapshots"), read, query)

    @sends
    def snapshot(
        self,
        arena: str,
        sha256: str,
        *,
        category: str | None = None,
        language: str | None = None,
        excluded: str = "left-out",
        lane: str = "all",
    ) -> Call[JsonDocument]:
        """A published board by its hash, which is checked; or that of some of its votes, as `board` filters them."""
        query = {
            "category": category,
            "language": language,
            "excluded": excluded,
            "lane": lane,
        }
        whole = (category, language, excluded, lane) == (None, None, "left-out", "all")
        # The hash is that of the whole board.
        read = _document(sha256) if whole else _document()
        return Call("GET", api_path("arenas", arena, "snapshots", sha256), read, query)

    @sends
    def model(self, arena: str, name: str, *, source: str = "human") -> Call[JsonDocument]:
        """One model: its row and neighbours, head to head, results by prompt, history."""
        path = api_path("arenas", arena, "models", name)
        return Call("GET", path, _document(), {"source": source})

    @sends
    def reports(self, arena: str) -> Call[list[ReportInfo]]:
        """Weekly validity reports, newest first."""
        return Call("GET", api_path("arenas", arena, "reports"), read_list(ReportInfo, "reports"))

    @sends
    def validity_report(self, arena: str, sha256: str) -> Call[JsonDocument]:
        """A weekly report by its hash, which is checked."""
        return Call("GET", api_path("arenas", arena, "reports", sha256), _document(sha256))

    @streams
    def battles(
        self, arena: str, *, source: str = "human", table: str = "voters", snapshot: str | None = None
    ) -> LineStream[dict[str, Any]]:
        """The battles of a release one by one, as they come; ``table`` is ``voters`` or ``ordered``."""
        query = {"format": "jsonl", "source": source, "table": table, "snapshot": snapshot}
        call = Call("GET", api_path("arenas", arena, "battles"), bytes, query)
        return LineStream(call, lambda line: json.loads(line) if line else None)

    @sends
    def save_battles(
        self,
        arena: str,
        path: str | os.PathLike[str],
        *,
        format: str = "jsonl",
        source: str = "human",
        table: str = "voters",
        snapshot: str | None = None,
    ) -> Call[Path]:
        """The battles of a release as a file: ``jsonl``, ``csv`` or ``parquet``. It appears whole or not at all.

        ``table`` is ``voters``, ``ordered`` or ``both``: a zip archive, which `tiltyard verify` checks once it is unpacked.
        """
        query = {"format": format, "source": source, "table": table, "snapshot": snapshot}
        return Call("GET", api_path("arenas", arena, "battles"), Path, query, save_to=Path(path))

    @sends
    def save_exact_battles(
        self,
        arena: str,
        path: str | os.PathLike[str],
        *,
        format: str = "jsonl",
        source: str | None = None,
        upto: int | None = None,
        release: str | None = None,
    ) -> Call[Path]:
        """All final battles with positions and times, as an operator; the audit log has an entry of it."""
        query = {"format": format, "source": source, "upto": upto, "release": release}
        return Call("GET", api_path("arenas", arena, "battles", "exact"), Path, query, save_to=Path(path))


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
