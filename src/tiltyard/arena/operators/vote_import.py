"""Import past votes: votes of a battle file, which people cast elsewhere, enter an arena's log.

They enter in the order of their times, each as a matchup that is served and its vote, with a mark of their own. Their
time in the log is that of the import; when they were cast is in their details. Batches are short, because voters wait
meanwhile. Each batch notes how far its file came, so that an import goes on where it was interrupted.
"""

from __future__ import annotations

import asyncio
import hashlib
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from math import nan
from pathlib import Path

import numpy as np

from tiltyard.arena.accounts import session_number_from, write_audit_entry
from tiltyard.arena.content.arenas import (
    Arena,
    connect_to_arena,
    lock_arena,
    read_model_numbers,
    read_prompt_keys,
    require_live,
)
from tiltyard.arena.log.buckets import fetch_one, fetch_rows
from tiltyard.arena.log.bulk_append import ImportProgress, append_in_parts, ignore_progress
from tiltyard.arena.log.event_details import VoteDetail
from tiltyard.arena.log.event_log import HUMAN, LogBatch, OpenMatchup, append_batch
from tiltyard.arena.secret_keys import SecretKeys
from tiltyard.arena.voting.matchup_ids import new_matchup_id
from tiltyard.core.battles import Battle, Kind
from tiltyard.core.policy.state.events import VoteMark
from tiltyard.core.policy.state.policy import Lane
from tiltyard.errors import BadBattle, CannotRate, Conflict, UnreadableFile
from tiltyard.files.battle_source import explain_invalid, open_file
from tiltyard.files.input_file import open_input, translate_read_errors
from tiltyard.files.read_options import ReadOptions
from tiltyard.files.upload_reader import NATIVE_FORMATS
from tiltyard.foundation.arrays import Ints
from tiltyard.foundation.option_names import option_name
from tiltyard.postgres.connections import Connection, ConnectionPool, Database
from tiltyard.postgres.statements import bucket_statement, statement
from tiltyard.wire.arenas import ImportedVotes

#: Why an imported matchup was chosen is not known; nor is its propensity. In the coverage lane it is not taken for one that
#: was chosen at random.
_REASON, _LANE = "imported", Lane.COVERAGE
_SHOWN_NAME_COUNT = 10
_NO_TIME_MICROSECONDS = -(2**63)
_PEOPLES_KINDS = (Kind.WIN_A, Kind.WIN_B, Kind.TIE, Kind.BOTH_BAD)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class VoteImport:
    """A file of past votes, and how many of them are in the log."""

    file_sha256: bytes
    votes_sha256: bytes
    name: str
    votes: int
    done: int
    began_at: datetime


@dataclass(frozen=True, slots=True)
class VoteFile:
    """A battle file, the name by which messages and lists know it, and how it is read."""

    path: Path
    name: str
    options: ReadOptions = field(default_factory=ReadOptions)
    #: Whether Parquet is refused, which native code reads: in a process that serves.
    text_only: bool = False


class _Codes(dict[str, int]):
    """Numbers names as they come."""

    def __missing__(self, name: str) -> int:
        self[name] = number = len(self)
        return number


@dataclass(frozen=True, slots=True, eq=False)
class _FileVotes:
    """The votes of a file, in its order. Models, prompts and voters are places in the lists of names."""

    sha256: bytes
    models: tuple[str, ...]
    prompts: tuple[str, ...]
    voters: tuple[str, ...]
    #: Model A, model B, prompt, kind, voter, and the time in microseconds.
    columns: tuple[Ints, ...]
    left_out: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True, eq=False)
class _PastVotes:
    """The votes of a file in the order of their times, by the arena's numbers."""

    a: Ints
    b: Ints
    prompt: Ints
    kind: Ints
    session: Ints
    time: Ints
    row: Ints
    response_a: Ints
    response_b: Ints

    def sha256(self) -> bytes:
        parts = (self.a, self.b, self.prompt, self.kind, self.session, self.time)
        return hashlib.sha256(b"".join(part.tobytes() for part in parts)).digest()

    def detail(self, k: int) -> VoteDetail:
        time = int(self.time[k])
        detail: VoteDetail = {"row": int(self.row[k])}
        if time != _NO_TIME_MICROSECONDS:
            detail["cast_at"] = datetime.fromtimestamp(time / 1e6, UTC).isoformat()
        return detail


def imported_session(keys: SecretKeys, arena: int, voter: str) -> int:
    """The number of a voter of an imported file: the same in every file of the arena, and in no other arena."""
    return session_number_from(keys.sign("imported voter", f"{arena}:{voter}".encode()))


async def list_vote_imports(database: Database, arena: int) -> list[VoteImport]:
    """The files whose votes an arena has, in the order in which they came."""
    rows = await fetch_rows(database, "imports_list", {"arena": arena})
    return [VoteImport(*row) for row in rows]


