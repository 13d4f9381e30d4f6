"""Are intervals true? `python bench/intervals.py --worlds 200 --out RESULTS.md` (about half an hour).

In simulated worlds with prompt effects the truth is known: the rating that endless battles on
endless prompts would give. Counted is how often each kind of interval holds it.
"""

from __future__ import annotations

import argparse
from concurrent.futures import ProcessPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

from tiltyard._version import __version__
from tiltyard.lab.intervals import Coverage, coverage, rank_coverage

PROMPTS = (8, 15, 30, 100)
MODELS, BATTLES, EFFECT_SD = 10, 3000, 0.5


def measured(prompts: int, worlds: int) -> tuple[list[Coverage], float]:
    sizes = {"models": MODELS, "battles": BATTLES, "effect_sd": EFFECT_SD}
    return coverage(prompts, worlds, **sizes), rank_coverage(prompts, worlds, **sizes)


def page(results: dict[int, tuple[list[Coverage], float]], worlds: int) -> str:
    first = next(iter(results.values()))[0]
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
    for k, kind in enumerate(first):
        cells = [results[prompts][0][k] for prompts in results]
        texts = [f"{100 * c.covered:.1f} % ({100 * c.error:.1f}) ±{c.half_width:.0f}" for c in cells]
        lines.append(f"| {kind.made_by} | " + " | ".join(texts) + " |")
    ranks = " | ".join(f"{100 * share:.1f} %" for _, share in results.values())
    lines += [
        "",
        (
            "Rank ranges, in clone worlds (models equal in pairs): share of worlds in which *all* true ranks lie "
            "in their ranges at once, to be 95 % or more."
        ),
        "",
        "| | " + " | ".join(f"{prompts} prompts" for prompts in results) + " |",
        "|---|" + "--:|" * len(results),
        f"| all ranks in range | {ranks} |",
        "",
    ]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--worlds", type=int, default=200)
    parser.add_argument("--prompts", type=int, nargs="*", default=list(PROMPTS))
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    with ProcessPoolExecutor(options.processes) as pool:
        found = pool.map(measured, options.prompts, [options.worlds] * len(options.prompts))
        results = dict(zip(options.prompts, found, strict=True))
    markdown = page(results, options.worlds)
    print(markdown)
    if options.out:
        options.out.write_text(markdown)


if __name__ == "__main__":
    main()
