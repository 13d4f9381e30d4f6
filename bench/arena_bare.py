"""Baseline: pgbench with the writes of a vote and of a whole cycle, on the same tables and server.

It uses a separate database with an arena, its partitions and indexes. It omits everything that makes a log:
positions come from a sequence, so they are neither dense nor in commit order; there are no locks, no
matchmaking and no reads. Each transaction is one prepared statement, and every commit is synced.
"""

from __future__ import annotations

import asyncio
import os
import re
import resource
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from psycopg.conninfo import conninfo_to_dict

from arena_seed import make_arena
from arena_servers import House
from arena_usage import cpu_of, family
from tiltyard.postgres.connections import connect
from tiltyard.postgres.schema_migrations import migrate

#: The only one there, and the number of its bucket.
_ARENA = 1
_SET_UP = """
CREATE SEQUENCE bare_position START 1000;
CREATE SEQUENCE bare_serve;
CREATE SEQUENCE bare_vote MINVALUE 0 START 0;
"""
#: A matchup's id follows from its serial, so that a script can name it; it is looked up by the id, as a vote's is.
_SERVE_MANY = """
INSERT INTO matchups_b{arena}
SELECT {arena}, 0, k, md5(k::text)::uuid, nextval('bare_position'), k / 2, k % {models}, (k + 1) % {models},
       k % {prompts}, k, k + 1, 0, 0, 'drawn at random, not chosen', 0.01, 0, now(), now() + interval '2 hours'
FROM (SELECT nextval('bare_serve') AS k FROM generate_series(1, {count})) AS drawn
"""
_DRAW = """\
\\set a random(0, {models} - 2)
\\set b random(:a + 1, {models} - 1)
\\set prompt random(0, {prompts} - 1)
\\set session random(1, 100000)
\\set lane random(0, 3)
"""
_SERVE = """\
WITH drawn AS MATERIALIZED (SELECT nextval('bare_serve') AS k, nextval('bare_position') AS position),
served AS (
    INSERT INTO matchups_b{arena}
    SELECT {arena}, 0, k, md5(k::text)::uuid, position, :session, :a, :b, :prompt, :a, :b, :lane, :lane,
           'drawn at random, not chosen', 0.01, 0, now(), now() + interval '2 hours'
    FROM drawn
    RETURNING *
)
INSERT INTO events_b{arena} (arena, position, at, kind, source, serial, session, a, b, prompt, nominal, lane)
SELECT arena, position, served_at, 0, source, serial, session, a, b, prompt, nominal, lane FROM served
RETURNING serial AS k
"""
_VOTE = """\
WITH named AS MATERIALIZED (SELECT md5(({serial})::text)::uuid AS matchup),
open AS (
    SELECT arena, source, serial, session, a, b, prompt FROM matchups_b{arena}
    WHERE arena = {arena} AND matchup = (SELECT matchup FROM named) AND expires_at > now()
),
ended AS (
    INSERT INTO endings_b{arena} (arena, source, serial, position, at, kind, outcome)
    SELECT arena, source, serial, nextval('bare_position'), now(), 1, :outcome FROM open
    ON CONFLICT DO NOTHING
    RETURNING *
)
INSERT INTO events_b{arena} (arena, position, at, kind, source, serial, session, a, b, prompt, outcome)
SELECT arena, ended.position, ended.at, 1, source, serial, session, a, b, prompt, outcome
FROM ended JOIN open USING (arena, source, serial);
"""


@dataclass(frozen=True)
class Bare:
    """What pgbench saw: scripts a second, milliseconds of each, and CPU microseconds of each, server and pgbench."""

    rate: float
    mean: float
    failed: int
    cpu: float


def set_up_bare(house: House) -> None:
    """The database, with an arena in it."""
    with connect(house.url) as connection:
        connection.execute("CREATE DATABASE bare")
    migrate(_url(house))
    asyncio.run(make_arena(_url(house), 2, 1))
    with connect(_url(house)) as connection:
        for line in filter(None, _SET_UP.splitlines()):
            connection.execute(line)


def _url(house: House) -> str:
    return house.url.replace("/tiltyard?", "/bare?")


def serve_bare(house: House, models: int, prompts: int, count: int) -> None:
    """Insert a number of open matchups."""
    with connect(_url(house)) as connection:
        connection.execute(_SERVE_MANY.format(arena=_ARENA, models=models, prompts=prompts, count=count))
        connection.execute("SELECT setval('bare_vote', (SELECT last_value - %s FROM bare_serve))", (count,))
        connection.execute(f"ANALYZE matchups_b{_ARENA}")


def run_votes(house: House, *, clients: int, seconds: float) -> Bare:
    """Votes on matchups already served."""
    script = "\\set outcome random(0, 3)\n" + _VOTE.format(arena=_ARENA, serial="nextval('bare_vote')")
    return _pgbench(house, script, clients, seconds)


def run_cycle(house: House, models: int, prompts: int, *, clients: int, seconds: float) -> Bare:
    """A matchup and the vote on it: two transactions, counted as one cycle."""
    values = {"arena": _ARENA, "models": models, "prompts": prompts}
    script = (
        "\\set outcome random(0, 3)\n"
        + _DRAW.format(**values)
        + _SERVE.format(**values)
        + "\\gset\n"
        + _VOTE.format(arena=_ARENA, serial=":k")
    )
    return _pgbench(house, script, clients, seconds)


def _pgbench(house: House, script: str, clients: int, seconds: float) -> Bare:
    place = conninfo_to_dict(_url(house))
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "script.sql"
        file.write_text(script)
        command = [house.binaries / "pgbench", "-n", "-M", "prepared", "-c", clients, "-j", 2]
        command += ["-T", max(1, round(seconds)), "-f", file, "-h", place["host"], "-p", place["port"]]
        command += ["-U", place["user"], place["dbname"]]
        before = cpu_of(family(house.postmaster)) + _children()
        done = subprocess.run(
            [str(part) for part in command],
            env={**os.environ, "PGPASSWORD": str(place["password"])},
            capture_output=True,
            text=True,
            check=True,
        )
    spent = cpu_of(family(house.postmaster)) + _children() - before
    return Bare(
        rate=_figure(r"tps = ([\d.]+)", done.stdout),
        mean=_figure(r"latency average = ([\d.]+)", done.stdout),
        failed=int(_figure(r"number of failed transactions: (\d+)", done.stdout)),
        cpu=spent / _figure(r"transactions actually processed: (\d+)", done.stdout) * 1e6,
    )


def _children() -> float:
    """CPU seconds of finished child processes."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _figure(pattern: str, text: str) -> float:
    found = re.search(pattern, text)
    if found is None:
        raise RuntimeError(f"pgbench did not say {pattern}: {text}")
    return float(found[1])
