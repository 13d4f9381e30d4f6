"""Writes ranges of an arena's log to an archive. Nothing is deleted from the database.

The numbers that voters have in an archive: random, and known only to one file.

Nothing about a session can be computed from its number. Once the file is deleted, nobody can.
"""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from io import BytesIO
from pathlib import Path
from typing import Any, cast

import numpy as np
from psycopg import Connection

from tiltyard._version import __version__
from tiltyard.arena.log.buckets import find_statement_sync
from tiltyard.arena.log.event_details import ExclusionDetail
from tiltyard.arena.log.event_log import SOURCES, LogKind
from tiltyard.arena.log.log_columns import LogColumns, read_columns
from tiltyard.arena.log.rosters import read_roster_sync
from tiltyard.arena.log.votes import read_bounds
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
from tiltyard.arena.rating.checkpoints import STATE_VERSION
from tiltyard.arena.rating.rater_progress import (
    RatedArena,
    event_time,
    log_head,
    read_rated_arenas,
    read_undone_votes,
)
from tiltyard.core.policy.state.events import NO_SESSION
from tiltyard.core.policy.state.rating_fold import MethodValues, method_from_dict, method_to_dict
from tiltyard.errors import BadOption, BrokenArtifact, Conflict, NotFound, StoreFault
from tiltyard.files.parquet_tables import ArrayKind, Arrays, read_arrays, write_arrays
from tiltyard.foundation.arrays import Ints
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
    """A segment that is not in its place yet: the manifest of its first generation, its files as bytes, its voters."""

    manifest: SegmentManifest
    data: dict[str, bytes]
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
            raise NotFound.arena(name)
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
            if last.manifest.numbering not in {None, numbers.numbering}:
                raise BadOption(
                    f"{archive.voters}: does not have the numbers of the voters in {archive.folder}, who would count as other "
                    "people from now on. Restore that file, or supersede all segments: their voters get new numbers"
                )
        first = 1 if last is None else last.manifest.last + 1
        stop = _last_position(connection, arena, first, upto)
        draft = _draft(connection, arena, archive, (first, stop), last)
        return _put(archive, draft, [])


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
            changed = draft.manifest.files != known.files or _is_damaged(segment)
            if changed or known.previous != draft.manifest.previous:
                gone = SupersededGeneration(
                    generation=known.generation,
                    sha256=segment.sha256,
                    superseded_at=datetime.now(UTC).isoformat(),
                    reason=reason if changed else "predecessor",
                )
                last = _put(archive, draft, [*known.superseded, gone])
                replaced.append(last)
            else:
                last = segment
        numbers = read_voter_numbers(archive.voters)
        kept = {session: number for session, number in numbers.numbers.items() if session in sessions}
        if len(kept) < len(numbers.numbers):
            VoterNumbers(numbers.numbering, kept).save(archive.voters)
    return replaced


def _draft(
    connection: Connection,
    arena: RatedArena,
    archive: SegmentArchive,
    positions: tuple[int, int],
    before: ArchivedSegment | None,
) -> _SegmentDraft:
    """Read a segment from the database. Its voters get their numbers first, and these are on disk before it is."""
    first, last = positions
    columns = read_columns(connection, arena.arena, first - 1, last)
    if not np.array_equal(columns.position, np.arange(first, last + 1)):
        raise StoreFault(
            f"the log has a gap between positions {first} and {last}: it is damaged; restore a backup"
        )
    known = read_voter_numbers(archive.voters)
    numbers = known.extend(columns.session)
    if len(numbers.numbers) > len(known.numbers):
        numbers.save(archive.voters)
    named = (0, 0) if before is None else (before.manifest.models, before.manifest.prompts)
    models, prompts = columns.roster_size(*named)
    data: dict[str, bytes] = {}
    files: dict[str, SegmentFile] = {}
    for name, content in _read_files(connection, arena.arena, columns, numbers, named).items():
        written = BytesIO()
        rows = write_arrays(written, SEGMENT_FILES[name], content)
        data[name] = written.getvalue()
        sha256 = hashlib.sha256(data[name]).hexdigest()
        files[name] = SegmentFile(rows=rows, size=len(data[name]), sha256=sha256)
    manifest = SegmentManifest(
        arena=arena.name,
        tiltyard=__version__,
        state_version=STATE_VERSION,
        first=first,
        last=last,
        last_at=event_time(connection, arena.arena, last).astimezone(UTC),
        models=models,
        prompts=prompts,
        numbering=numbers.numbering if numbers.numbers else None,
        nonce=secrets.token_hex(_NONCE_BYTES),
        written_at=datetime.now(UTC).isoformat(),
        generation=1,
        previous=None if before is None else before.as_previous(),
        superseded=[],
        files=files,
    )
    return _SegmentDraft(manifest, data, frozenset(columns.session.tolist()))


