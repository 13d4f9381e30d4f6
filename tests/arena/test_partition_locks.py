"""A statement touches the partitions of one bucket only, whatever it does and however it is planned."""

import asyncio
import re
from collections import Counter
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest

from support.live_arenas import make_arena
from support.postgres_servers import fresh_database
from support.rewritten_logs import allow_rewriting
from tiltyard.arena.content.answer_import import create_arena
from tiltyard.arena.log.buckets import SHARED_BUCKET_COUNT, shared_bucket
from tiltyard.arena.rating.rater_lag import read_rater_lags
from tiltyard.postgres.connections import connect, open_pool
from tiltyard.postgres.schema_migrations import migrate, use_custom_plans
from tiltyard.postgres.statements import bucket_statement, is_bucketed, statement, statements

#: Two buckets hold two arenas each.
ARENAS = 66
#: An arena in the middle, whose partitions are neither the first nor the last.
ARENA = 6
BUCKET = shared_bucket(ARENA)
#: Locks of one statement: its tables with their ranges and their indexes.
MAX_LOCKS = 60
_PARAMETER = re.compile(r"%\((\w+)\)s")
_EXPLAINABLE = re.compile(r"(SELECT|INSERT|UPDATE|DELETE|WITH|VALUES)\b")
#: Statements that cannot be planned without being executed. None of them names a table.
NOT_PLANNED = {"boards_listen", "log_begin", "log_listen", "make_migrations_table", "make_own_database"}
_MOMENT = datetime(2026, 1, 1, tzinfo=UTC)
#: Of statements' parameters, the rest of which are numbers.
VALUES = {
    "absent_since": _MOMENT,
    "all": False,
    "alone": [1],
    "arena": ARENA,
    "at": _MOMENT,
    "bucket": BUCKET,
    "blind": True,
    "category": None,
    "comment": None,
    "counted": False,
    "excluded": False,
    "exclusions": [1],
    "expires_at": _MOMENT,
    "final": _MOMENT,
    "flagged": False,
    "hidden": False,
    "hours": 24.0,
    "latest": True,
    "longest": timedelta(days=1),
    "mark": None,
    "matchup": uuid4(),
    "matchups": [uuid4()],
    "payers": [1],
    "models": [0, 1],
    "models_a": [0],
    "models_b": [1],
    "name": "model-0",
    "needle": "text",
    "now": _MOMENT,
    "no_time": -1,
    "numbers": [2],
    "open": False,
    "outcomes": [1],
    "positions": [1],
    "prompts": [0],
    "reason": "text",
    "responses": [1],
    "rises": True,
    "serials": [0],
    "sessions": [1],
    "since": _MOMENT,
    "sources": [0],
    "spoken": None,
    "tags": [],
    "times": [0],
    "timezone": "UTC",
    "turn": 0,
    "undo_seconds": 10.0,
    "undone": None,
    "unrated": False,
    "until": _MOMENT,
    "wholly": [1],
    "within": 10.0,
}
#: Rows that are added, as arrays.
ROWS = {
    "a": [0],
    "b": [1],
    "blind": [True],
    "detail": [None],
    "expires_at": [_MOMENT],
    "free_prompt": [None],
    "given_up": [0],
    "kind": [1],
    "lane": [0],
    "mark": [None],
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
    "unseen": [False],
}
#: Texts of live battles that are written and followed.
EXCHANGED = {
    "a": ["x"],
    "b": ["x"],
    "ended_a": [False],
    "ended_b": [False],
    "followed": [uuid4()],
    "from_a": [0],
    "from_b": [0],
    "has_a": [0],
    "has_b": [0],
    "matchup": [uuid4()],
    "process": 1,
    "state": [None],
}
#: Of single statements, instead of those above.
SOME = {"slots_exchange": EXCHANGED, "live_add_battle": {"category": 0}}


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


def bucketed():
    return sorted(name for name in statements() if is_bucketed(name))


def locks(connection):
    """Names of the relations that this session has locked; each one as often as it is locked."""
    found = connection.execute(
        "SELECT c.relname FROM pg_locks l JOIN pg_class c ON c.oid = l.relation "
        "JOIN pg_namespace n ON n.oid = c.relnamespace "
        "WHERE l.pid = pg_backend_pid() AND n.nspname = 'public'"
    ).fetchall()
    return [name for (name,) in found]