async def import_votes(
    pool: ConnectionPool,
    keys: SecretKeys,
    arena: str,
    file: VoteFile,
    *,
    shard: int = 0,
    actor: str = "cli",
    progress: ImportProgress = ignore_progress,
) -> ImportedVotes:
    """Let the votes of a file in. The whole file is checked before the first of them enters.

    An import that was interrupted goes on; one that is repeated adds nothing.
    """
    read = await asyncio.to_thread(_read_file, file)
    async with connect_to_arena(pool, arena) as (connection, found):
        _require_open(found)
        past = await _resolve(connection, keys, found, read)
        votes = len(past.a)
        entered = _Entering(read.sha256, past.sha256(), file.name, past, shard, actor)
        first = await entered.done(connection, found.arena)
        repeated = await entered.count_repeated(connection, found.arena, first)

    async def append(connection: Connection, most: int) -> tuple[int, LogBatch]:
        async with append_batch(connection, found.arena) as batch:
            _require_open(await lock_arena(connection, arena))
            there = await entered.add(batch, most)
        return there, batch

    await append_in_parts(pool, append, votes, progress)
    return ImportedVotes(votes, votes - first, repeated, dict(read.left_out))


def _require_open(arena: Arena) -> None:
    require_live(arena)
    if arena.settings.is_live:
        raise Conflict(f"in the arena {arena.name} models answer live: it has no prompts to import votes on")
    if arena.settings.stage == "draft":
        raise Conflict(
            f"the arena {arena.name} is a draft, whose votes are test votes: open it, then import past votes"
        )


def _read_file(file: VoteFile) -> _FileVotes:
    opened = open_input(file.path, name=file.name)
    with translate_read_errors(file.name), opened.path.open("rb") as stream:
        sha256 = hashlib.file_digest(stream, "sha256").digest()
    if file.text_only and opened.first_bytes().startswith(NATIVE_FORMATS):
        raise UnreadableFile(
            f"{file.name}: expected JSON Lines, JSON or CSV; the command tiltyard arena import-votes reads other files"
        )
    source = open_file(opened, file.options)
    models, prompts, voters = _Codes(), _Codes(), _Codes()
    columns = tuple(array("q") for _ in range(6))
    now = datetime.now(UTC)
    with explain_invalid([source], offered=() if file.text_only else ("outcomes",)):
        for row, battle in enumerate(source.battles(), 1):
            problem = _problem(battle, now)
            if problem is not None:
                raise BadBattle(problem, where=f"{file.name}, battle {row}")
            values = (
                models[battle.model_a],
                models[battle.model_b],
                prompts[battle.question_id or ""],
                int(battle.kind),
                voters[battle.voter or ""],
                _NO_TIME_MICROSECONDS if battle.time is None else _microseconds(battle.time),
            )
            for column, value in zip(columns, values, strict=True):
                column.append(value)
    arrays = tuple(np.frombuffer(column, dtype=np.int64) for column in columns)
    untimed = int(np.count_nonzero(arrays[-1] == _NO_TIME_MICROSECONDS))
    if not len(arrays[0]):
        raise CannotRate(f"{file.name}: no votes")
    if 0 < untimed < len(arrays[0]):
        raise BadBattle(f"{untimed:,} votes have no time and the others have one", where=file.name)
    return _FileVotes(sha256, tuple(models), tuple(prompts), tuple(voters), arrays, source.notes)


def _microseconds(moment: datetime) -> int:
    since = moment - _EPOCH
    return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds


def _problem(battle: Battle, now: datetime) -> str | None:
    """Why a battle is no past vote of a person."""
    if battle.judge_model or battle.source == "llm-judge" or battle.kind not in _PEOPLES_KINDS:
        return "it is the battle of a judge; only votes of people are imported"
    if battle.weight not in (None, 1.0):
        return f"its weight is {battle.weight}; a vote has none"
    if battle.model_a == battle.model_b:
        return f"both models are {battle.model_a!r}"
    if not battle.question_id or not battle.voter:
        missing, header = ("prompt", "question_id") if battle.voter else ("voter", "voter")
        return f"it has no {missing}; name the column that has it with {option_name('columns', {header: 'HEADER'})}"
    if battle.time is not None and battle.time > now:
        return f"its time {battle.time.isoformat()} has not come yet"
    return None


