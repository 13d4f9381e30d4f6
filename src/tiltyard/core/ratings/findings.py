"""Findings: what a reader must know before trusting the numbers.

A finding has a name and values, and from them a plain sentence and what to do. Methods return them with the
result; none is ever swallowed, and none replaces a number silently.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, TypedDict

from tiltyard.core.ratings.finding_templates import FINDINGS
from tiltyard.core.ratings.sentences import Values, frozen_values, sentence, template_of
from tiltyard.errors import BadOption

#: Fewer prompts than this stand poorly for all "prompts like these".
MIN_PROMPTS = 20
#: Fewer battles of one model than this draw a finding.
MIN_BATTLES = 30
#: Fewer voters than this tell nothing of others. From here on they are a sample of voters like these, and clusters where
#: a test finds that they differ; from the second number on they always are.
MIN_VOTERS = 5
SAMPLE_VOTERS = 10
#: Fewer effective degrees of freedom than this, and no interval is given and no order claimed; below the second, with a finding.
MIN_DOF = 3.0
WARN_DOF = 10.0


class FindingDocument(TypedDict):
    """A finding as written."""

    name: str
    values: Values
    text: str
    advice: str


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing to know: ``name`` and ``values`` for programs, ``text`` and ``advice`` for people.

    The two sentences come from the table of `finding_templates`, unless they are given: a finding that was read
    from a document keeps those that it was published with.
    """

    name: str
    values: Values = field(default_factory=dict, hash=False)
    text: str = ""
    advice: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "values", frozen_values(self.values))
        if not self.text:
            template = template_of(FINDINGS, self.name, self.values)
            if template is None:
                raise BadOption(f"there is no sentence for the finding {self.name!r}; pass its text")
            try:
                text, advice = (
                    sentence(one, template, self.values) for one in (template.text, template.advice)
                )
            except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
                raise BadOption(
                    f"the finding {self.name!r} has no text, and its values do not fill its sentence; pass its text"
                ) from None
            object.__setattr__(self, "text", text)
            object.__setattr__(self, "advice", advice)

    def __str__(self) -> str:
        return f"{self.text} {self.advice}"

    @classmethod
    def from_dict(cls, said: FindingDocument) -> Finding:
        """The finding of `to_dict`."""
        return cls(said["name"], said["values"], said["text"], said["advice"])

    def to_dict(self) -> FindingDocument:
        """Plain values for JSON; a number that is none is ``None``."""
        values = {name: _plain(value) for name, value in self.values.items()}
        return {"name": self.name, "values": values, "text": self.text, "advice": self.advice}


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return list(value)
    return None if isinstance(value, float) and not math.isfinite(value) else value
