"""``python -m lab.placement``: how often the intervals of placed models hold the truth, as one page.

Finished worlds are kept: an interrupted run is resumed, and more worlds extend it. `just place-study` runs it at full
size.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from lab.bars import SIZES, StudyRuns
from lab.placement_studies import PLACEMENT, PlacementResult, PlacementSettings, SimulatedJudge
from tiltyard._version import __version__
from tiltyard.simulation.studies import lab_folder, summarise
from tiltyard.simulation.worlds import WorldSettings

#: The world that 0.1 failed in: 15 models, 100 prompts, effects of 0.3 logits, no ties.
FIRST = WorldSettings(
    15, 100, close_top=False, effect_sd=0.3, ties=0.0, both_bad=0.0, lazy=0.0, position_bias=0.0
)

#: Standard deviations of the judge's bias, in logits.
BIAS_LOGITS = (0.0, 0.25, 0.5)


@dataclass(frozen=True, slots=True)
class PlacementCell:
    """One kind of world and judge, and the results of its worlds."""

    name: str
    settings: PlacementSettings
    results: Sequence[PlacementResult] = ()


def placement_cells() -> list[PlacementCell]:
    """Every kind of world, the first three being those of the claim."""
    plain = PlacementSettings(FIRST)
    return [
        *_by_spread("", plain, BIAS_LOGITS),
        *_by_spread(
            "100 judged battles, a prompt each", replace(plain, judged=100, own_prompts=True), BIAS_LOGITS
        ),
        *_by_spread("5 opponents", replace(plain, opponents=5), BIAS_LOGITS),
        *(cell for name, kind in _hostile(plain).items() for cell in _by_spread(name, kind, (0.0, 0.5))),
    ]


def _by_spread(name: str, kind: PlacementSettings, spreads: Iterable[float]) -> list[PlacementCell]:
    return [
        PlacementCell(name, replace(kind, judge=replace(kind.judge, bias_sd=spread))) for spread in spreads
    ]


def _hostile(plain: PlacementSettings) -> dict[str, PlacementSettings]:
    lived_in = replace(FIRST, effect_sd=0.5, ties=0.16, both_bad=0.07, position_bias=0.1)
    heavy = replace(FIRST, voters=200, voter_sd=0.5, voter_pareto=1.1)
    return {
        "600 judged battles between the others": replace(plain, judged_between=600),
        "battles per prompt Pareto 1.1": replace(plain, world=replace(FIRST, prompt_pareto=1.1)),
        "200 heavy voters": replace(plain, world=heavy),
        "ties, both bad, effects 0.5": replace(plain, world=lived_in),
        "people tie in 25 %, the judge never": replace(
            plain, world=replace(FIRST, ties=0.25), judge=SimulatedJudge(ties=0.0)
        ),
        "the judge has effects of its own, 0.5": replace(plain, judge=SimulatedJudge(effect_sd=0.5)),
        **{
            f"differences {slope:g} times people's": replace(plain, judge=SimulatedJudge(decisiveness=slope))
            for slope in (0.5, 1.8)
        },
        "500 human votes": replace(plain, votes=500),
        "4 opponents: judge only": replace(plain, opponents=4),
        "the placed model is favoured by 0.5": replace(plain, judge=SimulatedJudge(favour=0.5)),
    }


_WORLDS = """15 models with strengths of a standard deviation of 200 points, 100 prompts with effects of model × prompt \
of 0.3 logits, about 5,000 human votes. Each model in turn is left out of the human votes and placed by 300 battles that a \
judge decides; the judge's bias by model is normal, its standard deviation (*bias SD*) is in logits (a logit is 174 \
points). *Covered* is the share of differences between the placed model and the others whose 95 % interval holds the \
truth by people, in brackets its standard error over worlds, *best* and *worst* the same where the placed model is the best or worst of all, and *no interval* the share that has none; *half-width* is the median of those intervals and *error* \
the root mean square of the differences, in points; *bias* is the estimated standard deviation of the bias (the median, in \
points); *range wrong* is the share of placements whose true place is outside the range of places, and *places* the \
mean number of places in it, of 15. *Pooled*: human and judged battles rated as if of one kind."""


def placement_page(cells: Sequence[PlacementCell], command: str) -> str:
    """The table as Markdown."""
    return "\n".join(
        [
            "# Placements, measured",
            "",
            f"{datetime.now(UTC):%Y-%m-%d}, Tiltyard {__version__}, by `{command}`. {_WORLDS}",
            "",
            "| world | worlds | bias SD | covered | best | worst | no interval | half-width | error | bias | range wrong | places | pooled: covered | half-width |",
            "|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|",
            *map(_line, cells),
            "",
        ]
    )


def _line(cell: PlacementCell) -> str:
    results = cell.results

    def mean(values: Iterable[float | None], form: str) -> str:
        known = [value for value in values if value is not None]
        return format(summarise(known).mean, form) if len(known) > 1 else "–"

    covered = summarise([one.covered for one in results])
    columns = (
        cell.name or "as described",
        str(len(results)),
        f"{cell.settings.judge.bias_sd:g}",
        f"{covered.mean:.3f} ({covered.error:.3f})",
        mean((one.best_covered for one in results), ".3f"),
        mean((one.worst_covered for one in results), ".3f"),
        mean((one.refused for one in results), ".2f"),
        mean((one.half_width for one in results), ".0f"),
        mean((one.error for one in results), ".0f"),
        mean((one.bias_sd for one in results), ".0f"),
        mean((one.false_range for one in results), ".3f"),
        mean((one.places for one in results), ".1f"),
        mean((one.pooled_covered for one in results), ".3f"),
        mean((one.pooled_half_width for one in results), ".0f"),
    )
    return f"| {' | '.join(columns)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--worlds", type=int, default=100, help="worlds of the claim")
    parser.add_argument("--hostile-worlds", type=int, default=100, help="worlds of every other kind")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--out", type=Path, help="a Markdown file")
    options = parser.parse_args()
    runs = StudyRuns(SIZES["full"], lab_folder(), options.processes, lambda _name, _done, _total: None)
    done = []
    for cell in placement_cells():
        worlds = options.hostile_worlds if cell.name else options.worlds
        done.append(replace(cell, results=runs(PLACEMENT, cell.settings, worlds)))
        sys.stdout.write(_line(done[-1]) + "\n")
        sys.stdout.flush()
    if options.out:
        sizes = f"--worlds {options.worlds} --hostile-worlds {options.hostile_worlds}"
        page = placement_page(done, f"python -m lab.placement {sizes}")
        options.out.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
