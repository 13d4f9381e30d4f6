"""CPU time of folding a vote into everything that a rater keeps: `python bench/vote_folds.py --before CHECKOUT`.

Served and voted matchups are folded in batches into an `ArenaFold`: counts, Glicko-2, online Bradley–Terry with its
refits, Elo and evaluations. With ``--before``, the folder of another checkout's ``src``, both versions take turns, each
in a process of its own on one thread, and the table has both. Microseconds a vote, the best of all runs.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys

import numpy as np

from tiltyard.core.policy.state.events import Event, Events
from tiltyard.core.policy.state.policy import Policy
from tiltyard.core.policy.validity.arena_fold import ArenaFold
from timing import ONE_THREAD, cpu_seconds

PROMPTS, BATCH = 200, 50


def matchups(models: int, n: int) -> Events:
    """Uniform pairs of models of SD 1 logit, 16 % ties, served and voted on at once."""
    rng = np.random.default_rng(1)
    strength = rng.normal(0.0, 1.0, models)
    a = rng.integers(0, models, n)
    b = (a + rng.integers(1, models, n)) % models
    won = rng.random(n) < 1.0 / (1.0 + np.exp(strength[b] - strength[a]))
    kind = np.where(rng.random(n) < 0.16, 2, np.where(won, 0, 1)).astype(np.uint8)
    lane = rng.integers(0, 4, n).astype(np.uint8)
    prompt = rng.integers(0, PROMPTS, n)
    twice = {
        name: np.repeat(column, 2)
        for name, column in {"a": a, "b": b, "prompt": prompt, "kind": kind, "lane": lane}.items()
    }
    return Events(
        event=np.tile(np.array([Event.SERVED, Event.VOTE], dtype=np.uint8), n),
        **twice,
        nominal=twice["lane"],
        serial=np.repeat(np.arange(n), 2),
        session=np.full(2 * n, -1),
        time=np.zeros(2 * n, dtype=np.int64),
    )


def measured(models: int) -> float:
    """Microseconds a vote: as many votes as bring two refits."""
    following = ArenaFold(Policy())
    following.widen([f"m{k}" for k in range(models)], [f"p{k}" for k in range(PROMPTS)])
    answers = [
        {"event": int(Event.RESPOND), "a": k, "prompt": p} for k in range(models) for p in range(PROMPTS)
    ]
    roster = [{"event": int(Event.ENABLE), "a": k} for k in range(models)]
    following.fold(Events.of(answers + roster))
    votes = max(10 * models, 1000)
    events = matchups(models, votes)
    start = cpu_seconds()
    for first in range(0, len(events), 2 * BATCH):
        following.fold(events[first : first + 2 * BATCH])
    return 1e6 * (cpu_seconds() - start) / votes


def in_process(source: str | None, models: int) -> float:
    environ = os.environ | ONE_THREAD | ({} if source is None else {"PYTHONPATH": source})
    said = subprocess.run(
        [sys.executable, __file__, "--one", str(models)],
        env=environ,
        check=True,
        capture_output=True,
        text=True,
    )
    return float(said.stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", type=int, nargs="*", default=[20, 100, 300, 1000])
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--before", help="the src folder of another checkout")
    parser.add_argument(
        "--one", type=int, help="measure this number of models here, and print the number alone"
    )
    options = parser.parse_args()
    if options.one is not None:
        print(measured(options.one))
        return
    versions = [None] if options.before is None else [options.before, None]
    print(
        "| models | "
        + ("" if options.before is None else "before | ")
        + "now |\n|--:|"
        + "--:|" * len(versions)
    )
    for models in options.models:
        found = [[in_process(source, models) for source in versions] for _ in range(options.runs)]
        print(
            f"| {models:,} | " + " | ".join(f"{min(each):,.0f}" for each in zip(*found, strict=True)) + " |",
            flush=True,
        )


if __name__ == "__main__":
    main()
