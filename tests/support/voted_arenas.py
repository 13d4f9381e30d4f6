"""Arenas that have votes: cast through a voting queue, or written to the log in bulk."""

import asyncio
import time
from contextlib import asynccontextmanager

import numpy as np

from support.live_arenas import make_arena, voting_queue_of
from tiltyard.arena.boards.board_cache import BoardCache
from tiltyard.arena.operators.crowd import hold_crowd_change
from tiltyard.arena.rating.rater_process import RaterProcess
from tiltyard.arena.voting.voter_requests import Voter
from tiltyard.core.battles import Kind
from tiltyard.postgres.connections import connect, open_pool


def rate(url):
    """Let a rater fold everything that is final, and publish boards.

    By its slow clock no board takes time, so that it makes all of them on a busy machine too.
    """
    rater_process = RaterProcess(url, clock=lambda: time.monotonic() / 1000, hold_change=hold_crowd_change)
    try:
        while rater_process.turn():
            pass
    finally:
        rater_process.close()


def rate_and_show(site):
    """As `rate`; the service shows the new boards at once, without waiting until it hears of them."""
    rate(site.database)
    site.run(site.registry.boards._look())


@asynccontextmanager
async def boards_of(url, **options):
    """The boards of a web process, and its arena."""
    async with open_pool(url, most=3) as pool:
        boards = BoardCache(url, pool, **options)
        await boards.start()
        try:
            yield boards, await boards.arena("arena")
        finally:
            await boards.stop()


async def cast(queue, votes, *, seed=0, voters=5, source=0, reveal=True, detail=None):
    """Votes through a voting queue, by several voters in turn; returns their matchups, in order.

    When they know all the names, others come: every vote is blind.
    """
    rng = np.random.default_rng(seed)
    matchups = []
    blind = voters * queue.state.n_prompts * (queue.state.n_models // 2)
    for k in range(votes):
        voter = Voter(1 + k % voters + voters * (k // blind), source)
        offered = await queue.next_matchup(voter)
        kind = Kind(int(rng.choice([0, 0, 0, 1, 1, 2, 3])))
        await queue.vote(voter, offered.matchup, kind, reveal=reveal, detail=detail)
        matchups.append(offered.matchup)
    return matchups


def voted(url, votes=30, models=4, prompts=6, **options):
    """An arena in which people have voted; the names were shown, so that every vote is final."""

    async def scene():
        arena = await make_arena(url, models, prompts, **options)
        async with voting_queue_of(url, arena) as queue:
            await cast(queue, votes)
        return arena

    arena = asyncio.run(scene())
    close_window(url, arena.arena)
    return arena


def close_window(url, arena=1):
    """Say, as the rater does, that every vote so far is final."""
    with connect(url) as connection:
        connection.execute(
            "UPDATE raters SET horizon = (SELECT max(position) FROM events WHERE arena = %(arena)s) "
            "WHERE arena = %(arena)s",
            {"arena": arena},
        )


def lay_votes(url, arena, votes, models, prompts, *, seed=0, sessions=500, strengths=None):
    """Many served and voted matchups of shard 0, straight into the tables; ``strengths`` in logits, by model."""
    with connect(url) as connection, connection.transaction():
        connection.execute("SELECT setseed(%s)", ((seed % 100) / 100,))
        head = connection.execute(
            "SELECT max(position), max(at) FROM events WHERE arena = %s", (arena,)
        ).fetchone()
        (bucket,) = connection.execute("SELECT bucket FROM arenas WHERE arena = %s", (arena,)).fetchone()
        values = {
            "arena": arena, "votes": votes, "models": models, "prompts": prompts, "head": head[0],
            "sessions": sessions, "at": head[1],
            "strengths": [0.3 * k for k in range(models)] if strengths is None else [float(one) for one in strengths],
        }  # fmt: skip
        connection.execute(
            f"""
            INSERT INTO matchups_b{bucket}
            SELECT %(arena)s, 0, k, ('0000' || substr(gen_random_uuid()::text, 5))::uuid, %(head)s + 2 * k + 1, 1 + (random() * %(sessions)s)::int,
                   a, (a + 1 + floor(random() * (%(models)s - 1))::int) %% %(models)s,
                   floor(random() * %(prompts)s)::int, 1, 1, 0, 3, 'laid', 0.25, 0,
                   %(at)s + k * interval '1 ms', %(at)s + interval '1 hour'
            FROM (SELECT k, floor(random() * %(models)s)::int AS a FROM generate_series(0, %(votes)s - 1) k) AS s
            """,
            values,
        )
        connection.execute(
            f"""
            INSERT INTO events_b{bucket} (arena, position, at, kind, source, serial, session, a, b, prompt, nominal, lane)
            SELECT arena, position, served_at, 0, source, serial, session, a, b, prompt, nominal, lane
            FROM matchups WHERE arena = %(arena)s
            """,
            values,
        )
        connection.execute(
            f"""
            INSERT INTO endings_b{bucket} (arena, source, serial, position, at, kind, outcome, revealed_at)
            SELECT arena, source, serial, position + 1, served_at, 1,
                   CASE WHEN random() < 0.1 THEN 2 WHEN random() < 0.05 THEN 3
                        WHEN random() < 1 / (1 + exp((%(strengths)s::float8[])[a + 1] - (%(strengths)s::float8[])[b + 1])) THEN 1 ELSE 0 END, served_at
            FROM matchups WHERE arena = %(arena)s
            """,
            values,
        )
        connection.execute(
            f"""
            INSERT INTO events_b{bucket} (arena, position, at, kind, source, serial, session, a, b, prompt, outcome)
            SELECT d.arena, d.position, d.at, 1, d.source, d.serial, m.session, m.a, m.b, m.prompt, d.outcome
            FROM endings d JOIN matchups m USING (arena, source, serial) WHERE d.arena = %(arena)s
            """,
            values,
        )
    close_window(url, arena)