def _put(
    archive: SegmentArchive, draft: _SegmentDraft, superseded: list[SupersededGeneration]
) -> ArchivedSegment:
    """Write a segment to its place: complete, or not at all. What it replaces is deleted."""
    update = {"generation": len(superseded) + 1, "superseded": superseded}
    manifest = draft.manifest.model_copy(update=update)
    document = json_bytes(manifest.model_dump(mode="json"))
    place = archive.folder / segment_name(manifest.first, manifest.last)
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


def _read_files(
    connection: Connection, arena: int, columns: LogColumns, numbers: VoterNumbers, named: tuple[int, int]
) -> dict[str, Arrays]:
    """The files of a segment with these events, whose voters all have a number.

    ``named``: how many models and prompts were named before it.
    """
    roster = read_roster_sync(connection, arena)
    models, prompts = columns.roster_size(*named)
    exclusions = _exclusions(columns)
    made = exclusions["exclusion"][exclusions["excluded"] == 1].tolist()
    excluded = _read(connection, "archive_excluded_votes", {"arena": arena, "exclusions": made})
    return {
        "events.parquet": _events(connection, arena, columns, numbers),
        "matchups.parquet": _matchups(connection, arena, columns),
        "policies.parquet": _policies(columns),
        "exclusions.parquet": exclusions,
        "excluded_votes.parquet": _transposed("excluded_votes.parquet", excluded),
        "models.parquet": _transposed("models.parquet", list(enumerate(roster.models))[named[0] : models]),
        "prompts.parquet": _transposed(
            "prompts.parquet", list(enumerate(roster.prompts))[named[1] : prompts]
        ),
    }


def _events(connection: Connection, arena: int, columns: LogColumns, numbers: VoterNumbers) -> Arrays:
    first, last = int(columns.position[0]), int(columns.position[-1])
    undone = read_undone_votes(connection, arena, first - 1, log_head(connection, arena))
    is_vote = columns.kind == LogKind.VOTE
    gone = np.isin(columns.position, np.fromiter(undone, dtype=np.int64))
    values = {"arena": arena, "after": first - 1, "upto": last}
    details = np.full((3, len(columns)), np.nan)
    for position, *stored in _read(connection, "archive_vote_details", values):
        details[:, position - first] = [np.nan if value is None else value for value in stored]
    return {
        **{
            name: getattr(columns, name) for name in SEGMENT_FILES["events.parquet"] if hasattr(columns, name)
        },
        "voter": numbers.of(columns.session),
        "undone": np.where(is_vote, gone.astype(np.int64), -1),
        **dict(zip(("shown_a", "shown_b", "pref"), details, strict=True)),
    }


def _matchups(connection: Connection, arena: int, columns: LogColumns) -> Arrays:
    rows: list[Sequence[Any]] = []
    begun = np.isin(columns.kind, (LogKind.SERVED, LogKind.PREFETCHED))
    for source in range(len(SOURCES)):
        serials = columns.serial[begun & (columns.source == source)]
        if len(serials):
            span = {"first": int(serials.min()), "stop": int(serials.max()) + 1}
            rows += _read(connection, "archive_matchups", {"arena": arena, "source": source, **span})
    if len(rows) != np.count_nonzero(begun):
        raise StoreFault(
            f"events {columns.position[0]} to {columns.position[-1]} serve {np.count_nonzero(begun)} matchups, but the "
            f"table of matchups has {len(rows)}: the log is damaged; restore a backup"
        )
    return _transposed("matchups.parquet", rows)


