"""The events of an arena's log, as columns, from which a standing is folded; and what they say of a vote besides its outcome."""

from __future__ import annotations

import enum
from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from tiltyard.foundation.arrays import Ints

Bytes = npt.NDArray[np.uint8]

#: A matchup without a voter's session (a judge's or a simulated one).
NO_SESSION = -1
#: An event without a free prompt: no vote, or one of an arena with prompts of its own.
NO_FREE_PROMPT = 0
_NOT_GIVEN: Ints = np.empty(0, dtype=np.int64)
#: A vote against which nothing speaks.
NO_MARK = 0

#: The reasons for which a vote is not rated, as readers see them.
Unrated: TypeAlias = Literal["not-blind", "unseen", "early", "waiting"]

#: Nobody finds two responses, looks at both and presses a button in less time. The time for each thousand characters is a
#: hundredth of what reading takes: whoever only glances at the form of two long texts still counts.
_LEAST_SECONDS = 1.0
_SECONDS_PER_THOUSAND_CHARACTERS = 0.2
_MOST_SECONDS = 3.0


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


class VoteMark(enum.IntEnum):
    """What speaks against a vote, as the log has it, or that it was cast elsewhere."""

    #: A response had not been sent to the voter.
    UNSEEN = 1
    #: The voter had both for too short a time.
    EARLY = 2
    #: The voter is new: the vote is rated once it is admitted.
    WAITING = 3
    #: It was cast elsewhere and imported: it is rated.
    IMPORTED = 4


#: The marks of votes that are rated.
RATED_MARKS = (NO_MARK, int(VoteMark.IMPORTED))


_REASONS: dict[int, Unrated] = {
    VoteMark.UNSEEN: "unseen",
    VoteMark.EARLY: "early",
    VoteMark.WAITING: "waiting",
}


def unrated_reason(*, blind: bool, mark: int) -> Unrated | None:
    """Why a vote is not rated; ``None`` if it is."""
    if not blind:
        return "not-blind"
    # What an older version does not know speaks against a vote.
    return None if mark in RATED_MARKS else _REASONS.get(mark, "unseen")


def least_look_seconds(characters: int) -> float:
    """The shortest time in which somebody can have looked at two responses with so many characters together.

    ================  =======
    an image each     1.0 s
    2,000 characters  1.4 s
    10,000 and more   3.0 s
    ================  =======
    """
    seconds = _LEAST_SECONDS + _SECONDS_PER_THOUSAND_CHARACTERS * characters / 1000
    return min(seconds, _MOST_SECONDS)


class Look(NamedTuple):
    """What is known of a voter's look at a matchup when the vote comes."""

    #: Seconds since both responses were sent and the matchup was shown; ``None`` if one was not sent.
    seconds: float | None
    #: Of both responses together.
    characters: int
    #: The longest time that the browser says one of the responses was on screen; ``None`` if it says nothing.
    reported_seconds: float | None = None

    def mark(self) -> int:
        """The mark of the vote, or `NO_MARK`."""
        if self.seconds is None:
            return VoteMark.UNSEEN
        least = least_look_seconds(self.characters)
        reported = self.seconds if self.reported_seconds is None else self.reported_seconds
        return VoteMark.EARLY if min(self.seconds, reported) < least else NO_MARK
