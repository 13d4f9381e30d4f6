"""The events of an arena's log, as columns, from which a standing is folded."""

from __future__ import annotations

import enum
from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np
import numpy.typing as npt

from tiltyard.foundation.arrays import Ints

Bytes = npt.NDArray[np.uint8]

#: A matchup without a voter's session (a judge's or a simulated one).
NO_SESSION = -1
#: An event without a free prompt: no vote, or one of an arena with prompts of its own.
NO_FREE_PROMPT = 0
_NOT_GIVEN: Ints = np.empty(0, dtype=np.int64)


class Event(enum.IntEnum):
    """The kinds of events. A vote that was undone is never folded: its matchup has not ended."""

    SERVED = 0
    VOTE = 1
    SKIP = 2
    EXPIRE = 3
    ENABLE = 4
    RETIRE = 5
    RESPOND = 6
    WITHDRAW = 7


@dataclass(frozen=True, slots=True, eq=False)
class Events:
    """Events in log order, one column per field; fields that an event does not use are 0.

    ``a`` was on the left and ``b`` on the right. A matchup is ``SERVED`` when it is shown to its voter, and an
    exposure from then on; before that, a prefetched one has no event here. ``serial`` identifies it; a vote, a
    skip or an expiry refers to the matchup it ends. Enabling and retiring refer to a model in
    ``a``; responding and withdrawing to a model in ``a`` and a prompt.
    """

    event: Bytes
    a: Ints
    b: Ints
    prompt: Ints
    #: The `Kind` of a vote.
    kind: Bytes
    #: The `Lane` that chose, and the lane that was drawn.
    lane: Bytes
    nominal: Bytes
    serial: Ints
    #: The session that a matchup was served to, or that cast a vote.
    session: Ints
    #: Seconds since 1970, for reports of a span; 0 if not needed.
    time: Ints
    #: Where voters write their own prompts: the number of the one that was voted on, from 1 up, the same for the same
    #: prompt; ``prompt`` is then its category. `NO_FREE_PROMPT` everywhere if not given.
    free_prompt: Ints = field(default_factory=lambda: _NOT_GIVEN)

    def __post_init__(self) -> None:
        if self.free_prompt is _NOT_GIVEN:
            object.__setattr__(self, "free_prompt", np.full(len(self.event), NO_FREE_PROMPT, dtype=np.int64))

    @property
    def compared_on(self) -> Ints:
        """The prompt on which two models are compared: the free one where prompts are free."""
        return np.where(self.free_prompt == NO_FREE_PROMPT, self.prompt, self.free_prompt)

    def __len__(self) -> int:
        return len(self.event)

    def __getitem__(self, rows: slice | npt.NDArray[np.bool_] | Ints) -> Events:
        return Events(*(getattr(self, field.name)[rows] for field in fields(self)))

    @classmethod
    def of(cls, rows: list[dict[str, int]]) -> Events:
        """Columns from rows that contain only the fields they use."""
        columns: dict[str, npt.NDArray[Any]] = {
            field.name: np.array(
                [row.get(field.name, _ABSENT.get(field.name, 0)) for row in rows],
                dtype=np.uint8 if field.name in _SMALL else np.int64,
            )
            for field in fields(cls)
        }
        return cls(**columns)

    @classmethod
    def joined(cls, parts: list[Events]) -> Events:
        """Concatenate events."""
        parts = parts or [cls.of([])]
        return cls(*(np.concatenate([getattr(part, field.name) for part in parts]) for field in fields(cls)))

    def rows(self) -> Iterator[dict[str, int]]:
        """The events one by one, as plain integers."""
        columns = {field.name: getattr(self, field.name).tolist() for field in fields(self)}
        for k in range(len(self)):
            yield {name: values[k] for name, values in columns.items()}


_ABSENT = {"session": NO_SESSION}
_SMALL = frozenset({"event", "kind", "lane", "nominal"})
