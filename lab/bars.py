"""`PolicyBar`: a threshold of the ranking policy, the measured figure, and whether it was reached."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from tiltyard.simulation.studies import BoundedFigure, MeanFigure, Study, run_study

SettingsT = TypeVar("SettingsT")
ResultT = TypeVar("ResultT")

#: The types of a figure.
Measured = MeanFigure | BoundedFigure
#: Called with the name of the study, the number of finished seeds and their total.
SuiteProgress = Callable[[str, int, int], None]


@dataclass(frozen=True, slots=True)
class BarThreshold:
    """What is asked of a figure: no less than this, no more than that, in words of its own if need be."""

    least: float | None = None
    most: float | None = None
    words: str | None = None

    @property
    def text(self) -> str:
        if self.words is not None:
            return self.words
        if self.least is None or self.most is None:
            return f"at most {self.most:g}" if self.least is None else f"at least {self.least:g}"
        return f"{self.least:g} to {self.most:g}"

    def holds(self, figure: float | None) -> bool:
        """Whether a figure is inside."""
        if figure is None:
            return False
        return (self.least is None or figure >= self.least) and (self.most is None or figure <= self.most)


@dataclass(frozen=True, slots=True)
class PolicyBar:
    """One row of the table of bars."""

    name: str
    text: str
    #: The measured figure with its 95 % interval; ``None`` if there is none.
    figure: float | None
    low: float | None
    high: float | None
    #: Minimum and maximum of the figure.
    least: float | None
    most: float | None
    #: The requirement in words.
    asked: str
    #: Whether it was reached; ``None`` if this size of run cannot decide.
    holds: bool | None
    #: Seeds.
    n: int
    #: The same figure for other matchmakers or conditions, by name.
    beside: dict[str, float | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SuiteSize:
    """The size of a run."""

    name: str
    #: Seeds of most rows (of v1 too), of the other matchmakers, of the paired gain, of RDs, and worlds
    #: of intervals.
    seeds: int = 24
    others: int = 8
    paired: int = 100
    rds: int = 24
    worlds: int = 200
    #: Maximum votes of an arena. Rows that need more have no verdict.
    votes: int | None = None

    def beside(self, matchmaker: str) -> int:
        """Number of seeds for this matchmaker; v1 is the baseline that the policy must beat."""
        return self.seeds if matchmaker in ("policy", "v1") else self.others

    def capped(self, votes: int) -> int:
        return votes if self.votes is None else min(votes, self.votes)


SIZES: Mapping[str, SuiteSize] = {
    "full": SuiteSize("full"),
    "small": SuiteSize("small", seeds=2, others=1, paired=2, rds=8, worlds=4, votes=2_250),
}


#: Up to this number, seeds run in this process: starting others would take longer.
_IN_PROCESS_SEEDS = 4


class StudyRuns:
    """Runs studies; each seed is run once, even if several rows need it."""

    def __init__(
        self, size: SuiteSize, folder: Path | None, processes: int, on_progress: SuiteProgress
    ) -> None:
        self.size = size
        self._folder = folder
        self._processes = processes
        self._on_progress = on_progress
        self._made: dict[tuple[str, Any], list[Any]] = {}

    def __call__(self, study: Study[SettingsT, ResultT], settings: SettingsT, n: int) -> list[ResultT]:
        """The study's results at seeds 0 to n − 1."""
        made = self._made.setdefault((study.name, settings), [])
        if len(made) < n:
            made += run_study(
                study,
                settings,
                range(len(made), n),
                folder=self._folder,
                processes=self._processes if n - len(made) > _IN_PROCESS_SEEDS else 0,
                on_progress=lambda done, total: self._on_progress(study.name, done, total),
            )
        return made[:n]


def make_bar(
    name: str,
    text: str,
    measured: Measured | None,
    *,
    asked: BarThreshold,
    decides: bool,
    reached: bool | None = None,
    beside: Mapping[str, float | None] | None = None,
) -> PolicyBar:
    """A bar with its verdict, if these runs suffice. ``reached`` is for bars that depend on more than the figure."""
    value, low, high, n = _parts(measured)
    figure = _finite(value)
    return PolicyBar(
        name=name,
        text=text,
        figure=figure,
        low=_finite(low),
        high=_finite(high),
        least=asked.least,
        most=asked.most,
        asked=asked.text,
        holds=(asked.holds(figure) if reached is None else reached) if decides else None,
        n=n,
        beside=dict(beside or {}),
    )


def _parts(measured: Measured | None) -> tuple[float, float, float, int]:
    if measured is None:
        return math.nan, math.nan, math.nan, 0
    if isinstance(measured, MeanFigure):
        return measured.mean, *measured.interval(), measured.n
    return measured.value, measured.low, measured.high, measured.n


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
