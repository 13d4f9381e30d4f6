"""A policy and its ratings as plain values: what an arena's log says of how it is rated."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, TypedDict, final

from tiltyard.core.policy.state.policy import Policy
from tiltyard.core.policy.state.rating_fold import RaterSettings
from tiltyard.core.ratings.glicko2 import Glicko2
from tiltyard.core.ratings.online_bradley_terry import OnlineBradleyTerry
from tiltyard.errors import BadOption

__all__ = ["MethodValues", "method_from_dict", "method_to_dict"]


@final
class MethodValues(TypedDict):
    """A policy and its ratings as JSON."""

    policy: dict[str, object]
    rater: dict[str, object]


def method_to_dict(policy: Policy, settings: RaterSettings | None = None) -> MethodValues:
    """What an arena's log says of its policy and ratings, as plain values."""
    return {"policy": policy.to_dict(), "rater": asdict(RaterSettings() if settings is None else settings)}


def method_from_dict(said: Mapping[str, Any]) -> tuple[Policy, RaterSettings]:
    """The policy and ratings of `method_to_dict`; what is not named has its default."""
    policy, rater = dict(said["policy"]), dict(said.get("rater") or {})
    if "lane_weights" in policy:
        policy["lane_weights"] = tuple(policy["lane_weights"])
    if "glicko2" in rater:
        rater["glicko2"] = Glicko2(**{"kernel": "plain", **rater["glicko2"]})
    if "online" in rater:
        rater["online"] = OnlineBradleyTerry(**rater["online"])
    try:
        return Policy(**policy), RaterSettings(**rater)
    except TypeError as error:
        raise BadOption(f"a policy or its ratings cannot be read: {error}") from None
