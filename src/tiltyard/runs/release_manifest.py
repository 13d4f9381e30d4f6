"""The manifest of a release of an arena's battles: its files and the board behind it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from pydantic import Field, ValidationError

from tiltyard.errors import BrokenArtifact
from tiltyard.foundation.local_files import read_regular
from tiltyard.runs.manifest import MANIFEST, ManifestModel

#: The kind that the manifest names.
RELEASE = "release"
#: The board that the battles give, if it was published.
BOARD = "board.json"
ReleaseTable = Literal["ordered", "voters"]
_CONTAINERS = ("parquet", "jsonl", "csv")


class ReleaseManifest(ManifestModel):
    """What a release holds, and the hash of each file."""

    kind: Literal["release"] = "release"
    release_schema: Literal[1] = 1
    arena: str
    source: str
    #: The last position of the log that was released.
    position: int = Field(ge=0)
    #: Counts the exclusions and restorations of votes behind it.
    generation: int = Field(ge=0)
    #: The hash of the board's document; ``None`` if none had been published.
    snapshot: str | None
    votes: int = Field(ge=0)
    #: Votes that were not rated, and are in neither table, by reason.
    left_out: dict[str, int]
    files: dict[str, str]

    def table_name(self, table: ReleaseTable) -> str:
        """The file of a table; `BrokenArtifact` unless exactly one is listed."""
        names = [name for one in _CONTAINERS if (name := table_file(table, one)) in self.files]
        if len(names) != 1:
            listed = f"lists {' and '.join(names)}" if names else f"lists no table {table}"
            raise BrokenArtifact(f"{MANIFEST}: {listed}; expected one file")
        return names[0]

    def expected_files(self) -> Sequence[str]:
        """The files that belong to it, apart from the manifest."""
        board = [] if self.snapshot is None else [BOARD]
        return [self.table_name("ordered"), self.table_name("voters"), *board]


def table_file(table: ReleaseTable, container: str) -> str:
    """The name of a table's file."""
    return f"{table}.{container}"


def read_release_manifest(folder: Path) -> ReleaseManifest:
    """Read the manifest of a release; raises `BrokenArtifact` if it is invalid."""
    path = folder / MANIFEST
    try:
        return ReleaseManifest.model_validate_json(read_regular(path))
    except OSError as error:
        raise BrokenArtifact(f"{path}: {error.strerror}") from None
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "the document"
        raise BrokenArtifact(f"{path}: {where}: {first['msg']}") from None
