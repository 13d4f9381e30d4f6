"""The benchmarks of the arena, at a tiny size: what they seed is a log like any other, and what they measure adds up."""

import asyncio
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import psycopg
import pytest

from live_arenas import voting_queue_of
from tiltyard.arena.log.event_log import LogKind
from tiltyard.arena.log.log_columns import read_columns
from tiltyard.arena.voting.voter_requests import Voter
from tiltyard.core.battles import Kind
from tiltyard.postgres.connections import connect

BENCH = Path(__file__).parent.parent / "bench"


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


def _all(connection: psycopg.Connection, query: str) -> list[tuple[int, ...]]:
    return connection.execute(query.encode()).fetchall()
