"""`choose`: the fairness controller, the lane draw, the fallbacks, the sides.

A rule is relaxed only if no pair is left otherwise, and the choice records it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice

import numpy as np
import numpy.typing as npt

from tiltyard.core.policy.matchmaking.eligible_pairs import (
    DrawnPair,
    EligiblePairs,
    has_servable_pair,
    voter_need,
)
from tiltyard.core.policy.matchmaking.lanes import (
    Draws,
    contender_draws,
    draw_coverage,
    draw_starved,
    exploration_draws,
    uncertainty_draws,
    v1_draws,
)
from tiltyard.core.policy.state.events import NO_SESSION
from tiltyard.core.policy.state.policy import Lane
from tiltyard.core.policy.state.session_memory import SessionMemory
from tiltyard.core.policy.state.standing import Standing
from tiltyard.errors import NoMatchup
from tiltyard.foundation.arrays import Bools

Floats = npt.NDArray[np.float32]

RandomLane = Callable[[EligiblePairs, np.random.Generator], Draws]
_RANDOM_LANES: dict[Lane, RandomLane] = {
    Lane.CONTENDER: contender_draws,
    Lane.UNCERTAINTY: uncertainty_draws,
    Lane.EXPLORATION: exploration_draws,
}


@dataclass(frozen=True, slots=True)
class Choice:
    """A matchup to serve. Codes index the standing's models and prompts."""

    left: int
    right: int
    prompt: int
    #: The lane that was drawn, and the lane that chose: they differ if the fairness controller intervened.
    nominal: Lane
    lane: Lane
    #: Why these two were chosen, in a few words.
    reason: str
    #: Probability of the lane times that of this choice in one draw; sides are equally likely. If a draw
    #: fails (few shared prompts, a session that has seen much) it is repeated, and the actual probability
    #: is higher by that.
    propensity: float
    #: Rules that were relaxed because no other pair was left: ``exposure``, ``session``.
    given_up: tuple[str, ...] = ()


def choose(
    standing: Standing,
    rng: np.random.Generator,
    *,
    session: int = NO_SESSION,
    told: Sequence[tuple[int, int]] = (),
    waiting: Sequence[tuple[int, int, int]] = (),
    judgeable: Bools | None = None,
    resting: Sequence[int] = (),
) -> Choice:
    """Choose the next matchup. Raises `NoMatchup` only if no two enabled models share a prompt that the voter can judge.

    ``told``: cells of model and prompt whose responses the voter knows by name; they are used last. ``waiting``:
    models and prompt of the matchups that were prefetched for the session; they are treated as if it had seen them.
    ``judgeable``: by prompt, whether the voter can judge it; no rule is relaxed for the others, which are never
    chosen. ``resting``: models that cannot be served at present, likewise. Propensities are those of the choice among
    the rest.
    """
    shadow = standing.policy.phase == 1
    nominal = Lane.EXPLORATION if shadow else _drawn_lane(standing, rng)
    memory = standing.sessions.of(session, waiting)
    for field, relaxed in fallback_fields(standing, memory, told, judgeable, resting):
        found = _shadow(field, rng) if shadow else _chosen(field, nominal, rng)
        if found is not None:
            lane, weight, draw = found
            left, right = (draw.one, draw.other) if rng.random() < 0.5 else (draw.other, draw.one)
            bound = not _unbounded(lane, standing)
            given_up = tuple(rule for rule in relaxed if bound or rule != "exposure")
            propensity = weight * draw.chance
            return Choice(left, right, draw.prompt, nominal, lane, draw.reason, propensity, given_up)
    if resting:
        raise NoMatchup("fewer than two models can answer at present: try again in a few minutes")
    if judgeable is not None and not judgeable.all():
        raise NoMatchup(
            "no two enabled models have a response to a prompt in the languages and categories that you can judge: "
            "choose others"
        )
    raise NoMatchup(
        "no two enabled models have a response to the same prompt: enable models or add responses"
    )


