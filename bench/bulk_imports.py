"""Past votes, or answers, into an arena beside a rater and a voter; then a replay of its log.

`python bench/bulk_imports.py --home DIR --votes 1000000`, or `--answers 100000`.

Votes are a Parquet file on 20 models × 100 prompts; answers are those of 100 models to new prompts, 2 kB each. The voter
requests and casts vote after vote on the event loop of the import, as in a web process that an operator uploads to.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import resource
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "tests")]

from arena_servers import House, database, serving  # noqa: E402
from support.live_arenas import made_arena, voting_queue_of  # noqa: E402
from tiltyard.arena.content.answer_import import import_answers  # noqa: E402
from tiltyard.arena.content.arenas import Arena  # noqa: E402
from tiltyard.arena.content.blob_store import BlobStore  # noqa: E402
from tiltyard.arena.content.object_storage import FolderStorage  # noqa: E402
from tiltyard.arena.log.log_connection import LogConnection  # noqa: E402
from tiltyard.arena.operators.vote_import import VoteFile, import_votes  # noqa: E402
from tiltyard.arena.rating.log_replay import FoldProgress, fold_until  # noqa: E402
from tiltyard.arena.rating.rater_progress import log_head  # noqa: E402
from tiltyard.arena.secret_keys import SecretKeys  # noqa: E402
from tiltyard.arena.voting.state_loader import load_arena_state  # noqa: E402
from tiltyard.arena.voting.voter_requests import Voter  # noqa: E402
from tiltyard.arena.voting.voting_queue import VotingQueue  # noqa: E402
from tiltyard.core.battles import Kind  # noqa: E402
from tiltyard.postgres.connections import connect, open_pool  # noqa: E402

MODELS, PROMPTS, VOTES_OF_A_VOTER, ANSWERING_MODELS = 20, 100, 20, 100
#: How long the voter votes before the import.
ALONE_SECONDS = 15


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


def answers_file(path: Path, answers: int) -> Path:
    """Answers of 100 models, as long as real ones, model by model."""
    prompts = answers // ANSWERING_MODELS
    with path.open("w") as file:
        for m in range(ANSWERING_MODELS):
            for p in range(prompts):
                row = {
                    "prompt_id": f"asked-{p}",
                    "prompt": f"What about {p}? " * 10,
                    "model": f"answering-{m}",
                }
                file.write(json.dumps(row | {"response": f"The answer of {m} to {p} goes on. " * 60}) + "\n")
    return path


async def voting(queue: VotingQueue, seconds: list[float]) -> None:
    """Cast votes until cancelled; keep how long each took with its matchup."""
    while True:
        began, voter = time.perf_counter(), Voter(1 + len(seconds) // VOTES_OF_A_VOTER)
        offered = await queue.next_matchup(voter)
        await queue.vote(voter, offered.matchup, Kind.WIN_A)
        seconds.append(time.perf_counter() - began)
        await asyncio.sleep(0.1)


async def imported(house: House, arena: Arena, path: Path, *, votes: bool) -> None:
    async with open_pool(house.url, most=4) as pool, voting_queue_of(house.url, arena) as queue:
        for bring in (False, True):
            cycles: list[float] = []
            voter = asyncio.create_task(voting(queue, cycles))
            began, used = time.perf_counter(), time.process_time()
            if not bring:
                await asyncio.sleep(ALONE_SECONDS)
            elif votes:
                done = (
                    await import_votes(pool, SecretKeys(["k" * 40]), "arena", VoteFile(path, path.name))
                ).added
            else:
                blobs = BlobStore(pool, FolderStorage(path.parent / "responses"))
                done = (await import_answers(pool, blobs, "arena", path)).responses
            whole, used = time.perf_counter() - began, time.process_time() - used
            voter.cancel()
            quantiles = np.quantile(cycles, [0.5, 0.99, 1])
            print(
                f"{'beside the import' if bring else 'before it'}: a matchup and its vote take {quantiles[0]:.3f} s"
                f" (median), 99 %: {quantiles[1]:.3f} s, longest {quantiles[2]:.3f} s, of {len(cycles)}"
            )
    print(
        f"{done:,} in {whole:.0f} s, {done / whole:,.0f} a second; {1e6 * used / done:.0f} µs of Python's CPU each"
    )
    print(
        f"memory of this process at most {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MB"
    )


def replay(house: House, arena: Arena) -> None:
    """What a replay from zero costs a rater, and a web process that has no checkpoint."""
    with connect(house.url) as connection:
        head = log_head(connection, arena.arena)
        began = time.process_time()
        fold_until(connection, arena.arena, FoldProgress(), head, 0)
        print(f"replay of {head:,} events: {time.process_time() - began:.1f} s of CPU in a rater", end=", ")
        connection.execute("DELETE FROM checkpoints")

    async def load() -> None:
        async with open_pool(house.url, most=2) as pool:
            await load_arena_state(LogConnection(pool, arena.arena), arena.settings)

    began = time.process_time()
    asyncio.run(load())
    print(f"{time.process_time() - began:.1f} s in a web process")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--home", type=Path, required=True)
    parser.add_argument("--votes", type=int)
    parser.add_argument("--answers", type=int, default=100_000)
    asked = parser.parse_args()
    asked.home.chmod(0o755)
    with database(asked.home / "home") as house, serving(house, web=0):
        arena = made_arena(house.url, MODELS, PROMPTS)
        if asked.votes:
            path = votes_file(asked.home / "votes.parquet", asked.votes)
        else:
            path = answers_file(asked.home / "answers.jsonl", asked.answers)
        asyncio.run(imported(house, arena, path, votes=bool(asked.votes)))
        replay(house, arena)


if __name__ == "__main__":
    main()
