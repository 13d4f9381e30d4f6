"""The database itself refuses to rewrite a log, unless the transaction has written an audit entry."""

import asyncio

import psycopg
import pytest

from support.live_arenas import make_arena
from support.voted_arenas import lay_votes
from tiltyard.arena.log.rewrite_permits import permit_rewriting
from tiltyard.postgres.connections import connect, connect_async

TABLES = ("events", "matchups", "endings")
#: The partitioned table, the bucket's partition and its first range.
LEVELS = ("{}", "{}_b1", "{}_b1_0")


@pytest.fixture
def arena(database):
    made = asyncio.run(make_arena(database, 3, 2))
    lay_votes(database, made.arena, 10, 3, 2)
    return made


def refused(connection, text):
    with pytest.raises(psycopg.errors.InsufficientPrivilege, match="append-only"):
        connection.execute(text)


@pytest.mark.parametrize("level", LEVELS)
def test_rows_are_neither_changed_nor_deleted(database, arena, level):
    with connect(database) as connection:
        count = [connection.execute(f"SELECT count(*) FROM {table}").fetchone() for table in TABLES]
        for table in TABLES:
            refused(connection, f"DELETE FROM {level.format(table)}")
            refused(connection, f"TRUNCATE {level.format(table)}")
        refused(connection, f"UPDATE {level.format('events')} SET detail = NULL WHERE position = 1")
        refused(connection, f"UPDATE {level.format('matchups')} SET session = 7 WHERE serial = 0")
        refused(connection, f"UPDATE {level.format('matchups')} SET ballot = 1, a = a + 1 WHERE serial = 0")
        assert count == [connection.execute(f"SELECT count(*) FROM {table}").fetchone() for table in TABLES]


def test_an_undo_may_change_what_it_needs(database, arena):
    with connect(database) as connection:
        changed = connection.execute(
            "UPDATE matchups SET ballot = ballot + 1, expires_at = now(), unseen = false WHERE serial < 3"
        )
        assert changed.rowcount == 3


def test_partitions_that_are_created_later_are_guarded_too(database, arena):
    asyncio.run(make_arena(database, 2, 2, name="other"))
    with connect(database) as connection:
        unguarded = connection.execute(
            "SELECT relid FROM unnest(ARRAY['events', 'matchups', 'endings']) AS root, "
            "LATERAL pg_partition_tree(root::regclass) WHERE (SELECT count(*) FROM pg_trigger "
            "WHERE tgrelid = relid AND tgname IN ('append_only', 'never_truncated') AND tgenabled = 'O') <> 2"
        ).fetchall()
        assert unguarded == []


def test_a_transaction_with_an_audit_entry_may(database, arena):
    async def scene():
        async with await connect_async(database) as connection:
            async with connection.transaction():
                await permit_rewriting(connection, arena.arena, "cli", "erase session", {"why": "law"})
                changed = await connection.execute("UPDATE events SET detail = '{}' WHERE kind = 1")
            # The permission ends with the transaction.
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                await connection.execute("UPDATE events SET detail = NULL WHERE kind = 1")
            return changed.rowcount

    assert asyncio.run(scene()) == 10
    with connect(database) as connection:
        entry = "SELECT actor, action, detail FROM audit ORDER BY entry DESC LIMIT 1"
        assert connection.execute(entry).fetchone() == ("cli", "erase session", {"why": "law"})


@pytest.mark.parametrize("entry", ["", "0", "1", "999999"])
def test_an_entry_of_another_transaction_is_no_permission(database, arena, entry):
    with connect(database) as connection, connection.transaction(force_rollback=True):
        connection.execute("SELECT set_config('tiltyard.audit_entry', %s, true)", (entry,))
        refused(connection, "DELETE FROM events")
