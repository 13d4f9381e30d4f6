"""What a validity report is made of: one frozen value for each thing it tells. Models go by name.

Numbers are ``None`` where there is nothing to measure.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tiltyard.core.policy.state.policy import Fairness
from tiltyard.core.policy.validity.rules import Rule
from tiltyard.core.policy.validity.serving_fairness import ExposureDeviation

SpanUnit = Literal["time", "votes"]


@dataclass(frozen=True, slots=True)
class ReportSpan:
    """Which part of the log is reported."""

    #: What was asked for: from ``since`` on, before ``until``.
    since: int | None
    until: int | None
    #: Whether these are seconds since 1970, or votes of the arena.
    by: SpanUnit
    #: How many events of the log belong to it.
    events: int
    #: The arena's votes before the span and at its end.
    votes_before: int
    votes: int
    #: Times of its first and last event; 0 where the log has no times.
    first_time: int
    last_time: int


@dataclass(frozen=True, slots=True)
class ModelExposure:
    """One model in the window at the span's end."""

    model: str
    enabled: bool
    #: Exposures that fairness looks at, and those of the contender lane.
    exposures: int
    contender: int
    target: float
    tolerance: float
    #: (exposures − target) / target.
    deviation: float | None
    outside: bool


@dataclass(frozen=True, slots=True)
class ExposureFairness:
    """Whether every enabled model got its share.

    A window ends with every served matchup. It is *settled* if it is full and the roster did not
    change within it: only there is the tolerance promised, and only in strict mode or outside
    the contender lane.
    """

    mode: Fairness
    window: int
    #: Windows of the span in which exposures are steered, and those with a model outside tolerance.
    windows: int
    outside: int
    settled: int
    settled_outside: int
    #: The widest stray of an enabled model in any window of the span, and in the last one.
    widest: ExposureDeviation | None
    widest_now: ExposureDeviation | None
    models: tuple[ModelExposure, ...]


@dataclass(frozen=True, slots=True)
class MatchupCounts:
    """What became of the span's matchups. Votes, skips and expiries count where they happened."""

    served: int
    votes: int
    decisive: int
    ties: int
    both_bad: int
    skipped: int
    expired: int
    #: Served by the span's end and not ended yet, whenever they were served.
    open: int
    #: Served though a rule of matchmaking had to be given up; ``None`` where the log does not say.
    given_up: int | None


@dataclass(frozen=True, slots=True)
class ModelSides:
    """How often a model of the span stood on the left."""

    model: str
    exposures: int
    left: int
    #: (2·left − exposures) / √exposures: standard normal if sides are drawn by a fair coin.
    z: float


@dataclass(frozen=True, slots=True)
class SideBalance:
    """Left and right."""

    models: tuple[ModelSides, ...]
    #: |z| that one of so many fair coins passes once in a hundred reports, and who passed it.
    bound: float
    uneven: tuple[str, ...]
    #: Decisive votes of the span, and how many of them the left won: voters' own bias.
    decisive: int
    left_wins: int


@dataclass(frozen=True, slots=True)
class AdjacentPair:
    """Two neighbours of the top, and how far they are from their floor."""

    above: str
    below: str
    votes: int
    votes_needed: int
    prompts: int
    prompts_needed: int
    attempts: int
    met: bool
    indistinguishable: bool


@dataclass(frozen=True, slots=True)
class PairCompleteness:
    """Which pairs have met. Pairs are those of enabled models that share a prompt."""

    adjacent: tuple[AdjacentPair, ...]
    #: Adjacent pairs of the top with their floor met, at the end and before the span.
    met: int
    met_before: int | None
    needed: int
    indistinguishable: int
    pairs: int
    #: Pairs with a vote of any kind, and with ``policy.pair_floor`` decisive ones; both also before.
    pairs_tried: int
    pairs_tried_before: int | None
    pairs_decided: int
    pairs_decided_before: int | None


