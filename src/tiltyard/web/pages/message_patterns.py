"""Titles of problems, for the catalogue."""

from __future__ import annotations

__all__ = ["PROBLEMS"]


def _(text: str) -> str:
    """Mark a text for the catalogue."""
    return text


#: Titles of problems, as `problems` has them.
PROBLEMS = (
    _("It has ended"),
    _("It was not answered in time"),
    _("Nobody is signed in"),
    _("Something went wrong in here"),
    _("The arena cannot be reached right now"),
    _("The method is not known here"),
    _("The request cannot be read"),
    _("The request did not come in time"),
    _("The request does not make sense"),
    _("The request has a form that is not read here"),
    _("The request is too large"),
    _("The request was refused"),
    _("The request's headers are too large"),
    _("There is no such thing here"),
    _("There is nothing to vote on"),
    _("This contradicts what is there already"),
    _("This is not allowed"),
    _("Too many requests"),
    _("Too many wait for this"),
)
