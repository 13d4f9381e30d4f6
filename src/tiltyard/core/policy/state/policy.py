"""The ranking policy's constants, in one place.

The letters in brackets are those of the policy's description
(docs/explanation/ranking-policy.md), which gives the reason for each constant.
"""

from __future__ import annotations

import enum
import math
from dataclasses import asdict, dataclass
from typing import Any, Literal

from tiltyard.errors import BadOption

#: ``strict``: exposures of every lane stay within tolerance. ``scoped``: those of the contender
#: lane are counted separately, which larger arenas need so that their best models meet often.
Fairness = Literal["strict", "scoped"]


#: Constants that determine how much is remembered: they cannot change during an arena's lifetime.
KEPT_SHAPES = ("window", "meetings", "session_pairs", "sessions_kept", "both_bad_over", "free_prompts")


class Lane(enum.IntEnum):
    """The purpose of a matchup."""

    COVERAGE = 0
    CONTENDER = 1
    UNCERTAINTY = 2
    EXPLORATION = 3


@dataclass(frozen=True, slots=True)
class Policy:
    """The settings of the lanes and the rules. A standing keeps the policy it was made with."""

    #: How much of the policy is active: 1 shadow (v1 matchmaking, order by legacy Elo), 2 lanes,
    #: 3 order by conservative score, 4 weekly validity report too.
    phase: int = 4
    #: Shares of the four lanes, in the order of `Lane`.
    lane_weights: tuple[float, float, float, float] = (0.4, 0.3, 0.2, 0.1)
    #: Served matchups in the window of exposure fairness (W).
    window: int = 2000
    fairness: Fairness = "strict"
    #: Exposures may deviate by this share of their target, and always by ``tolerance_least``.
    tolerance: float = 0.12
    tolerance_least: float = 2.0
    #: The controller acts at this share before the tolerance is reached.
    guard: float = 0.02
    guard_least: float = 1.0
    #: The controller is inactive until each model could have been served this many matchups.
    settling: int = 5
    #: Attempts to draw from a lane before falling back to the coverage lane.
    draws: int = 8

    #: Size of the contender band (K), and the number of challengers below it.
    contenders: int = 8
    challengers: int = 8
    #: Decisive votes that fill a cell of model and prompt (F_prompt), and in the band (T_prompt_top).
    prompt_floor: int = 2
    top_prompt_floor: int = 4
    #: A cell still below its floor after this many times as many attempts is exhausted.
    patience: int = 3
    #: The number of decisive votes from which a pair counts as met.
    pair_floor: int = 2
    #: Votes, and prompts, that adjacent contenders need (F_adj_pair).
    adjacent_votes: int = 12
    adjacent_prompts: int = 6
    #: After this many attempts a pair still short of its floor is "indistinguishable so far".
    adjacent_attempts: int = 36
    #: How often a prompt may be repeated among a pair's last ``meetings``.
    repeats: int = 2
    meetings: int = 10
    #: A voter's session is not shown a pair again within this many matchups.
    session_pairs: int = 5
    #: The number of sessions remembered; the least recently served one is evicted first.
    sessions_kept: int = 100_000

    #: Requirements to move from provisional to established.
    established_votes: int = 80
    established_coverage: float = 0.8
    established_rd: float = 90.0
    #: Requirements to move from established to stable.
    stable_rd: float = 75.0
    stable_coverage: float = 0.9
    #: Publication: the number of top models, and the three thresholds.
    published_top: int = 10
    published_rd: float = 75.0
    published_pairs: float = 0.8
    published_coverage: float = 0.9
    #: Votes between evaluations, and how many consecutive ones must pass.
    evaluated_every: int = 250
    evaluations: int = 3
    #: The probability that anything a board ever calls settled is false.
    settled_alpha: float = 0.05
    #: A both-bad rate above this over the last ``both_bad_over`` votes raises a finding.
    both_bad_bar: float = 0.25
    both_bad_over: int = 200
    #: The number of votes in a model's recent form.
    form_votes: int = 20
    #: Voters write their own prompts. The roster's prompts are then categories: choices and coverage count these, while
    #: floors of pairs, intervals and claims count the different prompts that were written.
    free_prompts: bool = False

    def __post_init__(self) -> None:
        if len(self.lane_weights) != len(Lane) or not all(weight >= 0.0 for weight in self.lane_weights):
            raise BadOption(f"lane_weights is {self.lane_weights}; expected four shares of 0 or more")
        if abs(sum(self.lane_weights) - 1.0) > 1e-9:
            raise BadOption(f"lane_weights add up to {sum(self.lane_weights):g}; expected 1")
        if self.fairness not in ("strict", "scoped"):
            raise BadOption(f"fairness is {self.fairness!r}; expected strict or scoped")
        for names, least, most, expected in BOUNDS:
            for name in names:
                if not least <= getattr(self, name) <= most:
                    raise BadOption(f"{name} is {getattr(self, name)}; expected {expected}")
        if not isinstance(self.free_prompts, bool):
            raise BadOption(f"free_prompts is {self.free_prompts!r}; expected true or false")
        if self.top_prompt_floor < self.prompt_floor:
            raise BadOption(
                f"top_prompt_floor is {self.top_prompt_floor}; expected at least prompt_floor, {self.prompt_floor}"
            )
        if self.form_votes > self.both_bad_over:
            raise BadOption(
                f"form_votes is {self.form_votes}; expected at most both_bad_over, {self.both_bad_over}: "
                "older votes are not kept"
            )

    def to_dict(self) -> dict[str, Any]:
        """The constants by name. Free prompts are named only where prompts are free: all that was stored before has none."""
        named = asdict(self)
        if not self.free_prompts:
            del named["free_prompts"]
        return named

    def repeats_of(self, prompts: int) -> int:
        """How often one prompt may occur among a pair's last meetings, if it has this many prompts."""
        even = -(-self.meetings // max(prompts, 1))
        return max(self.repeats, even) if prompts >= 5 else even + 1


_COUNTS = (
    "window",
    "draws",
    "contenders",
    "prompt_floor",
    "top_prompt_floor",
    "patience",
    "pair_floor",
    "adjacent_votes",
    "adjacent_prompts",
    "adjacent_attempts",
    "repeats",
    "meetings",
    "sessions_kept",
    "published_top",
    "evaluated_every",
    "evaluations",
    "both_bad_over",
    "form_votes",
)
_SHARES = (
    "established_coverage",
    "stable_coverage",
    "published_pairs",
    "published_coverage",
    "both_bad_bar",
)
_AMOUNTS = (
    "tolerance",
    "guard",
    "tolerance_least",
    "guard_least",
    "settling",
    "challengers",
    "session_pairs",
    "established_votes",
)
#: Constants by name, their minimum and maximum, and the wording for messages.
BOUNDS = (
    (("phase",), 1, 4, "1, 2, 3 or 4"),
    (_COUNTS, 1, math.inf, "1 or more"),
    (_SHARES, 0.0, 1.0, "a share between 0 and 1"),
    (("settled_alpha",), 1e-12, 1.0 - 1e-12, "a probability above 0 and below 1"),
    (("established_rd", "stable_rd", "published_rd"), 1e-9, math.inf, "an RD above 0"),
    (_AMOUNTS, 0, math.inf, "0 or more"),
)