@dataclass(frozen=True, slots=True)
class PromptCoverage:
    """Cells of model and prompt, over all enabled models."""

    eligible: int
    filled: int
    exhausted: int
    #: Mean share of the contender band's cells with the band's own, higher floor.
    band_share: float | None
    band_floor: int


@dataclass(frozen=True, slots=True)
class ModelConfidence:
    """One enabled model at the span's end, and before the span."""

    place: int
    place_before: int | None
    model: str
    rating: float
    rd: float
    rd_before: float | None
    #: Conservative score: rating − 2·RD.
    score: float
    score_before: float | None
    #: Largest minus smallest conservative score over the span's evaluations.
    swing: float | None
    coverage: float | None
    #: The same with exhausted cells counted as filled.
    adjusted_coverage: float | None


@dataclass(frozen=True, slots=True)
class ModelMoment:
    """A model of the top at one evaluation."""

    model: str
    votes: int
    time: int
    rating: float
    rd: float
    score: float


@dataclass(frozen=True, slots=True)
class RatingConfidence:
    """How sure the ratings are, and how much they moved."""

    models: tuple[ModelConfidence, ...]
    top: int
    median_rd: float | None
    median_rd_before: float | None
    #: Evaluations of the span, for the models that are the top at its end.
    moments: tuple[ModelMoment, ...]


@dataclass(frozen=True, slots=True)
class ChurnStep:
    """What changed at the top from one evaluation to the next."""

    votes: int
    time: int
    #: Places of the top held by another model than before, and whether the first is one of them.
    places: int
    first: bool
    #: Pairs that changed order, and those of them whose RD bands did not overlap.
    swaps: int
    beyond: int


@dataclass(frozen=True, slots=True)
class SwappedPair:
    """Two models that changed order at the top."""

    model: str
    other: str
    times: int
    #: Times with the bands rating ± RD apart, and those of them with the bands of two RD apart.
    beyond: int
    far_beyond: int


@dataclass(frozen=True, slots=True)
class Churn:
    """Changes at the top against the bands rating ± RD.

    A swap lies *within* the bands if the two models' bands overlap both before and after it: the
    board then changed its mind about something it never claimed to know. A few in a hundred swaps
    of a young board lie beyond by chance, and none to speak of with bands of two RD: these raise
    a finding.
    """

    top: int
    steps: tuple[ChurnStep, ...]
    pairs: tuple[SwappedPair, ...]


@dataclass(frozen=True, slots=True)
class EvaluationRecord:
    """One evaluation of the publication rules."""

    votes: int
    time: int
    #: In the order of the rules.
    values: tuple[float | None, ...]
    holds: tuple[bool, ...]
    #: Whether the board was official from here on.
    official: bool


@dataclass(frozen=True, slots=True)
class PublicationStatus:
    """Whether the board may be called officially stable, and why."""

    official: bool
    #: The rules as they stand at the span's end.
    rules: tuple[Rule, ...]
    #: Evaluations in a row that have held, and how many are asked for.
    in_a_row: int
    evaluations: int
    evaluated_every: int
    official_since: int | None
    first_official: int | None
    #: The span's evaluations.
    history: tuple[EvaluationRecord, ...]


@dataclass(frozen=True, slots=True)
class ExplorationPlace:
    """One model on the board of the exploration lane."""

    place: int
    official_place: int
    model: str
    rating: float
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True)
class ReversedPair:
    """Two models whose order on the board the exploration lane contradicts beyond its uncertainty."""

    above: str
    below: str
    #: How many points the lane puts ``below`` above ``above``.
    gap: float


@dataclass(frozen=True, slots=True)
class ExplorationBoard:
    """What the exploration lane alone says: nobody is chosen there for a rating.

    Bradley–Terry on all its votes up to the span's end, beside the order of the board.
    """

    votes: int
    prompts: int
    level: float
    models: tuple[ExplorationPlace, ...]
    #: Enabled models that this lane's votes cannot place.
    unplaced: tuple[str, ...]
    #: Pairs of placed models, and how many of them stand in the same order on both boards.
    pairs: int
    same_order: int
    reversed: tuple[ReversedPair, ...]
