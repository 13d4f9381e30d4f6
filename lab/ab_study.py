"""``python -m lab.ab_study``: does `tiltyard ab` decide falsely, how soon does it decide, and do its intervals hold?

Seconds to a few minutes; `just ab-study` runs it at full size.
"""

from __future__ import annotations

import argparse
import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr

from lab.ab_peers import peer_tables
from lab.broken_models import MARGIN_POINTS, broken_rows, planted_rows
from lab.study_pages import write_page
from tiltyard._version import __version__
from tiltyard.core.ratings.paired_difference import (
    MIN_SEQUENCE_PROMPTS,
    ABDecision,
    decide,
    paired_difference,
)
from tiltyard.files.answer import Answer
from tiltyard.report.ab_report import ABReport
from tiltyard.runs.ab_lead import PLANNED_PROMPTS, ab_level, planned_prompts, points
from tiltyard.tournaments.ab_comparison import ab
from tiltyard.tournaments.ab_run import look_sizes

Floats = npt.NDArray[np.float64]

#: (1.96 + 0.84)²: what a two-sided test at 5 % with 80 % power needs, in squared standard errors.
_FIXED_SIZE_RATIO = 7.849
_PROMPTS = 3000
#: Kinds of judges: the spread of prompts in logits, and the shares of ties and of verdicts that follow the slot.
JUDGES = {
    "plain": (0.5, 0.2, 0.0),
    "uneven prompts": (1.5, 0.2, 0.0),
    "many ties": (0.5, 0.6, 0.0),
    "half of the verdicts by the slot": (0.5, 0.1, 0.5),
}
#: Kinds of scores: a name, and a function of samples and a generator that gives differences, their reach and the truth.
Scores = Callable[[int, np.random.Generator], tuple[Floats, float, float]]


def judged_leads(kind: str, gap: float, prompts: int, rng: np.random.Generator) -> Floats:
    """The second model's score minus a half, prompt by prompt; ``gap`` in points on an average prompt."""
    spread, ties, slot = JUDGES[kind]
    logit = gap * math.log(10.0) / 400.0 + rng.normal(0.0, spread, prompts)
    lead = np.where(rng.random(prompts) < 1.0 / (1.0 + np.exp(-logit)), 0.5, -0.5)
    # A tie, or one verdict for each slot, is half a win for both.
    return np.where(rng.random(prompts) < ties + slot * (1.0 - ties), 0.0, lead)


def stopped(leads: Floats, planned: int = PLANNED_PROMPTS, comparisons: int = 1) -> tuple[ABDecision, int]:
    """The first decision, and the prompts that it took."""
    for size in look_sizes(len(leads)):
        found = paired_difference(leads[:size], 0.5, planned=planned, level=ab_level(comparisons))
        decision = decide(points(found.low), points(found.high), None)
        if decision is not ABDecision.UNDECIDED:
            return decision, size
    return ABDecision.UNDECIDED, len(leads)


#: Sizes of clusters of prompts, such as the questions on each passage.
CLUSTERS = {
    "10 of 30": (30,) * 10,
    "10 of 8 to 80": (8, 10, 13, 17, 22, 28, 36, 46, 60, 80),
    "20 of 25": (25,) * 20,
    "50 of 6": (6,) * 50,
    "50 of 20": (20,) * 50,
}
#: Standard deviations of what a cluster's prompts have in common; that of a prompt alone is 1.
_CLUSTER_RATIOS = (0.0, 0.5, 1.0)


def clustered_leads(
    sizes: Sequence[int], spread: float, rng: np.random.Generator
) -> tuple[Floats, npt.NDArray[np.int64]]:
    """The leads of equal models, and the cluster of each prompt, in an order drawn at random."""
    clusters = rng.permutation(np.repeat(np.arange(len(sizes)), sizes))
    drawn = rng.normal(0.0, spread, len(sizes))[clusters] + rng.normal(0.0, 1.0, len(clusters))
    return np.where(np.abs(drawn) < 0.5, 0.0, np.copysign(0.5, drawn)), clusters


def false_in_clusters(sizes: Sequence[int], spread: float, worlds: int, *, every: bool) -> int:
    """In how many worlds equal models are called different at any look: at ``every`` prompt, or at those of `ab`."""
    rng = np.random.default_rng([23, len(sizes), sum(sizes), round(10 * spread)])
    total, false = sum(sizes), 0
    planned = planned_prompts(total)
    looks = list(range(MIN_SEQUENCE_PROMPTS, total + 1) if every else look_sizes(total))
    for _ in range(worlds):
        leads, clusters = clustered_leads(sizes, spread, rng)
        found = (
            paired_difference(leads[:size], 0.5, planned=planned, clusters=clusters[:size]) for size in looks
        )
        false += any(decide(one.low, one.high, None) is not ABDecision.UNDECIDED for one in found)
    return false


