"""What benchmarks of the arena seed is a log like any other."""

import asyncio
from pathlib import Path

import pytest

from support.live_arenas import voting_queue_of
from tiltyard.arena.voting.voter_requests import Voter
from tiltyard.core.battles import Kind

BENCH = Path(__file__).parents[2] / "bench"


@pytest.fixture(autouse=True)
def _bench_on_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCH))


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
