"""Agreement of judged outcomes with those of people."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypedDict

import numpy as np
import numpy.typing as npt

from tiltyard.core.battles.outcome import Outcome
from tiltyard.core.ratings.wilson_interval import wilson_interval
from tiltyard.errors import BadOption

__all__ = [
    "CATEGORIES",
    "AgreementDocument",
    "HumanAgreement",
    "MatchKey",
    "match_outcome",
    "measure_agreement",
]

Floats = npt.NDArray[np.float64]
#: Prompt, then the two models by name.
MatchKey = tuple[str, str, str]

CATEGORIES = ("model_a", "model_b", "tie")
_CATEGORY = {Outcome.MODEL_A: 0, Outcome.MODEL_B: 1, Outcome.TIE: 2, Outcome.BOTH_BAD: 2}
_MIRROR = {Outcome.MODEL_A: Outcome.MODEL_B, Outcome.MODEL_B: Outcome.MODEL_A}


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
        return {
            "kappa": self.kappa,
            "low": self.low,
            "high": self.high,
            "n": self.n,
            "clusters": self.clusters,
            "level": self.level,
            "agreed": self.agreed,
            "categories": list(CATEGORIES),
            "matrix": [list(row) for row in self.matrix],
        }


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
