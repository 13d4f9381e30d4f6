"""The result of a rating method: numbers with the method, its parameters and its findings."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, TypedDict

import numpy as np

from tiltyard.core.battles import Table
from tiltyard.core.ratings.findings import Finding
from tiltyard.core.ratings.kernels.glicko2 import Glicko2State
from tiltyard.core.ratings.pairs import BattleRecord
from tiltyard.core.ratings.sentences import plural
from tiltyard.foundation.arrays import Floats, Ints


class RatingExtras(TypedDict, total=False):
    """What only some methods have; each has the keys that it names in the reference."""

    #: ``plain`` or ``compiled``.
    kernel: str
    iterations: int
    #: Davidson's ν.
    tie_parameter: float
    #: Style coefficients and their standard errors, by name.
    style: dict[str, float]
    style_se: dict[str, float]
    #: By name, the degrees of freedom of these errors, and what a covariate was divided by.
    style_dof: dict[str, float]
    style_scale: dict[str, float]
    #: Bootstrap ratings, replicate by model; and where ``rating`` is their mean, the rating by the battles as they are.
    replicates: Floats
    estimate: Floats
    #: Elo by order and model, and the standard error of the mean over orders.
    per_permutation: Floats
    order_noise: Floats
    #: Glicko-2.
    rd: Floats
    volatility: Floats
    state: Glicko2State


class RatingMethod(Protocol):
    """A rating method: a frozen dataclass whose fields are its parameters."""

    @property
    def name(self) -> str: ...

    def __call__(self, table: Table) -> Ratings: ...


@dataclass(frozen=True, slots=True, eq=False)
class Uncertainty:
    """Variances of ratings and of their differences, in points squared.

    Each covariance is of the ratings as mean-zero contrasts of their group. The variance of a
    contrast is the largest over all of them, so it is not a quadratic form of a single matrix:
    use the methods of this class.
    """

    covariances: tuple[Floats, ...]
    #: Degrees of freedom of the variance of each rating; infinite at battle level.
    dof: Floats

    def ratings(self) -> Floats:
        """Variance of every rating."""
        return np.asarray(np.max([np.diag(v) for v in self.covariances], axis=0)).clip(0.0)

    def differences(self) -> Floats:
        """Variance of the rating of each row's model minus that of each column's."""
        largest = np.zeros_like(self.covariances[0])
        for v in self.covariances:
            own = np.diag(v)
            np.maximum(largest, own[:, None] + own[None, :] - 2.0 * v, out=largest)
        return largest

    def difference_dof(self) -> Floats:
        """Degrees of freedom of the variance of each difference: the smaller of the two models'."""
        return np.asarray(np.minimum(self.dof[:, None], self.dof[None, :]))


@dataclass(frozen=True, slots=True, eq=False)
class Interval:
    """An interval for each rating, and what it refers to.

    ``scope`` is the repetition it refers to: ``prompts like these`` (other prompts from the same
    population), ``prompts and voters like these``, or ``these prompts only`` (more battles on the same prompts).
    Where voters are named but are too few to stand for others, it says ``these voters only``.
    """

    low: Floats
    high: Floats
    level: float
    made_by: str
    clusters: str
    n_clusters: int
    scope: str
    #: The number of voters, if the interval refers to voters like these.
    n_voters: int | None = None
    #: The largest share of the weight that one ``prompt``, and one ``voter``, has; empty if the method limits none.
    largest_shares: Mapping[str, float] = field(default_factory=dict)

    @property
    def basis(self) -> str:
        """What it rests on: ``120 prompts × 150 voters, none above 10 %``."""
        return basis_text(self.clusters, self.n_clusters, self.n_voters, self.largest_shares)


@dataclass(frozen=True, slots=True, eq=False)
class Ratings:
    """Ratings of the models of one table. A rating is NaN if the battles do not support one.

    Only models of one ``group`` are comparable, because battles connect them. Group 0 has the most
    battles; −1 marks a model without a group.
    """

    method: RatingMethod
    models: tuple[str, ...]
    rating: Floats
    group: Ints
    record: BattleRecord
    interval: Interval | None = None
    #: Variances of the ratings and of their differences; ``None`` if the method has none.
    uncertainty: Uncertainty | None = None
    #: The same on the prompts of these battles: what more votes on them would change. Voters are a sample in both.
    these_prompts: Uncertainty | None = None
    findings: tuple[Finding, ...] = ()
    #: Method-specific values: tie parameter, style coefficients, RD, order noise, …
    extras: RatingExtras = field(default_factory=RatingExtras)

    def order(self) -> Ints:
        """Indices of models, group by group, highest rating first, unrated last; names break ties."""
        unrated = np.isnan(self.rating)
        descending = np.where(unrated, np.inf, -self.rating)
        group = np.where(unrated, np.iinfo(np.int64).max, self.group)
        return np.lexsort((np.arange(len(self.models)), descending, group))

    def to_columns(self) -> dict[str, list[Any]]:
        """Plain columns, best first, from which pandas, polars and Arrow can make a frame."""
        order = self.order()
        columns: dict[str, list[Any]] = {
            "model": [self.models[k] for k in order],
            "rating": _nullable(self.rating[order]),
            "group": self.group[order].tolist(),
        }
        if self.interval is not None:
            columns["ci_low"] = _nullable(self.interval.low[order])
            columns["ci_high"] = _nullable(self.interval.high[order])
        for name in ("battles", "wins", "losses", "ties", "both_bad"):
            columns[name] = getattr(self.record, name)[order].tolist()
        return columns


def speaks_of_these_voters(scope: str) -> bool:
    """Whether intervals of this scope say nothing of other voters: no order is claimed of them."""
    return scope.endswith("voters only")


def basis_text(
    clusters: str, n_clusters: int, n_voters: int | None, largest_shares: Mapping[str, float]
) -> str:
    """What intervals rest on: ``120 prompts × 150 voters, none above 10 %``. Shares of others are left out."""
    units = clusters.split(" × ")
    numbers = zip(units, (n_clusters, n_voters or 0), strict=False)
    parts = [f"{number:,} {unit if number == 1 else plural(unit)}" for unit, number in numbers]
    shares = [share for kind, share in largest_shares.items() if kind in units]
    # Rounded up, or it would not be true; shares that were limited exceed their limit by a thousandth at most.
    most = math.ceil(100.0 * max(shares, default=0.0) - 0.05)
    return " × ".join(parts) + (f", none above {max(most, 1)}%" if shares else "")


def _nullable(values: Floats) -> list[float | None]:
    return [None if np.isnan(value) else float(value) for value in values]
