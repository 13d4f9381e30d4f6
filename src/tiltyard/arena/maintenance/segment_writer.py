"""Writes ranges of an arena's log to an archive. Nothing is deleted from the database."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from io import BytesIO
from pathlib import Path

from psycopg import Connection

from tiltyard._version import __version__
from tiltyard.arena.log.votes import read_bounds
from tiltyard.arena.maintenance.segment_content import SegmentRange, read_content, read_range
from tiltyard.arena.maintenance.segment_manifest import (
    SEGMENT_FILES,
    ArchivedSegment,
    SegmentFile,
    SegmentManifest,
    SupersededGeneration,
    SupersedeReason,
    check_files,
    list_segments,
    read_chain,
    segment_name,
)
from tiltyard.arena.maintenance.voter_numbers import VoterNumbers, read_voter_numbers
from tiltyard.arena.rating.checkpoints import STATE_VERSION
from tiltyard.arena.rating.rater_progress import RatedArena, event_time, read_rated_arenas
from tiltyard.errors import BadOption, BrokenArtifact, Conflict, NotFound
from tiltyard.files.parquet_tables import write_arrays
from tiltyard.foundation.local_files import lock_file, remove_folder_drafts, replace_file, replace_folder
from tiltyard.postgres.connections import connect, translate_errors
from tiltyard.postgres.statements import statement
from tiltyard.runs.manifest import MANIFEST, json_bytes

#: The events of a segment are in memory at once.
MAX_SEGMENT_EVENTS = 1_000_000
_LOCK = ".lock"
_NONCE_BYTES = 16


@dataclass(frozen=True, slots=True)
class SegmentArchive:
    """The folder of an arena's segments, and the file with the numbers of its voters, which lies elsewhere."""

    folder: Path
    voters: Path


@dataclass(frozen=True, slots=True)
class _SegmentDraft:
    """A segment that is not in its place yet: its files as bytes, and the manifest's entries for them."""

    arena: str
    first: int
    last: int
    last_at: datetime
    models: int
    prompts: int
    numbering: str | None
    data: dict[str, bytes]
    files: dict[str, SegmentFile]
    #: The voters in it.
    sessions: frozenset[int]


def archive_log(
    url: str, name: str, archive: SegmentArchive, *, supersede: SupersedeReason | None = None
) -> list[ArchivedSegment]:
    """Write all that is final and not archived yet; return the new segments.

    With ``supersede``, write again the segments that there are, and return those that were replaced.
    """
    with connect(url, name="tiltyard archive") as connection:
        with translate_errors("find an arena"):
            row = connection.execute(statement("arenas_find"), {"name": name}).fetchone()
        if row is None:
            raise NotFound("no such arena; see the list of arenas")
        (arena,) = read_rated_arenas(connection, [row[0]])
        if supersede is not None:
            return supersede_segments(connection, arena, archive, reason=supersede)
        made: list[ArchivedSegment] = []
        horizon, _ = read_bounds(connection, arena.arena)
        known = list_segments(archive.folder)
        last = known[-1].manifest.last if known else 0
        while last < horizon:
            made.append(write_segment(connection, arena, archive))
            last = made[-1].manifest.last
        return made


def write_segment(
    connection: Connection, arena: RatedArena, archive: SegmentArchive, *, upto: int | None = None
) -> ArchivedSegment:
    """Write the next segment, up to a position that is final; by default as much as is final and fits.

    The chain of manifests is checked first. Raises `BadOption` if there is nothing new, or if the numbers of its
    voters are gone.
    """
    with _locked(archive), _snapshot(connection):
        before = read_chain(archive.folder) if list_segments(archive.folder) else []
        last = before[-1] if before else None
        numbers = read_voter_numbers(archive.voters)
        if last is not None:
            _check_same_log(connection, arena, last)
            _check_numbering(archive, last, numbers)
        first = 1 if last is None else last.manifest.last + 1
        stop = _last_position(connection, arena, first, upto)
        draft = _draft(connection, arena, archive, (first, stop), last)
        return _put(archive, draft, last, [])


def supersede_segments(
    connection: Connection, arena: RatedArena, archive: SegmentArchive, *, reason: SupersedeReason
) -> list[ArchivedSegment]:
    """Write every segment again from the database, and replace those that differ by a new generation; return these.

    A segment whose predecessor was replaced is replaced too. If this is interrupted, the archive is not readable until
    it is repeated. The numbers of voters who were erased are deleted.
    """
    replaced: list[ArchivedSegment] = []
    sessions: set[int] = set()
    last: ArchivedSegment | None = None
    with _locked(archive), _snapshot(connection):
        segments = list_segments(archive.folder)
        if segments:
            _check_same_log(connection, arena, segments[-1])
        for segment in segments:
            known = segment.manifest
            draft = _draft(connection, arena, archive, (known.first, known.last), last)
            sessions |= draft.sessions
            changed = draft.files != known.files or _is_damaged(segment)
            if changed or known.previous != (None if last is None else last.as_previous()):
                gone = SupersededGeneration(
                    generation=known.generation,
                    sha256=segment.sha256,
                    superseded_at=datetime.now(UTC).isoformat(),
                    reason=reason if changed else "predecessor",
                )
                last = _put(archive, draft, last, [*known.superseded, gone])
                replaced.append(last)
            else:
                last = segment
        _forget_voters(archive, sessions)
    return replaced


def _forget_voters(archive: SegmentArchive, sessions: set[int]) -> None:
    """Delete the numbers of voters who are not in the archive any more."""
    numbers = read_voter_numbers(archive.voters)
    kept = {session: number for session, number in numbers.numbers.items() if session in sessions}
    if len(kept) < len(numbers.numbers):
        VoterNumbers(numbers.numbering, kept).save(archive.voters)


