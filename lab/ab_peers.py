"""Scores of samples that come in clusters: `tiltyard ab` beside a t test of the clusters' means, evalsig and evalstats.

The two packages are no dependencies: a tool that is not installed has no column of figures. With both:
``uv run --with evalsig --with evalstats python -m lab.ab_study``.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import stats

from tiltyard.files.answer import Answer
from tiltyard.report.ab_report import ABReport
from tiltyard.tournaments.ab_comparison import ab

Floats = npt.NDArray[np.float64]

#: Samples in each cluster.
PASSAGES = {"20 of 25": (25,) * 20}
#: Standard deviations, over clusters, of the difference between the chances of the two models.
SPREAD_RATIOS = (0.0, 0.1, 0.15, 0.25)
#: The true difference where there is one.
_GAP_RATIO = 0.1


@dataclass(frozen=True)
class PassageWorld:
    """Two models' scores of the same samples, 0 or 1, and the cluster of each sample."""

    first: Floats
    second: Floats
    clusters: npt.NDArray[np.int64]

    @property
    def means(self) -> Floats:
        """The mean difference of each cluster."""
        sizes = np.bincount(self.clusters)
        return np.asarray(np.bincount(self.clusters, self.second - self.first) / sizes)


def draw_world(sizes: Sequence[int], spread: float, gap: float, rng: np.random.Generator) -> PassageWorld:
    """A world whose true difference is ``gap``, for clusters like these."""
    clusters = np.repeat(np.arange(len(sizes)), sizes)
    effects = gap + rng.normal(0.0, spread, len(sizes))[clusters]
    chances = 0.5 + np.array([[-0.5], [0.5]]) * effects
    first, second = (rng.random((2, len(clusters))) < chances).astype(float)
    return PassageWorld(first, second, clusters)


def _answers(model: str, scores: Floats, world: PassageWorld) -> list[Answer]:
    return [
        Answer(
            prompt_id=f"q{k}",
            prompt=f"Question {k}?",
            model=model,
            response="",
            kind="scores",
            scores={"accuracy": float(score)},
            extra={"passage": f"passage {passage}"},
        )
        for k, (score, passage) in enumerate(zip(scores, world.clusters, strict=True))
    ]


def _reports(world: PassageWorld) -> dict[str, ABReport]:
    """What `ab` says without an option, with the cluster chosen, and as if samples were independent."""
    sides = _answers("a", world.first, world), _answers("b", world.second, world)
    return {"": ab(*sides)} | {name: ab(*sides, cluster=name) for name in ("passage", "prompt")}


def _t_test(world: PassageWorld) -> bool:
    return bool(stats.ttest_1samp(world.means, 0.0).pvalue < 0.05)


def _evalsig(world: PassageWorld, cluster: str | None = None) -> bool:
    import evalsig  # type: ignore[import-not-found, unused-ignore]

    def run(model: str, scores: Floats) -> Any:
        items = [
            evalsig.ItemResult(f"q{k}", float(score), f"passage {passage}")
            for k, (score, passage) in enumerate(zip(scores, world.clusters, strict=True))
        ]
        return evalsig.RunFrame(model, model, "task", "accuracy", items)

    return bool(evalsig.compare(run("a", world.first), run("b", world.second), cluster=cluster).significant)


def _evalstats(world: PassageWorld) -> bool:
    import evalstats  # type: ignore[import-not-found, unused-ignore]
    import pandas as pd

    count = len(world.first)
    frame = pd.DataFrame(
        {
            "model": ["a"] * count + ["b"] * count,
            "item": [f"q{k}" for k in range(count)] * 2,
            "score": np.concatenate([world.first, world.second]),
        }
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = evalstats.compare(evalstats.load_from(frame), factors="model")
    return bool(found.to_frame()["pairwise"]["significant"].iloc[0])


#: Whether another tool tells the two models apart, by its name in the table and the package that it needs.
_PEERS: dict[str, tuple[str, Callable[[PassageWorld], bool]]] = {
    "t test of clusters": ("scipy", _t_test),
    "evalsig": ("evalsig", _evalsig),
    "evalsig, clusters": ("evalsig", lambda world: _evalsig(world, "passage")),
    "evalstats": ("evalstats", _evalstats),
}
_OURS = {"": "`ab`", "passage": "`--cluster`", "prompt": "`--cluster prompt`"}


def told_apart(sizes: Sequence[int], spread: float, gap: float, worlds: int) -> Counter[str]:
    """In how many worlds each tool tells the two models apart; and in how many the clusters are ``found`` by `ab`."""
    rng, told = np.random.default_rng([29, len(sizes), round(100 * spread), round(100 * gap)]), Counter[str]()
    peers = {name: told_by for name, (package, told_by) in _PEERS.items() if find_spec(package)}
    for _ in range(worlds):
        world = draw_world(sizes, spread, gap, rng)
        reports = _reports(world)
        told["found"] += _width(reports[""]) > _width(reports["prompt"])
        told.update({shown: reports[name].decision in {"better", "worse"} for name, shown in _OURS.items()})
        told.update({name: told_by(world) for name, told_by in peers.items()})
    return told


def _width(report: ABReport) -> float:
    return report.high - report.low


def _row(name: str, spread: float, gap: float, worlds: int) -> str:
    told = told_apart(PASSAGES[name], spread, gap, worlds)
    figures = [
        f"{told[column] / worlds:.1%}" if column in told else "–"
        for column in ("found", *_OURS.values(), *_PEERS)
    ]
    return f"| {name} | {spread:g} | {gap:g} | {' | '.join(figures)} |"


def peer_tables(worlds: int, processes: int) -> Iterator[str]:
    """The section of the page: what it says, and a row for each world."""
    columns = ["clusters", "spread", "difference", "found", *_OURS.values(), *_PEERS]
    rows = [
        (name, spread, gap, worlds)
        for name in PASSAGES
        for gap in (0.0, _GAP_RATIO)
        for spread in SPREAD_RATIOS
    ]
    yield (
        f"{worlds:,} worlds of each kind: samples scored 0 or 1 by both models, in clusters whose differences spread by a "
        "standard deviation around the true one. The share in which a tool tells the models apart: where the difference is 0, "
        "that is false. *Found*: `ab` without an option finds the clusters by its test; `--cluster` chooses them; `--cluster "
        f"prompt` takes samples for independent. {_installed()}"
    )
    yield from ("", f"| {' | '.join(columns)} |", f"|---{'|--:' * (len(columns) - 1)}|")
    with ProcessPoolExecutor(processes) as pool:
        yield from pool.map(_row, *zip(*rows, strict=True))


def _installed() -> str:
    found = []
    for package in ("evalsig", "evalstats"):
        try:
            found.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            found.append(f"{package} was not installed")
    return (
        f"{', '.join(found)}: as they compare without an option, and evalsig's bootstrap of clusters; evalstats has no "
        "option for clusters."
    )
