"""The ranking policy's constants, in one place.

The letters in brackets are those of the policy's description
(docs/explanation/ranking-policy.md), which gives the reason for each constant.
"""

from __future__ import annotations

import enum
from dataclasses import asdict, dataclass
from typing import Any, Literal, NamedTuple

from tiltyard.errors import BadOption
from tiltyard.foundation.field_definitions import (
    check_fields,
    defined,
    definitions,
)

#: ``strict``: exposures of every lane stay within tolerance. ``scoped``: those of the contender
#: lane are counted separately, which larger arenas need so that their best models meet often.
Fairness = Literal["strict", "scoped"]
#: By what the uncertainty lane weighs its anchors.
Uncertainty = Literal["standard-error", "rd"]


class Phase(NamedTuple):
    """How much of the policy is active."""

    number: int
    name: str
    meaning: str


PHASES = (
    Phase(
        1,
        "Shadow",
        "Version 1 matchmaking, and the board is ordered by legacy Elo. The ranking policy is computed, but only "
        "operators see it, as the shadow board: readers see no badges, no status, no lanes. A validity report is made every "
        "week, for operators.",
    ),
    Phase(
        2,
        "Lanes",
        "The four lanes choose matchups. The board is still ordered by legacy Elo; badges, coverage, status and the lane "
        "mix are also shown.",
    ),
    Phase(
        3,
        "Rating",
        "The board is ordered by conservative score (or by Bradley–Terry, if the settings say so). Legacy Elo stays as a "
        "secondary figure. The status may become official.",
    ),
    Phase(4, "Governance", "As in phase 3, and readers see the weekly validity reports."),
)

#: What every reader of JSON can represent.
_SAFE_INTEGER_LIMIT = 2**53
_COUNT = (1, _SAFE_INTEGER_LIMIT)
_AMOUNT = (0, _SAFE_INTEGER_LIMIT)
_SHARE = (0.0, 1.0)
_POSITIVE = (1e-9, _SAFE_INTEGER_LIMIT)


class Lane(enum.IntEnum):
    """The purpose of a matchup."""

    COVERAGE = 0
    CONTENDER = 1
    UNCERTAINTY = 2
    EXPLORATION = 3