def _policies(columns: LogColumns) -> Arrays:
    """Each policy in full, so that it means the same under later defaults."""
    positions = columns.position[columns.kind == LogKind.POLICY].tolist()
    methods = [method_from_dict(cast("MethodValues", columns.details[position])) for position in positions]
    texts = [json.dumps(method_to_dict(*method), sort_keys=True) for method in methods]
    return _transposed("policies.parquet", list(zip(positions, texts, strict=True)))


def _exclusions(columns: LogColumns) -> Arrays:
    rows = np.flatnonzero(np.isin(columns.kind, (LogKind.EXCLUDE, LogKind.RESTORE)))
    positions = columns.position[rows].tolist()
    numbers = [cast("ExclusionDetail", columns.details[position])["exclusion"] for position in positions]
    made = (columns.kind[rows] == LogKind.EXCLUDE).astype(np.int64).tolist()
    return _transposed("exclusions.parquet", list(zip(positions, numbers, made, strict=True)))


def _read(connection: Connection, name: str, values: Mapping[str, object]) -> list[Sequence[Any]]:
    with translate_errors("read a segment of an arena's log"):
        text = find_statement_sync(connection, name, values)
        return list(connection.execute(text, values).fetchall())


def _transposed(file: str, rows: Sequence[Sequence[Any]]) -> Arrays:
    kinds = SEGMENT_FILES[file]
    types = {"text": object, "number": np.float64}
    return {
        name: np.array([row[place] for row in rows], dtype=types.get(kind, np.int64))
        for place, (name, kind) in enumerate(kinds.items())
    }


_KINDS: dict[str, ArrayKind] = {"numbering": "text", "session": "integer", "voter": "integer"}
_VOTER_BITS = 63


@dataclass(frozen=True, slots=True)
class VoterNumbers:
    """The number of each session; ``numbering`` identifies this assignment, and says nothing about it."""

    numbering: str
    numbers: dict[int, int]

    def extend(self, sessions: Ints) -> VoterNumbers:
        """Give every session that has none a random number that nobody has."""
        numbers, taken = dict(self.numbers), set(self.numbers.values())
        for session in np.unique(sessions).tolist():
            if session != NO_SESSION and session not in numbers:
                while (voter := secrets.randbits(_VOTER_BITS)) in taken:
                    pass
                taken.add(voter)
                numbers[session] = voter
        return VoterNumbers(self.numbering, numbers)

    def of(self, sessions: Ints) -> Ints:
        """The numbers of these sessions; where there is none, `NO_SESSION`."""
        known, places = np.unique(sessions, return_inverse=True)
        voters = [NO_SESSION if one == NO_SESSION else self.numbers[one] for one in known.tolist()]
        found: Ints = np.array(voters, dtype=np.int64)[places]
        return found

    def save(self, path: Path) -> None:
        """Write the file, readable by its owner only; it is on disk before anything refers to it."""
        columns: dict[str, list[str] | list[int]] = {
            "numbering": [self.numbering] * len(self.numbers),
            "session": list(self.numbers),
            "voter": list(self.numbers.values()),
        }
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with replace_file(path, durable=True, private=True) as file:
                write_arrays(file, _KINDS, columns)
        except OSError as error:
            raise BadOption(f"cannot write {path}: {error.strerror or error}; choose another path") from None


def read_voter_numbers(path: Path) -> VoterNumbers:
    """Read the numbers; a file that does not exist is a new assignment without any."""
    if not path.exists():
        return VoterNumbers(secrets.token_hex(16), {})
    columns = read_arrays(path, _KINDS)
    named = set(columns["numbering"].tolist())
    numbers = dict(zip(columns["session"].tolist(), columns["voter"].tolist(), strict=True))
    if len(named) != 1 or len(set(numbers.values())) != len(columns["voter"]):
        raise BadOption(f"{path}: not the numbers of one archive's voters, or damaged; restore a copy")
    return VoterNumbers(named.pop(), numbers)
