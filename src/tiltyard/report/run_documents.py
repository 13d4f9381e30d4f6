"""The JSON documents and the estimate of a tournament that are shown in its report and in a terminal.

`runs` and `tournament` write them. They are declared here because `report` reads them, and imports
nothing from those packages.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, astuple, dataclass, fields
from typing import Any, Literal, TypedDict

from tiltyard.core.judging.diagnostics.rater_agreement import AgreementDocument
from tiltyard.core.judging.power_analysis import ExpectedPrecision
from tiltyard.core.judging.reconciliation import MatchCounts
from tiltyard.core.ratings.findings import FindingDocument
from tiltyard.settings.prices import dollars_text

#: The kinds of tokens that a run counts.
TokenCount = Literal["input_tokens", "output_tokens", "cache_write_tokens", "cache_read_tokens"]


class ChoiceRating(TypedDict):
    """The rating of a model under one scoring choice."""

    model: str
    rating: float | None
    ci_low: float | None
    ci_high: float | None
    rank: int | None
    group: int | None


class ChoiceDocument(TypedDict):
    """A scoring choice and its ratings, in `dimension_ratings.json`."""

    name: str
    ties: str
    lean: float
    inconsistent: float | None
    ratings: list[ChoiceRating]


class EloEntry(TypedDict):
    """An entrant in `elo_results.json`."""

    entrant_id: str
    mean: float
    sem: float | None
    ci95_low: float | None
    ci95_high: float | None


class EloDocument(TypedDict):
    """`elo_results.json`: by dimension, entrants by name; in the sweep also by K."""

    default_k: float
    primary: dict[str, dict[str, EloEntry]]
    k_sensitivity: dict[str, dict[str, dict[str, EloEntry]]]
    n_decisive_matches: dict[str, int]
    schema: int
    note: str


class JudgeAgreement(AgreementDocument):
    """Agreement with people of one judge in one dimension."""

    judge_model: str
    dimension: str


class DiagnosticsDocument(TypedDict):
    """`diagnostics.json`."""

    schema: int
    #: By dimension.
    matches: dict[str, MatchCounts]
    dropped_pairs: int
    #: By model.
    missing_responses: dict[str, int]
    judges: list[dict[str, Any]]
    agreement: list[JudgeAgreement]
    findings: list[FindingDocument]


class LostCosts(TypedDict):
    """Calls that may have been paid for, but whose reply was lost."""

    calls: int
    usd: str | None


class InFlightCosts(TypedDict):
    """Calls without a result."""

    calls: int
    reserved_usd: str | None


class ActualCosts(TypedDict):
    """Sums over attempts. Amounts are decimal text; ``None`` is unknown."""

    questions: int
    fresh: int
    from_cache: int
    calls: int
    states: dict[str, int]
    calls_with_usage: int
    input_tokens: int | None
    output_tokens: int | None
    cache_write_tokens: int | None
    cache_read_tokens: int | None
    usd: str | None
    known_usd: str
    at_most_usd: str | None
    calls_of_unknown_price: int
    paid_and_lost: LostCosts
    in_flight: InFlightCosts


class PlaceCosts(ActualCosts):
    """The sums of one judge in one dimension."""

    judge_model: str
    dimension: str | None


class PromptCacheUse(TypedDict):
    """Whether prompt caching was requested, and what it did."""

    asked: bool
    read_tokens: int | None
    written_tokens: int | None
    did_nothing: bool


class CostsDocument(TypedDict):
    """`costs.json`."""

    schema: int
    #: The `PlanEstimate` of the run. The version that started the run wrote it; read it with checks.
    estimate: Mapping[str, object]
    actual: ActualCosts
    by_judge_and_dimension: list[PlaceCosts]
    prompt_cache: PromptCacheUse


#: How calls can be sent, and whether the prompt cache has what they begin with.
WAYS = tuple((way, cache) for way in ("live", "batch") for cache in ("no cache hits", "cache hits"))


@dataclass(frozen=True, slots=True)
class CostRange:
    """Picodollars; ``None`` if the price is unknown."""

    low: int | None
    expected: int | None
    worst: int | None

    def __add__(self, other: CostRange) -> CostRange:
        return CostRange(*map(add_amounts, astuple(self), astuple(other)))

    def to_dict(self) -> dict[str, str | None]:
        return {name: _dollars(amount) for name, amount in asdict(self).items()}


def add_amounts(one: int | None, other: int | None) -> int | None:
    """The sum of two amounts, unknown if one is."""
    return None if one is None or other is None else one + other


def _dollars(amount: int | None) -> str | None:
    return None if amount is None else dollars_text(amount)


@dataclass(frozen=True, slots=True)
class EstimateLine:
    """The estimate for one judge in one dimension."""

    judge: str
    dimension: str
    questions: int
    cached: int
    calls: int
    input_tokens: int
    prefix_tokens: int
    output_tokens: int
    #: Token limit of a reply.
    max_tokens: int
    #: Replies from which ``output_tokens`` was estimated; 0 if it is an assumption.
    measured: int
    #: By `WAYS`.
    costs: Mapping[tuple[str, str], CostRange]

    def to_dict(self) -> dict[str, Any]:
        plain = {one.name: getattr(self, one.name) for one in fields(self) if one.name != "costs"}
        return plain | {"usd": _by_way(self.costs)}


@dataclass(frozen=True)
class PlanEstimate:
    """The estimate of a plan. ``counted``: tokens were counted by the provider, not estimated."""

    lines: Sequence[EstimateLine]
    counted: bool
    bytes_per_token: Mapping[str, float]
    expectation: ExpectedPrecision | None
    #: The date of the oldest shipped price in use; ``None`` if all prices are configured.
    prices_as_of: str | None = None
    #: Worst-case cost of all pending calls, as the run would reserve it.
    worst: int | None = 0
    #: Worst-case cost of the most expensive call, and of all calls if every reply is truncated and retried.
    dearest: int | None = 0
    worst_twice: int | None = 0
    notes: tuple[str, ...] = ()
    #: ``live``, ``batch`` or both: how the configured judges are called.
    sent_by: tuple[str, ...] = ()

    @property
    def calls(self) -> int:
        return sum(line.calls for line in self.lines)

    @property
    def tokens_by(self) -> str:
        return "the provider's count of a sample" if self.counted else "a local estimate"

    def total(self, way: str, cache: str) -> CostRange:
        total = CostRange(0, 0, 0)
        for line in self.lines:
            total += line.costs[way, cache]
        return total

    def to_dict(self) -> dict[str, Any]:
        """The estimate as a run's `costs.json` keeps it."""
        return {
            "calls": self.calls,
            "cached": sum(line.cached for line in self.lines),
            "questions": sum(line.questions for line in self.lines),
            "tokens_by": self.tokens_by,
            "bytes_per_token": dict(self.bytes_per_token),
            "prices_as_of": self.prices_as_of,
            "sent_by": list(self.sent_by),
            "most_reserved_usd": _dollars(self.worst),
            "dearest_call_usd": _dollars(self.dearest),
            "worst_twice_usd": _dollars(self.worst_twice),
            "usd": _by_way({way: self.total(*way) for way in WAYS}),
            "lines": [line.to_dict() for line in self.lines],
            "expectation": None if self.expectation is None else self.expectation.to_dict(),
        }


def _by_way(costs: Mapping[tuple[str, str], CostRange]) -> dict[str, dict[str, str | None]]:
    return {", ".join(way): cost.to_dict() for way, cost in costs.items()}


class PilotForecast(TypedDict):
    """The precision expected from an earlier run with ``pilot_prompts`` prompts."""

    pilot_prompts: int
    half_width: float
    detectable: float
