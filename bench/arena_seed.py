"""Creates a long log in minutes: `python bench/arena_seed.py --url postgresql://… --battles 5000000`.

The arena is made and its answers are imported as an operator would do it. Then battles are drawn, random
pairs on random prompts in a world of known strengths, and copied into the three tables that a live
service fills: events, matchups, endings. The result looks like a log of real votes,
except that it is more even.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import psycopg

from arena_rows import HEADER, NULL, TRAILER, Column, long_, packed, raw, short, whole
from tiltyard.arena.content.answer_import import create_arena, import_answers
from tiltyard.arena.content.arenas import Arena
from tiltyard.arena.content.blob_store import BlobStore
from tiltyard.arena.content.object_storage import FolderStorage
from tiltyard.arena.log.buckets import PARTITION_AHEAD_ROWS, PARTITION_ROWS, ensure_partition
from tiltyard.arena.log.event_log import LogKind
from tiltyard.core.policy.state.policy import Policy
from tiltyard.postgres.connections import connect, connect_async, open_pool
from tiltyard.postgres.schema_migrations import migrate
from tiltyard.postgres.statements import bucket_table
from tiltyard.settings.arena_settings import ArenaSettings
from tiltyard.simulation.worlds import WorldSettings, draw_world_of

Ints = npt.NDArray[np.int64]

#: Rows that are packed at once.
CHUNK = 200_000
#: Battles a second, which sets the times in the log; voters at a time, and matchups of each before it leaves.
PACE, VOTERS, STAY = 200, 50, 20
_EPOCH = 946_684_800_000_000
_SECOND = 1_000_000
_HOUR = 3_600 * _SECOND


@dataclass(frozen=True, eq=False)
class Drawn:
    """Battles by serial: who met, how it ended, when each was served and voted on, and at which positions."""

    a: Ints
    b: Ints
    prompt: Ints
    outcome: Ints
    lane: Ints
    session: Ints
    served_at: Ints
    voted_at: Ints
    served: Ints
    voted: Ints


@dataclass(frozen=True)
class Seeded:
    """What a log took to write."""

    battles: int
    head: int
    seconds: dict[str, float]
    #: Bytes of the arena's tables with their indexes.
    bytes_: dict[str, int]


async def make_arena(url: str, models: int, prompts: int, *, name: str = "arena") -> Arena:
    """An arena in which every model has answered every prompt."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "answers.jsonl"
        with path.open("w") as file:
            for prompt in range(prompts):
                for model in range(models):
                    row = {
                        "prompt_id": f"prompt-{prompt}",
                        "prompt": f"What is to be said of {prompt}?",
                        "model": f"model-{model}",
                        "response": f"Of {prompt} this can be said, in {model * 7919 % 9973} words.",
                    }
                    file.write(json.dumps(row) + "\n")
        async with open_pool(url, most=2) as pool:
            made = await create_arena(pool, name, settings=ArenaSettings())
            await import_answers(pool, BlobStore(pool, FolderStorage(Path(folder))), name, path)
    return made


