"""Measurements during a simulated arena: true order, exposures, newcomers, correctness of orders."""

from __future__ import annotations

import numpy as np

from tiltyard.core.policy.state.policy import Policy
from tiltyard.core.policy.state.standing import Standing
from tiltyard.core.ratings import newton
from tiltyard.core.ratings.pairs import pairs_from_points
from tiltyard.foundation.arrays import Floats, Ints
from tiltyard.simulation.worlds import World

#: Number of truly best models whose order is checked.
TOP_MODEL_COUNT = 10
#: Matchups after joining in which a newcomer's share is counted.
NEWCOMER_MATCHUPS = 200


class TrueOrder:
    """The true order of the present models, recomputed when strengths or models change."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._key: tuple[bytes, bytes] | None = None
        self._order: Ints = np.empty(0, dtype=np.int64)

    def order(self, at: int) -> Ints:
        key = self._world.strengths(at).tobytes(), self._world.present(at).tobytes()
        if key != self._key:
            self._key, self._order = key, self._world.true_order(these_prompts=True, at=at)
        return self._order


class ExposureObserver:
    """Measures exposures and lanes once the window is full."""

    def __init__(self, policy: Policy) -> None:
        self._window = policy.window
        self._watch_from = policy.window
        self._lanes: Ints | None = None
        self.outside = self.watched = 0
        self.largest = 0.0

    def roster_changed(self, standing: Standing) -> None:
        self._watch_from = standing.window.served + self._window

    def watch(self, standing: Standing) -> None:
        """Measure the exposures after a matchup."""
        if standing.window.served < self._window:
            return
        if self._lanes is None:
            self._lanes = standing.lanes.copy()
        if standing.window.served < self._watch_from:
            return
        due, exposures = standing.window.due(), standing.window.counted()
        enabled = standing.enabled
        gone = np.abs(exposures - due.target)[enabled]
        self.watched += 1
        self.outside += bool(due.outside(exposures)[enabled].any())
        self.largest = max(self.largest, float((gone / due.target[enabled]).max()))

    def lane_shares(self, standing: Standing) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """Nominal and realised shares after the first window; over the whole arena if it is shorter than two windows."""
        lanes = standing.lanes
        if self._lanes is not None and standing.window.served >= 2 * self._window:
            lanes = lanes - self._lanes
        shares = lanes / lanes.sum()
        return tuple(shares.sum(axis=1).tolist()), tuple(shares.sum(axis=0).tolist())


class NewcomerObserver:
    """How often each newcomer was served in its first matchups."""

    def __init__(self) -> None:
        self._served: dict[int, list[int]] = {}

    def join(self, model: int) -> None:
        self._served[model] = [0, 0]

    def serve(self, left: int, right: int) -> None:
        for model, count in self._served.items():
            if count[1] < NEWCOMER_MATCHUPS:
                count[0] += model in (left, right)
                count[1] += 1

    def largest_share(self) -> float | None:
        """``None`` if no newcomer has been present long enough."""
        shares = [mine / n for mine, n in self._served.values() if n == NEWCOMER_MATCHUPS]
        return max(shares, default=None)


def share_in_order(score: Floats, true_order: Ints) -> float:
    """Share of the pairs of the truly first ten whose better model has the higher score."""
    top = score[true_order[:TOP_MODEL_COUNT]]
    above, below = np.triu_indices(len(top), 1)
    return float(np.mean(top[above] > top[below]))


def batch_strengths(points: Floats) -> Floats | None:
    """Bradley–Terry on all votes so far, ties half a win; NaN for models without votes.

    ``points`` are the scores of row models against column models.
    """
    pairs = pairs_from_points(points)
    played = np.flatnonzero(pairs.met)
    pairs = pairs.among(played)
    if not len(played) or pairs.groups(strong=True).any():
        return None
    strengths = np.full(len(points), np.nan)
    strengths[played] = newton.fit_pairs(pairs, bread=False).theta
    return strengths
