"""``python -m lab.small_arenas``: what arenas of twelve people settle, against what they promised, as one page.

Also whether small arenas ever call a false order settled, and how often boards stop being official when a model arrives.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path

import numpy as np

from lab.bars import SIZES, StudyRuns
from lab.settled_studies import SettledSettings, watch_arena
from tiltyard._version import __version__
from tiltyard.core.board.cross_check import batch_ratings
from tiltyard.core.board.settled_order import LIKE_THESE, THESE, settled_orders
from tiltyard.core.policy.state.policy import Policy
from tiltyard.core.policy.validity.publication import publication_rules
from tiltyard.core.policy.validity.rules import blind_votes_of_one
from tiltyard.simulation.settling_gap import settling_gap
from tiltyard.simulation.simulated_arena import SimulatedArena, SimulationSettings
from tiltyard.simulation.studies import Study, lab_folder
from tiltyard.simulation.worlds import WorldSettings, hostile_world

PEOPLE_COUNT = 12
#: Votes of a session, after which names are told.
SESSION_VOTES = 20
#: Models and prompts of the arenas, and the worlds whose claims are false.
MODEL_AND_PROMPT_COUNT = ((3, 3), (3, 6), (3, 20))
FALSE_WORLDS = ("equal", "equal+heavy-voters", "clone")
#: The least votes between two looks at a small arena, and the votes of the first.
_EVERY_VOTES, _FIRST_LOOK_VOTES = 10, 25


@dataclass(frozen=True, slots=True)
class SmallArenaResult:
    """One arena at its end: the true difference of each two models, whether their order is settled, and false claims."""

    gaps: tuple[float, ...]
    settled: tuple[bool, ...]
    false_like_these: bool
    false_these: bool


def study_small_arena(settings: SettledSettings, seed: int) -> SmallArenaResult:
    """Run one arena, and look at it again and again."""
    arena = watch_arena(settings, seed)
    claimed = settled_orders(arena.standing, batch_ratings(arena.standing))[LIKE_THESE]
    truth = arena.truth_like_these
    one, other = np.triu_indices(len(truth), 1)
    return SmallArenaResult(
        tuple(np.abs(truth[one] - truth[other]).tolist()),
        tuple((claimed | claimed.T)[one, other].tolist()),
        arena.false[LIKE_THESE],
        arena.false[THESE],
    )


@dataclass(frozen=True, slots=True)
class StatusResult:
    """How often the status of a board changed once it had been official, and over how many votes it was watched."""

    changes: int
    votes: int


def study_status(settings: SimulationSettings, seed: int) -> StatusResult:
    """Run one arena, with a board after every tenth vote."""
    arena = SimulatedArena(settings, seed)
    statuses: list[bool] = []
    while arena.votes < settings.votes:
        before = arena.votes
        arena.step()
        if arena.votes > before and arena.votes % settings.rank_every == 0:
            official = arena.history.official and all(
                rule.holds for rule in publication_rules(arena.standing)
            )
            if official or statuses:
                statuses.append(official)
    return StatusResult(
        sum(one != other for one, other in pairwise(statuses)),
        settings.rank_every * len(statuses),
    )


_DEPENDS = ("tiltyard.core", "lab.settled_studies", "lab.small_arenas", "tiltyard.simulation")
SMALL_ARENA = Study("small-arena", 1, study_small_arena, SmallArenaResult, depends=_DEPENDS)
STATUS = Study("status", 1, study_status, StatusResult, depends=_DEPENDS)


def collected_votes(models: int, prompts: int) -> int:
    """The blind votes of twelve people, each for one session."""
    return PEOPLE_COUNT * (blind_votes_of_one([models] * prompts, SESSION_VOTES) or 0)


def small_settings(models: int, prompts: int, world: str = "") -> SettledSettings:
    """An arena of this shape in a kind world, or in a hostile one."""
    settings = WorldSettings(models, prompts)
    settings = hostile_world(world, settings) if world else settings
    votes = collected_votes(models, prompts)
    return SettledSettings(replace(settings, voters=PEOPLE_COUNT), votes, _EVERY_VOTES, _FIRST_LOOK_VOTES)


#: Arenas into which a model comes late, as it did into the demo.
STATUS_SETTINGS = {
    "10 models, 30 prompts, one more after 3,000 votes": SimulationSettings(
        WorldSettings(10, 30, newcomers=1, newcomers_after=3000), Policy(), votes=6000
    ),
    "20 models, 100 prompts, one more after 5,000 votes": SimulationSettings(
        WorldSettings(20, 100, newcomers=1, newcomers_after=5000), Policy(), votes=8000
    ),
    "3 models, 20 prompts, 12 people": SimulationSettings(
        WorldSettings(3, 20, voters=PEOPLE_COUNT), Policy(), votes=collected_votes(3, 20)
    ),
}


def promise_row(models: int, prompts: int, results: Sequence[SmallArenaResult]) -> str:
    """What was promised, and the share of pairs that settled by their true difference, in parts of the promise."""
    votes = collected_votes(models, prompts)
    gap = settling_gap(models, prompts, PEOPLE_COUNT, votes)
    gaps = np.array([gap for one in results for gap in one.gaps])
    settled = np.array([done for one in results for done in one.settled])
    cells = ["nothing settles" if gap is None else f"about {gap:.0f} points"]
    parts = ((0.0, 0.5), (0.5, 0.75), (0.75, 1.0), (1.0, 1.25), (1.25, 1.5), (1.5, np.inf))
    for low, high in parts if gap is not None else ():
        among = settled[(gaps >= low * (gap or 0.0)) & (gaps < high * (gap or 0.0))]
        cells.append(f"{among.mean():.0%} of {len(among)}" if len(among) else "–")
    if gap is None:
        cells += [f"{settled.mean():.0%} of {len(settled)} in all", *["–"] * (len(parts) - 1)]
    return f"| {models} × {prompts} | {votes} | {' | '.join(cells)} | {_false_cells(results)} |"


def false_row(models: int, prompts: int, world: str, results: Sequence[SmallArenaResult]) -> str:
    return f"| {models} × {prompts} | {world} | {_false_cells(results)} |"


def _false_cells(results: Sequence[SmallArenaResult]) -> str:
    n = len(results)
    return f"{sum(one.false_like_these for one in results)} of {n} | {sum(one.false_these for one in results)} of {n}"


def status_row(name: str, results: Sequence[StatusResult]) -> str:
    official = [one for one in results if one.votes]
    votes = sum(one.votes for one in official)
    rate = f"{1000 * sum(one.changes for one in official) / votes:.2f}" if votes else "–"
    return f"| {name} | {len(official)} of {len(results)} | {rate} |"


PROMISE_HEAD = """| models × prompts | votes | promised: nothing below | below half of it | 0.5–0.75 | 0.75–1 | 1–1.25 | 1.25–1.5 | \
above | false, prompts like these | these prompts |
|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|"""
FALSE_HEAD = "| models × prompts | world | false, prompts like these | these prompts |\n|---|---|--:|--:|"
STATUS_HEAD = "| arena | ever official | status changes per 1,000 votes since |\n|---|--:|--:|"


def main(say: Callable[[str], object] = sys.stdout.write) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--arenas", type=int, default=300, help="arenas of each kind")
    parser.add_argument("--status-arenas", type=int, default=24, help="the same, for changes of status")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--out", type=Path, help="a Markdown file")
    options = parser.parse_args()
    runs = StudyRuns(SIZES["full"], lab_folder(), options.processes, lambda _name, _done, _total: None)
    command = f"python -m lab.small_arenas --arenas {options.arenas} --status-arenas {options.status_arenas}"
    lines = [f"# Small arenas\n\n{datetime.now(UTC):%Y-%m-%d}, Tiltyard {__version__}, by `{command}`."]

    def add(line: str) -> None:
        lines.append(line)
        say(line + "\n")
        sys.stdout.flush()

    if options.arenas:
        add(f"\n## Promised and settled\n\n{PROMISE_HEAD}")
        for shape in MODEL_AND_PROMPT_COUNT:
            add(promise_row(*shape, runs(SMALL_ARENA, small_settings(*shape), options.arenas)))
        add(f"\n## False claims\n\n{FALSE_HEAD}")
        for world in FALSE_WORLDS:
            for shape in MODEL_AND_PROMPT_COUNT:
                add(
                    false_row(*shape, world, runs(SMALL_ARENA, small_settings(*shape, world), options.arenas))
                )
    if options.status_arenas:
        add(f"\n## Changes of status\n\n{STATUS_HEAD}")
        for name, settings in STATUS_SETTINGS.items():
            add(status_row(name, runs(STATUS, settings, options.status_arenas)))
    if options.out:
        options.out.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
