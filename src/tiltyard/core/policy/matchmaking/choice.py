"""What matchmaking answers: a matchup, and everything an auditor asks about it."""

from __future__ import annotations

from dataclasses import dataclass

from tiltyard.core.policy.state.policy import Lane

__all__ = ["Choice", "DrawnPair"]


@dataclass(frozen=True, slots=True)
class DrawnPair:
    """One lane's choice: two models and a prompt, why, and how likely in one draw of that lane.

    Random lanes count both ways to the pair. Coverage counts the way that was taken: this
    anchor, this opponent, this prompt.
    """

    one: int
    other: int
    prompt: int
    reason: str
    chance: float


@dataclass(frozen=True, slots=True)
class Choice:
    """A matchup to serve. Codes index the standing's models and prompts."""

    left: int
    right: int
    prompt: int
    #: The lane that was drawn, and the lane that chose: they differ where fairness stepped in.
    nominal: Lane
    lane: Lane
    #: Why these two met, in a few words.
    reason: str
    #: Probability of the lane times that of this choice in one draw of it; sides are even. Where
    #: draws come to nothing (few shared prompts, a session that has seen much) others follow, and
    #: the choice was likelier than this by as much.
    propensity: float
    #: Rules that could not be kept because nothing else was left: ``exposure``, ``session``.
    given_up: tuple[str, ...] = ()
