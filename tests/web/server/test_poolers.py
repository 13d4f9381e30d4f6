"""A web process behind a real PgBouncer in transaction mode: everything works, and nothing is left in shared sessions."""

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import chain

import httpx2
import psycopg
import pytest

from support.bouncers import bouncer
from support.live_arenas import answers_file, made_arena
from support.served import make_token, served
from support.serving_process import running
from tiltyard.arena.registry import check_database
from tiltyard.errors import BadOption
from tiltyard.postgres.connections import connect, connect_async
from tiltyard.settings.arena_settings import ArenaSettings

#: Fewer than the pool of a web process has, so that sessions are shared.
SHARED_SESSION_COUNT = 2
#: What statements of ours set for their own transaction.
SETTINGS = (
    "lock_timeout",
    "statement_timeout",
    "idle_in_transaction_session_timeout",
    "plan_cache_mode",
    "synchronous_commit",
    "enable_nestloop",
    "default_transaction_isolation",
    "search_path",
)
ASK = "/api/v1/arenas/arena/matchups"


@pytest.fixture
def pooler(database):
    with bouncer(database, "transaction", size=SHARED_SESSION_COUNT) as url:
        yield url


def sessions_of(pooler):
    """What each of the pooler's sessions has kept: settings, prepared statements, advisory locks."""
    with connect(pooler) as one, connect(pooler) as other, one.transaction(), other.transaction():
        found = {}
        for connection in (one, other):
            pid = connection.execute("SELECT pg_backend_pid()").fetchone()
            found[pid] = (
                [connection.execute(f"SHOW {name}").fetchone()[0] for name in SETTINGS],
                connection.execute("SELECT statement FROM pg_prepared_statements").fetchall(),
                connection.execute(
                    "SELECT classid, objid FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()"
                ).fetchall(),
            )
    assert len(found) == SHARED_SESSION_COUNT
    return found


def vote_and_undo(client, votes):
    """A voter who changes a vote now and then; the votes that stand."""
    cast = []
    for k in range(votes):
        matchup = client.post(ASK).raise_for_status().json()["matchup"]
        path = f"/api/v1/matchups/{matchup}"
        ballot = 0
        if k % 3 == 0:
            client.post(f"{path}/vote", json={"winner": "tie"}).raise_for_status()
            ballot = client.post(f"{path}/undo", json={}).raise_for_status().json()["ballot"]
        ended = client.post(f"{path}/vote", json={"winner": "model_a", "ballot": ballot}).raise_for_status()
        assert client.put(f"{path}/remark", json={"tags": ["clear"]}).status_code == 204
        cast.append(ended.json()["position"])
    return cast


def test_voters_share_the_sessions_of_a_pooler_and_leave_nothing_in_them(database, pooler):
    made_arena(database, settings=ArenaSettings(undo_seconds=60.0))
    before = sessions_of(pooler)
    with served(database, pooler=pooler) as site:
        voters = [site.client() for _ in range(8)]
        with ThreadPoolExecutor(8) as threads:
            cast = [*threads.map(lambda client: vote_and_undo(client, 9), voters)]
        admin = site.client(make_token(database, "admin"))
        assert admin.get("/api/v1/arenas/arena/exclusions").status_code == 200
        (session,) = {row[0] for row in stored_votes(database) if row[1] == cast[0][0]}
        reason = {"sessions": [session], "reason": "a test"}
        assert admin.post("/api/v1/arenas/arena/exclusions", json=reason).json()["votes"] == 9
        assert voters[0].get("/arenas/arena/mine").status_code == 200
    assert sorted(position for _, position in stored_votes(database)) == sorted(chain(*cast))
    assert [*sessions_of(pooler).values()] == [*before.values()]


def stored_votes(database):
    with connect(database) as connection:
        return connection.execute(
            "SELECT m.session, e.position FROM endings e JOIN matchups m USING (arena, source, serial) "
            "WHERE e.kind = 1 AND e.undone IS NULL"
        ).fetchall()


@pytest.mark.parametrize("pooled", [True, False])
def test_statements_are_prepared_only_where_sessions_are_not_shared(pooler, pooled):
    """Why a pool must be told of the pooler: what is prepared is in one session, and the next statement in another."""

    async def scene():
        async with await connect_async(pooler, pooled=pooled) as one, await connect_async(pooler) as other:
            for _ in range(8):
                await one.execute("SELECT %s::integer", (1,))
            async with other.transaction():
                await other.execute("SELECT 1")
                await one.execute("SELECT %s::integer", (1,))

    if pooled:
        asyncio.run(scene())
    else:
        with pytest.raises(psycopg.errors.InvalidSqlStatementName):
            asyncio.run(scene())


@pytest.mark.slow
def test_serve_imports_rates_and_publishes_with_two_addresses(database, pooler, tmp_path):
    made_arena(database)
    answers = answers_file(tmp_path / "more.jsonl", 4, 6)
    variables = {"TILTYARD_SESSION_DATABASE_URL": database}
    with running(tmp_path, answers, "--port", 0, database=pooler, variables=variables) as serving:
        serving.wait_for("Ctrl-C")
        assert "24 new responses" in serving.said
        with httpx2.Client(base_url=serving.url, timeout=60) as client:
            for _ in range(6):
                matchup = client.post(ASK).json()["matchup"]
                body = {"winner": "model_b", "reveal": True}
                assert client.post(f"/api/v1/matchups/{matchup}/vote", json=body).status_code == 200
            assert client.get("/readyz").status_code == 200
            end = time.monotonic() + 120
            while (board := client.get("/api/v1/arenas/arena/board")).status_code == 404 or not board.json()[
                "votes"
            ]:
                assert time.monotonic() < end, "no board arrived"
                time.sleep(0.1)
            vote_and_undo(client, 3)
        with connect(database) as connection:
            names = connection.execute(
                "SELECT application_name, count(*) FROM pg_stat_activity WHERE datname = current_database() "
                "AND application_name LIKE 'tiltyard%%' GROUP BY 1"
            ).fetchall()
        counts = dict(names)
        assert counts["tiltyard boards"] == counts["tiltyard lease"] == 1
        assert counts.get("tiltyard web", 0) <= SHARED_SESSION_COUNT
        assert serving.stop() == 0


def test_a_pooler_before_another_database_is_refused(server, database, pooler):
    check_database(database, pooler)
    with bouncer(server, "transaction") as elsewhere, pytest.raises(BadOption, match="different databases"):
        check_database(database, elsewhere)