@dataclass(frozen=True, slots=True)
class Policy:
    """The constants of the ranking policy. A standing keeps the policy it was made with.

    When an arena changes one, the log is folded with it from that position on. Those that are fixed decide what is
    stored, and cannot change once an arena has begun. Nor can the volatility with which models start in Glicko-2: it is
    given where an arena is created by the API, Python or the operators' page, and is 0.003 otherwise.
    """

    phase: int = defined(4, "how much of the policy is active", bounds=(1, len(PHASES)))

    lane_weights: tuple[float, float, float, float] = defined(
        (0.4, 0.3, 0.2, 0.1),
        "shares of coverage, contender, uncertainty and exploration",
        label="Lane shares",
        group="Matchmaking",
        expected="four shares that add up to 1",
    )
    window: int = defined(
        2000,
        "served matchups in which exposures are compared",
        label="Exposure window",
        bounds=(1, 1_000_000),
        fixed=True,
    )
    fairness: Fairness = defined(
        "strict", "strict: all lanes within tolerance; scoped: all but the contender lane"
    )
    uncertainty: Uncertainty = defined(
        "standard-error",
        "by what the uncertainty lane weighs its anchors: standard-error, that of online Bradley–Terry; or rd, which is "
        "nearly equal among models of many votes and then distinguishes none",
        label="Uncertainty of a model",
    )
    tolerance: float = defined(
        0.12,
        "share of its target by which a model's exposure may deviate",
        label="Exposure tolerance",
        bounds=_AMOUNT,
    )
    tolerance_least: float = defined(
        2.0, "exposures that are always tolerated", label="Minimum tolerance", bounds=_AMOUNT
    )
    guard: float = defined(
        0.02,
        "share of the target at which the controller acts before the tolerance is reached",
        bounds=_AMOUNT,
    )
    guard_least: float = defined(
        1.0,
        "minimum number of exposures at which it acts; never more than half of the tolerance",
        label="Minimum guard",
        bounds=_AMOUNT,
    )
    settling: int = defined(
        5,
        "matchups for each model before exposures are controlled, and before the contender lane starts",
        label="Settling time",
        bounds=_AMOUNT,
    )
    draws: int = defined(
        8, "draws of a lane before the coverage lane takes over", label="Draws of a lane", bounds=_COUNT
    )
    contenders: int = defined(8, "size of the contender band (K)", label="Contender band size", bounds=_COUNT)
    challengers: int = defined(8, "models below the band that contenders may be matched with", bounds=_AMOUNT)
    repeats: int = defined(
        2,
        "how often a prompt may occur among a pair's last matchups; with fewer than 5 prompts ⌈10/prompts⌉ + 1",
        label="Repeats of a prompt",
        bounds=_COUNT,
    )
    meetings: int = defined(
        10,
        "number of a pair's last matchups that are stored",
        label="Stored matchups of a pair",
        bounds=(1, 10_000),
        fixed=True,
    )
    session_pairs: int = defined(
        5,
        "matchups before a session sees the same pair again",
        label="Matchups before a pair repeats",
        bounds=(0, 10_000),
        fixed=True,
    )
    sessions_kept: int = defined(
        100_000,
        "number of sessions whose history is stored; the least recently served one is evicted first",
        label="Stored sessions",
        bounds=(1, 10_000_000),
        fixed=True,
    )

    prompt_floor: int = defined(
        2, "decisive votes that fill a cell of model and prompt (F_prompt)", group="Floors", bounds=_COUNT
    )
    top_prompt_floor: int = defined(
        4,
        "the same in the contender band (T_prompt_top)",
        label="Prompt floor at the top",
        bounds=_COUNT,
        expected="1 or more, and at least prompt_floor",
    )
    patience: int = defined(
        3,
        "attempts, as a multiple of the floor, after which a cell is exhausted",
        label="Attempts for each cell",
        bounds=_COUNT,
    )
    pair_floor: int = defined(2, "decisive votes after which a pair counts as compared", bounds=_COUNT)
    adjacent_votes: int = defined(
        12,
        "decisive votes that adjacent models at the top need (F_adj_pair)",
        label="Votes between neighbours",
        bounds=_COUNT,
    )
    adjacent_prompts: int = defined(
        6,
        "prompts on which they need them, or all that they share",
        label="Prompts between neighbours",
        bounds=_COUNT,
    )
    adjacent_attempts: int = defined(
        36,
        "attempts after which a pair is indistinguishable so far",
        label="Attempts between neighbours",
        bounds=_COUNT,
    )

    established_votes: int = defined(
        80,
        "decisive votes of an established model",
        label="Established: votes",
        group="Badges, publication, claims",
        bounds=_AMOUNT,
    )
    established_coverage: float = defined(
        0.8, "its prompt coverage, at least", label="Established: coverage", unit="a share", bounds=_SHARE
    )
    established_rd: float = defined(
        90.0, "its RD, at most", label="Established: RD", bounds=_POSITIVE, expected="an RD above 0"
    )
    stable_rd: float = defined(
        75.0, "RD of a stable model, at most", label="Stable: RD", bounds=_POSITIVE, expected="an RD above 0"
    )
    stable_coverage: float = defined(
        0.9, "its prompt coverage, at least", label="Stable: coverage", unit="a share", bounds=_SHARE
    )
    published_top: int = defined(
        10,
        "number of top models that the publication rules check",
        label="Publication: top models",
        bounds=_COUNT,
    )
    published_rd: float = defined(
        75.0,
        "their median RD, at most",
        label="Publication: median RD",
        bounds=_POSITIVE,
        expected="an RD above 0",
    )
    published_pairs: float = defined(
        0.8,
        "share of their adjacent pairs with floors met",
        label="Publication: adjacent pairs",
        unit="a share",
        bounds=_SHARE,
    )
    published_coverage: float = defined(
        0.9,
        "their mean prompt coverage, at least",
        label="Publication: coverage",
        unit="a share",
        bounds=_SHARE,
    )
    evaluated_every: int = defined(
        250, "votes between evaluations", label="Votes between evaluations", bounds=_COUNT
    )
    evaluations: int = defined(
        3,
        "consecutive evaluations at which the rules must hold",
        label="Consecutive evaluations",
        bounds=_COUNT,
    )
    settled_alpha: float = defined(
        0.05,
        "maximum probability that anything a board ever calls settled is false; where everybody on the internet may vote, "
        "nothing is settled before voters came on 4 days, and an order must be clear beyond what differs from day to day",
        label="Error of settled orders",
        bounds=(1e-12, 1.0 - 1e-12),
        expected="a probability above 0 and below 1",
    )
    both_bad_bar: float = defined(
        0.25,
        "both-bad rate above which a finding is raised",
        label="Both-bad threshold",
        unit="a share",
        bounds=_SHARE,
    )
    both_bad_over: int = defined(
        200, "number of votes for that rate", label="Both-bad window", bounds=(1, 10_000), fixed=True
    )
    form_votes: int = defined(
        20,
        "number of votes in a model's recent form",
        label="Recent form",
        bounds=_COUNT,
        expected="1 or more, and at most both_bad_over",
    )
    free_prompts: bool = defined(
        False,
        "voters write their own prompts: the arena's prompts are categories, and claims count the different prompts that "
        "were written",
        fixed=True,
    )

    def __post_init__(self) -> None:
        check_fields(self)
        if len(self.lane_weights) != len(Lane) or not all(map(_is_weight, self.lane_weights)):
            raise BadOption(
                f"lane_weights is {self.lane_weights}; expected four shares of 0 or more",
                option="lane_weights",
            )
        if abs(sum(self.lane_weights) - 1.0) > 1e-9:
            raise BadOption(
                f"lane_weights add up to {sum(self.lane_weights):g}; expected 1", option="lane_weights"
            )
        if self.top_prompt_floor < self.prompt_floor:
            raise BadOption(
                f"top_prompt_floor is {self.top_prompt_floor}; expected at least prompt_floor, {self.prompt_floor}",
                option="top_prompt_floor",
            )
        if self.form_votes > self.both_bad_over:
            raise BadOption(
                f"form_votes is {self.form_votes}; expected at most both_bad_over, {self.both_bad_over}: "
                "older votes are not kept",
                option="form_votes",
            )

    def to_dict(self) -> dict[str, Any]:
        """The constants by name. Later ones are named only where they differ: all that was stored before has none."""
        later = ("free_prompts", "uncertainty")
        defaults = definitions(Policy)
        return {
            name: value
            for name, value in asdict(self).items()
            if name not in later or value != defaults[name].default
        }

    def repeats_of(self, prompts: int) -> int:
        """How often one prompt may occur among a pair's last meetings, if it has this many prompts."""
        even = -(-self.meetings // max(prompts, 1))
        return max(self.repeats, even) if prompts >= 5 else even + 1


def _is_weight(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value >= 0


#: Constants that determine how much is remembered: they cannot change during an arena's lifetime.
KEPT_SHAPES = tuple(name for name, definition in definitions(Policy).items() if definition.fixed)
