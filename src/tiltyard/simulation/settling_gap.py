"""What an arena can settle: the smallest difference between two models that all its votes tell apart, by simulation."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from tiltyard.core.board.cross_check import batch_ratings
from tiltyard.core.board.settled_order import SETTLING_PROMPT_COUNT, settling_half_widths
from tiltyard.core.policy.state.standing import SMALL_ARENA_PEOPLE_COUNT
from tiltyard.core.policy.validity.rules import blind_votes_of_one
from tiltyard.simulation.simulated_arena import SimulatedArena, SimulationSettings
from tiltyard.simulation.worlds import WorldSettings

#: An arena that can collect more votes is not small; so many are simulated for one answer, too: a few seconds of one core.
_SMALL_ARENA_VOTE_LIMIT = 2_500
_MAX_WORLD_COUNT = 8


@dataclass(frozen=True, slots=True)
class SettlingForecast:
    """Points below which nothing settles in a small arena, and with more prompts and people; ``None``: nothing ever does."""

    models: int
    prompts: int
    people: int
    gap: float | None
    more_prompts: int
    more_people: int
    better_gap: float | None


def settling_forecast(models: int, prompts: int, people: int, told_after: int) -> SettlingForecast | None:
    """The forecast for people who each vote until names are told (`blind_votes_of_one`); ``None`` for a large arena."""

    def gap(prompts: int, people: int) -> float | None:
        votes = people * (blind_votes_of_one([models] * prompts, told_after) or 0)
        return settling_gap(models, prompts, people, min(votes, _SMALL_ARENA_VOTE_LIMIT))

    if people * (blind_votes_of_one([models] * prompts, told_after) or 0) > _SMALL_ARENA_VOTE_LIMIT:
        return None
    better = (max(prompts, SETTLING_PROMPT_COUNT), max(people, SMALL_ARENA_PEOPLE_COUNT))
    now = gap(prompts, people)
    then = None if better == (prompts, people) else gap(*better)
    return SettlingForecast(models, prompts, people, now, better[0] - prompts, better[1] - people, then)


@lru_cache(maxsize=256)
def settling_gap(models: int, prompts: int, people: int, votes: int) -> float | None:
    """Points below which about nothing is settled after so many votes of so many people; ``None`` if nothing ever is.

    Arenas of this shape are simulated with the default spreads. The answer is the difference that the settled rule asks
    for at their ends, in the median over pairs and arenas; few arenas are enough, because it varies little.
    """
    settings = SimulationSettings(WorldSettings(models, prompts, voters=people), votes=votes)
    asked = []
    for seed in range(min(_MAX_WORLD_COUNT, max(_SMALL_ARENA_VOTE_LIMIT // votes, 1))):
        arena = SimulatedArena(settings, seed)
        arena.run()
        widths = settling_half_widths(arena.standing, batch_ratings(arena.standing))
        asked.append(np.median(widths[np.triu_indices(models, 1)]))
    gap = float(np.median(asked))
    return gap if np.isfinite(gap) else None
