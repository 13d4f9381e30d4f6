"""Archived segments of an arena's log: which files each has, and the chain of their manifests.

An archive is a folder with a folder for each segment. A manifest names the hash of the manifest before it, so that
the hash of the last one stands for all of them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Literal, TypeAlias

from pydantic import AwareDatetime, Field, ValidationError

from tiltyard.errors import BrokenArtifact, UnreadableFile
from tiltyard.files.parquet_tables import ArrayKind
from tiltyard.foundation.local_files import read_regular
from tiltyard.runs.manifest import MANIFEST, ManifestModel, file_hash, parse_document

FORMAT_VERSION = 1

#: The columns of each file. None of them can hold an address or what a voter wrote.
SEGMENT_FILES: Mapping[str, Mapping[str, ArrayKind]] = {
    "events.parquet": {
        "position": "integer",
        "at": "time",
        "kind": "integer",
        "source": "integer",
        "serial": "integer",
        "voter": "integer",
        "a": "integer",
        "b": "integer",
        "prompt": "integer",
        "outcome": "integer",
        "nominal": "integer",
        "lane": "integer",
        "blind": "flag",
        "undone": "flag",
        "shown_a": "number",
        "shown_b": "number",
        "pref": "number",
        "free_prompt": "integer",
        "mark": "integer",
    },
    "matchups.parquet": {
        "source": "integer",
        "serial": "integer",
        "position": "integer",
        "response_a": "integer",
        "response_b": "integer",
        "propensity": "number",
        "given_up": "integer",
    },
    "policies.parquet": {"position": "integer", "policy": "text"},
    "exclusions.parquet": {"position": "integer", "exclusion": "integer", "excluded": "flag"},
    "excluded_votes.parquet": {"exclusion": "integer", "source": "integer", "serial": "integer"},
    "models.parquet": {"model": "integer", "name": "text"},
    "prompts.parquet": {"prompt": "integer", "name": "text"},
}

#: Why a generation was replaced. A word of a list: a manifest holds no free text.
SupersedeReason: TypeAlias = Literal["erasure", "damage", "format", "predecessor"]


class SegmentFile(ManifestModel):
    rows: int
    size: int
    sha256: str


class PreviousSegment(ManifestModel):
    """The segment before this one, by the hash of its manifest."""

    generation: int
    sha256: str


class SupersededGeneration(ManifestModel):
    """A generation that no longer counts, by the hash of its manifest."""

    generation: int
    sha256: str
    superseded_at: str
    reason: SupersedeReason


class SegmentManifest(ManifestModel):
    #: Format 1 has no column of free prompts.
    format: Literal[1] = 1
    arena: str
    #: The version of Tiltyard that wrote it, and of the state that it folds events to.
    tiltyard: str
    state_version: str
    first: int = Field(ge=1)
    last: int
    #: When the last event happened.
    last_at: AwareDatetime
    #: How many models and prompts have a name in this segment or one before.
    models: int
    prompts: int
    #: Which assignment of numbers to voters was used; ``None`` while there are no voters.
    numbering: str | None
    #: Random: whoever knows the hash of a superseded manifest cannot test guesses of what was erased.
    nonce: str
    written_at: str
    generation: int = Field(ge=1)
    previous: PreviousSegment | None
    superseded: list[SupersededGeneration]
    files: dict[str, SegmentFile]


@dataclass(frozen=True, slots=True)
class ArchivedSegment:
    """A segment in an archive, and the hash of its manifest."""

    folder: Path
    manifest: SegmentManifest
    sha256: str

    def as_previous(self) -> PreviousSegment:
        """How the next segment names this one."""
        return PreviousSegment(generation=self.manifest.generation, sha256=self.sha256)


def segment_name(first: int, last: int) -> str:
    """The name of a segment's folder."""
    return f"{first:012}-{last:012}"


def read_archive(archive: Path, *, head: str | None = None) -> list[ArchivedSegment]:
    """The segments of an archive whose chain and files were checked; raises `BrokenArtifact`.

    ``head`` is the expected hash of the last manifest. Without it, an older copy of a whole archive, which was correct
    when it was made, is accepted.
    """
    segments = read_chain(archive, head=head)
    for segment in segments:
        check_files(segment)
    return segments


def read_chain(archive: Path, *, head: str | None = None) -> list[ArchivedSegment]:
    """The segments of an archive, by their manifests alone: each follows the one before, from position 1 on."""
    segments = list_segments(archive)
    if not segments:
        raise BrokenArtifact(f"{archive}: has no archived segment; name the folder that holds the segments")
    if segments[0].manifest.first != 1 or segments[0].manifest.previous is not None:
        raise BrokenArtifact(
            f"{archive}: the log begins at position 1, but no segment does; copy the first one"
        )
    for before, segment in pairwise(segments):
        _check_link(before, segment)
    if head is not None and segments[-1].sha256 != head:
        raise BrokenArtifact(
            f"{segments[-1].folder}: the last manifest has the hash {segments[-1].sha256}, expected {head}: this copy "
            "was changed, is superseded or lacks segments; get the present one"
        )
    return segments


