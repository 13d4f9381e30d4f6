"""The event log of a simulated arena, as a real one would write it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tiltyard.core.policy.state.events import Event, Events
from tiltyard.simulation.simulated_arena import SimulatedArena, SimulationSettings

_DAY_SECONDS = 86_400
#: When simulated arenas open: the first of January 2024, a Monday, at midnight.
_OPENING_SECONDS = 1_704_067_200


@dataclass(frozen=True, slots=True, eq=False)
class ArenaLog:
    """The input of a validity report."""

    events: Events
    models: tuple[str, ...]
    prompts: tuple[str, ...]
    #: Serials of matchups for which a rule was relaxed.
    given_up: npt.NDArray[np.int64]


def arena_log(settings: SimulationSettings, seed: int, *, votes_per_day: int) -> ArenaLog:
    """The events of the arena that `simulate` runs with this seed; votes are spread evenly over the day."""
    arena = _LoggedArena(settings, seed)
    arena.run()
    rows = [
        row | {"time": _OPENING_SECONDS + row["time"] * _DAY_SECONDS // votes_per_day} for row in arena.rows
    ]
    standing = arena.standing
    relaxed = np.array([row["serial"] for row in rows if row.get("given_up")], dtype=np.int64)
    return ArenaLog(Events.of(rows), standing.models, standing.prompts, relaxed)


class _LoggedArena(SimulatedArena):
    """Records the events. Times are counted in votes here and converted later."""

    def __init__(self, settings: SimulationSettings, seed: int) -> None:
        self.rows: list[dict[str, int]] = []
        super().__init__(settings, seed)

    def note(self, event: Event, **fields: int) -> None:
        self.rows.append({"event": event, **fields, "time": self.votes})
