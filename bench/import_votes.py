"""Past votes into an arena beside a rater and a voter: `python bench/import_votes.py --home DIR --votes 1000000`.

The file is Parquet, of 20 models × 100 prompts. The voter requests and casts vote after vote in this process; how long
each takes includes what Python's lock costs it.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import threading
import time
from pathlib import Path
from typing import Self

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "tests")]

from arena_servers import House, database, serving  # noqa: E402
from support.live_arenas import made_arena, voting_queue_of  # noqa: E402
from tiltyard.arena.content.arenas import Arena  # noqa: E402
from tiltyard.arena.operators.vote_import import VoteFile, import_votes  # noqa: E402
from tiltyard.arena.secret_keys import SecretKeys  # noqa: E402
from tiltyard.arena.voting.voter_requests import Voter  # noqa: E402
from tiltyard.core.battles import Kind  # noqa: E402
from tiltyard.postgres.connections import open_pool  # noqa: E402
from tiltyard.wire.arenas import ImportedVotes  # noqa: E402

MODELS, PROMPTS, VOTES_OF_A_VOTER = 20, 100, 20


def votes_file(path: Path, votes: int) -> Path:
    """Votes at random, one a second."""
    rng = np.random.default_rng(1)
    a = rng.integers(0, MODELS, votes)
    b = (a + rng.integers(1, MODELS, votes)) % MODELS
    on, who = rng.integers(0, PROMPTS, votes), rng.integers(0, votes // VOTES_OF_A_VOTER + 1, votes)
    columns = {
        "model_a": [f"model-{k}" for k in a.tolist()],
        "model_b": [f"model-{k}" for k in b.tolist()],
        "winner": np.array(["A", "B", "TIE", "BOTH_BAD"])[rng.choice(4, votes, p=[0.4, 0.4, 0.13, 0.07])],
        "question_id": [f"prompt-{k}" for k in on.tolist()],
        "voter": [f"voter-{k}" for k in who.tolist()],
        "time": pa.array(1_700_000_000_000_000 + np.arange(votes) * 1_000_000, pa.timestamp("us", "UTC")),
    }
    pq.write_table(pa.table(columns), path)
    return path


class BusyVoter:
    """Votes in a thread until stopped, and keeps how long each cycle took."""

    def __init__(self, house: House, arena: Arena) -> None:
        self.seconds: list[float] = []
        self._house, self._arena, self._stop = house, arena, threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._vote()))

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    async def _vote(self) -> None:
        async with voting_queue_of(self._house.url, self._arena) as queue:
            while not self._stop.is_set():
                began, voter = time.perf_counter(), Voter(1 + len(self.seconds) // VOTES_OF_A_VOTER)
                offered = await queue.next_matchup(voter)
                await queue.vote(voter, offered.matchup, Kind.WIN_A)
                self.seconds.append(time.perf_counter() - began)
                await asyncio.sleep(0.1)


async def imported(house: House, path: Path, marks: list[float]) -> ImportedVotes:
    async with open_pool(house.url, most=2) as pool:
        file = VoteFile(path, path.name)
        return await import_votes(
            pool,
            SecretKeys(["k" * 40]),
            "arena",
            file,
            progress=lambda _done, _total: marks.append(time.perf_counter()),
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--home", type=Path, required=True)
    parser.add_argument("--votes", type=int, default=1_000_000)
    asked = parser.parse_args()
    asked.home.chmod(0o755)
    with database(asked.home / "home") as house, serving(house, web=0):
        path = votes_file(asked.home / "votes.parquet", asked.votes)
        arena, marks = made_arena(house.url, MODELS, PROMPTS), []
        with BusyVoter(house, arena) as voter:
            began, used = time.perf_counter(), time.process_time()
            result = asyncio.run(imported(house, path, marks))
            whole, used = time.perf_counter() - began, time.process_time() - used
        cycles = np.array(voter.seconds)
    print(f"{result.added:,} votes in {whole:.0f} s: read and checked in {marks[0] - began:.0f} s")
    print(
        f"{result.added / whole:,.0f} votes a second; {1e6 * used / result.added:.0f} µs of Python's CPU a vote"
    )
    print(
        f"a matchup and its vote meanwhile: median {np.median(cycles):.2f} s, 99 %: {np.quantile(cycles, 0.99):.2f} s"
    )


if __name__ == "__main__":
    main()
