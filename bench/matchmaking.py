"""CPU time of one matchmaking choice: `python bench/matchmaking.py --out RESULTS.md`.

For each size, in a process of its own on one thread: fold 10 M served and voted matchups in bulk, give
every model a plausible strength, then choose, serve and vote in turn, so that the state keeps moving.
First by the policy's mix, then with each lane alone; last the terms that the lanes add up. CPU times.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from statistics import median

import numpy as np

from standing import KINDS, served_and_voted
from tiltyard.core.policy.matchmaking import (
    eligible_pairs,
    lanes,
)
from tiltyard.core.policy.matchmaking.eligible_pairs import EligiblePairs
from tiltyard.core.policy.matchmaking.matchmaker import choose
from tiltyard.core.policy.state.policy import Lane, Policy
from tiltyard.core.policy.state.session_memory import UNSEEN
from tiltyard.core.policy.state.standing import Standing
from tiltyard.core.policy.state.strengths import Strengths
from timing import one_thread

SIZES = ((100, 1_000, 1.0), (1_000, 10_000, 10.0))
SMALL = ((8, 20, 1.0),)
VOTES, SMALL_VOTES = 10_000_000, 5_000
CHOICES, BY_LANE, SMALL_CHOICES = 3_000, 800, 50
#: Votes between two rankings, and voters who come back.
RANKED_EVERY, SESSIONS = 50, 500
ALONE = tuple(tuple(float(other is lane) for other in Lane) for lane in Lane)


def believed(models: int, rng: np.random.Generator) -> Strengths:
    """Strengths of a mature arena: spread over 200 points, known to within a few."""
    return Strengths(
        rng.normal(1500.0, 200.0, models),
        rng.uniform(30.0, 60.0, models),
        rng.uniform(5.0, 25.0, models),
        rng.uniform(0.0, 0.5, models),
    )


def mature(models: int, n_prompts: int, votes: int, policy: Policy) -> Standing:
    standing = Standing(policy, [f"m{k}" for k in range(models)], [f"p{k}" for k in range(n_prompts)])
    standing.fold(served_and_voted(models, n_prompts, votes))
    standing.rank(believed(models, np.random.default_rng(7)))
    return standing


def choices(standing: Standing, n: int, *, sessions: int = 0, seed: int = 3) -> dict[str, list[float]]:
    """Nanoseconds of each choice, by the lane that made it; matchups are served and voted on between them."""
    rng = np.random.default_rng(seed)
    voters = np.random.default_rng(seed + 1)
    spent: dict[str, list[float]] = {lane.name.lower(): [] for lane in Lane}
    for k in range(n):
        session = int(voters.integers(sessions)) if sessions else -1
        start = time.process_time_ns()
        choice = choose(standing, rng, session=session)
        spent[choice.lane.name.lower()].append(time.process_time_ns() - start)
        matchup = choice.left, choice.right, choice.prompt
        standing.serve(*matchup, lane=choice.lane, nominal=choice.nominal, session=session)
        standing.vote(*matchup, int(voters.choice(4, p=KINDS)))
        if k % RANKED_EVERY == 0:
            old = standing.strengths
            standing.rank(replace(old, rating=old.rating + voters.normal(0.0, 1.0, len(old.rating))))
    return spent


def figures(nanoseconds: list[float]) -> dict[str, float]:
    """Milliseconds: median, 99th percentile, mean, and how many."""
    if not nanoseconds:
        return {"n": 0}
    middle, high = np.percentile(nanoseconds, [50, 99]) / 1e6
    return {"p50": middle, "p99": high, "mean": float(np.mean(nanoseconds)) / 1e6, "n": len(nanoseconds)}


def with_weights(standing: Standing, weights: tuple[float, ...]) -> None:
    """The same arena under another mix. The window keeps a policy of its own: only lanes change."""
    standing.policy = replace(standing.policy, lane_weights=weights)


def terms(standing: Standing) -> dict[str, Callable[[], object]]:
    """The named parts of the lanes, each as a call of its own on the field as it stands."""
    field = EligiblePairs.of(standing, UNSEEN, capped=True, depth=0)
    rng = np.random.default_rng(5)
    free = np.flatnonzero(field.free)
    anchor, opponent = int(free[0]), int(free[-1])
    top = standing.order[: max(standing.policy.contenders, standing.policy.published_top)]
    leader = int(next(model for model in standing.order if field.free[model]))
    return {
        "the field itself": lambda: EligiblePairs.of(standing, UNSEEN, capped=True, depth=0),
        "lag": field.lag,
        "opponents": lambda: field.opponents(anchor),
        "prompts": lambda: field.prompts(anchor, opponent),
        "coverage: missing_prompts": lambda: lanes.missing_prompts(standing),
        "coverage: missing_opponents": lambda: lanes.missing_opponents(standing),
        "coverage: anchor_score": lambda: lanes.anchor_score(field, field.lag()),
        "coverage: pair_news": lambda: lanes.pair_novelty(standing, anchor),
        "coverage: whole, anchor given": lambda: lanes.draw_coverage(field, rng, anchor=anchor),
        "contender: floor_deficit": lambda: lanes.floor_deficit(standing, top[:-1], top[1:]),
        "contender: anchor_weights": lambda: lanes.contender_anchors(field),
        "contender: opponent_weights": lambda: lanes.contender_opponents(field, leader),
        "uncertainty: anchor_weights": lambda: lanes.uncertain_anchors(field),
        "uncertainty: closeness": lambda: lanes.closeness(standing, anchor),
        "uncertainty: novelty": lambda: lanes.novelty(standing, anchor),
        "uncertainty: opponent_weights": lambda: lanes.informative_opponents(field, anchor),
        "exploration: scarcity": lambda: lanes.scarcity(field),
        "prompt: least_met": lambda: eligible_pairs.draw_least_met_prompt(field, anchor, opponent, rng),
        "prompt: most_needed": lambda: eligible_pairs.draw_most_needed_prompt(field, anchor, opponent, rng),
        "prompt: under_covered": lambda: eligible_pairs.draw_under_covered_prompt(
            field, anchor, opponent, rng
        ),
    }


def nanoseconds(work: Callable[[], object], calls: int, runs: int = 5) -> float:
    """Of one call: the median over runs of so many."""
    spent = []
    for _ in range(runs):
        start = time.process_time_ns()
        for _ in range(calls):
            work()
        spent.append((time.process_time_ns() - start) / calls)
    return median(spent)


def measured(models: int, n_prompts: int, votes: int, n: int, by_lane: int) -> dict[str, dict]:
    """Every figure of one size, by name."""
    standing = mature(models, n_prompts, votes, Policy())
    by = choices(standing, n)
    found = {"mix": figures([one for spent in by.values() for one in spent])}
    found |= {f"mix, chosen by {lane}": figures(spent) for lane, spent in by.items()}
    returning = choices(standing, n, sessions=SESSIONS, seed=13)
    found["mix, voters that come back"] = figures([one for spent in returning.values() for one in spent])
    for lane, weights in zip(Lane, ALONE, strict=True):
        with_weights(standing, weights)
        spent = choices(standing, by_lane, seed=20 + lane)
        found[f"{lane.name.lower()} alone"] = figures([one for some in spent.values() for one in some])
    with_weights(standing, Policy().lane_weights)
    calls = max(by_lane // 8, 1)
    return {
        "choices": found,
        "terms": {name: nanoseconds(work, calls) for name, work in terms(standing).items()},
    }


def table(sizes: dict[str, dict], bars: dict[str, float]) -> list[str]:
    """Choices: median, 99th percentile and mean of each size, and whether the bar is kept."""
    head = " | ".join(f"{size}: p50 | p99 | mean | n" for size in sizes)
    lines = [f"| ms a choice | {head} |", f"|---|{'--:|' * 4 * len(sizes)}"]
    for name in next(iter(sizes.values()))["choices"]:
        row = []
        for found in sizes.values():
            figure = found["choices"][name]
            shown = [f"{figure[key]:.3f}" for key in ("p50", "p99", "mean")] if figure["n"] else ["–"] * 3
            row += [*shown, f"{figure['n']:,}"]
        lines.append(f"| {name} | {' | '.join(row)} |")
    verdicts = []
    for size, bar in bars.items():
        mean, high = (sizes[size]["choices"]["mix"][key] for key in ("mean", "p99"))
        verdicts.append(f"{size}: bar {bar:g} ms, mean {mean / bar:.0%} of it, p99 {high / bar:.0%}")
    return [*lines, "", "; ".join(verdicts) + "."]


def page(sizes: dict[str, dict], bars: dict[str, float], votes: int) -> str:
    head = (
        f"{datetime.now(UTC):%Y-%m-%d}, by `python bench/matchmaking.py`: after {votes:,} matchups, served and voted, "
        f"uniform pairs and prompts; between choices the matchup is served and voted on, and every {RANKED_EVERY} votes "
        f"the order is made anew. Voters that come back: {SESSIONS} sessions. One thread, CPU time."
    )
    lines = ["# Matchmaking, measured", "", head, "", *table(sizes, bars), ""]
    lines += [f"| ns a call | {' | '.join(sizes)} |", f"|---|{'--:|' * len(sizes)}"]
    for name in next(iter(sizes.values()))["terms"]:
        shown = [f"{found['terms'][name]:,.0f}" for found in sizes.values()]
        lines.append(f"| {name} | {' | '.join(shown)} |")
    return "\n".join([*lines, ""])


def main() -> None:
    one_thread()
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--votes", type=int, help=f"folded before the first choice ({VOTES:,})")
    parser.add_argument("--small", action="store_true", help="a few choices in a tiny arena: does it run?")
    parser.add_argument("--size", type=int, nargs=2, help="one size only, as JSON: models and prompts")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    votes = options.votes or (SMALL_VOTES if options.small else VOTES)
    n, by_lane = (SMALL_CHOICES, SMALL_CHOICES) if options.small else (CHOICES, BY_LANE)
    if options.size:
        print(json.dumps(measured(*options.size, votes, n, by_lane)))
        return
    sizes, bars = {}, {}
    for models, n_prompts, bar in SMALL if options.small else SIZES:
        command = [sys.executable, __file__, "--votes", str(votes), "--size", str(models), str(n_prompts)]
        command += ["--small"] if options.small else []
        size = f"{models:,} × {n_prompts:,}"
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE)
        sizes[size], bars[size] = json.loads(done.stdout), bar
    markdown = page(sizes, bars, votes)
    print(markdown)
    if options.out:
        options.out.write_text(markdown)


if __name__ == "__main__":
    main()