def fallback_fields(
    standing: Standing,
    memory: SessionMemory,
    told: Sequence[tuple[int, int]] = (),
    judgeable: Bools | None = None,
    resting: Sequence[int] = (),
) -> Iterator[tuple[EligiblePairs, tuple[str, ...]]]:
    """The eligible pairs with every rule applied; then, if none is left, with fewer rules.

    First the session's last pairs are allowed again, the oldest first, then prompts that it has
    seen, then the models at their upper bound, and last the responses whose names were revealed to
    the voter: a vote on these is not rated. Phase 1 has no upper bound.
    """
    if standing.n_enabled < 2:
        return
    unknown = voter_need(standing, told, judgeable, resting)
    if told and has_servable_pair(unknown):
        yield from _ruled_or_repeated(standing, memory, unknown)
    rest = voter_need(standing, (), judgeable, resting)
    if rest is standing.cells.need:
        fields = _ruled(standing, memory, rest)
    elif has_servable_pair(rest):
        fields = _ruled_or_repeated(standing, memory, rest)
    else:
        return
    for field, relaxed in fields:
        yield field, (*relaxed, "blind") if told else relaxed


def _ruled_or_repeated(
    standing: Standing, memory: SessionMemory, need: Floats
) -> Iterator[tuple[EligiblePairs, tuple[str, ...]]]:
    """The same; and last without the limit of repetitions: few cells are left, and their pairs may have met on them."""
    yield from _ruled(standing, memory, need)
    last = EligiblePairs.of(
        standing, memory, capped=False, depth=0, fresh_prompts=False, need=need, repeats=True
    )
    yield last, ("session",) if standing.policy.phase == 1 else ("exposure", "session")


def _ruled(
    standing: Standing, memory: SessionMemory, need: Floats
) -> Iterator[tuple[EligiblePairs, tuple[str, ...]]]:
    first = True
    for capped in (False,) if standing.policy.phase == 1 else (True, False):
        for fresh in (True, False) if any(memory.prompts.values()) else (True,):
            for depth in range(len(memory.pairs), -1, -1):
                field = EligiblePairs.of(
                    standing, memory, capped=capped, depth=depth, fresh_prompts=fresh, need=need
                )
                over = not capped and standing.policy.phase > 1
                relaxed = depth < len(memory.pairs) or not fresh
                if first or field.has_eligible_pair():
                    yield field, (("exposure",) if over else ()) + (("session",) if relaxed else ())
                first = False


def _drawn_lane(standing: Standing, rng: np.random.Generator) -> Lane:
    u = rng.random()
    for lane, weight in zip(Lane, standing.policy.lane_weights, strict=True):
        if u < weight:
            return lane
        u -= weight
    return Lane.COVERAGE  # only reached by rounding


def _chosen(
    field: EligiblePairs, nominal: Lane, rng: np.random.Generator
) -> tuple[Lane, float, DrawnPair] | None:
    """The lane that chose, its probability, and its pair."""
    draw = draw_starved(field, rng)
    if draw is not None:
        return Lane.COVERAGE, 1.0, draw
    standing = field.standing
    weight = standing.policy.lane_weights[nominal]
    # At first contenders are chosen by luck: meeting only each other, they would stay on top for long.
    if nominal in _RANDOM_LANES and (nominal is not Lane.CONTENDER or standing.window.active()):
        seen = replace(field, free=standing.enabled) if _unbounded(nominal, standing) else field
        draw = _repeated(_RANDOM_LANES[nominal], seen, rng)
        if draw is not None:
            return nominal, weight, draw
    draw = draw_coverage(field, rng)
    return None if draw is None else (Lane.COVERAGE, weight, draw)


def _unbounded(lane: Lane, standing: Standing) -> bool:
    """Whether the lane has no upper bound, because contender exposures are counted separately."""
    return lane is Lane.CONTENDER and standing.policy.fairness == "scoped"


def _shadow(field: EligiblePairs, rng: np.random.Generator) -> tuple[Lane, float, DrawnPair] | None:
    """Version 1, or any eligible pair if it finds none."""
    draw = _repeated(v1_draws, field, rng)
    if draw is not None:
        return Lane.EXPLORATION, 1.0, draw
    draw = draw_coverage(field, rng)
    return None if draw is None else (Lane.COVERAGE, 1.0, draw)


def _repeated(lane: RandomLane, field: EligiblePairs, rng: np.random.Generator) -> DrawnPair | None:
    draws = islice(lane(field, rng), field.standing.policy.draws)
    return next((draw for draw in draws if draw is not None), None)
