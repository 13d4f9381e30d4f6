"""``python -m lab.ab_study``: does `tiltyard ab` decide falsely, how soon does it decide, and do its intervals hold?

Seconds to a few minutes; `just ab-study` runs it at full size.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import numpy.typing as npt

from lab.study_pages import write_page
from tiltyard._version import __version__
from tiltyard.core.ratings.paired_difference import (
    MIN_SEQUENCE_PROMPTS,
    ABDecision,
    decide,
    paired_difference,
)
from tiltyard.runs.ab_lead import PLANNED_PROMPTS, points
from tiltyard.tournaments.ab_run import look_sizes

Floats = npt.NDArray[np.float64]

#: (1.96 + 0.84)²: what a two-sided test at 5 % with 80 % power needs, in squared standard errors.
_FIXED_SIZE_RATIO = 7.849
_PROMPTS = 3000
#: Kinds of judges: the spread of prompts in logits, and the shares of ties and of verdicts that follow the slot.
JUDGES = {
    "plain": (0.5, 0.2, 0.0),
    "uneven prompts": (1.5, 0.2, 0.0),
    "many ties": (0.5, 0.6, 0.0),
    "half of the verdicts by the slot": (0.5, 0.1, 0.5),
}
#: Kinds of scores: a name, and a function of samples and a generator that gives differences, their reach and the truth.
Scores = Callable[[int, np.random.Generator], tuple[Floats, float, float]]


def judged_leads(kind: str, gap: float, prompts: int, rng: np.random.Generator) -> Floats:
    """The second model's score minus a half, prompt by prompt; ``gap`` in points on an average prompt."""
    spread, ties, slot = JUDGES[kind]
    logit = gap * math.log(10.0) / 400.0 + rng.normal(0.0, spread, prompts)
    lead = np.where(rng.random(prompts) < 1.0 / (1.0 + np.exp(-logit)), 0.5, -0.5)
    # A tie, or one verdict for each slot, is half a win for both.
    return np.where(rng.random(prompts) < ties + slot * (1.0 - ties), 0.0, lead)


def stopped(leads: Floats, planned: int = PLANNED_PROMPTS) -> tuple[ABDecision, int]:
    """The first decision, and the prompts that it took."""
    for size in look_sizes(len(leads)):
        found = paired_difference(leads[:size], 0.5, planned=planned)
        decision = decide(points(found.low), points(found.high), None)
        if decision is not ABDecision.UNDECIDED:
            return decision, size
    return ABDecision.UNDECIDED, len(leads)


def score_differences() -> dict[str, Scores]:
    """Scores of two models on the same samples."""

    def binary(p: float, q: float, same: float, repeats: int = 1) -> Scores:
        def draw(n: int, rng: np.random.Generator) -> tuple[Floats, float, float]:
            first = rng.random((n, repeats)) < p
            second = np.where(rng.random((n, repeats)) < same, first, rng.random((n, repeats)) < q)
            return (second.mean(axis=1) - first.mean(axis=1)), 1.0, (1.0 - same) * (q - p)

        return draw

    def skewed(n: int, rng: np.random.Generator) -> tuple[Floats, float, float]:
        first, second = rng.lognormal(0.0, 1.0, (2, n))
        return second - first, float(max(first.max(), second.max())), 0.0

    return {
        "0.5 and 0.5, independent": binary(0.5, 0.5, 0.0),
        "0.9 and 0.95, half the same": binary(0.9, 0.95, 0.5),
        "0.97 and 0.99, mostly the same": binary(0.97, 0.99, 0.8),
        "0.7 and 0.7, mostly the same": binary(0.7, 0.7, 0.9),
        "0.5 and 0.6, four repeats": binary(0.5, 0.6, 0.0, 4),
        "log-normal": skewed,
    }


def _judge_rows(worlds: int) -> Iterator[str]:
    for kind in JUDGES:
        for gap in (0.0, 40.0, 80.0):
            rng = np.random.default_rng([len(kind), int(gap)])
            ended = [stopped(judged_leads(kind, gap, _PROMPTS, rng)) for _ in range(worlds)]
            wrong = {ABDecision.WORSE} | ({ABDecision.BETTER} if gap == 0.0 else set())
            false = sum(decision in wrong for decision, _ in ended)
            if gap == 0.0:
                yield f"| {kind} | 0 | {false} of {worlds} | – | – | – |"
                continue
            many = judged_leads(kind, gap, 1_000_000, rng)
            fixed = _FIXED_SIZE_RATIO * float(many.var() / many.mean() ** 2)
            took = float(
                np.median([n if decision is ABDecision.BETTER else math.inf for decision, n in ended])
            )
            shown = (
                f"{took:.0f} | {fixed:.0f} | {took / fixed:.2f}"
                if math.isfinite(took)
                else f"– | {fixed:.0f} | –"
            )
            yield f"| {kind} | {gap:.0f} | {false} of {worlds} | {shown} |"


def _score_rows(worlds: int) -> Iterator[str]:
    for name, draw in score_differences().items():
        shares = []
        for n in (10, 30, 100, 500):
            rng = np.random.default_rng([len(name), n])
            held = 0
            for _ in range(worlds):
                values, reach, truth = draw(n, rng)
                found = paired_difference(values, reach)
                held += found.low <= truth <= found.high
            shares.append(f"{held / worlds:.3f}")
        yield f"| {name} | {' | '.join(shares)} |"


def ab_page(worlds: int, score_worlds: int, command: str) -> str:
    """Both tables as Markdown."""
    return "\n".join(
        [
            "# `tiltyard ab`, measured",
            "",
            f"{datetime.now(UTC):%Y-%m-%d}, Tiltyard {__version__}, by `{command}`.",
            "",
            "## With a judge",
            "",
            (
                f"Up to {_PROMPTS:,} prompts, looked at as `ab` does: after {MIN_SEQUENCE_PROMPTS}, then after each tenth more. *False*: "
                "equal models called different, or the better one called worse, at any look. *Fixed*: prompts that a test of "
                "fixed size needs, which knows the variance and has 80 % power."
            ),
            "",
            "| judge | gap in points | false | median prompts | fixed | ratio |",
            "|---|--:|--:|--:|--:|--:|",
            *_judge_rows(worlds),
            "",
            "## Scores",
            "",
            f"Share of {score_worlds:,} worlds in which the 95 % interval holds the true difference, by the number of samples.",
            "",
            "| scores | 10 | 30 | 100 | 500 |",
            "|---|--:|--:|--:|--:|",
            *_score_rows(score_worlds),
            "",
        ]
    )


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--worlds", type=int, default=300, help="worlds of each kind of judge")
    parser.add_argument("--score-worlds", type=int, default=1000, help="worlds of each kind of scores")
    parser.add_argument("--out", type=Path, help="a Markdown file")
    options = parser.parse_args(arguments)
    command = f"python -m lab.ab_study --worlds {options.worlds} --score-worlds {options.score_worlds}"
    text = ab_page(options.worlds, options.score_worlds, command)
    write_page(text, options.out)


if __name__ == "__main__":
    main()
