"""Simulated voters against a live server: `python bench/arena_lab.py --out docs/evidence/data/live-lab.md`.

For each seed, simulated voters vote through the API of a separate `tiltyard serve`, with two web
processes and a rater. Then its log is folded again by the pure functions and compared, and the same world is
simulated without a server: with ratings updated every few votes, and as rarely as in the arena.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
import tempfile
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from statistics import mean, median

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "tests"), str(HERE.parent / "tests" / "lab")]

from arena_servers import database  # noqa: E402
from support.driven import compared, driven  # noqa: E402
from tiltyard.simulation.simulated_arena import SimulationSettings, simulate  # noqa: E402
from tiltyard.simulation.worlds import WorldSettings  # noqa: E402

#: Votes between looks at the ratings in `tiltyard simulate`.
OFTEN = 10


@dataclass(frozen=True)
class Run:
    """One seed."""

    seed: int
    votes: int
    events: int
    rate: float
    lag_median: float
    lag_mean: float
    lag_most: int
    #: Votes at which the board became official: live, simulated, and simulated with the live lag.
    official: int | None
    simulated: int | None
    simulated_lagging: int | None
    rank_every: int
    boards: int
    digests: tuple[str, ...]
    snapshot: str


def run(seed: int, votes: int, settings: WorldSettings, voters: int, snapshot_seconds: float) -> Run:
    with tempfile.TemporaryDirectory(prefix="tiltyard-lab-") as folder:
        home = Path(folder)
        home.chmod(0o755)
        with database(home / "home") as house:
            found = driven(
                house.url,
                home / "home",
                settings,
                votes=votes,
                seed=seed,
                voters=voters,
                snapshot_seconds=snapshot_seconds,
            )
            same = compared(house.url, found)
    arena = SimulationSettings(world=settings, votes=votes, sessions=voters, rank_every=OFTEN)
    # Looked at every n votes, ratings are n/2 votes old on average.
    rank_every = max(round(2 * mean(found.lags)), 1)
    return Run(
        seed=seed,
        votes=same.votes,
        events=same.events,
        rate=votes / found.seconds,
        lag_median=median(found.lags),
        lag_mean=mean(found.lags),
        lag_most=max(found.lags),
        official=same.official_at,
        simulated=simulate(arena, seed).official_at,
        simulated_lagging=simulate(replace(arena, rank_every=rank_every), seed).official_at,
        rank_every=rank_every,
        boards=same.boards,
        digests=same.digests,
        snapshot=same.snapshot,
    )


def shown(votes: int | None) -> str:
    return "not by then" if votes is None else f"{votes:,}"


def table(runs: list[Run]) -> str:
    rows = [
        "| seed | votes | events | votes/s | official at | simulated | simulated, as seldom | lag: median | mean | most |",
        "|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|",
    ]
    rows += [
        f"| {one.seed} | {one.votes:,} | {one.events:,} | {one.rate:.0f} | {shown(one.official)} | "
        f"{shown(one.simulated)} | {shown(one.simulated_lagging)} (every {one.rank_every}) | "
        f"{one.lag_median:.0f} | {one.lag_mean:.0f} | {one.lag_most} |"
        for one in runs
    ]
    return "\n".join(rows)


def digests(runs: list[Run]) -> str:
    rows = ["| seed | standing, people | standing, judges | last board |", "|--:|:--|:--|:--|"]
    rows += [
        f"| {one.seed} | `{one.digests[0][:16]}` | `{one.digests[1][:16]}` | `{one.snapshot[:16]}` |"
        for one in runs
    ]
    return "\n".join(rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--votes", type=int, default=5_000)
    parser.add_argument("--models", type=int, default=20)
    parser.add_argument("--prompts", type=int, default=100)
    parser.add_argument("--voters", type=int, default=16)
    parser.add_argument("--snapshot-seconds", type=float, default=0.1)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--out", type=Path)
    parser.add_argument("--results", type=Path, help="the same as JSON")
    given = parser.parse_args()
    settings = WorldSettings(models=given.models, prompts=given.prompts)
    runs = []
    for seed in given.seeds:
        runs.append(run(seed, given.votes, settings, given.voters, given.snapshot_seconds))
        print(table(runs), flush=True)
        if given.results is not None:
            given.results.write_text(json.dumps([asdict(one) for one in runs], indent=1) + "\n")
    if given.out is not None:
        given.out.write_text(page(runs, given))


def page(runs: list[Run], given: argparse.Namespace) -> str:
    day = datetime.now(UTC).date()
    reached = [given.votes + 1 if one.official is None else one.official for one in runs]
    bare = [given.votes + 1 if one.simulated is None else one.simulated for one in runs]
    return PAGE.format(
        day=day,
        given=given,
        seeds=len(runs),
        table=table(runs),
        digests=digests(runs),
        official=median(reached),
        simulated=median(bare),
        later=median(live - simulated for live, simulated in zip(reached, bare, strict=True)),
        lag=median(one.lag_median for one in runs),
        machine=f"{platform.system()} {platform.machine()}",
    )


PAGE = """# The live lab, measured

{day}, by `python bench/arena_lab.py`: {given.models} models, {given.prompts} prompts and {given.votes:,} votes, {seeds} fixed seeds, on two cores shared with other work ({machine}). The world is that of [the policy](policy.md), whose voters here come to the door of a real server: `tiltyard serve` with two web processes, a rater and PostgreSQL 18. {given.voters} of them at a time ask for a matchup, fetch both responses, decide by what they read there, and vote. No name reaches them before the vote.

## When the board becomes official

{table}

Official is the third evaluation in a row, one every 250 votes, at which every rule of publication holds. The policy asks for at most 3,800 votes in the median; here it is **{official:,}**, and **{simulated:,}** in simulations of the same worlds without a server, which look at the ratings every 10 votes. In the column after it they look as seldom as the arena's matchmaker did.

## What the lag does

A matchmaker in a web process counts every event up to the one before its own: floors, exposures and sessions never lag. Its ratings are those of the last snapshot. The lag is how many votes had been acknowledged that the board did not know, at looks a quarter of a second apart: the rater's pause, the time until the next board (`snapshot_seconds` was {given.snapshot_seconds:g} here; 10 unless set) and the making of it, in votes. At the pace of people, a vote every few seconds, it is a handful; here voters are as quick as the machine.

In the median it was {lag:.0f} votes here, and the board became official {later:,} votes later than in the simulation; 250 are one evaluation, the least that can be told. How much of it is the lag's is not settled by so few worlds: the column "as seldom" shows what the lag alone does, and an arena differs in that many matchups are open at a time, too. A seed fixes the world and each voter's chances, not who comes first: another run of it may end an evaluation earlier or later.

## The same bits

For each seed, after the last vote, these were found equal:

- the state of each source, folded from the log's columns by the pure functions in one piece, and the rater's checkpoint, byte for byte (SHA-256 of the whole);
- the standing of each source in those, and in a web process that has just loaded the arena, which folds the log row by row;
- the last published board of each source, and the document that the pure functions make of the same state;
- the votes that were acknowledged to the voters, with sides, prompt, outcome and position, and the battles of the export.

{digests}

A smaller run of the same is part of the tests (`tests/lab/test_api_voters.py`).
"""


if __name__ == "__main__":
    main()