async def _resolve(connection: Connection, keys: SecretKeys, arena: Arena, read: _FileVotes) -> _PastVotes:
    """The votes by the arena's numbers; `Conflict` with the names that it does not have."""
    numbers = await read_model_numbers(connection, arena.arena, read.models)
    known = {one.name: one.prompt for one in await read_prompt_keys(connection, arena.arena, read.prompts)}
    models = _numbers(arena, "models", read.models, numbers)
    prompts = _numbers(arena, "prompts", read.prompts, known)
    sessions = np.array([imported_session(keys, arena.arena, voter) for voter in read.voters])
    one, other, on, kind, voter, time = read.columns
    row = np.argsort(time, kind="stable")
    found = await fetch_rows(connection, "imports_responses", {"arena": arena.arena})
    responses = {(model, prompt): response for model, prompt, response in found}
    places = np.concatenate([side * len(read.prompts) + on for side in (one, other)])
    unique, inverse = np.unique(places, return_inverse=True)
    pairs = [divmod(place, len(read.prompts)) for place in unique.tolist()]
    there = [responses.get((int(models[m]), int(prompts[p])), 0) for m, p in pairs]
    lacking = [
        f"{read.models[m]} on {read.prompts[p]}"
        for (m, p), response in zip(pairs, there, strict=True)
        if not response
    ]
    _refuse_unknown(arena, "responses", lacking)
    left, right = np.split(np.array(there, dtype=np.int64)[inverse], 2)
    return _PastVotes(
        models[one][row],
        models[other][row],
        prompts[on][row],
        kind[row],
        sessions[voter][row],
        time[row],
        row + 1,
        left[row],
        right[row],
    )


def _numbers(arena: Arena, what: str, names: Sequence[str], known: Mapping[str, int]) -> Ints:
    _refuse_unknown(arena, what, [name for name in names if name not in known])
    return np.array([known[name] for name in names], dtype=np.int64)


def _refuse_unknown(arena: Arena, what: str, names: Sequence[str]) -> None:
    if names:
        more = f" and {len(names) - _SHOWN_NAME_COUNT:,} more" if len(names) > _SHOWN_NAME_COUNT else ""
        raise Conflict(
            f"the arena {arena.name} lacks {what} that the file has votes on: {', '.join(names[:_SHOWN_NAME_COUNT])}{more}; "
            "import their answers first, or leave these votes out of the file. Nothing was imported"
        )


@dataclass(frozen=True, slots=True, eq=False)
class _Entering:
    """A file that enters an arena, batch by batch."""

    file_sha256: bytes
    votes_sha256: bytes
    name: str
    past: _PastVotes
    shard: int
    actor: str

    async def done(self, connection: Connection, arena: int) -> int:
        """How many of the votes are in the log."""
        for one in await list_vote_imports(connection, arena):
            if one.votes_sha256 == self.votes_sha256:
                return one.done
            if one.file_sha256 == self.file_sha256:
                raise Conflict(
                    f"{one.name} was imported before, and is read otherwise now: give the same options, and the same "
                    "secret key of the server"
                )
        return 0

    async def count_repeated(self, connection: Connection, arena: int, first: int) -> int:
        """How many of the votes from the first on equal an imported vote of the log."""
        past = self.past
        columns = {
            "sessions": past.session,
            "prompts": past.prompt,
            "models_a": past.a,
            "models_b": past.b,
            "outcomes": past.kind,
            "times": past.time,
        }
        values: dict[str, object] = {"arena": arena, "no_time": _NO_TIME_MICROSECONDS}
        values |= {
            name: "{" + ",".join(map(str, column[first:].tolist())) + "}" for name, column in columns.items()
        }
        return int((await fetch_one(connection, "imports_repeated", values))[0])

    async def add(self, batch: LogBatch, most: int) -> int:
        """Add the next votes, under the arena's lock; return how many are in the log then."""
        connection, first = batch.connection, await self.done(batch.connection, batch.arena)
        stop, position = min(first + most, len(self.past.a)), batch.head + 1
        if first == stop:
            return stop
        values = {"arena": batch.arena, "upto": batch.head}
        found = await connection.execute(bucket_statement("log_serials", batch.bucket), values)
        ((serial,), *_) = await found.fetchall()
        for k in range(first, stop):
            self._add(batch, k, serial + k - first)
        about = {
            "file_sha256": self.file_sha256,
            "votes_sha256": self.votes_sha256,
            "name": self.name,
            "total": len(self.past.a),
        }
        values = {"arena": batch.arena, "position": position, "votes": stop - first}
        await connection.execute(statement("imports_add"), about | values)
        detail = {"file": self.name, "sha256": self.file_sha256.hex(), "votes": len(self.past.a)}
        changed = detail | {"imported": [first, stop]}
        await write_audit_entry(connection, self.actor, "import votes", changed, arena=batch.arena)
        return stop

    def _add(self, batch: LogBatch, k: int, serial: int) -> None:
        past = self.past
        one = OpenMatchup(
            matchup=new_matchup_id(self.shard, batch.arena),
            source=HUMAN,
            serial=serial,
            session=int(past.session[k]),
            a=int(past.a[k]),
            b=int(past.b[k]),
            prompt=int(past.prompt[k]),
            response_a=int(past.response_a[k]),
            response_b=int(past.response_b[k]),
            nominal=int(_LANE),
            lane=int(_LANE),
            served_at=batch.now,
            expires_at=batch.now,
            shown_at=batch.now,
        )
        batch.serve(one, reason=_REASON, propensity=nan)
        batch.vote(one, int(past.kind[k]), blind=True, mark=VoteMark.IMPORTED, detail=past.detail(k))
