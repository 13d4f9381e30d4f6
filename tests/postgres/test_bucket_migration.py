"""The migration to buckets carries over every row of a database with a table for each arena."""

import asyncio

import pytest

from support.postgres_servers import fresh_database
from tiltyard.arena.content.answer_import import create_arena
from tiltyard.arena.log.event_log import LogKind, append_batch
from tiltyard.postgres.connections import connect, connect_async, open_pool
from tiltyard.postgres.schema_migrations import migrate, migrations

#: The last two share a bucket, and nothing happened in one of them.
ARENAS = (1, 2, 66)
VOTES = 20


def lay_old_arena(connection, arena, votes):
    """An arena as version 0.1 stores it: a table for each arena, with ranges."""
    connection.execute(
        "INSERT INTO arenas (arena, name, title, settings) OVERRIDING SYSTEM VALUE VALUES (%s, %s, '', '{}')",
        (arena, f"arena-{arena}"),
    )
    connection.execute("INSERT INTO raters (arena) VALUES (%s)", (arena,))
    for table, key in {"events": "position", "matchups": "serial", "endings": "serial"}.items():
        connection.execute(
            f"CREATE TABLE {table}_{arena} PARTITION OF {table} FOR VALUES IN ({arena}) PARTITION BY RANGE ({key})"
        )
        connection.execute(
            f"CREATE TABLE {table}_{arena}_0 PARTITION OF {table}_{arena} FOR VALUES FROM (0) TO (10000000)"
        )
        if arena == 1:
            connection.execute(
                f"CREATE TABLE {table}_1_1 PARTITION OF {table}_1 FOR VALUES FROM (10000000) TO (20000000)"
            )
    for serial in range(votes):
        # In the first arena the log has reached its second range.
        first = 10_000_000 if arena == 1 and serial >= votes // 2 else 0
        values = {"arena": arena, "serial": first + serial, "position": first + 2 * serial + 1}
        connection.execute(
            "INSERT INTO matchups VALUES (%(arena)s, 0, %(serial)s, gen_random_uuid(), %(position)s, 1, 0, 1, 0, 1, 2,"
            " 0, 0, 'old', 0.5, 0, now(), now(), 0)",
            values,
        )
        connection.execute(
            "INSERT INTO events (arena, position, at, kind, source, serial, detail) VALUES"
            " (%(arena)s, %(position)s, now(), 0, 0, %(serial)s, NULL),"
            " (%(arena)s, %(position)s + 1, now(), 1, 0, %(serial)s, '{\"pref\": 1}')",
            values,
        )
        connection.execute(
            "INSERT INTO endings (arena, source, serial, position, at, kind, outcome, blind)"
            " VALUES (%(arena)s, 0, %(serial)s, %(position)s + 1, now(), 1, 2, true)",
            values,
        )


def rows(connection, table, key):
    """The rows of a table, without what a later migration may change."""
    found = connection.execute(f"SELECT to_jsonb(t) FROM {table} t ORDER BY arena, {key}").fetchall()
    later = {"bucket", "matchup", "unseen", "free_prompt", "mark", "admitted"}
    return [{name: value for name, value in row.items() if name not in later} for (row,) in found]


@pytest.mark.parametrize("kind", ["server", "debian"])
def test_rows_of_every_arena_are_carried_over(kind, request):
    tables = {"events": "position", "matchups": "serial", "endings": "serial"}
    with fresh_database(request.getfixturevalue(kind)) as url:
        migrate(url, steps=[step for step in migrations() if step.name < "0007"])
        with connect(url) as connection:
            for arena in ARENAS:
                lay_old_arena(connection, arena, 0 if arena == 2 else VOTES)
            connection.execute("ALTER TABLE arenas ALTER COLUMN arena RESTART WITH 67")
            before = {table: rows(connection, table, key) for table, key in tables.items()}
        migrate(url)
        with connect(url) as connection:
            after = {table: rows(connection, table, key) for table, key in tables.items()}
            assert after == before
            assert len(after["events"]) == 4 * VOTES
            buckets = connection.execute("SELECT arena, bucket FROM arenas ORDER BY arena").fetchall()
            assert buckets == [(1, 1), (2, 2), (66, 2)]
            for table in tables:
                found = connection.execute(
                    f"SELECT DISTINCT arena, bucket FROM {table} ORDER BY 1"
                ).fetchall()
                assert found == [(1, 1), (66, 2)]
                assert connection.execute(f"SELECT count(*) FROM {table}_b1_1").fetchone() == (
                    VOTES if table == "events" else VOTES // 2,
                )
            assert connection.execute("SELECT count(*) FROM battles").fetchone() == (2 * VOTES,)
            shown = connection.execute("SELECT DISTINCT unseen FROM matchups").fetchall()
            assert shown == [(False,)], "what was served before was shown"
        assert asyncio.run(appended(url, ARENAS)) == {1: 10_000_000 + 2 * VOTES + 1, 2: 1, 66: 2 * VOTES + 1}


async def appended(url, arenas):
    """The last position of each arena after one more event, and a new arena in a bucket that exists."""
    heads = {}
    async with await connect_async(url) as connection:
        for arena in arenas:
            async with append_batch(connection, arena) as batch:
                heads[arena] = batch.add(LogKind.WIDEN, a=1, prompt=1)
    async with open_pool(url, most=2) as pool:
        assert (await create_arena(pool, "new")).arena == 67
    return heads
