"""How far raters agree: Krippendorff's α and the share of agreeing pairs of votes, with intervals for prompts like these.

Which response is called the first is an accident of names. Therefore α counts every item twice, once with its sides
exchanged: the disagreement that is expected by chance, and with it α, do not depend on sides.

Agreement of judged outcomes with those of people is Cohen's κ.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import TypedDict, cast

import numpy as np
import numpy.typing as npt

from tiltyard.core.battles.outcome import Outcome
from tiltyard.core.ratings.proportions import wilson_interval
from tiltyard.errors import BadOption
from tiltyard.foundation.arrays import Floats, Ints

#: Prompt, then the two models by name.
MatchKey = tuple[str, str, str]
CATEGORIES = ("model_a", "model_b", "tie")
_CATEGORY = {Outcome.MODEL_A: 0, Outcome.MODEL_B: 1, Outcome.TIE: 2, Outcome.BOTH_BAD: 2}
_MIRROR = {Outcome.MODEL_A: Outcome.MODEL_B, Outcome.MODEL_B: Outcome.MODEL_A}
#: With fewer effective degrees of freedom there is no interval, as for ratings.
MIN_AGREEMENT_DOF = 3.0


class AgreementDocument(TypedDict):
    """Agreement with people, as written in `diagnostics.json`."""

    kappa: float | None
    low: float | None
    high: float | None
    n: int
    clusters: int
    level: float
    agreed: float
    categories: list[str]
    matrix: list[list[int]]


@dataclass(frozen=True, slots=True)
class HumanAgreement:
    """Cohen's κ between judged and human outcomes: 1 is full agreement, 0 that of chance.

    ``matrix[i][j]`` counts what was judged i (row) and voted j (column), in the order of
    `CATEGORIES`; ``agreed`` is the share on its diagonal. κ is ``None`` where both sides always
    say the same one thing, and so are its bounds.
    """

    kappa: float | None
    low: float | None
    high: float | None
    n: int
    clusters: int
    level: float
    agreed: float
    matrix: tuple[tuple[int, ...], ...]

    def to_dict(self) -> AgreementDocument:
        values = asdict(self)
        matrix = [list(row) for row in values.pop("matrix")]
        return cast("AgreementDocument", {**values, "categories": list(CATEGORIES), "matrix": matrix})


def match_outcome(prompt_id: str, model_a: str, model_b: str, outcome: Outcome) -> tuple[MatchKey, Outcome]:
    """A battle as key and outcome, turned so that the models stand in the order of their names."""
    if model_a <= model_b:
        return (prompt_id, model_a, model_b), outcome
    return (prompt_id, model_b, model_a), _MIRROR.get(outcome, outcome)


def measure_agreement(
    judged: Mapping[MatchKey, Outcome], human: Iterable[tuple[MatchKey, Outcome]], level: float = 0.95
) -> HumanAgreement | None:
    """How far judged outcomes agree with human votes on the same matches; ``None`` if there are none.

    Every human vote on a judged match counts once. both_bad is taken as a tie on both sides, since
    neither says that one response is better than the other; so is inconsistent.
    """
    if not 0.0 < level < 1.0:
        raise BadOption(f"level is {level}; expected a number between 0 and 1")
    cells: dict[str, Floats] = {}
    for key, outcome in human:
        if key in judged:
            cell = cells.setdefault(key[0], np.zeros((3, 3)))
            cell[_CATEGORY[judged[key]], _CATEGORY[outcome]] += 1.0
    if not cells:
        return None
    counts = np.stack([cells[prompt] for prompt in sorted(cells)])
    total = counts.sum(axis=0)
    n, agreed = int(total.sum()), float(np.trace(total) / total.sum())
    kappa = _kappa(total)
    low, high = (None, None) if kappa is None else _bounds(counts, kappa, level)
    matrix = tuple(tuple(int(value) for value in row) for row in total)
    return HumanAgreement(kappa, low, high, n, len(counts), level, agreed, matrix)


def _kappa(counts: Floats) -> float | None:
    """Cohen, Educational and Psychological Measurement 20 (1960)."""
    n = float(counts.sum())
    by_chance = float(counts.sum(axis=1) @ counts.sum(axis=0)) / n**2
    if by_chance >= 1.0:
        return None
    return (float(np.trace(counts)) / n - by_chance) / (1.0 - by_chance)


def _bounds(counts: Floats, kappa: float, level: float) -> tuple[float, float]:
    """Limits of κ, clustered by prompt.

    κ = (a − e) / (1 − e) is linear in the observed agreement a, chance e held fixed. So a Wilson
    interval of a, drawn for as many effective trials as give κ its linearised variance
    (Fleiss, Cohen and Everitt, Psychological Bulletin 72, 1969, summed by cluster), becomes one
    of κ. As in `share`, clusters count for no less variance than votes apart would have; and if all
    agree, or none, there is no variance to see, and each prompt counts as one trial.
    """
    size = counts.sum(axis=(1, 2))
    k, n = len(size), float(size.sum())
    total = counts.sum(axis=0) / n
    rows, columns = total.sum(axis=1), total.sum(axis=0)
    a, e = float(np.trace(total)), float(rows @ columns)
    if k == 1:
        return -1.0, 1.0
    alike = n * n / float(size @ size)
    effective = alike
    if 0.0 < a < 1.0:
        pull = np.eye(3) - (1.0 - kappa) * (columns[:, None] + rows[None, :])
        moved = np.tensordot(counts - size[:, None, None] * total, pull) / n
        apart = float(np.sum(total * pull**2) - np.sum(total * pull) ** 2) / n
        effective = a * (1.0 - a) / max(k / (k - 1) * float(moved @ moved), apart, 1e-300)
    low, high = wilson_interval(a, effective, alike - 1.0, level)
    return max((low - e) / (1.0 - e), -1.0), (high - e) / (1.0 - e)


class RaterValue(enum.IntEnum):
    """What a rater says of an item, whose models have an order of their own. The first three are on a scale."""

    FIRST = 0
    TIE = 1
    SECOND = 2
    BOTH_BAD = 3


#: The values with the sides exchanged.
_MIRRORED = [RaterValue.SECOND, RaterValue.TIE, RaterValue.FIRST, RaterValue.BOTH_BAD]


class AgreementScale(enum.StrEnum):
    """Which disagreements count how much: all the same, or first against second more than either against a tie."""

    NOMINAL = "nominal"
    #: ``both_bad`` is on no scale between the two, and is left out.
    ORDINAL = "ordinal"


class AgreementGap(enum.StrEnum):
    """Why a figure, or its interval, does not exist."""

    NO_VOTES = "no votes"
    ONE_RATER = "one rater"
    NO_OVERLAP = "no overlap"
    #: Every vote is the same: nothing shows what chance would give.
    NO_VARIATION = "no variation"
    #: No interval: too few prompts, or a few of them have nearly all the votes.
    FEW_PROMPTS = "few prompts"


@dataclass(frozen=True, slots=True, eq=False)
class RaterVotes:
    """Votes as columns: which item, of which prompt, by which rater, and what was said (`RaterValue`)."""

    item: Ints
    prompt: Ints
    rater: Ints
    value: Ints

    def where(self, mask: npt.NDArray[np.bool_]) -> RaterVotes:
        """Some of the votes."""
        return RaterVotes(self.item[mask], self.prompt[mask], self.rater[mask], self.value[mask])


@dataclass(frozen=True, slots=True)
class AgreementFigure:
    """A figure with its interval. What is ``None`` does not exist, and ``gap`` says why."""

    value: float | None
    low: float | None = None
    high: float | None = None
    gap: AgreementGap | None = None


@dataclass(frozen=True, slots=True)
class RaterAgreement:
    """How far raters agree on the items that more than one of them voted on."""

    alpha: AgreementFigure
    #: The share of pairs of votes on one item that are the same.
    share: AgreementFigure
    votes: int
    #: Items with two votes or more, the pairs of votes on them, and their prompts.
    items: int
    pairs: int
    prompts: int
    scale: AgreementScale
    level: float


def rater_agreement(
    votes: RaterVotes,
    *,
    rater: int | None = None,
    scale: AgreementScale = AgreementScale.NOMINAL,
    level: float = 0.95,
) -> RaterAgreement:
    """Krippendorff's α and the share of agreeing pairs; with ``rater``, of the pairs that this rater is in.

    A rater votes at most once on an item. Both intervals are for prompts like these and the same raters: the
    variance is that of leaving out one prompt at a time, which no distribution is assumed for; see `_interval`.
    """
    if not 0.0 < level < 1.0:
        raise BadOption(f"level is {level}; expected a number between 0 and 1")
    if scale is AgreementScale.ORDINAL:
        votes = votes.where(votes.value != RaterValue.BOTH_BAD)
    counts, own, prompt = _count_items(votes, rater)
    if own is counts:
        ordered = counts[:, :, None] * counts[:, None, :] - counts[:, :, None] * np.eye(counts.shape[1])
        scaled = ordered / np.maximum(counts.sum(axis=1) - 1.0, 1.0)[:, None, None]
    else:
        others = counts - own
        ordered = own[:, :, None] * others[:, None, :] + others[:, :, None] * own[:, None, :]
        scaled = ordered
    weight, pairs, same = scaled, ordered.sum(axis=(1, 2)) / 2.0, np.trace(ordered, axis1=1, axis2=2) / 2.0
    shared = pairs > 0
    _, cluster = np.unique(prompt[shared], return_inverse=True)
    n_clusters = int(cluster.max(initial=-1)) + 1
    gap = _gap(votes, n_clusters)
    n_votes = int(counts[own.any(axis=1)].sum()) if rater is not None else len(votes.item)
    sizes = _sum_by(cluster, pairs[shared], n_clusters)
    if gap is not None:
        alpha = share = AgreementFigure(None, gap=gap)
    else:
        both = weight[shared] + weight[shared][:, _MIRRORED][:, :, _MIRRORED]
        alpha = _alpha_figure(_sum_by(cluster, both, n_clusters), sizes, scale, level)
        share = _share_figure(_sum_by(cluster, same[shared], n_clusters), sizes, level)
    return RaterAgreement(
        alpha, share, n_votes, int(shared.sum()), int(sizes.sum()), n_clusters, scale, level
    )


def alpha_of(coincidences: Floats, scale: AgreementScale = AgreementScale.NOMINAL) -> float | None:
    """Krippendorff's α of a matrix of coincidences; ``None`` if all votes are the same.

    Krippendorff, Computing Krippendorff's Alpha-Reliability (2011), steps B to D: an item with m votes adds each
    ordered pair of them with weight 1/(m − 1), and α = 1 − D_o / D_e.
    """
    observed, expected = _disagreements(coincidences[None], scale)
    return float(1.0 - observed[0] / expected[0]) if expected[0] > 0.0 else None


def _disagreements(coincidences: Floats, scale: AgreementScale) -> tuple[Floats, Floats]:
    """Observed and expected disagreement of each of many matrices, on a scale whose largest distance is 1."""
    margins = coincidences.sum(axis=2)
    n = margins.sum(axis=1)
    distance = _distances(margins, scale)
    observed = (coincidences * distance).sum(axis=(1, 2)) / n
    chance = margins[:, :, None] * margins[:, None, :]
    return observed, (chance * distance).sum(axis=(1, 2)) / (n * (n - 1.0))


def _distances(margins: Floats, scale: AgreementScale) -> Floats:
    """The squared distance between values; on the ordinal scale, of the ranks that the votes have."""
    n_values = margins.shape[1]
    if scale is AgreementScale.NOMINAL:
        return np.broadcast_to(1.0 - np.eye(n_values), (len(margins), n_values, n_values))
    place = np.cumsum(margins, axis=1) - margins / 2.0
    squared = (place[:, :, None] - place[:, None, :]) ** 2
    return np.asarray(squared / margins.sum(axis=1)[:, None, None] ** 2, dtype=np.float64)


def _count_items(votes: RaterVotes, rater: int | None) -> tuple[Floats, Floats, Ints]:
    """For each item: how many votes of each value, the rater's own (all of them without one), and its prompt."""
    _, first, row = np.unique(votes.item, return_index=True, return_inverse=True)
    counts = np.zeros((len(first), len(RaterValue)))
    np.add.at(counts, (row, votes.value), 1.0)
    own = counts
    if rater is not None:
        own = np.zeros_like(counts)
        mine = votes.rater == rater
        np.add.at(own, (row[mine], votes.value[mine]), 1.0)
    return counts, own, votes.prompt[first]