def list_segments(archive: Path) -> list[ArchivedSegment]:
    """The segments of an archive by their manifests, first one first; nothing else is checked."""
    try:
        entries = sorted(entry for entry in archive.iterdir() if not entry.name.startswith("."))
    except FileNotFoundError:
        return []
    except OSError as error:
        raise BrokenArtifact(
            f"{archive}: {error.strerror}; name the folder that holds the segments"
        ) from None
    return [_read_segment(folder) for folder in entries]


def check_files(segment: ArchivedSegment) -> None:
    """Check that a segment has exactly the files of its manifest, byte for byte."""
    listed = segment.manifest.files
    present = {entry.name for entry in segment.folder.iterdir()} - {MANIFEST}
    for name in sorted(present - listed.keys()):
        raise BrokenArtifact(f"{segment.folder / name}: not listed in {MANIFEST}; remove it")
    for name, stated in listed.items():
        path = segment.folder / name
        try:
            size, sha256 = path.stat().st_size, file_hash(path)
        except OSError as error:
            raise BrokenArtifact(f"{path}: {error.strerror}; get a complete copy of the archive") from None
        if (size, sha256) != (stated.size, stated.sha256):
            raise BrokenArtifact(
                f"{path}: {size} bytes with the SHA-256 {sha256}, but {MANIFEST} states {stated.size} bytes with "
                f"{stated.sha256}: the file was changed; get another copy"
            )


def _read_segment(folder: Path) -> ArchivedSegment:
    path = folder / MANIFEST
    try:
        data = read_regular(path)
        document = parse_document(str(path), data)
    except OSError as error:
        raise BrokenArtifact(f"{path}: {error.strerror}: not an archived segment, or incomplete") from None
    except UnreadableFile as error:
        raise BrokenArtifact(str(error)) from None
    version = document.get("format") if isinstance(document, dict) else None
    if isinstance(version, int) and version != FORMAT_VERSION:
        raise BrokenArtifact(
            f"{path}: format {version}, and this version of Tiltyard reads format {FORMAT_VERSION}; use the version that "
            "wrote it, or archive the arena again"
        )
    try:
        manifest = SegmentManifest.model_validate(document)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "the document"
        raise BrokenArtifact(f"{path}: {where}: {first['msg']}") from None
    for problem in _problems(folder, manifest):
        raise BrokenArtifact(f"{path}: {problem}")
    return ArchivedSegment(folder, manifest, hashlib.sha256(data).hexdigest())


def _problems(folder: Path, manifest: SegmentManifest) -> Iterator[str]:
    if folder.name != segment_name(manifest.first, manifest.last):
        yield f"holds positions {manifest.first} to {manifest.last}, which is not what its folder is called"
    earlier = [each.generation for each in manifest.superseded]
    if [*earlier, manifest.generation] != list(range(1, len(earlier) + 2)):
        yield f"generation {manifest.generation} must list every generation before it as superseded"
    if manifest.files.keys() != SEGMENT_FILES.keys():
        yield f"lists other files than {', '.join(SEGMENT_FILES)}"


def _check_link(before: ArchivedSegment, segment: ArchivedSegment) -> None:
    here, there, path = segment.manifest, before.manifest, segment.folder / MANIFEST
    if here.arena != there.arena:
        raise BrokenArtifact(
            f"{path}: of the arena {here.arena}, but {before.folder.name} is of {there.arena}"
        )
    if here.first != there.last + 1:
        raise BrokenArtifact(
            f"{path}: begins at position {here.first}, but the segment before it ends at {there.last}: there is "
            f"{'a gap' if here.first > there.last else 'an overlap'}; get a complete copy of the archive"
        )
    if here.previous == before.as_previous():
        return
    expected = 0 if here.previous is None else here.previous.generation
    if there.generation < expected:
        raise BrokenArtifact(
            f"{before.folder}: generation {there.generation} is superseded: the next segment follows generation "
            f"{expected}; get the present copy of this segment"
        )
    why = ""
    for each in there.superseded:
        if here.previous is not None and each.sha256 == here.previous.sha256:
            why = f"; the one that it follows was superseded at {each.superseded_at} ({each.reason})"
            break
    raise BrokenArtifact(
        f"{path}: follows another manifest than that of {before.folder.name}, which is generation {there.generation} "
        f"with the SHA-256 {before.sha256}{why}; get the present copy of this segment"
    )
