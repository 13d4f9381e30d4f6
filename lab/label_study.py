"""``python -m lab.label_study``: do labels of drawn matches tell the truth about a judge, and how many are needed?

In each world a run is judged, and people's votes on all of its matches are known. Some matches are drawn as `tiltyard
agree` draws them, people vote on them anew, and the intervals are compared with the figures of all matches.
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
from tiltyard.core.battles.outcome import JUDGE_LABELS, Label
from tiltyard.core.judging.diagnostics.label_agreement import SECOND, TIE, Labelled, label_agreement
from tiltyard.core.judging.label_sample import draw_labelled

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

_FIGURES = ("agreement", "κ", "α", "correlation²")
_LABEL_NUMBERS = {label: number for number, label in enumerate(JUDGE_LABELS)}
#: Votes of each rater on each match, whose shares are the truth.
_TRUTH_VOTES = 100


@dataclass(frozen=True, slots=True)
class LabelWorld:
    """A run: its size, how noisily judge and people look, and how the judge errs."""

    prompts: int = 200
    models: int = 6
    #: Noise of each order of the judge, and of each person, beside leads of about 1.
    judge_noise: float = 0.5
    people_noise: float = 0.5
    raters: int = 1
    #: The judge does not see the first model: its responses seem level to every other.
    blind: bool = False
    #: How much the judge adds for the longer response.
    length: float = 0.0
    #: In this share of the prompts the judge's noise is three times as large.
    foreign: float = 0.0
    #: How far each rater's taste differs from the others', by prompt.
    taste: float = 0.0
    #: This share of the prompts is of a dimension of its own, in which the judge sees nothing. Figures are of it alone.
    rare: float = 0.0


WORLDS = {
    "judge blind to one model": LabelWorld(blind=True),
    "length lover": LabelWorld(length=1.0),
    "two languages": LabelWorld(foreign=0.4),
    "five experts who disagree": LabelWorld(raters=5, taste=1.0),
    "rare dimension": LabelWorld(rare=0.15),
    "tiny run": LabelWorld(prompts=15, models=4),
    "doubt says nothing": LabelWorld(judge_noise=0.05, people_noise=3.0),
    "judge and people nearly alike": LabelWorld(judge_noise=0.2, people_noise=0.2),
}


class JudgedWorld(NamedTuple):
    """The matches of a run with what the judge said, and the chance of each vote of each rater."""

    prompt: Ints
    judged: Ints
    label: Ints
    rare: npt.NDArray[np.bool_]
    #: Match × rater × (first, second, neither).
    chances: Floats


def judge_world(world: LabelWorld, rng: np.random.Generator) -> JudgedWorld:
    """One run of such a world."""
    pairs = np.array(list(combinations(range(world.models), 2)))
    quality = np.linspace(0.0, 1.0, world.models) + rng.normal(0.0, 0.7, (world.prompts, world.models))
    lead = (quality[:, pairs[:, 0]] - quality[:, pairs[:, 1]]).ravel()
    prompt = np.repeat(np.arange(world.prompts), len(pairs))
    first_is_blind = np.tile((pairs == 0).any(axis=1), world.prompts)
    rare = prompt < round(world.rare * world.prompts)
    seen = lead + world.length * rng.choice([-1.0, 1.0], len(lead))
    seen = np.where((world.blind & first_is_blind) | rare, 0.0, seen)
    noise = world.judge_noise * np.where(prompt < world.foreign * world.prompts, 3.0, 1.0)
    orders = [_choice(seen + rng.normal(0.0, 1.0, len(lead)) * noise) for _ in range(2)]
    same, decided = orders[0] == orders[1], [order != TIE for order in orders]
    label = np.where(same & decided[0], _LABEL_NUMBERS[Label.WIN], _LABEL_NUMBERS[Label.LEAN])
    label = np.where(~same & decided[0] & decided[1], _LABEL_NUMBERS[Label.INCONSISTENT], label)
    label = np.where(same & ~decided[0], _LABEL_NUMBERS[Label.TIE], label)
    judged = np.where(decided[0], orders[0], orders[1])
    judged = np.where(label == _LABEL_NUMBERS[Label.INCONSISTENT], TIE, judged)
    tastes = rng.normal(0.0, 1.0, (world.prompts, world.models, world.raters)) * world.taste
    own = (tastes[:, pairs[:, 0]] - tastes[:, pairs[:, 1]]).reshape(len(lead), world.raters)
    looks = lead[:, None, None] + own[:, :, None]
    looks = looks + rng.normal(0.0, world.people_noise, (*own.shape, _TRUTH_VOTES))
    votes = _choice(looks)
    chances = np.stack([(votes == kind).mean(axis=2) for kind in range(3)], axis=2)
    return JudgedWorld(prompt, judged, label, rare, chances)


def _choice(seen: Floats) -> Ints:
    return np.where(np.abs(seen) < 0.2, TIE, np.where(seen > 0.0, 0, SECOND)).astype(np.int64)


def draw_labels(
    found: JudgedWorld, count: int, seed: int, rng: np.random.Generator, *, strata: bool
) -> tuple[Labelled, npt.NDArray[np.bool_]]:
    """The labels of drawn matches, by strata or of one stratum; and which of them are rare."""
    labels = [JUDGE_LABELS[number] for number in found.label]
    ids = [f"{place}" for place in range(len(labels))]
    sample = draw_labelled(ids, labels if strata else [Label.WIN] * len(labels), count, seed)
    places = np.array(sample.places)
    drawn = rng.random((*found.chances[places].shape[:2], 1))
    said = (drawn > np.cumsum(found.chances[places], axis=2)).sum(axis=2)
    votes = np.stack([(said == kind).sum(axis=1) for kind in range(3)], axis=1).astype(np.float64)
    _, prompt = np.unique(found.prompt[places], return_inverse=True)
    sizes = np.array([stratum.matches for stratum in sample.strata], dtype=np.float64)
    labelled = Labelled(sizes, np.array(sample.stratum), prompt, found.judged[places], votes)
    return labelled, found.rare[places]


class LabelCoverage(NamedTuple):
    """How often intervals held the truth, by figure; the mean width of that of agreement, by strata and at random."""

    held: Floats
    agreed: float
    width: float
    #: Labels by strata for the width that a label at random gives.
    ratio: float


def measure_labels(world: LabelWorld, count: int, worlds: int, seed: int) -> LabelCoverage:
    """Draw labels in runs of one kind."""
    rng = np.random.default_rng(seed)
    held, given, agreed = np.zeros(4), np.zeros(4), 0.0
    widths, errors = np.zeros(2), np.zeros(2)
    for number in range(worlds):
        found = judge_world(world, rng)
        truth = _truth(found, of_rare=world.rare > 0.0)
        agreed += truth[0] / worlds
        for way, strata in enumerate((True, False)):
            labelled, rare = draw_labels(found, count, number, rng, strata=strata)
            said = label_agreement(labelled, rare if world.rare > 0.0 else None)
            widths[way] += ((said.agreed.high or 0.0) - (said.agreed.low or 0.0)) / worlds
            errors[way] += ((said.agreed.value or 0.0) - truth[0]) ** 2
            if strata:
                for place, figure in enumerate((said.agreed, said.kappa, said.alpha, said.correlation)):
                    if figure.low is not None and figure.high is not None:
                        given[place] += 1
                        held[place] += figure.low <= truth[place] <= figure.high
    shares = np.divide(held, given, out=np.full(4, np.nan), where=given > 0)
    return LabelCoverage(shares, agreed, float(widths[0]), float(errors[0] / errors[1]))


def _truth(found: JudgedWorld, *, of_rare: bool) -> list[float]:
    """The figures of all matches, with people's chances for their votes."""
    chances = found.chances.mean(axis=1)
    _, prompt = np.unique(found.prompt, return_inverse=True)
    everything = Labelled(
        np.array([float(len(prompt))]), np.zeros(len(prompt), dtype=np.int64), prompt, found.judged, chances
    )
    said = label_agreement(everything, found.rare if of_rare else None)
    return [figure.value or 0.0 for figure in (said.agreed, said.kappa, said.alpha, said.correlation)]


