"""How active prompts and voters are, and how that would go on.

The numbers of battles per prompt (or voter) are described by a Pitman–Yor process: the next battle is on a known
prompt k with probability (n_k − d) / (n + θ), on a new one otherwise. A discount d above 0 has heavy tails, and new
prompts keep coming; d below 0 is a closed set, such as an arena's prompts. Pitman and Yor, Annals of Probability 25
(1997).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize, minimize_scalar
from scipy.special import gammaln

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

#: Closed sets are tried with this many times the clusters that were seen.
_CLOSED_SET_RATIOS = (1.0, 1.02, 1.05, 1.1, 1.2, 1.5, 2.0, 3.0)


@dataclass(frozen=True, slots=True)
class ClusterActivity:
    """The parameters of the process, for ``seen`` clusters in ``n`` battles."""

    n: int
    seen: int
    discount: float
    concentration: float

    @property
    def is_closed(self) -> bool:
        """Whether there is a last prompt: no more than `size` ever come."""
        return self.discount < 0.0

    @property
    def size(self) -> int | None:
        """The number of clusters of a closed set."""
        return round(self.concentration / -self.discount) if self.is_closed else None

    def go_on(self, known: Ints, more: int, rng: np.random.Generator) -> Ints:
        """The clusters of ``more`` battles after those of ``known`` (numbers from 0 up); new ones get the next numbers."""
        labels = np.concatenate([known, np.zeros(more, dtype=np.int64)])
        counts = np.bincount(known, minlength=self.seen).tolist()
        copied, kept = rng.random((2, more)).tolist()
        earlier = (rng.random(more) * (len(known) + np.arange(more))).astype(np.int64).tolist()
        size = self.size
        fresh = rng.integers(0, size or 1, more).tolist()
        for k in range(more):
            n = len(known) + k
            label = int(labels[earlier[k]]) if n and copied[k] * (n + self.concentration) < n else -1
            if label >= 0 and size is None and kept[k] * counts[label] >= counts[label] - self.discount:
                label = -1
            if label < 0:
                label = len(counts) if size is None else min(fresh[k], len(counts))
            if label == len(counts):
                counts.append(0)
            counts[label] += 1
            labels[n] = label
        return labels[len(known) :]


def fit_activity(counts: Ints) -> ClusterActivity:
    """The parameters under which these numbers of battles per cluster are most likely."""
    counts = counts[counts > 0]
    n, seen = int(counts.sum()), len(counts)
    if n < 2 or seen < 2:
        return ClusterActivity(n, seen, -1.0, float(max(seen, 1)))

    def open_loss(x: Floats) -> float:
        return -_log_likelihood(counts, _discount(x[0]), math.exp(x[1]))

    found = minimize(open_loss, np.array([-1.0, math.log(max(seen / 5.0, 1.0))]), method="Nelder-Mead")
    best = (float(found.fun), _discount(found.x[0]), math.exp(found.x[1]))
    for ratio in _CLOSED_SET_RATIOS:
        size = max(round(ratio * seen), seen)

        def closed_loss(x: float, size: int = size) -> float:
            return -_log_likelihood(counts, -math.exp(x), size * math.exp(x))

        one = minimize_scalar(closed_loss, bounds=(-7.0, 7.0), method="bounded")
        kappa = math.exp(one.x)
        best = min(best, (float(one.fun), -kappa, size * kappa))
    return ClusterActivity(n, seen, best[1], best[2])


def _discount(x: float) -> float:
    """A discount from 0 to 0.95."""
    return 0.95 / (1.0 + math.exp(-x))


def _log_likelihood(counts: Ints, discount: float, concentration: float) -> float:
    n, k = int(counts.sum()), len(counts)
    arrivals = np.log(np.maximum(concentration + discount * np.arange(1, k), 1e-300)).sum()
    total = gammaln(concentration + n) - gammaln(concentration + 1.0)
    within = (gammaln(counts - discount) - gammaln(1.0 - discount)).sum()
    return float(arrivals - total + within)
