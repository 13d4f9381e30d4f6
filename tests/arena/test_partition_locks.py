"""Statements of one arena look at the partitions of that arena only, however many there are."""

import asyncio
import re
from collections import Counter
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest

from live_arenas import make_arena
from postgres_servers import fresh_database
from tiltyard.arena.content.answer_import import create_arena
from tiltyard.arena.rating.rater_lag import read_rater_lags
from tiltyard.postgres.connections import connect, open_pool
from tiltyard.postgres.schema_migrations import migrate, use_custom_plans
from tiltyard.postgres.statements import arena_statement, statement, statements

ARENAS = 12
#: An arena in the middle, whose partitions are neither the first nor the last.
ARENA = 6
_PARTITIONED = re.compile(r"\b(events|matchups|endings|battles)\b")
_PARAMETER = re.compile(r"%\((\w+)\)s")
#: What backups ask of all arenas at once, as `pg_dump` beside them does.
_OF_ALL = {"backup_heads", "backup_counts"}
_MOMENT = datetime(2026, 1, 1, tzinfo=UTC)
VALUES = {
    "after": 0,
    "all": False,
    "arena": ARENA,
    "as_of": 10,
    "at": _MOMENT,
    "ballot": 0,
    "before": 10,
    "blind": True,
    "comment": None,
    "counted": False,
    "days": 7,
    "excluded": False,
    "exclusion": 1,
    "exclusions": [1],
    "expires_at": _MOMENT,
    "final": _MOMENT,
    "first": 0,
    "kind": 1,
    "latest": True,
    "limit": 10,
    "longest": timedelta(days=1),
    "matchup": uuid4(),
    "matchups": [uuid4()],
    "model": 0,
    "models": [0, 1],
    "most": 10,
    "name": "model-0",
    "now": _MOMENT,
    "offset": 0,
    "outcome": 0,
    "position": 1,
    "prompt": 0,
    "prompts": [0],
    "responses": [1],
    "serial": 0,
    "serials": [0],
    "session": 1,
    "sessions": [1],
    "since": _MOMENT,
    "source": 0,
    "sources": [0],
    "stop": 10,
    "tags": [],
    "timezone": "UTC",
    "undo_seconds": 10.0,
    "undone": None,
    "until": _MOMENT,
    "upto": 10,
    "vote": 1,
    "within": 10.0,
}
#: Rows that are added, as arrays.
ROWS = {
    "a": [0],
    "b": [1],
    "blind": [True],
    "detail": [None],
    "expires_at": [_MOMENT],
    "given_up": [0],
    "kind": [1],
    "lane": [0],
    "matchup": [uuid4()],
    "nominal": [0],
    "outcome": [0],
    "position": [99],
    "prompt": [0],
    "propensity": [0.5],
    "reason": ["x"],
    "response_a": [1],
    "response_b": [2],
    "serial": [9],
    "session": [1],
    "source": [0],
    "undone": [None],
}


@pytest.fixture(scope="module")
def many(server):
    """Many arenas in a database that was made as an operator makes one."""

    async def make(url):
        async with open_pool(url, most=2) as pool:
            for number in range(1, ARENAS + 1):
                if number == ARENA:
                    await make_arena(url, 3, 2, name="middle")
                else:
                    await create_arena(pool, f"arena-{number}")

    with fresh_database(server) as url:
        migrate(url)
        asyncio.run(make(url))
        yield url


def named():
    return sorted(name for name, text in statements().items() if _PARTITIONED.search(text))


def elsewhere(connection):
    """Locks of this session on partitions of other arenas."""
    found = connection.execute(
        "SELECT c.relname FROM pg_locks l JOIN pg_class c ON c.oid = l.relation "
        "WHERE l.pid = pg_backend_pid() AND c.relname ~ '^(events|matchups|endings)_[0-9]+(_|$)'"
    ).fetchall()
    return Counter(name for (name,) in found if name.split("_")[1] != str(ARENA))


def test_the_role_plans_statements_for_the_arena_that_they_name(many):
    """So that it holds behind a pooler too: what a client sets in its session may reach another one."""
    with connect(many) as connection:
        assert connection.execute("SHOW plan_cache_mode").fetchone() == ("force_custom_plan",)
        use_custom_plans(connection)


@pytest.mark.parametrize("name", sorted(set(named()) - _OF_ALL))
def test_a_statement_locks_no_partition_of_another_arena(many, name):
    text = statement(name)
    wanted = set(_PARAMETER.findall(text))
    assert "arena" in wanted, f"{name} looks at every arena: let it name one, or add it to those that may"
    values = VALUES | (ROWS if text.startswith("INSERT INTO") and "unnest" in text else {})
    with connect(many) as connection:
        for _ in range(12):
            with connection.transaction(force_rollback=True):
                if text.startswith("COPY"):
                    with connection.cursor().copy(text, values) as copy:
                        list(copy)
                else:
                    connection.execute(text, {key: values[key] for key in wanted})
                assert not elsewhere(connection), text


@pytest.mark.parametrize(
    "name",
    ["log_head", "log_tail", "log_ending", "log_undo", "log_reopen", "log_reveal", "log_replace_ending"],
)
def test_cached_plans_of_a_queue_lock_no_partition_of_another_arena(many, name):
    with connect(many) as connection:
        connection.execute("SET plan_cache_mode = auto")
        for _ in range(20):
            with connection.transaction():
                connection.execute(arena_statement(name, ARENA), VALUES)
                assert not elsewhere(connection)
        kept = connection.execute("SELECT max(generic_plans) FROM pg_prepared_statements").fetchone()
        assert kept[0] > 5


def test_how_far_raters_are_is_read_arena_by_arena(many):
    with connect(many) as connection, connection.transaction():
        assert [lag.arena for lag in read_rater_lags(connection)] == sorted(
            ["middle", *(f"arena-{number}" for number in range(1, ARENAS + 1) if number != ARENA)]
        )
        assert all(lag.head > 0 for lag in read_rater_lags(connection))
