"""Small studies for tests of the runner, in a module that workers load quickly."""

import os
import signal
import time
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from tiltyard.simulation.studies import Study
from tiltyard.simulation.worlds import WorldSettings, draw_world_of


@dataclass(frozen=True)
class Settings:
    world: WorldSettings = field(default_factory=lambda: WorldSettings(models=4, prompts=5))
    votes: int = 50
    slow_first: bool = False
    bad_seed: int | None = None


@dataclass(frozen=True)
class Result:
    ties: float
    order: tuple[int, ...]
    threads: str | None


def vote_some(settings, seed):
    if seed == settings.bad_seed:
        raise ValueError("the dice rolled off the table")
    if settings.slow_first and seed == 0:
        time.sleep(0.3)
    rng = np.random.default_rng([7, seed])
    world = draw_world_of(settings.world, rng)
    kinds = [world.vote(0, 1, 0, rng) for _ in range(settings.votes)]
    ties = float(np.mean(np.array(kinds) == 2))
    return Result(ties, tuple(world.true_order().tolist()), os.environ.get("OPENBLAS_NUM_THREADS"))


def die(settings, seed):
    if seed == settings.bad_seed:
        os.kill(os.getpid(), signal.SIGKILL)
    return vote_some(settings, seed)


def count_runs(settings, seed):
    with Path(os.environ["RUNS"]).open("a") as file:
        file.write(f"{seed}\n")
    return vote_some(settings, seed)


VOTE = Study("vote-some", 1, vote_some, Result)
COUNTED = Study("count-runs", 1, count_runs, Result, depends=("tiltyard.simulation.worlds",))
DIE = Study("die", 1, die, Result)
