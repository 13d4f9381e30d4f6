"""What the log says of a vote besides its outcome, and how long a voter must look before a vote counts."""

from __future__ import annotations

import enum
from typing import Literal, NamedTuple, TypeAlias

#: A vote against which nothing speaks.
NO_MARK = 0

#: The reasons for which a vote is not rated, as readers see them.
Unrated: TypeAlias = Literal["not-blind", "unseen", "early", "waiting"]

#: Nobody finds two responses, looks at both and presses a button in less time. The time for each thousand characters is a
#: hundredth of what reading takes: whoever only glances at the form of two long texts still counts.
_LEAST_SECONDS = 1.0
_SECONDS_PER_THOUSAND_CHARACTERS = 0.2
_MOST_SECONDS = 3.0


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
