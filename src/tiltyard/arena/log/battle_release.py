"""A public release of an arena's battles: two tables, neither of which can be joined to a table of another release.

The table ``ordered`` has the rated votes in the order in which they count, without prompt and voter: ratings that take votes
one by one are computed again from it. The table ``voters`` has the same votes shuffled, with voters and prompts under
numbers of this release: clustered intervals are computed again from it. Neither has positions or times.
"""

from __future__ import annotations

import hashlib
import json
import tempfile
import zipfile
from collections.abc import Generator, Iterator, Mapping
from dataclasses import dataclass, field
from typing import BinaryIO, Literal

import numpy as np

from tiltyard.arena.log.event_log import JUDGE, SOURCES
from tiltyard.arena.log.votes import ArenaNames, Ballots, read_ballots_sync, read_names, set_statement_timeout
from tiltyard.arena.secret_keys import SecretKeys
from tiltyard.core.battles import Kind
from tiltyard.core.battles.battle import Battle
from tiltyard.core.battles.outcome import SPELLED, kind_of
from tiltyard.files.battle_writer import Container, stream_battles
from tiltyard.foundation.arrays import Ints
from tiltyard.postgres.connections import connect
from tiltyard.runs.manifest import (
    BOARD,
    MANIFEST,
    MANIFEST_HASH,
    ZIP_EPOCH,
    ReleaseManifest,
    ReleaseTable,
    bytes_hash_line,
    json_bytes,
    table_file,
)

#: What is sent: one of the tables, or both with their board as a zip archive.
ReleasePart = Literal["voters", "ordered", "both"]

#: Time limit for reading the votes of a release.
_STATEMENT_SECONDS = 60.0
_SLICE_ROWS = 8192
_PIECE_BYTES = 1 << 20
#: The folder in the archive.
_FOLDER = "release"
_TAG_CHARACTERS = 8


@dataclass(frozen=True, slots=True)
class ReleaseChoice:
    """Which votes are released: those behind a board, or those up to a position if there is no board yet."""

    arena: int
    name: str
    source: int
    position: int
    generation: int = 0
    #: The hash and the document of the board; ``None`` if there is none.
    snapshot: str | None = None
    document: str | None = None
    #: Votes up to the position that the board does not rate, by reason.
    left_out: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, eq=False)
class BattleRelease:
    """The votes of a release, from which both tables are made."""

    ballots: Ballots
    names: ArenaNames
    source: int
    #: Secret; decides the order of the shuffled table.
    seed: bytes

    @property
    def tag(self) -> str:
        """What the numbers of voters and prompts begin with, so that those of two releases are never equal."""
        return hashlib.sha256(b"tag" + self.seed).hexdigest()[:_TAG_CHARACTERS]

    def table(self, table: ReleaseTable) -> Iterator[Battle]:
        return self._ordered() if table == "ordered" else self._shuffled()

    def _ordered(self) -> Iterator[Battle]:
        ballots = self.ballots
        for a, b, kind in _rows(ballots.a, ballots.b, ballots.kind):
            yield self._battle(a, b, kind)

    def _shuffled(self) -> Iterator[Battle]:
        ballots, tag = self.ballots, self.tag
        order = shuffle_rows(self.seed, len(ballots))
        # A prompt that a voter wrote is not the operator's prompt of the same number.
        prompt = np.where(ballots.free_prompt > 0, -ballots.free_prompt, ballots.prompt)[order]
        labels = _number_by_appearance(prompt), _number_by_appearance(ballots.session[order])
        columns = (ballots.a[order], ballots.b[order], ballots.kind[order], *labels)
        # Judges are no sample of voters: intervals of their boards are not clustered by them.
        has_voters = self.source != JUDGE
        for a, b, kind, question, voter in _rows(*columns):
            yield self._battle(a, b, kind, f"{tag}-p{question}", f"{tag}-v{voter}" if has_voters else None)

    def _battle(
        self, a: int, b: int, kind: int, question: str | None = None, voter: str | None = None
    ) -> Battle:
        outcome, label = SPELLED[Kind(kind)]
        # A person's vote is its outcome; whatever else a log may hold is told too, so that the board follows from it.
        judged = self.source == JUDGE or kind_of(outcome) != kind
        return Battle(
            model_a=self.names.models[a],
            model_b=self.names.models[b],
            winner=outcome,
            label=label if judged else None,
            both_bad=Kind(kind).flagged if judged else None,
            source=SOURCES[self.source],
            question_id=question,
            dimension="overall",
            voter=voter,
        )