def draw(models: int, prompts: int, battles: int, first: int, last_at: int, seed: int) -> Drawn:
    """Battles whose events take the positions from ``first`` on; the last is voted on at ``last_at``."""
    rng = np.random.default_rng(seed)
    world = draw_world_of(WorldSettings(models=models, prompts=prompts), rng)
    a = rng.integers(0, models, battles)
    b = (a + rng.integers(1, models, battles)) % models
    prompt = rng.integers(0, prompts, battles)
    number = np.arange(battles)
    served_at = number * (_SECOND // PACE)
    voted_at = served_at + rng.integers(_SECOND // 20, _SECOND // 4, battles)
    shift = last_at - int(voted_at.max(initial=0))
    positions = np.empty(2 * battles, dtype=np.int64)
    positions[np.argsort(np.concatenate([served_at, voted_at]), kind="stable")] = np.arange(2 * battles)
    return Drawn(
        a=a,
        b=b,
        prompt=prompt,
        outcome=world.kinds(a, b, prompt, rng).astype(np.int64),
        lane=rng.choice(4, battles, p=Policy().lane_weights).astype(np.int64),
        session=1_000_000_000 + number // (VOTERS * STAY) * VOTERS + number % VOTERS,
        served_at=served_at + shift,
        voted_at=voted_at + shift,
        served=positions[:battles] + first,
        voted=positions[battles:] + first,
    )


#: In the order in which rows are packed; other columns keep their defaults.
_COLUMNS = {
    "events": "arena, position, at, kind, source, serial, session, a, b, prompt, outcome, nominal, lane, detail",
    "matchups": "arena, source, serial, matchup, position, session, a, b, prompt, response_a, response_b, nominal, "
    "lane, reason, propensity, given_up, served_at, expires_at",
    "endings": "arena, source, serial, position, at, kind, outcome, revealed_at, undone",
}


def seed_log(url: str, arena: Arena, models: int, prompts: int, battles: int, *, seed: int = 5) -> Seeded:
    """Write the battles, and run ANALYZE on the tables."""
    seconds: dict[str, float] = {}
    with connect(url, name="tiltyard seed") as connection:
        head, now = _head(connection, arena.arena)
        start = time.perf_counter()
        drawn = draw(models, prompts, battles, head + 1, now - _HOUR, seed)
        cells = _responses(connection, arena.arena, models, prompts)
        seconds["draw"] = time.perf_counter() - start
        bucket = _bucket(connection, arena.arena)
        asyncio.run(_room(url, bucket, head + 2 * battles, battles))
        for table, chunks in (
            ("events", _events(arena.arena, drawn)),
            ("matchups", _matchups(arena, drawn, cells)),
            ("endings", _endings(arena.arena, drawn)),
        ):
            start = time.perf_counter()
            _copy(connection, f"{bucket_table(table, bucket)} ({_COLUMNS[table]})", chunks)
            seconds[table] = time.perf_counter() - start
        start = time.perf_counter()
        for table in ("events", "matchups", "endings"):
            connection.execute(f"VACUUM (ANALYZE) {bucket_table(table, bucket)}")
        connection.execute("CHECKPOINT")
        seconds["vacuum"] = time.perf_counter() - start
        return Seeded(battles, head + 2 * battles, seconds, sizes(connection, arena.arena))


def sizes(connection: psycopg.Connection, arena: int) -> dict[str, int]:
    """Bytes of each of the growing tables of the arena's bucket, indexes included."""
    query = "SELECT sum(pg_total_relation_size(relid)) FROM pg_partition_tree(%s::regclass)"
    found = {}
    for table in ("events", "matchups", "endings"):
        row = connection.execute(query, (bucket_table(table, _bucket(connection, arena)),)).fetchone()
        assert row is not None
        found[table] = int(row[0])
    return found


def _bucket(connection: psycopg.Connection, arena: int) -> int:
    row = connection.execute("SELECT bucket FROM arenas WHERE arena = %s", (arena,)).fetchone()
    assert row is not None
    return int(row[0])


def _head(connection: psycopg.Connection, arena: int) -> tuple[int, int]:
    """The log's last position, and the time in microseconds of the server's years."""
    row = connection.execute(
        "SELECT max(position), (extract(epoch FROM now()) * 1000000)::bigint FROM events WHERE arena = %s",
        (arena,),
    ).fetchone()
    assert row is not None
    # What the import wrote must not be later than the votes. Logs are append-only for everybody else.
    connection.execute("SET session_replication_role = replica")
    connection.execute("UPDATE events SET at = at - interval '90 days' WHERE arena = %s", (arena,))
    connection.execute("RESET session_replication_role")
    return int(row[0]), int(row[1]) - _EPOCH


def _responses(connection: psycopg.Connection, arena: int, models: int, prompts: int) -> Ints:
    cells = np.zeros((models, prompts), dtype=np.int64)
    query = "SELECT model, prompt, response FROM responses WHERE arena = %s"
    rows = np.array(connection.execute(query, (arena,)).fetchall(), dtype=np.int64)
    cells[rows[:, 0], rows[:, 1]] = rows[:, 2]
    return cells


async def _room(url: str, bucket: int, head: int, battles: int) -> None:
    async with await connect_async(url) as connection:
        for number in range(0, head + PARTITION_AHEAD_ROWS, PARTITION_ROWS):
            await ensure_partition(connection, "events", bucket, number)
        for table in ("matchups", "endings"):
            for number in range(0, battles + PARTITION_AHEAD_ROWS, PARTITION_ROWS):
                await ensure_partition(connection, table, bucket, number)


def _copy(connection: psycopg.Connection, table: str, chunks: Iterator[bytes]) -> None:
    with connection.cursor().copy(f"COPY {table} FROM STDIN (FORMAT binary)") as copy:
        copy.write(HEADER)
        for chunk in chunks:
            copy.write(chunk)
        copy.write(TRAILER)


def _events(arena: int, drawn: Drawn) -> Iterator[bytes]:
    """Served matchups and votes, in pieces that are each a stretch of the log."""
    n = len(drawn.a)
    voted = np.argsort(drawn.voted)
    begun = 0
    for start in range(0, n, CHUNK):
        stop = min(start + CHUNK, n)
        upto = n if stop == n else int(np.searchsorted(drawn.voted[voted], drawn.served[stop]))
        rows = np.arange(start, stop)
        yield packed(len(rows), _event(arena, drawn, LogKind.SERVED, rows))
        rows, begun = voted[begun:upto], upto
        yield packed(len(rows), _event(arena, drawn, LogKind.VOTE, rows))


def _event(arena: int, drawn: Drawn, kind: LogKind, rows: Ints) -> dict[str, Column]:
    is_vote = kind == LogKind.VOTE
    lane = NULL if is_vote else short(drawn.lane[rows])
    return {
        "arena": whole(arena),
        "position": long_((drawn.voted if is_vote else drawn.served)[rows]),
        "at": long_((drawn.voted_at if is_vote else drawn.served_at)[rows]),
        "kind": short(int(kind)),
        "source": short(0),
        "serial": long_(rows),
        "session": long_(drawn.session[rows]),
        "a": whole(drawn.a[rows]),
        "b": whole(drawn.b[rows]),
        "prompt": whole(drawn.prompt[rows]),
        "outcome": short(drawn.outcome[rows]) if is_vote else NULL,
        "nominal": lane,
        "lane": lane,
        "detail": NULL,
    }


def _matchups(arena: Arena, drawn: Drawn, cells: Ints) -> Iterator[bytes]:
    rng = np.random.default_rng()
    expiry = int(arena.settings.expiry_seconds * _SECOND)
    for start in range(0, len(drawn.a), CHUNK):
        rows = np.arange(start, min(start + CHUNK, len(drawn.a)))
        a, b, prompt = drawn.a[rows], drawn.b[rows], drawn.prompt[rows]
        lane = short(drawn.lane[rows])
        columns = {
            "arena": whole(arena.arena),
            "source": short(0),
            "serial": long_(rows),
            "matchup": raw(np.frombuffer(rng.bytes(16 * len(rows)), dtype="V16")),
            "position": long_(drawn.served[rows]),
            "session": long_(drawn.session[rows]),
            "a": whole(a),
            "b": whole(b),
            "prompt": whole(prompt),
            "response_a": long_(cells[a, prompt]),
            "response_b": long_(cells[b, prompt]),
            "nominal": lane,
            "lane": lane,
            "reason": raw(b"drawn at random, not chosen"),
            "propensity": Column(">f8", 0.01),
            "given_up": short(0),
            "served_at": long_(drawn.served_at[rows]),
            "expires_at": long_(drawn.served_at[rows] + expiry),
        }
        yield packed(len(rows), columns)


def _endings(arena: int, drawn: Drawn) -> Iterator[bytes]:
    for start in range(0, len(drawn.a), CHUNK):
        rows = np.arange(start, min(start + CHUNK, len(drawn.a)))
        columns = {
            "arena": whole(arena),
            "source": short(0),
            "serial": long_(rows),
            "position": long_(drawn.voted[rows]),
            "at": long_(drawn.voted_at[rows]),
            "kind": short(int(LogKind.VOTE)),
            "outcome": short(drawn.outcome[rows]),
            "revealed_at": NULL,
            "undone": NULL,
        }
        yield packed(len(rows), columns)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--url", required=True, help="an empty database")
    parser.add_argument("--models", type=int, default=100)
    parser.add_argument("--prompts", type=int, default=1_000)
    parser.add_argument("--battles", type=int, default=5_000_000)
    options = parser.parse_args()
    migrate(options.url)
    start = time.perf_counter()
    arena = asyncio.run(make_arena(options.url, options.models, options.prompts))
    print(f"arena with answers: {time.perf_counter() - start:.1f} s", flush=True)
    seeded = seed_log(options.url, arena, options.models, options.prompts, options.battles)
    for part, seconds in seeded.seconds.items():
        print(f"{part}: {seconds:.1f} s")
    for table, size in seeded.bytes_.items():
        print(f"{table}: {size / options.battles:.1f} bytes a battle")


if __name__ == "__main__":
    main()