def elsewhere(connection):
    """Locks of this session on partitions of other buckets. The server locks the table above a partition as well."""
    names = re.compile(rf"(events|matchups|endings)_b(?!{BUCKET}(_|$))")
    return Counter(name for name in locks(connection) if names.match(name))


def test_the_role_plans_statements_for_the_arena_that_they_name(many):
    """So that it holds behind a pooler too: what a client sets in its session may reach another one."""
    with connect(many) as connection:
        assert connection.execute("SHOW plan_cache_mode").fetchone() == ("force_custom_plan",)
        use_custom_plans(connection)


def test_the_number_of_tables_does_not_grow_with_the_number_of_arenas(many):
    """Each of the three tables has 64 buckets with one range each."""
    with connect(many) as connection:
        partitions = "SELECT count(*) FROM pg_class WHERE relispartition AND relkind IN ('r', 'p')"
        assert connection.execute(partitions).fetchone() == (3 * 2 * SHARED_BUCKET_COUNT,)
        shared = "SELECT count(*) FROM arenas WHERE bucket = 1"
        assert connection.execute(shared).fetchone() == (2,)


@pytest.mark.parametrize("plans", ["force_custom_plan", "force_generic_plan"])
def test_a_statement_locks_no_partition_of_another_bucket(many, plans):
    with connect(many) as connection:
        connection.execute("SELECT set_config('plan_cache_mode', %s, false)", (plans,))
        allow_rewriting(connection)
        for name in bucketed():
            text = bucket_statement(name, BUCKET)
            wanted = set(_PARAMETER.findall(text))
            assert wanted & {"arena", "bucket"}, f"{name} reads all arenas of a bucket: let it name one"
            values = (
                dict.fromkeys(wanted, 1)
                | VALUES
                | (ROWS if text.startswith("INSERT INTO") and "unnest" in text else {})
            )
            values |= SOME.get(name, {})
            for _ in range(2):
                with connection.transaction(force_rollback=True):
                    if text.startswith("COPY"):
                        with connection.cursor().copy(text, values) as copy:
                            list(copy)
                    else:
                        connection.execute(text, {key: values[key] for key in wanted}, prepare=True)
                    assert not elsewhere(connection), text
                    assert any(f"_b{BUCKET}" in relation for relation in locks(connection)), text
                    assert len(locks(connection)) <= MAX_LOCKS, text


def test_no_other_statement_touches_a_log(many):
    """Not even by a view or a foreign key."""
    named = re.compile(r"(events|matchups|endings)(_b|$)")
    with connect(many) as connection:
        for name in sorted(set(statements()) - set(bucketed())):
            text = statement(name)
            if not _EXPLAINABLE.match(text):
                assert name in NOT_PLANNED, f"{name}: plan it here, or add it"
                continue
            with connection.transaction(force_rollback=True):
                connection.execute(f"EXPLAIN {text}", dict.fromkeys(_PARAMETER.findall(text)) or None)
                assert [relation for relation in locks(connection) if named.match(relation)] == [], text
                assert len(locks(connection)) <= MAX_LOCKS, text


def test_a_statement_on_a_log_needs_a_bucket(many):
    with pytest.raises(ValueError, match="log_tail"):
        statement("log_tail")


def test_plans_of_a_queue_are_kept(many):
    names = [
        "log_head",
        "log_tail",
        "log_ending",
        "log_undo",
        "log_reopen",
        "log_reveal",
        "log_replace_ending",
    ]
    for name in names:
        text = bucket_statement(name, BUCKET)
        with connect(many) as connection:
            connection.execute("SET plan_cache_mode = auto")
            for _ in range(20):
                with connection.transaction():
                    connection.execute(text, dict.fromkeys(_PARAMETER.findall(text), 1) | VALUES)
            kept = connection.execute("SELECT max(generic_plans) FROM pg_prepared_statements").fetchone()
            assert kept[0] > 5, name


def test_how_far_raters_are_is_read_arena_by_arena(many):
    with connect(many) as connection, connection.transaction():
        assert [lag.arena for lag in read_rater_lags(connection)] == sorted(
            ["middle", *(f"arena-{number}" for number in range(1, ARENAS + 1) if number != ARENA)]
        )
        assert all(lag.head > 0 for lag in read_rater_lags(connection))