def _cluster_row(name: str, spread: float, worlds: int) -> str:
    as_ab, always = (
        false_in_clusters(CLUSTERS[name], spread, worlds, every=every) for every in (False, True)
    )
    return f"| {name} | {spread:g} | {as_ab} of {worlds} | {always} of {worlds} |"


def _cluster_rows(worlds: int, processes: int) -> Iterator[str]:
    kinds = [(name, spread) for name in CLUSTERS for spread in _CLUSTER_RATIOS]
    with ProcessPoolExecutor(processes) as pool:
        yield from pool.map(_cluster_row, *zip(*kinds, strict=True), [worlds] * len(kinds))


def score_differences() -> dict[str, Scores]:
    """Scores of two models on the same samples."""

    def binary(p: float, q: float, same: float, repeats: int = 1) -> Scores:
        def draw(n: int, rng: np.random.Generator) -> tuple[Floats, float, float]:
            first = rng.random((n, repeats)) < p
            second = np.where(rng.random((n, repeats)) < same, first, rng.random((n, repeats)) < q)
            return (second.mean(axis=1) - first.mean(axis=1)), 1.0, (1.0 - same) * (q - p)

        return draw

    def skewed(n: int, rng: np.random.Generator) -> tuple[Floats, float, float]:
        first, second = rng.lognormal(0.0, 1.0, (2, n))
        return second - first, float(max(first.max(), second.max())), 0.0

    return {
        "0.5 and 0.5, independent": binary(0.5, 0.5, 0.0),
        "0.9 and 0.95, half the same": binary(0.9, 0.95, 0.5),
        "0.97 and 0.99, mostly the same": binary(0.97, 0.99, 0.8),
        "0.7 and 0.7, mostly the same": binary(0.7, 0.7, 0.9),
        "0.5 and 0.6, four repeats": binary(0.5, 0.6, 0.0, 4),
        "log-normal": skewed,
    }


@dataclass(frozen=True)
class Family:
    """A world of a baseline and three candidates: accuracy and a correlated f1 decide, latency and length are guards.

    Each candidate has the true differences of its four scores. Its latent values are correlated with the baseline's and
    the other candidates' (``alike``), with each other (``together``) and within passages (``passages``).
    """

    samples: int
    truths: tuple[tuple[float, float, float, float], ...] = ((0.0,) * 4,) * 3
    margin: float | None = None
    guard_margin: float = 0.0
    alike: float = 0.6
    together: float = 0.7
    passages: float = 0.0
    runs: int = 1


FAMILIES = {
    "all equal": Family(200),
    "all equal, 40 samples": Family(40),
    "all equal, scores nearly the same": Family(200, together=0.95),
    "all equal, candidates nearly the same": Family(200, alike=0.95),
    "all equal, unlike": Family(200, alike=0.0, together=0.0),
    "all equal, three runs each": Family(100, runs=3),
    "all equal, 20 passages": Family(300, passages=0.5),
    "one better, one worse": Family(
        200, ((0.12, 0.05, 0.1, 0.0), (0.0, 0.0, 0.0, 0.0), (-0.12, -0.05, -0.1, 0.0))
    ),
    "guards worse by their margin": Family(200, ((0.0, 0.0, -0.1, -0.1),) * 3, guard_margin=0.1),
    "all worse by the margin": Family(200, ((-0.05, -0.05, 0.0, 0.0),) * 3, margin=0.05, guard_margin=0.1),
    "all better by the margin": Family(400, ((0.05, 0.05, 0.0, 0.0),) * 3, margin=0.05, guard_margin=0.1),
}
_SCORES = ("accuracy", "f1", "latency", "length")
_PASSAGE_COUNT = 20


