"""What to do about findings of a fit, for readers of an arena: they have no options to set and no files to change."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tiltyard.core.ratings.findings import Finding

__all__ = ["ARENA_ADVICE", "arena_advice", "with_arena_advice"]


def _(text: str) -> str:
    """Mark a text for the catalogue."""
    return text


#: Advice instead of that of the command line, by the name of the finding, or name and case.
ARENA_ADVICE: Mapping[str, str] = {
    "one-sided": _("More votes between them are needed before they can be compared."),
    "only-loses": _(
        "None of its orders can be settled before it wins or ties a vote: its range of ranks stays wide, whatever its record."
    ),
    "only-wins": _(
        "None of its orders can be settled before it loses or ties a vote: its range of ranks stays wide, whatever its record."
    ),
    "poor-fit": _("Compare the win rates of pairs with the ratings, and look at boards of one category."),
    "weight-limited/prompt": _("So no single prompt decides these ratings."),
    "weight-limited/voter": _("So no single voter decides these ratings."),
}


def arena_advice(finding: Finding) -> str | None:
    """The advice for readers of an arena; ``None`` if it is the same for all."""
    case = finding.values.get("case")
    return ARENA_ADVICE.get(finding.name if case is None else f"{finding.name}/{case}")


def with_arena_advice(finding: Finding) -> Finding:
    """The finding with what readers of an arena can do about it."""
    advice = arena_advice(finding)
    return finding if advice is None else replace(finding, advice=advice)
