"""Coverage of intervals: `python bench/intervals.py --worlds 200 --out RESULTS.md` (about half an hour).

In simulated worlds with prompt effects the truth is known: the rating that endless battles on
endless prompts would give. Counted is how often each kind of interval holds it; with `--only prior`, how often
intervals with a prior hold the ratings of models that hardly lost or won (`--worlds 2500`: some minutes).
"""

from __future__ import annotations

import argparse
from concurrent.futures import ProcessPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

from lab.interval_coverage import IntervalCoverage, coverage, prior_coverage
from tiltyard._version import __version__

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


PAGES = {"intervals": interval_page, "prior": prior_page}


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