def _rows(worlds: int, counts: Sequence[int]) -> Iterator[str]:
    for row, (name, world) in enumerate(WORLDS.items()):
        for count in counts:
            found = measure_labels(world, count, worlds, 1000 * row + count)
            shares = " | ".join(f"{100 * share:.1f} %" for share in found.held)
            yield (
                f"| {name} | {count} | {found.agreed:.2f} | ±{found.width / 2:.2f} | {shares} | {found.ratio:.2f} |"
            )


def label_page(worlds: int, counts: Sequence[int], command: str) -> str:
    """The table as Markdown."""
    return "\n".join(
        [
            "# Labels of a judge's matches, measured",
            "",
            f"{datetime.now(UTC):%Y-%m-%d}, Tiltyard {__version__}, by `{command}`.",
            "",
            (
                f"{worlds:,} runs of each kind. The share of those in which the 95 % interval holds the figure of all matches "
                "of the run; *±*: the mean half-width of the interval of agreement. *Labels*: how many labels drawn by doubt "
                "are needed for the squared error of one drawn at random."
            ),
            "",
            f"| run | labels | agreement | ± | {' | '.join(_FIGURES)} | labels needed |",
            "|---|--:|--:|--:|--:|--:|--:|--:|--:|",
            *_rows(worlds, counts),
            "",
        ]
    )


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--worlds", type=int, default=500, help="runs of each kind")
    parser.add_argument("--counts", type=int, nargs="+", default=[50, 100, 200], help="labels")
    parser.add_argument("--out", type=Path, help="a Markdown file")
    options = parser.parse_args(arguments)
    counts = " ".join(map(str, options.counts))
    command = f"python -m lab.label_study --worlds {options.worlds} --counts {counts}"
    write_page(label_page(options.worlds, options.counts, command), options.out)


if __name__ == "__main__":
    main()