def family_answers(family: Family, rng: np.random.Generator) -> list[list[Answer]]:
    """The answers of the baseline and of each candidate. More is worse of latency alone, so a difference of it is taken off."""
    count, passage = family.samples, np.arange(family.samples) % _PASSAGE_COUNT
    shared = rng.normal(size=(len(_SCORES), count))

    def latent(score: int) -> Floats:
        own = rng.normal(size=(family.runs, count))
        inside = rng.normal(size=_PASSAGE_COUNT)[passage]
        alone = math.sqrt(family.passages) * inside + math.sqrt(1.0 - family.passages) * own
        values: Floats = math.sqrt(family.alike) * shared[score] + math.sqrt(1.0 - family.alike) * alone
        return values

    sides = []
    for name, truth in zip("0123", ((0.0,) * 4, *family.truths), strict=True):
        first = latent(0)
        others = [
            family.together * first + math.sqrt(1.0 - family.together**2) * latent(score)
            for score in range(1, len(_SCORES))
        ]
        values = (
            (ndtr(first) < 0.6 + truth[0]).astype(float),
            0.5 + truth[1] + 0.4 * (ndtr(others[0]) - 0.5),
            (1.0 - truth[2]) * np.exp(0.8 * others[1] - 0.32),
            np.exp(0.5 * others[2] - 0.125) + truth[3],
        )
        sides.append(
            [
                Answer(
                    prompt_id=f"q{k}",
                    prompt=f"Question {k}?",
                    model=name,
                    response="",
                    kind="scores",
                    repeat=repeat,
                    scores={score: float(of[repeat, k]) for score, of in zip(_SCORES, values, strict=True)},
                    extra={"passage": f"passage {passage[k]}"},
                )
                for repeat in range(family.runs)
                for k in range(count)
            ]
        )
    return sides


def compare_family(family: Family, rng: np.random.Generator) -> ABReport:
    """What `ab` says of such a world."""
    return ab(
        *family_answers(family, rng),
        score=["accuracy", "f1"],
        margin=family.margin,
        guard=dict.fromkeys(("latency", "length"), family.guard_margin),
        lower="latency",
        cluster="passage" if family.passages else "prompt",
    )


def false_decision(found: ABReport, family: Family) -> bool:
    """Whether the decision is not true. On its margin a score is outside of it, and an equal one is neither better nor worse."""
    truth = family.truths[int(found.name_b) - 1][_SCORES.index(found.unit)]
    margin = found.margin or 0.0
    if found.decision in {"worse", "guard failed"}:
        return truth >= 0.0
    if found.decision == "better" and not found.guard:
        return truth <= 0.0
    if found.decision == "same" and not found.guard:
        return abs(truth) >= margin
    return found.decision != "undecided" and truth <= -margin


def _family_row(name: str, worlds: int) -> str:
    family = FAMILIES[name]
    rng = np.random.default_rng([17, list(FAMILIES).index(name)])
    false, decided = 0, Counter[bool]()
    for _ in range(worlds):
        found = compare_family(family, rng).comparisons
        false += any(false_decision(one, family) for one in found)
        decided.update(one.decision != "undecided" for one in found)
    return f"| {name} | {false} of {worlds} | {decided[True] / decided.total():.0%} |"


def _judged_family_row(kind: str, worlds: int) -> str:
    """Three equal candidates, each looked at until it is decided."""
    rng = np.random.default_rng([19, len(kind)])
    false = sum(
        any(
            stopped(judged_leads(kind, 0.0, _PROMPTS, rng), comparisons=3)[0] is not ABDecision.UNDECIDED
            for _ in range(3)
        )
        for _ in range(worlds)
    )
    return f"| equal by a judge: {kind} | {false} of {worlds} | – |"


def _family_rows(worlds: int, processes: int) -> Iterator[str]:
    with ProcessPoolExecutor(processes) as pool:
        yield from pool.map(_family_row, FAMILIES, [worlds] * len(FAMILIES))
        yield from pool.map(_judged_family_row, JUDGES, [worlds] * len(JUDGES))


def _judge_rows(worlds: int) -> Iterator[str]:
    for kind in JUDGES:
        for gap in (0.0, 40.0, 80.0):
            rng = np.random.default_rng([len(kind), int(gap)])
            ended = [stopped(judged_leads(kind, gap, _PROMPTS, rng)) for _ in range(worlds)]
            wrong = {ABDecision.WORSE} | ({ABDecision.BETTER} if gap == 0.0 else set())
            false = sum(decision in wrong for decision, _ in ended)
            if gap == 0.0:
                yield f"| {kind} | 0 | {false} of {worlds} | – | – | – |"
                continue
            many = judged_leads(kind, gap, 1_000_000, rng)
            fixed = _FIXED_SIZE_RATIO * float(many.var() / many.mean() ** 2)
            took = float(
                np.median([n if decision is ABDecision.BETTER else math.inf for decision, n in ended])
            )
            shown = (
                f"{took:.0f} | {fixed:.0f} | {took / fixed:.2f}"
                if math.isfinite(took)
                else f"– | {fixed:.0f} | –"
            )
            yield f"| {kind} | {gap:.0f} | {false} of {worlds} | {shown} |"