def _sum_by(cluster: Ints, values: Floats, n_clusters: int) -> Floats:
    total = np.zeros((n_clusters, *values.shape[1:]))
    np.add.at(total, cluster, values)
    return total


def _gap(votes: RaterVotes, n_clusters: int) -> AgreementGap | None:
    if len(votes.item) == 0:
        return AgreementGap.NO_VOTES
    if n_clusters > 0:
        return None
    return AgreementGap.ONE_RATER if len(np.unique(votes.rater)) == 1 else AgreementGap.NO_OVERLAP


def _alpha_figure(by_prompt: Floats, sizes: Floats, scale: AgreementScale, level: float) -> AgreementFigure:
    total = by_prompt.sum(axis=0)
    alpha = alpha_of(total, scale)
    if alpha is None:
        return AgreementFigure(None, gap=AgreementGap.NO_VARIATION)
    if _dof(sizes) < MIN_AGREEMENT_DOF:
        return AgreementFigure(alpha, gap=AgreementGap.FEW_PROMPTS)
    observed, expected = _disagreements(total[None], scale)
    without = _disagreements(total[None] - by_prompt, scale)
    left = 1.0 - without[0] / np.where(without[1] > 0.0, without[1], expected)
    variance = jackknife_variance(left, alpha) * float(expected[0]) ** 2
    low, high = _interval(1.0 - float(observed[0]), variance, sizes, level)
    scaled = [1.0 - (1.0 - bound) / float(expected[0]) for bound in (low, high)]
    return AgreementFigure(alpha, scaled[0], scaled[1])


