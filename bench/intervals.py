"""Coverage of intervals and rank ranges: `python bench/intervals.py --worlds 200 --out RESULTS.md` (about half an hour).

In simulated worlds with prompt effects the truth is known: the rating that endless battles on
endless prompts would give. Counted is how often each kind of interval holds it; with `--only ranks`,
how often rank ranges claim an order that is not there (some minutes); with `--only prior`, how often
intervals with a prior hold the ratings of models that hardly lost or won (`--worlds 2500`: some minutes).
"""

from __future__ import annotations

import argparse
from concurrent.futures import ProcessPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

from lab.interval_coverage import (
    FalseClaims,
    IntervalCoverage,
    coverage,
    false_claims,
    prior_coverage,
    rank_coverage,
)
from tiltyard._version import __version__

PROMPTS = (8, 15, 30, 100)
MODELS, BATTLES, EFFECT_SD = 10, 3000, 0.5
#: Worlds of equal models: models, prompts, and how uneven prompts are (Pareto's exponent).
EQUAL = (
    (20, 8, None),
    (20, 20, None),
    (20, 100, None),
    (10, 12, None),
    (20, 8, 1.1),
    (20, 20, 1.1),
    (20, 100, 1.1),
    (20, 100, 1.6),
)


def measured(prompts: int, worlds: int) -> list[IntervalCoverage]:
    return coverage(prompts, worlds, models=MODELS, battles=BATTLES, effect_sd=EFFECT_SD)


def claimed(models: int, prompts: int, pareto: float | None, worlds: int) -> FalseClaims:
    return false_claims(prompts, worlds, models=models, battles=BATTLES, effect_sd=EFFECT_SD, pareto=pareto)


def ranged(prompts: int, worlds: int) -> float:
    return rank_coverage(prompts, worlds, models=MODELS, battles=BATTLES, effect_sd=EFFECT_SD)


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


def rank_page(pool: ProcessPoolExecutor, prompts: list[int], worlds: int) -> str:
    columns = [list(column) for column in zip(*EQUAL, strict=True)]
    equal = list(pool.map(claimed, *columns, [worlds] * len(EQUAL)))
    clones = list(pool.map(ranged, prompts, [worlds] * len(prompts)))
    lines = [
        "# Rank ranges, measured",
        "",
        (
            f"{datetime.now(UTC):%Y-%m-%d}, Tiltyard {__version__}, by `python bench/intervals.py --only ranks --worlds "
            f"{worlds}`. {worlds} worlds in each row: models of one strength, {BATTLES:,} battles, model × prompt "
            f"effects SD {EFFECT_SD} logit, 16 % ties, 7 % both bad. Whoever is said to be above another is so "
            "falsely; that should happen in at most 5 % of worlds. In brackets: standard error over worlds. Uneven "
            "prompts come up by shares drawn from a Pareto distribution with that exponent. *Withheld* is the share "
            "of models of which no order is claimed, because too few prompts decide their ratings."
        ),
        "",
        "| models | prompts | | worlds with a false claim | withheld |",
        "|--:|--:|---|--:|--:|",
    ]
    for (models, number, pareto), found in zip(EQUAL, equal, strict=True):
        uneven = "even" if pareto is None else f"Pareto {pareto}"
        false = f"{100 * found.share:.1f} % ({100 * found.error:.1f})"
        lines.append(f"| {models} | {number} | {uneven} | {false} | {100 * found.withheld:.0f} % |")
    lines += [
        "",
        (
            f"In clone worlds ({MODELS} models of strength SD 200, equal in pairs): share of worlds in which *all* true "
            "ranks lie in their ranges at once, to be 95 % or more."
        ),
        "",
        "| | " + " | ".join(f"{number} prompts" for number in prompts) + " |",
        "|---|" + "--:|" * len(prompts),
        "| all ranks in range | " + " | ".join(f"{100 * share:.1f} %" for share in clones) + " |",
        "",
    ]
    return "\n".join(lines)


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


PAGES = {"intervals": interval_page, "ranks": rank_page, "prior": prior_page}


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
