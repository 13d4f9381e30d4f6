"""The JSON documents of a tournament that are shown in its report and in a terminal.

`runs` and `tournament` write them. They are declared here because `report` reads them, and imports
nothing from those packages.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypedDict

from tiltyard.core.judging.diagnostics.rater_agreement import AgreementDocument
from tiltyard.core.judging.reconciliation import MatchCounts
from tiltyard.core.ratings.findings import FindingDocument

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
    #: The `EstimateDocument` of the run. The version that started the run wrote it; read it with checks.
    estimate: Mapping[str, object]
    actual: ActualCosts
    by_judge_and_dimension: list[PlaceCosts]
    prompt_cache: PromptCacheUse


class CostRangeDocument(TypedDict):
    """Amounts as decimal text; ``None`` if the price is unknown."""

    low: str | None
    expected: str | None
    worst: str | None


class EstimateLineDocument(TypedDict):
    """The estimate for one judge in one dimension."""

    judge: str
    dimension: str
    questions: int
    cached: int
    calls: int
    input_tokens: int
    prefix_tokens: int
    output_tokens: int
    max_tokens: int
    #: Replies from which the output was estimated; 0 if it is an assumption.
    measured: int
    usd: dict[str, CostRangeDocument]


class EstimateDocument(TypedDict):
    """The estimate of a plan."""

    calls: int
    cached: int
    questions: int
    tokens_by: str
    #: By judge.
    bytes_per_token: dict[str, float]
    prices_as_of: str | None
    sent_by: list[str]
    most_reserved_usd: str | None
    dearest_call_usd: str | None
    worst_twice_usd: str | None
    usd: dict[str, CostRangeDocument]
    lines: list[EstimateLineDocument]
    expectation: dict[str, Any] | None


class PilotForecast(TypedDict):
    """The precision expected from an earlier run with ``pilot_prompts`` prompts."""

    pilot_prompts: int
    half_width: float
    detectable: float