def _share_figure(same: Floats, sizes: Floats, level: float) -> AgreementFigure:
    share = float(same.sum() / sizes.sum())
    if _dof(sizes) < MIN_AGREEMENT_DOF:
        return AgreementFigure(share, gap=AgreementGap.FEW_PROMPTS)
    left = (same.sum() - same) / (sizes.sum() - sizes)
    low, high = _interval(share, jackknife_variance(left, share), sizes, level)
    return AgreementFigure(share, low, high)


def jackknife_variance(without: Floats, value: float) -> float:
    """The variance of a figure, given its values without each prompt (Efron and Stein, Annals of Statistics 9, 1981)."""
    k = len(without)
    return (k - 1) / k * float(np.sum((without - value) ** 2))


def _alike(sizes: Floats) -> float:
    """The number of equal prompts that say as much as these: (Σn)² / Σn²."""
    return float(sizes.sum() ** 2 / (sizes @ sizes))


def _dof(sizes: Floats) -> float:
    return _alike(sizes) - 1.0


def _interval(agreed: float, variance: float, sizes: Floats, level: float) -> tuple[float, float]:
    """Wilson's interval of observed agreement for as many trials as have this variance, with Student's t.

    α is linear in observed agreement if expected disagreement is held fixed, so that its interval is this one, moved;
    the variance is that of α itself, in which expected disagreement varies too. Prompts count for no less variance than
    independent pairs of votes would have. If all agree, or none, no variance shows, and each prompt counts as one trial.
    """
    trials = _alike(sizes)
    if 0.0 < agreed < 1.0:
        apart = agreed * (1.0 - agreed) / float(sizes.sum())
        trials = agreed * (1.0 - agreed) / max(variance, apart)
    return wilson_interval(agreed, trials, _dof(sizes), level)
