"""Arenas made by hand: what is forecast of them can be worked out on paper."""

from __future__ import annotations

from tiltyard.simulation.simulated_arena import EvaluationOutcome, SimulatedArenaResult, SimulationSettings
from tiltyard.simulation.worlds import WorldSettings

SETTINGS = SimulationSettings(world=WorldSettings(models=20, prompts=50), votes=3000)


def moment(
    votes: int,
    rd: float = 60.0,
    pairs: float = 8.0,
    coverage: float | None = 0.95,
    *,
    in_order: float = 0.8,
    fitted: float | None = None,
    settled: float = 0.25,
) -> EvaluationOutcome:
    """Values of the three rules; each holds if it reaches its bar."""
    rules = (
        ("top-rd", rd, rd <= 75.0),
        ("top-pairs", pairs, pairs >= 8.0),
        ("top-coverage", coverage, coverage is not None and coverage >= 0.9),
    )
    return EvaluationOutcome(
        votes=votes,
        rules=rules,
        first=0,
        in_order=fitted,
        in_order_published=in_order,
        settled=settled,
    )


def result(
    *moments: EvaluationOutcome, official_at: int | None = None, deviation: float | None = None
) -> SimulatedArenaResult:
    return SimulatedArenaResult(
        moments=moments,
        official_at=official_at,
        lanes=(0.5, 0.2, 0.2, 0.1),
        nominal=(0.4, 0.3, 0.2, 0.1),
        outside=0,
        watched=0 if deviation is None else 10,
        largest_deviation=deviation or 0.0,
        given_up=0,
        dead_share=None,
        newcomer_share=None,
        planted_top3_at=None,
        order=tuple(range(20)),
    )


def official(at: int, *, last: str = "coverage") -> SimulatedArenaResult:
    """Official at a vote; the rule named begins to hold only at the third evaluation before the end."""
    short = {"rd": {"rd": 90.0}, "pairs": {"pairs": 5.0}, "coverage": {"coverage": 0.5}}[last]
    before = [moment(votes, **short) for votes in range(250, at - 500, 250)]
    held = [moment(votes, in_order=0.9, fitted=0.95) for votes in (at - 500, at - 250, at)]
    return result(*before, *held, official_at=at, deviation=0.1)
