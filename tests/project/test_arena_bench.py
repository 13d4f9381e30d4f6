"""The benchmarks of the arena, at a tiny size: what they seed is a log like any other, and what they measure adds up."""

import asyncio
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import psycopg
import pytest

from support.live_arenas import voting_queue_of
from tiltyard.arena.log.event_log import LogKind
from tiltyard.arena.log.log_columns import read_columns
from tiltyard.arena.voting.voter_requests import Voter
from tiltyard.core.battles import Kind
from tiltyard.postgres.connections import connect

BENCH = Path(__file__).parents[2] / "bench"


@pytest.fixture(autouse=True)
def _bench_on_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCH))


@pytest.mark.slow
def test_a_seeded_log_is_dense_in_order_and_whole(database: str) -> None:
    """Every matchup was served once and voted on once, later than it was served and at its own position."""
    import arena_seed

    arena = asyncio.run(arena_seed.make_arena(database, 5, 8))
    seeded = arena_seed.seed_log(database, arena, 5, 8, 700)
    with connect(database) as connection:
        log = read_columns(connection, arena.arena, 0)
        endings = _all(connection, "SELECT serial, position, outcome FROM endings ORDER BY serial")
        matchups = _all(connection, "SELECT serial, position, a, b, prompt FROM matchups ORDER BY serial")
    assert log.position.tolist() == list(range(1, seeded.head + 1))
    assert (np.diff(log.at) >= 0).all()
    votes, served = log.kind == LogKind.VOTE, log.kind == LogKind.SERVED
    assert votes.sum() == served.sum() == 700
    order = np.argsort(log.serial[votes])
    assert log.serial[votes][order].tolist() == list(range(700))
    assert [row[1] for row in endings] == log.position[votes][order].tolist()
    assert [row[2] for row in endings] == log.outcome[votes][order].tolist()
    assert [row[1] for row in matchups] == log.position[served].tolist()
    assert (log.position[votes][order] > log.position[served]).all()
    assert [row[2:] for row in matchups] == list(
        zip(log.a[served].tolist(), log.b[served].tolist(), log.prompt[served].tolist(), strict=True)
    )


def test_a_queue_continues_from_a_seeded_log(database: str) -> None:
    import arena_seed

    arena = asyncio.run(arena_seed.make_arena(database, 4, 6))
    seeded = arena_seed.seed_log(database, arena, 4, 6, 300)

    async def one_more() -> int:
        async with voting_queue_of(database, arena) as queue:
            assert queue.state is not None
            assert queue.state.standings[0].votes == 300
            offered = await queue.next_matchup(Voter(1))
            return (await queue.vote(Voter(1), offered.matchup, Kind.WIN_A)).position

    assert asyncio.run(one_more()) == seeded.head + 2


@pytest.fixture
def home() -> Iterator[Path]:
    """A folder that the account which runs PostgreSQL can reach: pytest's own are closed to it."""
    with tempfile.TemporaryDirectory(prefix="tiltyard-bench-") as folder:
        Path(folder).chmod(0o755)
        yield Path(folder) / "home"


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="CPU time of other processes is read from /proc")
def test_load_is_measured_beside_pgbench(home: Path) -> None:
    """Both kinds of load are answered without a refusal, and every group of processes is seen working."""
    import arena_load

    settings = arena_load.LoadSettings(
        models=4,
        prompts=6,
        battles=50,
        seconds=2.0,
        repeats=1,
        connections=4,
        bare_clients=2,
        rater=False,
        votes_a_second=400,
        bare_votes_a_second=2_000,
    )
    found = arena_load.measure(home, settings)
    for kind, measured in found.items():
        (seen,) = measured.seen
        assert seen.requests["vote"] > 0, kind
        assert not seen.refused, kind
        assert measured.bare[0].rate > 0, kind
        assert measured.bare[0].failed == 0, kind
        assert measured.cpu[0]["web"] > 0, kind
    assert found["cycle"].seen[0].requests["matchup"] >= found["cycle"].seen[0].requests["vote"]
    text = arena_load.table(found, settings)
    assert "| share |" in text


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="memory of other processes is read from /proc")
def test_a_hold_reports_memory_and_latency_as_it_goes(home: Path) -> None:
    import arena_hold

    settings = arena_hold.HoldSettings(
        models=4, prompts=6, battles=300, seconds=4.0, every=1.0, connections=4
    )
    held = arena_hold.hold(home, settings)
    assert len(held.seen) == len(held.memory) == len(held.behind) >= 3
    assert all(mib > 0 for memory in held.memory for mib in memory.values())
    assert sum(seen.requests.get("vote", 0) for seen in held.seen) > 0
    assert held.checkpoint_bytes > 0
    assert not any(seen.refused for seen in held.seen)
    assert "From the middle third to the last" in arena_hold.page(held, settings)


def test_all_kinds_of_garbage_are_whole_requests() -> None:
    """Each is one request whose body has the stated length, so that the next one on its connection is read."""
    import garbage_clients

    orders = garbage_clients.CrowdOrders(
        "garbage", 1, "arena", 1.0, 1, cookies=("tiltyard_session=a.b",), foreign=("0-x",)
    )
    garbage = garbage_clients.Garbage(orders, 1)
    for kind, make in garbage_clients.GARBAGE_KINDS.items():
        head, _, body = make(garbage).partition(b"\r\n\r\n")
        line, *headers = head.decode().split("\r\n")
        assert line.endswith(" HTTP/1.1"), kind
        stated = dict(header.split(": ", 1) for header in headers)
        assert int(stated.get("Content-Length", 0)) == len(body), kind
    assert {garbage.draw()[0] for _ in range(1_000)} == set(garbage_clients.GARBAGE_KINDS)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="memory of other processes is read from /proc")
def test_honest_voters_vote_beside_garbage(home: Path) -> None:
    import garbage_load

    settings = garbage_load.GarbageSettings(
        rate=100.0,
        seconds=6.0,
        honest=6,
        connections=60,
        slow=10,
        sessions=20,
        models=4,
        prompts=6,
        battles=50,
        reading=(0.5, 1.5),
    )
    found = garbage_load.flood(home, settings)
    assert found.honest.answers["vote 200"] > 0
    assert found.honest.refused == []
    assert {key.rpartition(" ")[0] for key in found.garbage.answers} >= {"forged cookie", "unknown path"}
    assert not [key for key in found.garbage.answers if key.endswith(" 500")]
    assert found.rows["complaints"][0] == found.rows["complaints"][1]
    assert "| honest votes refused | 0 |" in garbage_load.page(found, settings)


def _all(connection: psycopg.Connection, query: str) -> list[tuple[int, ...]]:
    return connection.execute(query.encode()).fetchall()
