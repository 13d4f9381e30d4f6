"""Coverage of intervals: `python bench/intervals.py --worlds 200 --out RESULTS.md` (about half an hour).

In simulated worlds with prompt effects the truth is known: the rating that endless battles on
endless prompts would give. Counted is how often each kind of interval holds it; with `--only prior`, how often
intervals with a prior hold the ratings of models that hardly lost or won (`--worlds 2500`: some minutes); with
`--only baseline`, how often those of win rates against a baseline hold the true rate (`--worlds 1000`: an hour).
"""

from __future__ import annotations

import argparse
import sys
from concurrent.futures import ProcessPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

from tiltyard._version import __version__

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from lab.baseline_coverage import BaselineWorld, baseline_coverage
from lab.interval_coverage import IntervalCoverage, coverage, prior_coverage

PROMPTS = (8, 15, 30, 100)
MODELS, BATTLES, EFFECT_SD = 10, 3000, 0.5


def measured(prompts: int, worlds: int) -> list[IntervalCoverage]:
    return coverage(prompts, worlds, models=MODELS, battles=BATTLES, effect_sd=EFFECT_SD)


def interval_page(pool: ProcessPoolExecutor, prompts: list[int], worlds: int) -> str:
    results = dict(zip(prompts, pool.map(measured, prompts, [worlds] * len(prompts)), strict=True))
    lines = [
        "# Intervals, measured",
        "",
        (
            f"{datetime.now(UTC):%Y-%m-%d}, Tiltyard {__version__}, by `python bench/intervals.py --worlds {worlds}`. "
            f"{worlds} worlds for each number of prompts: {MODELS} models of strength SD 200, {BATTLES:,} battles, "
            f"model × prompt effects SD {EFFECT_SD} logit, 16 % ties, 7 % both bad. A 95 % interval should hold the "
            "truth of the prompt population in 95 % of cases. In brackets: standard error over worlds; then the "
            "mean half-width in points."
        ),
        "",
        "| interval | " + " | ".join(f"{prompts} prompts" for prompts in results) + " |",
        "|---|" + "--:|" * len(results),
    ]
    for k, kind in enumerate(next(iter(results.values()))):
        cells = [results[prompts][k] for prompts in results]
        texts = [f"{100 * c.covered:.1f} % ({100 * c.error:.1f}) ±{c.half_width:.0f}" for c in cells]
        lines.append(f"| {kind.made_by} | " + " | ".join(texts) + " |")
    return "\n".join([*lines, ""])


def prior_page(pool: ProcessPoolExecutor, _prompts: list[int], worlds: int) -> str:
    found = pool.submit(prior_coverage, worlds).result()
    lines = [
        "# Intervals with a prior, measured",
        "",
        (
            f"{datetime.now(UTC):%Y-%m-%d}, Tiltyard {__version__}, by `python bench/intervals.py --only prior --worlds "
            f"{worlds}`. {worlds:,} worlds of 6 models and 90 battles without prompts; strengths are drawn from a normal "
            "distribution of SD 300, which is also the prior (`prior_sd=300`). Then 95 % of the true ratings should "
            "lie in their intervals, whichever models one looks at. Counted are those that hardly lost or hardly won. "
            "In brackets: standard error."
        ),
        "",
        "| battles lost, or won, at most | models | held the truth | mean width, points |",
        "|--:|--:|--:|--:|",
    ]
    for row in found:
        covered = f"{100 * row.covered:.1f} % ({100 * row.error:.1f})"
        lines.append(f"| {row.most:.0f} | {row.models:,} | {covered} | {row.width:.0f} |")
    return "\n".join([*lines, ""])


#: The worlds of win rates: what is written of them, and what makes them.
BASELINE_KINDS: dict[str, dict[str, object]] = {
    "one battle": {},
    "one battle, half of them weigh 3": {"strong": True},
    "4 battles, correlation 0.2": {"battles": 4, "alike": 0.2},
    "4 battles, correlation 0.5": {"battles": 4, "alike": 0.5},
    "Pareto 1.1, correlation 0.2": {"battles": 4, "tail": 1.1, "alike": 0.2},
    "Pareto 0.7, correlation 0.5": {"battles": 4, "tail": 0.7, "alike": 0.5},
}
BASELINE_PROMPTS, BASELINE_RATES = (8, 20, 100, 500), (0.02, 0.1, 0.5, 0.98)


def baseline_page(pool: ProcessPoolExecutor, _prompts: list[int], worlds: int) -> str:
    cells = [(kind, rate) for kind in BASELINE_KINDS for rate in BASELINE_RATES]
    made = [
        BaselineWorld(prompts, rate, **BASELINE_KINDS[kind])  # type: ignore[arg-type]
        for kind, rate in cells
        for prompts in BASELINE_PROMPTS
    ]
    found = list(pool.map(baseline_coverage, made, [worlds] * len(made)))
    lines = [
        "# Intervals of win rates, measured",
        "",
        (
            f"{datetime.now(UTC):%Y-%m-%d}, Tiltyard {__version__}, by `python bench/intervals.py --only baseline "
            f"--worlds {worlds}`. {worlds:,} worlds for each cell: a model wins against the baseline at the given rate, "
            "prompts differ by the correlation of two battles on one of them, and battles on a prompt are even or follow a "
            "Pareto distribution. Share of 95 % intervals that hold the rate, and their mean width in points of the "
            "percentage; "
            f"lowest share {100 * min(cell.covered for cell in found):.1f} %, "
            f"most refused {100 * max(cell.refused for cell in found):.1f} %."
        ),
        "",
        "| battles on a prompt | win rate | "
        + " | ".join(f"{prompts} prompts" for prompts in BASELINE_PROMPTS)
        + " |",
        "|---|--:|" + "--:|" * len(BASELINE_PROMPTS),
    ]
    width = len(BASELINE_PROMPTS)
    for k, (kind, rate) in enumerate(cells):
        texts = [
            f"{100 * one.covered:.1f} % ({100 * one.width:.1f})" for one in found[k * width : (k + 1) * width]
        ]
        lines.append(f"| {kind} | {rate:.0%} | " + " | ".join(texts) + " |")
    return "\n".join([*lines, ""])


PAGES = {"intervals": interval_page, "prior": prior_page, "baseline": baseline_page}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=list(PAGES), default="intervals")
    parser.add_argument("--worlds", type=int, default=200)
    parser.add_argument("--prompts", type=int, nargs="*", default=list(PROMPTS))
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    with ProcessPoolExecutor(options.processes) as pool:
        markdown = PAGES[options.only](pool, options.prompts, options.worlds)
    print(markdown)
    if options.out:
        options.out.write_text(markdown)


if __name__ == "__main__":
    main()
