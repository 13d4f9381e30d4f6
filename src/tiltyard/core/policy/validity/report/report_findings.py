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
from tiltyard.core.ratings.findings import Finding
from tiltyard.core.ratings.sentences import first_of

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
    return Finding("official-lost", first_of("lost", [{"votes": votes} for votes in lost]))


def tolerance_finding(fairness: ExposureFairness) -> Finding | None:
    """A promise was broken: a settled window with a model outside tolerance."""
    if not fairness.settled_outside:
        return None
    counts = {"outside": fairness.settled_outside, "windows": fairness.settled}
    return Finding("outside-tolerance", {"case": "windows", **counts})


def uneven_sides_finding(sides: SideBalance) -> Finding | None:
    """Sides that no fair coin explains."""
    if not sides.uneven:
        return None
    return Finding("sides-uneven", first_of("models", sides.uneven))


def churn_finding(churn: Churn) -> Finding | None:
    """Models changed places at the top although even their bands of two RD did not overlap."""
    torn = [{"model": pair.model, "other": pair.other} for pair in churn.pairs if pair.far_beyond]
    if not torn:
        return None
    return Finding("churn-beyond-bands", first_of("pairs", torn))


def contradiction_finding(exploration: ExplorationBoard) -> Finding | None:
    """The exploration lane proves another order than the official one."""
    if not exploration.reversed:
        return None
    pairs = [{"above": pair.below, "below": pair.above} for pair in exploration.reversed]
    return Finding("order-contradicted", first_of("pairs", pairs))
