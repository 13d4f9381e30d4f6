"""Findings: what a reader must know before trusting the numbers.

A finding has a name, a plain sentence and what to do. Methods return them with the result;
none is ever swallowed, and none replaces a number silently.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["MIN_BATTLES", "MIN_ORDER_DOF", "MIN_PROMPTS", "MIN_VOTERS", "WARN_ORDER_DOF", "Finding"]

#: Fewer prompts than this, and intervals for "prompts like these" rest on little.
MIN_PROMPTS = 20
#: Fewer battles of one model than this draw a finding.
MIN_BATTLES = 30
#: Fewer voters than this, and clustering by voter is not attempted.
MIN_VOTERS = 10
#: Fewer effective degrees of freedom than this, and no order is claimed; below the second, with a finding.
MIN_ORDER_DOF = 3.0
WARN_ORDER_DOF = 10.0


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing to know: ``name`` for programs, ``text`` and ``advice`` for people."""

    name: str
    text: str
    advice: str

    def __str__(self) -> str:
        return f"{self.text} {self.advice}"


def join_names(names: list[str], most: int = 5) -> str:
    """Names for a sentence, the tail counted rather than printed."""
    shown = ", ".join(names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"
