"""Matchmakers: the ranking policy's, and those it is compared with.

All use the same standing. The others ignore sessions and exposure fairness, and assume that every model has
answered every prompt, which is true in simulated arenas.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType

import numpy as np

from tiltyard.core.policy.matchmaking.eligible_pairs import draw_index
from tiltyard.core.policy.matchmaking.matchmaker import Choice, choose
from tiltyard.core.policy.state.policy import Lane
from tiltyard.core.policy.state.standing import Standing
from tiltyard.errors import BadOption, NoMatchup

#: Chooses the next matchup from a standing, a random generator and a voter's session.
Matchmaker = Callable[[Standing, np.random.Generator, int], Choice]


def by_policy(standing: Standing, rng: np.random.Generator, session: int) -> Choice:
    """The lanes and the fairness controller of the ranking policy."""
    return choose(standing, rng, session=session)


def by_v1(standing: Standing, rng: np.random.Generator, _session: int) -> Choice:
    """A random prompt, and models weighted by how rarely they were shown."""
    order = _at_least_two(standing)
    weights = 1.0 / (1.0 + standing.shown[order, 0])
    first = draw_index(weights, rng)
    others = weights.copy()
    others[first] = 0.0
    second = draw_index(others, rng)
    total, one, other = weights.sum(), weights[first], weights[second]
    chance = one * other / total * (1.0 / (total - one) + 1.0 / (total - other))
    prompt = _any_prompt(standing, rng)
    return _chosen(
        int(order[first]), int(order[second]), prompt, "v1", float(chance) / len(standing.prompts), rng
    )


def by_chance(standing: Standing, rng: np.random.Generator, _session: int) -> Choice:
    """Any two models on any prompt."""
    order = _at_least_two(standing)
    one, other = rng.choice(order, 2, replace=False).tolist()
    pairs = len(order) * (len(order) - 1) / 2
    return _chosen(
        one, other, _any_prompt(standing, rng), "uniform", 1.0 / pairs / len(standing.prompts), rng
    )


def by_nearest(standing: Standing, rng: np.random.Generator, _session: int) -> Choice:
    """Any model, and one of its neighbours in the published order, on any prompt."""
    order = _at_least_two(standing)
    last = len(order) - 1
    anchor = int(rng.integers(len(order)))
    beside = [place for place in (anchor - 1, anchor + 1) if 0 <= place <= last]
    place = beside[int(rng.integers(len(beside)))]
    # The first and the last model have only one neighbour and always meet it.
    ends = sum(2.0 if at in (0, last) else 1.0 for at in (anchor, place))
    chance = ends / (2.0 * len(order)) / len(standing.prompts)
    return _chosen(int(order[anchor]), int(order[place]), _any_prompt(standing, rng), "nearest", chance, rng)


def by_thompson(standing: Standing, rng: np.random.Generator, _session: int) -> Choice:
    """Thompson sampling: neighbours in an order drawn from the posterior of each model, on any prompt.

    Each strength is drawn independently, normal with the standard error of online Bradley–Terry. The
    propensity of a pair would need an integral that is not used here; it is NaN.
    """
    order = _at_least_two(standing)
    strengths = standing.strengths
    drawn = strengths.rating[order] + strengths.se[order] * rng.standard_normal(len(order))
    place = int(rng.integers(len(order) - 1))
    one, other = order[np.argsort(-drawn)[place : place + 2]].tolist()
    return _chosen(one, other, _any_prompt(standing, rng), "thompson", math.nan, rng)


#: Matchmakers by name.
MATCHMAKERS: Mapping[str, Matchmaker] = MappingProxyType(
    {"policy": by_policy, "v1": by_v1, "uniform": by_chance, "nearest": by_nearest, "thompson": by_thompson}
)


def matchmaker_of(name: str) -> Matchmaker:
    """The matchmaker of this name."""
    if name not in MATCHMAKERS:
        raise BadOption(f"matchmaker is {name!r}; expected one of {', '.join(MATCHMAKERS)}")
    return MATCHMAKERS[name]


def _chosen(
    one: int, other: int, prompt: int, reason: str, propensity: float, rng: np.random.Generator
) -> Choice:
    left, right = (one, other) if rng.random() < 0.5 else (other, one)
    return Choice(left, right, prompt, Lane.EXPLORATION, Lane.EXPLORATION, reason, propensity)


def _any_prompt(standing: Standing, rng: np.random.Generator) -> int:
    return int(rng.integers(len(standing.prompts)))


def _at_least_two(standing: Standing) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Enabled models in the published order."""
    if standing.n_enabled < 2:
        raise NoMatchup(f"{standing.n_enabled} models are enabled, and a matchup needs two: enable more")
    return standing.order
