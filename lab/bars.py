"""`PolicyBar`: a figure that the ranking policy must reach, what was measured, and whether it was reached."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from tiltyard.simulate.studies import MeanFigure, Median, Proportion, Study, run_study

__all__ = [
    "SIZES",
    "BarThreshold",
    "Measured",
    "PolicyBar",
    "StudyRuns",
    "SuiteProgress",
    "SuiteSize",
    "make_bar",
]

SettingsT = TypeVar("SettingsT")
ResultT = TypeVar("ResultT")

#: What a figure may be made as.
Measured = MeanFigure | Median | Proportion
#: Hears what is being run, how many seeds of it are done, and of how many.
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
    #: What was measured, with its 95 % interval; none where it never came to a number.
    figure: float | None
    low: float | None
    high: float | None
    #: The figure must be no less than this, and no more than that.
    least: float | None
    most: float | None
    #: What is asked, in words.
    asked: str
    #: Whether it was reached; none where this size of run cannot decide.
    holds: bool | None
    #: Seeds.
    n: int
    #: The same figure of other matchmakers, or of other conditions, by name.
    beside: dict[str, float | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SuiteSize:
    """How much is run."""

    name: str
    #: Seeds of most rows (of v1 too), of the other matchmakers, of the paired gain, of RDs; worlds of
    #: intervals, clone worlds of each of four kinds, and pairs whose votes to a mark are counted.
    seeds: int = 24
    others: int = 8
    paired: int = 100
    rds: int = 24
    worlds: int = 200
    clones: int = 150
    pairs: int = 1000
    #: No arena gets more votes than this. Where it binds, rows that need more have no verdict.
    votes: int | None = None

    def beside(self, matchmaker: str) -> int:
        """Seeds of an arena under this matchmaker: v1 is what the policy must beat."""
        return self.seeds if matchmaker in ("policy", "v1") else self.others

    def capped(self, votes: int) -> int:
        return votes if self.votes is None else min(votes, self.votes)


SIZES: Mapping[str, SuiteSize] = {
    "full": SuiteSize("full"),
    "small": SuiteSize("small", seeds=2, others=1, paired=2, rds=8, worlds=4, clones=1, pairs=2, votes=2_250),
}


#: So few seeds run in this process: starting others would take longer.
_IN_PROCESS_SEEDS = 4


class StudyRuns:
    """Runs studies, each seed once, whichever rows ask for it."""

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
    """A bar with its verdict, if these runs can decide. ``reached`` is for bars on more than the figure."""
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
