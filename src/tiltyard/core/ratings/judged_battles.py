"""The battles of a judge between a new model and models that people have rated."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from scipy.special import expit

from tiltyard.core.battles import Table
from tiltyard.core.battles.cluster_keys import MISSING_KEY, Keys
from tiltyard.core.ratings.bradley_terry import BradleyTerry
from tiltyard.core.ratings.index_sums import laplacians, sum_by_index
from tiltyard.core.ratings.result import Ratings

__all__ = ["JudgedBattles", "LinearBattles", "points_per_logit"]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


def points_per_logit(method: BradleyTerry) -> float:
    return method.scale / math.log(10.0)


@dataclass(frozen=True, slots=True, eq=False)
class LinearBattles:
    """The judge's battles around one strength of the new model: expected scores, residuals, and information."""

    residual: Floats
    information: Floats
    #: The score and the information of all models, the new one last.
    scores: Floats
    matrix: Floats

    def deviations(self) -> tuple[Floats, Floats]:
        """What each opponent says of how much stronger the new model is, and the inverse of the opponents' information."""
        inverse = np.asarray(np.linalg.inv(self.matrix[:-1, :-1]), dtype=np.float64)
        return -inverse @ self.scores[:-1], inverse


@dataclass(frozen=True, slots=True, eq=False)
class JudgedBattles:
    """Battles of the judge among the new model (numbered last) and opponents with a human rating of one group."""

    group: int
    #: The opponents' positions in the human ratings, and their strengths in logits.
    opponents: Ints
    strength: Floats
    a: Ints
    b: Ints
    score: Floats
    weight: Floats
    #: The cluster of each battle, and its pair of models.
    prompt: Ints
    pair: Ints

    @classmethod
    def of(cls, human: Ratings, method: BradleyTerry, judged: Table, model: str) -> JudgedBattles | None:
        """``None`` if the new model met nobody with a human rating."""
        log = method.limited(judged).table.log()
        place = {name: k for k, name in enumerate(human.models) if human.group[k] >= 0 and name != model}
        new = len(human.models)
        position = np.array([new if name == model else place.get(name, -1) for name in judged.models])
        a, b, score = position[log.a], position[log.b], method.scoring().of(log)
        used = (a >= 0) & (b >= 0) & ~np.isnan(score)
        weight = np.ones(len(a)) if log.weight is None else log.weight
        used &= weight > 0.0
        group = np.append(human.group, -1)
        met = np.where(a == new, group[b], group[a])[used & ((a == new) | (b == new))]
        if not len(met):
            return None
        own = int(np.bincount(met).argmax())
        used &= np.isin(group[a], (own, -1)) & np.isin(group[b], (own, -1))
        used = _connected(a, b, used, new)
        opponents = np.unique(np.concatenate([a[used], b[used]]))[:-1]
        number = np.full(new + 1, -1)
        number[opponents], number[new] = np.arange(len(opponents)), len(opponents)
        a, b = number[a[used]], number[b[used]]
        pair = np.minimum(a, b) * (len(opponents) + 1) + np.maximum(a, b)
        prompt = np.full(len(a), MISSING_KEY) if log.prompt is None else log.prompt[used]
        return cls(
            own,
            opponents,
            human.rating[opponents] / points_per_logit(method),
            a,
            b,
            score[used],
            weight[used],
            _numbered(prompt),
            np.unique(pair, return_inverse=True)[1],
        )

    @property
    def n_opponents(self) -> int:
        return len(self.opponents)

    @property
    def n_pairs(self) -> int:
        return int(self.pair.max()) + 1

    @property
    def repeated(self) -> int:
        """Battles beyond the first of each pair."""
        return len(self.pair) - self.n_pairs

    @property
    def side(self) -> Floats:
        """1 where the new model is A, −1 where it is B, 0 for a battle without it."""
        new = self.n_opponents
        return np.asarray((self.a == new).astype(np.float64) - (self.b == new))

    def extreme(self) -> str | None:
        """Whether the new model won or lost every point."""
        side = self.side
        own = np.where(side > 0.0, self.score, 1.0 - self.score)[side != 0.0]
        return "won" if (own == 1.0).all() else "lost" if (own == 0.0).all() else None

    def around(self, strength: float) -> LinearBattles:
        theta = np.append(self.strength, strength)
        expected = expit(theta[self.a] - theta[self.b])
        residual = self.weight * (self.score - expected)
        information = self.weight * expected * (1.0 - expected)
        m = len(theta)
        scores = sum_by_index(self.a, residual, m) - sum_by_index(self.b, residual, m)
        whole = laplacians(self.a, self.b, information, np.zeros_like(self.a), (1, m))[0]
        return LinearBattles(residual, information, scores, whole)

    def dispersion(self, linear: LinearBattles) -> float:
        """The variance of a battle relative to a coin flip, about the mean of its pair; those of one prompt together."""
        mean = np.bincount(self.pair, linear.residual) / np.bincount(self.pair)
        cell = np.unique(np.stack([self.pair, self.prompt]), axis=1, return_inverse=True)[1].ravel()
        squares = float((np.bincount(cell, linear.residual - mean[self.pair]) ** 2).sum())
        return squares / float(linear.information.sum()) * len(self.pair) / self.repeated


def _connected(a: Ints, b: Ints, used: Bools, new: int) -> Bools:
    """Those of the used battles that connect to the new model."""
    graph = coo_array((np.ones(int(used.sum())), (a[used], b[used])), shape=(new + 1, new + 1))
    part = connected_components(graph, directed=False)[1]
    return np.asarray(used & (part[a] == part[new]))


def _numbered(keys: Keys) -> Ints:
    """The number of each battle's cluster; a battle without a key is its own."""
    number = np.unique(keys, return_inverse=True)[1].astype(np.int64)
    alone = keys == MISSING_KEY
    number[alone] = number.max(initial=0) + 1 + np.arange(int(alone.sum()))
    return np.asarray(np.unique(number, return_inverse=True)[1])