def _draft(
    connection: Connection,
    arena: RatedArena,
    archive: SegmentArchive,
    positions: tuple[int, int],
    before: ArchivedSegment | None,
) -> _SegmentDraft:
    """Read a segment from the database. Its voters get their numbers first, and these are on disk before it is."""
    named = (0, 0) if before is None else (before.manifest.models, before.manifest.prompts)
    wanted = SegmentRange(arena.arena, *positions, *named)
    columns = read_range(connection, wanted)
    known = read_voter_numbers(archive.voters)
    numbers = known.extend(columns.session)
    if len(numbers.numbers) > len(known.numbers):
        numbers.save(archive.voters)
    content = read_content(connection, wanted, columns, numbers)
    data: dict[str, bytes] = {}
    files: dict[str, SegmentFile] = {}
    for name, kinds in SEGMENT_FILES.items():
        written = BytesIO()
        rows = write_arrays(written, kinds, content.files[name])
        data[name] = written.getvalue()
        sha256 = hashlib.sha256(data[name]).hexdigest()
        files[name] = SegmentFile(rows=rows, size=len(data[name]), sha256=sha256)
    numbering = numbers.numbering if numbers.numbers else None
    last_at = event_time(connection, arena.arena, wanted.last).astimezone(UTC)
    size = (content.models, content.prompts)
    sessions = frozenset(columns.session.tolist())
    return _SegmentDraft(arena.name, *positions, last_at, *size, numbering, data, files, sessions)


def _put(
    archive: SegmentArchive,
    draft: _SegmentDraft,
    before: ArchivedSegment | None,
    superseded: list[SupersededGeneration],
) -> ArchivedSegment:
    """Write a segment to its place: complete, or not at all. What it replaces is deleted."""
    manifest = SegmentManifest(
        arena=draft.arena,
        tiltyard=__version__,
        state_version=STATE_VERSION,
        first=draft.first,
        last=draft.last,
        last_at=draft.last_at,
        models=draft.models,
        prompts=draft.prompts,
        numbering=draft.numbering,
        nonce=secrets.token_hex(_NONCE_BYTES),
        written_at=datetime.now(UTC).isoformat(),
        generation=len(superseded) + 1,
        previous=None if before is None else before.as_previous(),
        superseded=superseded,
        files=draft.files,
    )
    document = json_bytes(manifest.model_dump(mode="json"))
    place = archive.folder / segment_name(draft.first, draft.last)
    try:
        with replace_folder(place) as folder:
            for name, data in {**draft.data, MANIFEST: document}.items():
                with replace_file(folder / name, durable=True) as file:
                    file.write(data)
    except OSError as error:
        raise BadOption(f"cannot write {place}: {error.strerror or error}; choose another folder") from None
    return ArchivedSegment(place, manifest, hashlib.sha256(document).hexdigest())


def _last_position(connection: Connection, arena: RatedArena, first: int, upto: int | None) -> int:
    horizon, _ = read_bounds(connection, arena.arena)
    last = min(horizon, first + MAX_SEGMENT_EVENTS - 1) if upto is None else upto
    if last > horizon:
        raise BadOption(f"votes are final up to position {horizon}; {last} cannot be archived yet")
    if not first <= last < first + MAX_SEGMENT_EVENTS:
        raise BadOption(
            f"the next segment begins at position {first} and has up to {MAX_SEGMENT_EVENTS:,} events; it cannot end "
            f"at {last}"
        )
    return last


def _check_same_log(connection: Connection, arena: RatedArena, last: ArchivedSegment) -> None:
    """Check that an archive is of this arena, and of the log that the database has now."""
    stated = last.manifest
    if stated.arena != arena.name:
        raise BadOption(
            f"{last.folder}: of the arena {stated.arena}, not {arena.name}; choose another folder"
        )
    horizon, _ = read_bounds(connection, arena.arena)
    if horizon < stated.last or event_time(connection, arena.arena, stated.last) != stated.last_at:
        raise BadOption(
            f"{last.folder}: ends with another event than the log has at position {stated.last}, as after an older "
            "backup was restored; write a new archive to another folder"
        )


def _check_numbering(archive: SegmentArchive, last: ArchivedSegment, numbers: VoterNumbers) -> None:
    if last.manifest.numbering not in {None, numbers.numbering}:
        raise BadOption(
            f"{archive.voters}: does not have the numbers of the voters in {archive.folder}, who would count as other "
            "people from now on. Restore that file, or supersede all segments: their voters get new numbers"
        )


def _is_damaged(segment: ArchivedSegment) -> bool:
    try:
        check_files(segment)
    except BrokenArtifact:
        return True
    return False


@contextmanager
def _snapshot(connection: Connection) -> Iterator[None]:
    """Everything that is read is of one moment."""
    with translate_errors("read an arena's log"), connection.transaction():
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        yield


@contextmanager
def _locked(archive: SegmentArchive) -> Iterator[None]:
    """The only writer of an archive. What a killed one left, possibly a superseded segment, is deleted."""
    if archive.voters.resolve().is_relative_to(archive.folder.resolve()):
        raise BadOption(
            f"{archive.voters}: lies in the archive, and whoever gets a copy would know the voters; choose another place"
        )
    try:
        archive.folder.mkdir(parents=True, exist_ok=True)
        lock = (archive.folder / _LOCK).open("ab")
    except OSError as error:
        raise BadOption(
            f"cannot write to {archive.folder}: {error.strerror}; choose another folder"
        ) from None
    with lock:
        if not lock_file(lock, wait=False):
            raise Conflict(f"another process writes to {archive.folder}; wait until it is done")
        remove_folder_drafts(archive.folder)
        yield
