"""Measures all bars of the ranking policy. It may take hours and is run by name.

Rows may be run separately; with a folder, results are cached, and an interrupted suite is resumed.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from pathlib import Path

from lab.bars import SIZES, PolicyBar, StudyRuns, SuiteProgress, SuiteSize
from lab.policy_bars import ROWS
from tiltyard.errors import BadOption


@dataclass(frozen=True, slots=True)
class SuiteResult:
    """The measured table of bars."""

    size: str
    bars: tuple[PolicyBar, ...]

    @property
    def holds(self) -> bool:
        """Whether no bar was missed."""
        return all(bar.holds is not False for bar in self.bars)


def run_suite(
    size: str = "small",
    *,
    seeds: int | None = None,
    folder: Path | None = None,
    processes: int = 0,
    on_progress: SuiteProgress = lambda _what, _done, _total: None,
    only: Collection[str] = (),
) -> SuiteResult:
    """Measure the bars, or ``only`` those named.

    ``small`` takes about a minute and gives a verdict only where that suffices. ``seeds``
    replaces every number of seeds; a bar that needs more has no verdict.
    """
    names, chosen = bar_names(only), _size(size, seeds)
    runs = StudyRuns(chosen, folder, processes, on_progress)
    return SuiteResult(chosen.name, tuple(ROWS[name](runs) for name in names))


def bar_names(only: Collection[str]) -> tuple[str, ...]:
    """Names of rows, in the order of the table. A first word selects all rows that start with it; no names select all."""
    unknown = [name for name in only if not any(_means(name, row) for row in ROWS)]
    if unknown:
        raise BadOption(f"no row is called {', '.join(unknown)}; expected some of {', '.join(ROWS)}")
    return tuple(row for row in ROWS if not only or any(_means(name, row) for name in only))


def _means(name: str, row: str) -> bool:
    return row == name or row.startswith(f"{name}-")


def _size(name: str, seeds: int | None) -> SuiteSize:
    if name not in SIZES:
        raise BadOption(f"the size is {name!r}; expected one of {', '.join(SIZES)}")
    if seeds is None:
        return SIZES[name]
    if seeds < 1:
        raise BadOption(f"seeds is {seeds}; expected 1 or more")
    return replace(
        SIZES[name],
        seeds=seeds,
        others=seeds,
        paired=seeds,
        rds=seeds,
        worlds=seeds,
    )
