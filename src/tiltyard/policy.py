"""The parts of an arena's ranking policy, for a matchmaker or a simulation of your own.

A `Standing` is what the `Policy` knows of an arena, a `Rater` rates its votes as they come, `choose` chooses the next
matchup, and `evaluate` looks at the rules of publication.
"""

from __future__ import annotations

from tiltyard.core.policy.matchmaking.matchmaker import Choice, choose
from tiltyard.core.policy.state.policy import Policy
from tiltyard.core.policy.state.rating_fold import Rater, RaterSettings
from tiltyard.core.policy.state.standing import Standing
from tiltyard.core.policy.validity.publication import evaluate

__all__ = ["Choice", "Policy", "Rater", "RaterSettings", "Standing", "choose", "evaluate"]
