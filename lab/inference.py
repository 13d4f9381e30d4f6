"""``python -m lab.inference``: intervals and claims of order in kind and hostile worlds, as one page of tables.

Finished worlds are kept: an interrupted run is resumed, and more worlds extend it. `just inference` runs it at full
size.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from lab.bars import SIZES, StudyRuns
from lab.inference_studies import INFERENCE, InferenceResult, InferenceSettings
from tiltyard._version import __version__
from tiltyard.core.ratings import BradleyTerry
from tiltyard.simulation.studies import lab_folder, summarise
from tiltyard.simulation.worlds import WorldSettings, hostile_world

#: Rows of both tables: models, prompts, Pareto's exponent of battles per prompt, and names of hostile worlds.
Row = tuple[int, int, float, str]


@dataclass(frozen=True, slots=True)
class Cell:
    """One kind of world, and the results of its worlds."""

    settings: InferenceSettings
    name: str
    results: Sequence[InferenceResult] = ()


def _settings(row: Row, battles: int, *, lanes: bool = False) -> InferenceSettings:
    models, prompts, pareto, hostile = row
    kind = WorldSettings(models, prompts, close_top=False, lazy=0.0, prompt_pareto=pareto)
    return InferenceSettings(hostile_world(hostile, kind) if hostile else kind, battles, lanes)


def _name(row: Row, *, lanes: bool = False) -> str:
    _, _, pareto, hostile = row
    parts = [*(hostile.split("+") if hostile else ()), *([f"Pareto {pareto:g}"] if pareto else ())]
    return ", ".join([*parts, *(["lanes"] if lanes else ())]) or "kind"


#: Prompts × evenness × voters, for few and for many models.
COVERAGE: tuple[Row, ...] = tuple(
    (models, prompts, pareto, hostile)
    for models in (10, 40)
    for hostile in ("", "voters", "heavy-voters")
    for prompts in (20, 30, 100)
    for pareto in (0.0, 2.0, 1.1, 0.7)
)
#: Worlds in which a claim of order is false, or costs power.
CLAIMS: tuple[Row, ...] = (
    *((models, prompts, 0.0, "equal") for models in (10, 20, 40) for prompts in (8, 20, 143)),
    *((20, prompts, pareto, "equal") for prompts in (30, 100) for pareto in (1.1, 0.7)),
    *((20, 100, 0.0, name) for name in ("clone", "equal+voters", "equal+heavy-voters", "clone+heavy-voters")),
    (20, 100, 1.1, "equal+heavy-voters"),
    (20, 20, 0.0, ""),
    (20, 50, 0.0, ""),
)


def coverage_cells(models: Iterable[int] = (10, 40)) -> list[Cell]:
    chosen = set(models)
    cells = [
        Cell(_settings(row, 3000 if row[0] == 10 else 8000), _name(row))
        for row in COVERAGE
        if row[0] in chosen
    ]
    if 10 in chosen:
        kind, near = (10, 100, 0.0, ""), (10, 100, 0.0, "near-separated")
        cells.append(Cell(_settings(kind, 3000, lanes=True), _name(kind, lanes=True)))
        cells.append(Cell(_settings(near, 3000), _name(near)))
    return cells


def unlimited_cells() -> list[Cell]:
    """Uneven worlds of ten models, rated without a limit on what one prompt or voter weighs."""
    cells = [
        cell for cell in coverage_cells((10,)) if cell.settings.world.prompt_pareto or "heavy" in cell.name
    ]
    method = BradleyTerry(max_share=None)
    return [replace(cell, settings=replace(cell.settings, method=method)) for cell in cells]


def claim_cells() -> list[Cell]:
    return [Cell(_settings(row, 150 * row[0]), _name(row)) for row in CLAIMS]


_WORLDS = """Strengths have a standard deviation of 200 points, effects of model × prompt one of half a logit, ties are \
16 %, both bad 7 %. *Pareto* is the exponent of the distribution of battles per prompt. *voters*: 20 voters with tastes \
of half a logit; *heavy-voters*: 200 of them whose activity is Pareto with exponent 1.1; *lanes*: the policy chooses \
pairs and prompts; *near-separated*: one model wins 49 of 50 decisive votes. The truth is that of the population of \
prompts and voters. In brackets: standard errors over worlds."""
_INTERVALS = """*Covered* is the share of true ratings, and of true differences, inside their 95 % intervals; *no interval* \
the share of ratings that get none; *half-width* and *error* (root mean square) are medians over worlds in points; *to \
the oracle's* compares half-widths with those of somebody who makes the same estimate and knows its covariance; ν is \
the median of the effective degrees of freedom."""
_UNLIMITED = (
    """The uneven worlds of ten models again, rated without the limit on what one prompt or voter weighs."""
)
_CLAIMS = """Rank ranges at 95 % for all pairs at once, 150 battles for each model. Among equal models every claim is \
false. The oracle draws its critical number from the true covariance."""


