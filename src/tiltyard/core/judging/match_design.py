"""The design of a tournament: which matches are judged, and whether in both orders."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Literal, get_args

from tiltyard.core.judging.matches import Match, MatchList, sample_pairs, stable_id
from tiltyard.core.judging.question import Question
from tiltyard.errors import BadOption

#: Every pair; every model against one; each model against two others on each prompt; or pairs chosen as verdicts come in.
Design = Literal["all", "baseline", "sparse", "adaptive"]
#: Whether a match is judged in both orders, or mostly in one that is drawn.
Orders = Literal["both", "random"]
#: An adaptive run has so many rounds if it judges everything, and a round so many matches at least.
_ROUND_COUNT, _MIN_ROUND_MATCH_COUNT = 10, 30


@dataclass(frozen=True, slots=True)
class MatchDesign:
    """Which matches are judged, and in which orders; drawn by the seed and names alone."""

    design: Design = "all"
    #: Whom all others meet, with ``baseline``.
    baseline: str | None = None
    orders: Orders = "both"
    #: The share of matches that is judged in both orders all the same, with ``random``.
    audit: float = 0.1
    seed: int = 0

    @classmethod
    def of(cls, settings: Mapping[str, Any], seed: int) -> MatchDesign:
        """The design of a mode's settings; what they lack is as by default."""
        known = {one.name: settings[one.name] for one in fields(cls) if one.name in settings}
        return cls(**{**known, "seed": seed})

    def __post_init__(self) -> None:
        if self.design not in get_args(Design) or self.orders not in get_args(Orders):
            raise BadOption(
                f"design is {self.design!r} and orders {self.orders!r}; expected {', '.join(get_args(Design))}, "
                f"and {' or '.join(get_args(Orders))}"
            )
        if not (isinstance(self.audit, int | float) and 0.0 <= self.audit <= 1.0):
            raise BadOption(f"audit is {self.audit!r}; expected a share from 0 to 1")

    @property
    def adaptive(self) -> bool:
        return self.design == "adaptive"

    def pool(self, every: MatchList, sample: int | None = None) -> MatchList:
        """The matches that it chooses from; a ``sample`` has so many of each dimension."""
        if self.design == "baseline":
            met = [one for one in every.matches if self.baseline in (one.model_a, one.model_b)]
            every = replace(every, matches=met)
        return sample_pairs(every, sample, self.seed)

    def first(self, pool: MatchList) -> MatchList:
        """The matches that are judged, of all that there are; those of the first round, with ``adaptive``."""
        count = {"sparse": lambda some: len(_answers(some)), "adaptive": round_size}.get(self.design)
        return pool if count is None else sample_pairs(pool, count, self.seed)

    def asked_orders(self, match: Match, judge: str) -> tuple[int, ...]:
        """The orders in which this judge is asked. A panel's judges are asked in both, or each in one of its own."""
        if self.orders == "both" or self._draw("audit", match.id) < self.audit:
            return (0, 1)
        return (int(self._draw("order", match.id, judge) < 0.5),)

    def _draw(self, *names: str) -> float:
        return int(stable_id([self.seed, *names])[:8], 16) / 16**8


BOTH_ORDERS = MatchDesign()


def match_questions(
    match: Match, judges: Sequence[str], design: MatchDesign = BOTH_ORDERS
) -> Iterator[Question]:
    """The questions of one match, judge by judge."""
    sides = match.model_a, match.model_b
    for judge in judges:
        for order in design.asked_orders(match, judge):
            yield Question(judge, match.dimension, match.prompt_id, sides[order], sides[1 - order])


def round_size(pool: Sequence[Match]) -> int:
    """The number of matches in each round of one dimension; as many as models connect them all."""
    models = {model for model, _ in _answers(pool)}
    return max(-(-len(pool) // _ROUND_COUNT), len(models), _MIN_ROUND_MATCH_COUNT)


def _answers(pool: Sequence[Match]) -> set[tuple[str, str]]:
    return {(model, match.prompt_id) for match in pool for model in (match.model_a, match.model_b)}