def _score_rows(worlds: int) -> Iterator[str]:
    for name, draw in score_differences().items():
        shares = []
        for n in (10, 30, 100, 500):
            rng = np.random.default_rng([len(name), n])
            held = 0
            for _ in range(worlds):
                values, reach, truth = draw(n, rng)
                found = paired_difference(values, reach)
                held += found.low <= truth <= found.high
            shares.append(f"{held / worlds:.3f}")
        yield f"| {name} | {' | '.join(shares)} |"


def ab_page(
    worlds: int,
    score_worlds: int,
    cluster_worlds: int,
    broken_worlds: int,
    command: str,
    processes: int = 1,
) -> str:
    """All tables as Markdown."""
    return "\n".join(
        [
            "# `tiltyard ab`, measured",
            "",
            f"{datetime.now(UTC):%Y-%m-%d}, Tiltyard {__version__}, by `{command}`.",
            "",
            "## With a judge",
            "",
            (
                f"Up to {_PROMPTS:,} prompts, looked at as `ab` does: after {MIN_SEQUENCE_PROMPTS}, then after each tenth more. *False*: "
                "equal models called different, or the better one called worse, at any look. *Fixed*: prompts that a test of "
                "fixed size needs, which knows the variance and has 80 % power."
            ),
            "",
            "| judge | gap in points | false | median prompts | fixed | ratio |",
            "|---|--:|--:|--:|--:|--:|",
            *_judge_rows(worlds),
            "",
            "### Prompts in clusters",
            "",
            (
                f"Equal models before a judge, {cluster_worlds:,} worlds of each kind: clusters, prompts of each, and the standard deviation "
                "of what they have in common (that of a prompt alone is 1). *False*: called different at any look, those of `ab` "
                f"or every prompt from the {MIN_SEQUENCE_PROMPTS}th on."
            ),
            "",
            "| clusters | in common | false, looks of `ab` | false, every prompt |",
            "|---|--:|--:|--:|",
            *_cluster_rows(cluster_worlds, processes),
            "",
            "### Judges that cannot tell, before a broken model",
            "",
            (
                f"{broken_worlds:,} runs of `tiltyard.ab` for each judge, a function, with 40 prompts. The second model's answers are about "
                f"something else. The margin is {MARGIN_POINTS:.0f} points and the goal `not-worse`, so that a judge that sees nothing "
                "says it at the first look. *False*: called the same or not worse."
            ),
            "",
            "| judge | false | said |",
            "|---|--:|---|",
            *broken_rows(broken_worlds, processes),
            "",
            "What planting costs: the share of spoilt answers among a judge's calls, counted by the judge.",
            "",
            "| prompts | at first | beside a kept proof |",
            "|--:|--:|--:|",
            *planted_rows(),
            "",
            "## Scores",
            "",
            f"Share of {score_worlds:,} worlds in which the 95 % interval holds the true difference, by the number of samples.",
            "",
            "| scores | 10 | 30 | 100 | 500 |",
            "|---|--:|--:|--:|--:|",
            *_score_rows(score_worlds),
            "",
            "### Samples in clusters, beside other tools",
            "",
            *peer_tables(worlds, processes),
            "",
            "## Several scores, candidates and guards",
            "",
            (
                "Three candidates by two scores and two guards, which are correlated; all 12 intervals hold at once. *False*: "
                "worlds in which any of the 12 decisions is not true. A guard whose true difference is its margin, and a "
                "score that is equal, count as false whenever they are decided that way. *Decided*: the share of comparisons."
            ),
            "",
            "| world | false | decided |",
            "|---|--:|--:|",
            *_family_rows(score_worlds, processes),
            "",
        ]
    )


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--worlds", type=int, default=300, help="worlds of each kind of judge, and beside other tools"
    )
    parser.add_argument("--score-worlds", type=int, default=1000, help="worlds of each kind of scores")
    parser.add_argument("--cluster-worlds", type=int, default=500, help="worlds of each kind of clusters")
    parser.add_argument("--broken-worlds", type=int, default=500, help="runs of each judge of broken models")
    parser.add_argument("--processes", type=int, default=2, help="rows of several comparisons at once")
    parser.add_argument("--out", type=Path, help="a Markdown file")
    options = parser.parse_args(arguments)
    counts = options.worlds, options.score_worlds, options.cluster_worlds, options.broken_worlds
    words = "--worlds {} --score-worlds {} --cluster-worlds {} --broken-worlds {}".format(*counts)
    command = f"python -m lab.ab_study {words}"
    text = ab_page(*counts, command, options.processes)
    write_page(text, options.out)


if __name__ == "__main__":
    main()
