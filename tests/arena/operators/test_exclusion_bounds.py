"""Votes excluded by when they were cast: from a moment on, and before another, to the microsecond."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from support.live_arenas import make_arena, voting_queue_of
from support.rewritten_logs import allow_rewriting
from support.voted_arenas import cast
from tiltyard.arena.log import buckets
from tiltyard.arena.log.event_log import LogKind, append_batch
from tiltyard.arena.operators import exclusions
from tiltyard.arena.operators.exclusions import VoteSelection, draft_exclusion, settle_exclusion
from tiltyard.postgres.connections import connect, open_pool

VOTES = 6
START, SECOND, INSTANT = (
    datetime(2026, 3, 1, 12, tzinfo=UTC),
    timedelta(seconds=1),
    timedelta(microseconds=1),
)
THIRD = START + 3 * SECOND


async def six_votes(url, queue):
    """The first is cast at the start, each of the others a second later."""
    await cast(queue, VOTES, voters=1)
    with connect(url) as connection:
        allow_rewriting(connection)
        for table in ("events", "endings"):
            connection.execute(
                f"UPDATE {table} AS t SET at = %(start)s + (v.k - 1) * interval '1 second' "
                f"FROM (SELECT position, row_number() OVER (ORDER BY position) AS k FROM {table} WHERE kind = 1) v "
                "WHERE t.position = v.position",
                {"start": START},
            )


SELECTED = (
    (VoteSelection(until=THIRD), [0, 1, 2]),
    (VoteSelection(until=THIRD + INSTANT), [0, 1, 2, 3]),
    (VoteSelection(since=THIRD), [3, 4, 5]),
    (VoteSelection(since=THIRD + INSTANT), [4, 5]),
    (VoteSelection(since=START + SECOND, until=THIRD), [1, 2]),
)


@pytest.mark.parametrize("meanwhile", [False, True], ids=["before", "meanwhile"])
async def test_a_vote_of_the_very_moment_is_in_since_and_out_of_until(database, meanwhile):
    """Votes that are there when they are chosen, or that come ``meanwhile``."""
    arena = await make_arena(database, 4, 3)
    async with (
        open_pool(database, most=2) as pool,
        pool.connection() as connection,
        voting_queue_of(database, arena) as queue,
    ):
        if not meanwhile:
            await six_votes(database, queue)
        drafts = [await draft_exclusion(connection, 1, selection, "a test") for selection, _ in SELECTED]
        if meanwhile:
            assert {draft.votes for draft in drafts} == {0}
            await six_votes(database, queue)
        for draft, (selection, expected) in zip(drafts, SELECTED, strict=True):
            async with append_batch(connection, 1) as batch:
                votes = await settle_exclusion(connection, draft, batch.head + 1, batch.now)
                batch.add(LogKind.EXCLUDE, detail={"exclusion": draft.exclusion})
            found = await connection.execute(
                "SELECT at FROM excluded_votes JOIN endings USING (arena, source, serial) "
                "WHERE exclusion = %s ORDER BY at",
                (draft.exclusion,),
            )
            chosen = [(at - START) // SECOND for (at,) in await found.fetchall()]
            assert (chosen, votes) == (expected, len(expected)), selection


class _Counted:
    """A connection whose every statement returns 1."""

    async def execute(self, *_):
        return self

    async def fetchone(self):
        return (1,)


@pytest.mark.parametrize(
    ("heads", "upto"),
    [
        ([1_000, 1_000], 1_000),
        ([1_000, 1_200], 1_200),
        ([1_000, 1_201, 1_201], 1_201),
        ([1_000, 2_000, 2_300, 2_310], 2_310),
        ([0, 1_000, 2_000, 3_000, 4_000, 5_000], 5_000),
    ],
    ids=["quiet", "close enough", "one too many", "twice", "five rounds at most"],
)
def test_a_draft_follows_the_log_before_the_lock_is_taken(monkeypatch, heads, upto):
    """Only what comes after is left for the arena's lock."""
    left = iter(heads)

    async def read_log_head(*_):
        return next(left)

    monkeypatch.setattr(exclusions, "read_log_head", read_log_head)

    async def find_statement(*_):
        return "SELECT 1"

    monkeypatch.setattr(buckets, "find_statement", find_statement)
    draft = asyncio.run(draft_exclusion(_Counted(), 1, VoteSelection(source=0), "a test"))
    assert (draft.upto, list(left)) == (upto, [])
