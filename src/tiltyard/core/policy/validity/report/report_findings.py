"""What in a validity report asks for a look."""

from __future__ import annotations

from itertools import pairwise

from tiltyard.core.policy.validity.report.report_records import (
    Churn,
    ExplorationBoard,
    ExposureFairness,
    PublicationStatus,
    SideBalance,
)
from tiltyard.core.ratings.findings import Finding, join_names

__all__ = [
    "churn_finding",
    "contradiction_finding",
    "lost_status_finding",
    "tolerance_finding",
    "uneven_sides_finding",
]


def lost_status_finding(publication: PublicationStatus) -> Finding | None:
    """The board was official within the span, and then no longer."""
    lost = [new.votes for old, new in pairwise(publication.history) if old.official and not new.official]
    if not lost:
        return None
    return Finding(
        "official-lost",
        f"The board ceased to be official at {join_names([f'{votes:,}' for votes in lost])} votes.",
        "The history of the rules says which of them failed there.",
    )


def tolerance_finding(fairness: ExposureFairness) -> Finding | None:
    """A promise was broken: a settled window with a model outside tolerance."""
    if not fairness.settled_outside:
        return None
    return Finding(
        "outside-tolerance",
        f"In {fairness.settled_outside:,} of {fairness.settled:,} settled windows some model's exposures "
        "were outside tolerance.",
        "Look for models that share few prompts with the others, or for matchups that were not chosen by the lanes.",
    )


def uneven_sides_finding(sides: SideBalance) -> Finding | None:
    """Sides that no fair coin explains."""
    if not sides.uneven:
        return None
    return Finding(
        "sides-uneven",
        f"Left and right were not drawn evenly for {join_names(list(sides.uneven))}.",
        "Sides must be drawn after the choice, by a fair coin: a bias of voters no longer cancels.",
    )


def churn_finding(churn: Churn) -> Finding | None:
    """Models changed places at the top although even their bands of two RD did not overlap."""
    torn = [f"{pair.model} and {pair.other}" for pair in churn.pairs if pair.far_beyond]
    if not torn:
        return None
    return Finding(
        "churn-beyond-bands",
        f"At the top, models changed order although their bands of rating ± 2·RD were apart: {join_names(torn)}.",
        "RD was too small there, or something changed: a model's responses, its voters, or its opponents.",
    )


def contradiction_finding(exploration: ExplorationBoard) -> Finding | None:
    """The exploration lane proves another order than the official one."""
    if not exploration.reversed:
        return None
    pairs = [f"{pair.below} above {pair.above}" for pair in exploration.reversed]
    return Finding(
        "order-contradicted",
        f"By the exploration lane alone, beyond its uncertainty: {join_names(pairs)}.",
        "The official order may owe something to how matchups were chosen. Compare both with batch Bradley–Terry.",
    )
