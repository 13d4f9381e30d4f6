"""The log of a simulated arena: what a real one would have written, for reports and trials."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tiltyard.lab.arenas import ArenaSettings, _Arena
from tiltyard.matchmaking.choice import Choice
from tiltyard.standing.events import Event, Events

__all__ = ["ArenaLog", "arena_log"]

_DAY = 86_400
#: When simulated arenas open: the first of January 2024, a Monday, at midnight.
_OPENING = 1_704_067_200


@dataclass(frozen=True, slots=True, eq=False)
class ArenaLog:
    """Everything that a validity report is made from."""

    events: Events
    models: tuple[str, ...]
    prompts: tuple[str, ...]
    #: Serials of matchups for which a rule was given up.
    given_up: npt.NDArray[np.int64]


def arena_log(settings: ArenaSettings, seed: int, *, votes_per_day: int) -> ArenaLog:
    """The arena that `simulate` runs with this seed, event by event; votes come evenly over the day."""
    arena = _LoggedArena(settings, seed)
    arena.run()
    rows = [row | {"time": _OPENING + row["time"] * _DAY // votes_per_day} for row in arena.rows]
    standing = arena.standing
    relaxed = np.array(arena.relaxed, dtype=np.int64)
    return ArenaLog(Events.of(rows), standing.models, standing.prompts, relaxed)


class _LoggedArena(_Arena):
    """Writes down what happens. Times are in votes until the log is handed over."""

    def __init__(self, settings: ArenaSettings, seed: int) -> None:
        self.rows: list[dict[str, int]] = []
        self.relaxed: list[int] = []
        super().__init__(settings, seed)

    def step(self) -> None:
        skipped, expired = self.standing.skipped, self.standing.expired
        super().step()
        serial = self.standing.window.served - 1
        if self.standing.skipped > skipped:
            self._write(Event.SKIP, serial=serial)
        elif self.standing.expired > expired:
            self._write(Event.EXPIRE, serial=serial)

    def _serve(self, choice: Choice, session: int) -> int:
        serial = super()._serve(choice, session)
        self._write(
            Event.SERVED,
            a=choice.left,
            b=choice.right,
            prompt=choice.prompt,
            lane=choice.lane,
            nominal=choice.nominal,
            serial=serial,
            session=session,
        )
        if choice.given_up:
            self.relaxed.append(serial)
        return serial

    def _vote(self, choice: Choice) -> None:
        at = len(self.rows)
        super()._vote(choice)
        # How it went for the left model is, by number, the kind of the vote.
        kind = int(self.standing.model_votes.last(choice.left, 1)[0])
        serial = self.standing.window.served - 1
        self._write(Event.VOTE, a=choice.left, b=choice.right, prompt=choice.prompt, kind=kind, serial=serial)
        # Who came or went after this vote was written before it.
        self.rows.insert(at, self.rows.pop())

    def _change_roster(self) -> None:
        before = self.standing.enabled.copy()
        super()._change_roster()
        for model in np.flatnonzero(before != self.standing.enabled).tolist():
            self._write(Event.ENABLE if self.standing.enabled[model] else Event.RETIRE, a=model)

    def _write(self, event: Event, **fields: int) -> None:
        self.rows.append({"event": event, **fields, "time": self.votes})
