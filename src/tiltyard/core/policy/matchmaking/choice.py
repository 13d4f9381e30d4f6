"""The result of matchmaking: a matchup, and the information needed to audit it."""

from __future__ import annotations

from dataclasses import dataclass

from tiltyard.core.policy.state.policy import Lane

__all__ = ["Choice", "DrawnPair"]


@dataclass(frozen=True, slots=True)
class DrawnPair:
    """A lane's choice: two models and a prompt, the reason, and its probability in one draw of that lane.

    In random lanes the probability covers both ways to draw the pair. In the coverage lane it covers
    only this anchor, this opponent and this prompt.
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