def inference_page(
    cells: Sequence[Cell], unlimited: Sequence[Cell], claims: Sequence[Cell], command: str
) -> str:
    """All tables as Markdown."""
    heads = (
        "| models | prompts | world | ratings covered | differences covered | no interval | half-width | to the oracle's | error | ν |",
        "|--:|--:|---|--:|--:|--:|--:|--:|--:|--:|",
    )
    return "\n".join(
        [
            "# Intervals and claims in hostile worlds, measured",
            "",
            f"{datetime.now(UTC):%Y-%m-%d}, Tiltyard {__version__}, by `{command}`. {_WORLDS}",
            "",
            "## Intervals",
            "",
            _INTERVALS,
            "",
            *heads,
            *(_coverage_row(cell) for cell in cells),
            "",
            "## Without the limit",
            "",
            _UNLIMITED,
            "",
            *heads,
            *(_coverage_row(cell) for cell in unlimited),
            "",
            "## Claims of order",
            "",
            _CLAIMS,
            "",
            "| models | prompts | world | worlds with a false claim | pairs claimed | the oracle's |",
            "|--:|--:|---|--:|--:|--:|",
            *(_claim_row(cell) for cell in claims),
            "",
        ]
    )


def _coverage_row(cell: Cell) -> str:
    def share(values: Iterable[float | None]) -> str:
        known = [value for value in values if value is not None]
        return f"{(found := summarise(known)).mean:.3f} ({found.error:.3f})" if len(known) > 1 else "–"

    def middle(values: Iterable[float | None], digits: int) -> str:
        known = sorted(value for value in values if value is not None)
        return f"{known[len(known) // 2]:.{digits}f}" if known else "–"

    results, world = cell.results, cell.settings.world
    columns = (
        str(world.models),
        str(world.prompts),
        cell.name,
        share(one.ratings_covered for one in results),
        share(one.differences_covered for one in results),
        f"{summarise([one.refused for one in results]).mean:.2f}",
        middle((one.half_width for one in results), 0),
        middle((one.to_oracle for one in results), 2),
        middle((one.error for one in results), 0),
        middle((one.dof for one in results), 1),
    )
    return f"| {' | '.join(columns)} |"


def _claim_row(cell: Cell) -> str:
    results, world = cell.results, cell.settings.world
    false = sum(one.false_claim for one in results)
    columns = (
        str(world.models),
        str(world.prompts),
        cell.name,
        f"{false} of {len(results)}",
        f"{summarise([one.claims for one in results]).mean:.1f}",
        f"{summarise([one.oracle_claims for one in results]).mean:.1f}",
    )
    return f"| {' | '.join(columns)} |"


def _run(runs: StudyRuns, cells: Sequence[Cell], worlds: int, row: Callable[[Cell], str]) -> list[Cell]:
    """Run every kind of world, and print its row when it is done."""
    done = []
    for cell in cells if worlds else ():
        done.append(replace(cell, results=runs(INFERENCE, cell.settings, worlds)))
        sys.stdout.write(row(done[-1]) + "\n")
        sys.stdout.flush()
    return done


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--worlds", type=int, default=300, help="worlds of each kind, for intervals")
    parser.add_argument("--claim-worlds", type=int, default=400, help="the same, for claims of order")
    parser.add_argument(
        "--unlimited-worlds", type=int, default=100, help="the same, without a limit on weights"
    )
    parser.add_argument("--models", type=int, nargs="*", default=[10, 40])
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--out", type=Path, help="a Markdown file")
    options = parser.parse_args()
    runs = StudyRuns(SIZES["full"], lab_folder(), options.processes, lambda _name, _done, _total: None)
    covered = _run(runs, coverage_cells(options.models), options.worlds, _coverage_row)
    unlimited = _run(runs, unlimited_cells(), options.unlimited_worlds, _coverage_row)
    claimed = _run(runs, claim_cells(), options.claim_worlds, _claim_row)
    if options.out:
        sizes = f"--worlds {options.worlds} --unlimited-worlds {options.unlimited_worlds} --claim-worlds {options.claim_worlds}"
        models = " ".join(map(str, options.models))
        page = inference_page(
            covered, unlimited, claimed, f"python -m lab.inference {sizes} --models {models}"
        )
        options.out.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
