"""Titles of problems, for the catalogue."""

from __future__ import annotations

__all__ = ["PROBLEMS"]


def _(text: str) -> str:
    """Mark a text for the catalogue."""
    return text


#: Titles of problems, as `problems` has them.
PROBLEMS = (
    _("No longer open"),
    _("The matchup has expired"),
    _("Not signed in"),
    _("A code is needed"),
    _("A proof is needed"),
    _("Your role does not allow this"),
    _("Internal server error"),
    _("The service is temporarily unavailable"),
    _("Method not allowed"),
    _("Bad request"),
    _("Request timeout"),
    _("Invalid request"),
    _("Unsupported media type"),
    _("The request is too large"),
    _("The request was refused"),
    _("Request headers are too large"),
    _("Page not found"),
    _("There is nothing to vote on"),
    _("Voting is paused"),
    _("Conflict with existing data"),
    _("A battle is still open"),
    _("The budget is spent"),
    _("This is not allowed"),
    _("Too many requests"),
    _("Server too busy"),
)