def make_release(
    ballots: Ballots, names: ArenaNames, choice: ReleaseChoice, keys: SecretKeys
) -> BattleRelease:
    """The release of these votes. The same votes under the same key give the same tables again."""
    about = f"{choice.arena}:{choice.source}:{choice.generation}:{choice.position}:{len(ballots)}"
    return BattleRelease(ballots, names, choice.source, keys.sign("release", about.encode()))


def export_release(
    url: str, keys: SecretKeys, choice: ReleaseChoice, part: ReleasePart, container: Container
) -> Generator[bytes, None, None]:
    """Generate the bytes of one table, or of the archive. The votes are in memory meanwhile: about 190 bytes each.

    Close the generator if you stop early.
    """
    with connect(url, name="tiltyard release") as connection:
        set_statement_timeout(connection, _STATEMENT_SECONDS)
        names = read_names(connection, choice.arena)
        ballots = read_ballots_sync(connection, choice.arena, choice.source, upto=choice.position)
    release = make_release(ballots, names, choice, keys)
    if part != "both":
        yield from stream_battles(container, release.table(part))
        return
    with tempfile.TemporaryFile() as file:
        _write_archive(file, release, choice, container)
        file.seek(0)
        while piece := file.read(_PIECE_BYTES):
            yield piece


def _write_archive(
    file: BinaryIO, release: BattleRelease, choice: ReleaseChoice, container: Container
) -> None:
    """Both tables, the board, and a manifest with the hash of each. It has no times: equal releases have equal bytes."""
    hashes: dict[str, str] = {}
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        tables: tuple[ReleaseTable, ...] = ("ordered", "voters")
        for table in tables:
            name = table_file(table, container)
            hashes[name] = _add(archive, name, stream_battles(container, release.table(table)))
        if choice.document is not None:
            hashes[BOARD] = _add(archive, BOARD, [choice.document.encode()])
        manifest = ReleaseManifest(
            arena=choice.name,
            source=SOURCES[choice.source],
            position=choice.position,
            generation=choice.generation,
            snapshot=choice.snapshot,
            votes=len(release.ballots),
            left_out=dict(choice.left_out),
            files=hashes,
        )
        written = json_bytes(json.loads(manifest.model_dump_json()))
        _add(archive, MANIFEST, [written])
        _add(archive, MANIFEST_HASH, [bytes_hash_line(written)])


def _add(archive: zipfile.ZipFile, name: str, pieces: Iterator[bytes] | list[bytes]) -> str:
    digest, entry = hashlib.sha256(), zipfile.ZipInfo(f"{_FOLDER}/{name}", ZIP_EPOCH)
    entry.compress_type = zipfile.ZIP_DEFLATED
    with archive.open(entry, "w", force_zip64=True) as out:
        for piece in pieces:
            digest.update(piece)
            out.write(piece)
    return digest.hexdigest()


def shuffle_rows(seed: bytes, n: int) -> Ints:
    """A random order of ``n`` rows. Who knows parts of it learns nothing about the rest: it comes from a hash function."""
    drawn = np.frombuffer(hashlib.shake_256(b"order" + seed).digest(8 * n), dtype="<u8")
    return np.argsort(drawn, kind="stable").astype(np.int64)


def _number_by_appearance(values: Ints) -> Ints:
    """Each value's number from 1 up, in the order in which they first appear: it says nothing that the rows do not."""
    _, first, inverse = np.unique(values, return_index=True, return_inverse=True)
    number = np.empty(len(first), dtype=np.int64)
    number[np.argsort(first)] = np.arange(1, len(first) + 1)
    return number[inverse]


def _rows(*columns: Ints) -> Iterator[tuple[int, ...]]:
    for start in range(0, len(columns[0]), _SLICE_ROWS):
        parts = (column[start : start + _SLICE_ROWS].tolist() for column in columns)
        yield from zip(*parts, strict=True)
