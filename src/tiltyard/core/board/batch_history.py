"""Batch ratings of a standing now and at its last evaluations, each fitted once."""

from __future__ import annotations

from dataclasses import replace

from tiltyard.core.board.cross_check import (
    ALARM_EVALUATION_COUNT,
    BatchRatings,
    EvaluatedOrder,
    batch_ratings,
)
from tiltyard.core.policy.state.standing import Standing
from tiltyard.core.policy.validity.evaluation import EvaluationHistory

__all__ = ["BatchHistory"]


class BatchHistory:
    """Remembers the last fits of one standing. What it returns does not depend on what it remembers."""

    def __init__(self) -> None:
        #: By votes and models.
        self._kept: dict[tuple[int, int], BatchRatings] = {}

    def ratings(self, standing: Standing, history: EvaluationHistory) -> BatchRatings:
        """Batch ratings of all votes, with those of the last evaluations."""
        recent = history.evaluations[-ALARM_EVALUATION_COUNT:]
        fits = {
            (votes, len(standing.models)): self._fit(standing, votes)
            for votes in (*(one.votes for one in recent), standing.votes)
        }
        self._kept = fits
        evaluated = [EvaluatedOrder(one.order, fits[one.votes, len(standing.models)]) for one in recent]
        return replace(fits[standing.votes, len(standing.models)], evaluated=tuple(evaluated))

    def _fit(self, standing: Standing, votes: int) -> BatchRatings:
        kept = self._kept.get((votes, len(standing.models)))
        return batch_ratings(standing, votes=votes) if kept is None else kept
