"""CPU time of updating a standing: `python bench/standing.py --out RESULTS.md`.

For each size, in a process of its own on one thread: fold 10 M served and voted matchups in bulk,
then go on one by one; save and restore a checkpoint. Times are CPU times; single events are the
median of several runs.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from pathlib import Path
from statistics import median

import numpy as np

from tiltyard.core.policy.state.events import NO_SESSION, Event, Events
from tiltyard.core.policy.state.policy import Lane, Policy
from tiltyard.core.policy.state.standing import Standing
from tiltyard.core.policy.validity.arena_fold import restore, save
from timing import cpu_seconds, one_thread

SIZES = ((100, 1_000), (1_000, 10_000))
VOTES = 10_000_000
KINDS = (0.385, 0.385, 0.16, 0.07)
RUNS, EVENTS = 7, 10_000


def matchups(models: int, prompts: int, n: int, seed: int) -> dict[str, np.ndarray]:
    """Uniform pairs on uniform prompts, with kinds and lanes."""
    rng = np.random.default_rng(seed)
    a = rng.integers(0, models, n)
    return {
        "a": a,
        "b": (a + rng.integers(1, models, n)) % models,
        "prompt": rng.integers(0, prompts, n),
        "kind": rng.choice(4, n, p=KINDS).astype(np.uint8),
        "lane": rng.integers(0, len(Lane), n).astype(np.uint8),
    }


def served_and_voted(models: int, prompts: int, n: int) -> Events:
    """Enable all models, then serve each matchup and vote on it at once."""
    drawn = {name: np.repeat(column, 2) for name, column in matchups(models, prompts, n, 1).items()}
    log = Events(
        event=np.tile(np.array([Event.SERVED, Event.VOTE], dtype=np.uint8), n),
        **drawn,
        nominal=drawn["lane"],
        serial=np.repeat(np.arange(n), 2),
        session=np.full(2 * n, NO_SESSION),
        time=np.zeros(2 * n, dtype=np.int64),
    )
    roster = Events.of([{"event": int(Event.ENABLE), "a": model} for model in range(models)])
    return Events.joined([roster, log])


def peak_mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def held_mib() -> float:
    """The current memory of the process."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() / 2**20


def seconds(work: Callable[[], object]) -> tuple[float, object]:
    start = cpu_seconds()
    made = work()
    return cpu_seconds() - start, made


def each(function: Callable[..., object], runs: Iterable[list[tuple[int, ...]]]) -> float:
    """Nanoseconds of one call, loop included: the median over runs."""
    spent = []
    for run in runs:
        start = cpu_seconds()
        for one in run:
            function(*one)
        spent.append((cpu_seconds() - start) / len(run))
    return 1e9 * median(spent)


def parts_of(standing: Standing, models: int, prompts: int) -> dict[str, float]:
    """Nanoseconds of `serve` and `vote`, and of what each of them hands on."""
    drawn = [matchups(models, prompts, EVENTS, 2 + run) for run in range(RUNS)]
    rows = [list(zip(*(d[c].tolist() for c in ("a", "b", "prompt")), strict=True)) for d in drawn]
    votes = [
        [(*row, kind) for row, kind in zip(run, d["kind"].tolist(), strict=True)]
        for run, d in zip(rows, drawn, strict=True)
    ]
    window, meetings, cells = standing.window, standing.meetings, standing.cells
    sessions = standing.sessions

    def two_cells(a: int, b: int, prompt: int, kind: int) -> None:
        cells.vote(a, prompt, kind)
        cells.vote(b, prompt, kind)

    def three_recents(a: int, b: int, prompt: int, kind: int) -> None:
        standing.model_votes.add(a, kind)
        standing.model_votes.add(b, kind)
        standing.prompt_votes.add(prompt, kind)

    return {
        "serve": each(standing.serve, rows),
        "serve: window": each(lambda a, b, _: window.serve(a, b, contender=False), rows),
        "serve: meetings": each(meetings.serve, rows),
        "serve: session, where there is one": each(
            lambda a, b, p: sessions.serve(a * b % 5000, a, b, p), rows
        ),
        "vote": each(standing.vote, votes),
        "vote: cells": each(two_cells, votes),
        "vote: meetings": each(meetings.vote, votes),
        "vote: recents": each(three_recents, votes),
    }


def measured(models: int, prompts: int, votes: int) -> dict[str, float]:
    """Every figure of one size, by name."""
    standing = Standing(Policy(), [f"m{k}" for k in range(models)], [f"p{k}" for k in range(prompts)])
    events = served_and_voted(models, prompts, votes)
    before = peak_mib()
    bulk, _ = seconds(lambda: standing.fold(events))
    figures = {"log in memory, MiB": before, "bulk fold, s": bulk, "bulk fold, peak MiB": peak_mib()}
    events = None
    figures["standing alone, MiB"] = held_mib()
    figures |= parts_of(standing, models, prompts)
    figures["enable, ms"] = 1e3 * seconds(lambda: (standing.retire(0), standing.enable(0)))[0] / 2
    figures["respond, ms"] = (
        1e3 * seconds(lambda: (standing.respond(0, 0, present=False), standing.respond(0, 0)))[0] / 2
    )
    figures["save, s"], saved = seconds(lambda: save(standing))
    figures["digest, s"], digest = seconds(saved.digest)
    figures["checkpoint, MiB"] = sum(array.nbytes for array in saved.arrays.values()) / 2**20
    figures["restore, s"], restored = seconds(lambda: restore(saved))
    if save(restored).digest() != digest:
        sys.exit("the restored standing is another one")
    return figures


def page(tables: dict[tuple[int, int], dict[str, float]], votes: int) -> str:
    columns = [f"{models:,} × {prompts:,}" for models, prompts in tables]
    lines = [
        "# Standing, measured",
        "",
        (
            f"{datetime.now(UTC):%Y-%m-%d}, by `python bench/standing.py`: {votes:,} matchups, served and voted, uniform "
            f"pairs and prompts, folded in bulk; then {RUNS} × {EVENTS:,} events one by one, the median. One thread, CPU "
            "time. *log in memory* is the process with all events drawn and nothing folded."
        ),
        "",
        f"| | {' | '.join(columns)} |",
        f"|---|{'--:|' * len(columns)}",
    ]
    for name in next(iter(tables.values())):
        one_by_one = name.partition(":")[0] in ("serve", "vote")
        label = f"{name}, ns" if one_by_one else name
        shown = [
            f"{figures[name]:,.0f}" if figures[name] >= 100 else f"{figures[name]:.2f}"
            for figures in tables.values()
        ]
        lines.append(f"| {label} | {' | '.join(shown)} |")
    return "\n".join([*lines, ""])


def main() -> None:
    one_thread()
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--votes", type=int, default=VOTES)
    parser.add_argument("--size", type=int, nargs=2, help="one size only, as JSON: models and prompts")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    if options.size:
        print(json.dumps(measured(*options.size, options.votes)))
        return
    tables = {}
    for size in SIZES:
        command = [sys.executable, __file__, "--votes", str(options.votes), "--size", *map(str, size)]
        tables[size] = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    markdown = page(tables, options.votes)
    print(markdown)
    if options.out:
        options.out.write_text(markdown)


if __name__ == "__main__":
    main()
