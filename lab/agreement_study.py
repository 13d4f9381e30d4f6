"""``python -m lab.agreement_study``: do the intervals of raters' agreement hold the truth in simulated panels?

`just agreement-study` runs it at full size, in some minutes.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import combinations
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from lab.study_pages import write_page
from tiltyard._version import __version__
from tiltyard.core.judging.diagnostics.rater_agreement import (
    AgreementFigure,
    RaterValue,
    RaterVotes,
    rater_agreement,
)

Floats = npt.NDArray[np.float64]

#: Prompts of the endless panel that stands for the truth.
_ENDLESS_PROMPTS = 4000
#: The figures whose intervals are counted: of all, and of one rater.
_FIGURES = ("α", "pairs", "α of one rater", "pairs of one rater")


@dataclass(frozen=True, slots=True)
class RaterKind:
    """What raters are like: how models and prompts differ, how noisily raters look, and how often they do not."""

    strength: float
    effect: float
    tie: float
    #: For the best and the worst rater; the others lie between.
    noise: tuple[float, float]
    careless: tuple[float, float]
    both_bad: float


class PanelSize(NamedTuple):
    """A panel: raters, prompts, models, votes on each item, and the share of votes that are missing."""

    raters: int
    prompts: int
    models: int
    overlap: int
    missing: float = 0.0
    #: The share that the laziest rater leaves out besides.
    lazy: float = 0.0

    def __str__(self) -> str:
        text = f"{self.raters} raters, {self.prompts} prompts, {self.models} models, k = {self.overlap}"
        return f"{text}, votes missing" if self.missing else text


RATERS = {
    "nearly always agree": RaterKind(1.0, 0.8, 0.05, (0.05, 0.05), (0.0, 0.0), 0.0),
    "agree well": RaterKind(1.0, 0.8, 0.25, (0.5, 0.5), (0.02, 0.02), 0.05),
    "agree somewhat": RaterKind(0.5, 1.0, 0.4, (1.0, 1.0), (0.05, 0.05), 0.1),
    "unequal": RaterKind(0.5, 1.0, 0.4, (0.2, 2.0), (0.0, 0.5), 0.05),
    "many both bad": RaterKind(0.3, 1.0, 0.4, (1.0, 1.0), (0.05, 0.05), 0.3),
    "vote at random": RaterKind(0.0, 0.0, 0.4, (1.0, 1.0), (1.0, 1.0), 0.0),
}
PANELS = (
    PanelSize(6, 8, 4, 2),
    PanelSize(6, 8, 4, 6),
    PanelSize(6, 8, 4, 3, missing=0.2, lazy=0.6),
    PanelSize(6, 20, 4, 3),
    PanelSize(6, 20, 4, 3, missing=0.2, lazy=0.6),
    PanelSize(12, 60, 4, 2),
    PanelSize(12, 60, 4, 2, missing=0.2, lazy=0.6),
)


def simulate_panel(kind: RaterKind, size: PanelSize, rng: np.random.Generator) -> RaterVotes:
    """The votes of one panel: every pair of models on every prompt, by ``overlap`` raters each."""
    pairs = np.array(list(combinations(range(size.models), 2)))
    quality = np.linspace(0.0, kind.strength, size.models) + rng.normal(
        0.0, kind.effect, (size.prompts, size.models)
    )
    lead = (quality[:, pairs[:, 0]] - quality[:, pairs[:, 1]]).ravel()
    prompt_of_item = np.repeat(np.arange(size.prompts), len(pairs))
    chosen = np.argsort(rng.random((len(lead), size.raters)), axis=1)[:, : size.overlap]
    item, rater = np.repeat(np.arange(len(lead)), chosen.shape[1]), chosen.ravel()
    prompt = prompt_of_item[item]
    hard, bad = np.exp(rng.normal(0.0, 0.5, size.prompts)), rng.random(size.prompts) < kind.both_bad
    seen = lead[item] + rng.normal(0.0, 1.0, len(item)) * _spread(kind.noise, size)[rater] * hard[prompt]
    value = np.where(seen > 0.0, RaterValue.FIRST, RaterValue.SECOND)
    value = np.where(np.abs(seen) < kind.tie, RaterValue.TIE, value)
    careless = rng.random(len(item)) < _spread(kind.careless, size)[rater]
    value = np.where(careless, rng.integers(0, 3, len(item)), value)
    value = np.where(bad[prompt] & (rng.random(len(item)) < 0.7), RaterValue.BOTH_BAD, value)
    kept = rng.random(len(item)) >= size.missing
    kept &= rng.random(len(item)) >= np.linspace(0.0, size.lazy, size.raters)[rater]
    return RaterVotes(item, prompt, rater, value.astype(np.int64)).where(kept)


def _spread(ends: tuple[float, float], size: PanelSize) -> Floats:
    return np.linspace(*ends, size.raters)


class AgreementCoverage(NamedTuple):
    """How often intervals held the truth, by figure; the true α, and the mean half-width of its interval."""

    held: tuple[float, ...]
    alpha: float
    half_width: float


def measure_coverage(kind: RaterKind, size: PanelSize, worlds: int, seed: int) -> AgreementCoverage:
    """Simulate panels of the same raters on new prompts, and compare with endless prompts."""
    rng = np.random.default_rng(seed)
    truth = [
        figure.value
        for figure in _figures(simulate_panel(kind, size._replace(prompts=_ENDLESS_PROMPTS), rng))
    ]
    held, given, width = np.zeros(len(truth)), np.zeros(len(truth)), 0.0
    for _ in range(worlds):
        for k, figure in enumerate(_figures(simulate_panel(kind, size, rng))):
            if figure.low is None or figure.high is None:
                continue
            given[k] += 1
            held[k] += figure.low <= (truth[k] or 0.0) <= figure.high
            width += (figure.high - figure.low) / 2.0 if k == 0 else 0.0
    shares = np.divide(held, given, out=np.full(len(truth), np.nan), where=given > 0)
    return AgreementCoverage(tuple(shares.tolist()), truth[0] or 0.0, width / max(given[0], 1.0))


def _figures(votes: RaterVotes) -> list[AgreementFigure]:
    panel, single = rater_agreement(votes), rater_agreement(votes, rater=1)
    return [panel.alpha, panel.share, single.alpha, single.share]


def _rows(worlds: int) -> Iterator[str]:
    for row, size in enumerate(PANELS):
        for column, (name, kind) in enumerate(RATERS.items()):
            found = measure_coverage(kind, size, worlds, 100 * row + column)
            shares = " | ".join("–" if np.isnan(share) else f"{100 * share:.1f} %" for share in found.held)
            yield f"| {size} | {name} | {found.alpha:.2f} | ±{found.half_width:.2f} | {shares} |"


def agreement_page(worlds: int, command: str) -> str:
    """The table as Markdown."""
    return "\n".join(
        [
            "# Agreement of raters, measured",
            "",
            f"{datetime.now(UTC):%Y-%m-%d}, Tiltyard {__version__}, by `{command}`.",
            "",
            (
                f"Share of {worlds:,} simulated panels in which the 95 % interval holds the truth: the figure that the same "
                f"raters reach on endless prompts ({_ENDLESS_PROMPTS:,}). Every pair of models on every prompt is an item, and "
                "k raters vote on each. Where votes are missing, a fifth of all are, and the laziest rater leaves out three "
                "fifths of the rest. *±*: the mean half-width of the interval of α."
            ),
            "",
            f"| panel | raters | true α | ± | {' | '.join(_FIGURES)} |",
            "|---|---|--:|--:|--:|--:|--:|--:|",
            *_rows(worlds),
            "",
        ]
    )


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--worlds", type=int, default=1000, help="panels of each kind and size")
    parser.add_argument("--out", type=Path, help="a Markdown file")
    options = parser.parse_args(arguments)
    text = agreement_page(options.worlds, f"python -m lab.agreement_study --worlds {options.worlds}")
    write_page(text, options.out)


if __name__ == "__main__":
    main()
