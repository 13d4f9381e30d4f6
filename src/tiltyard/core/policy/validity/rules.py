"""`Rule`: one bar of the ranking policy, what was measured against it, and what is still missing."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from tiltyard.core.policy.validity.rule_templates import RULES
from tiltyard.core.ratings.sentences import Values, frozen_values, sentence, template_of

__all__ = ["FREE_PROMPTS_CASE", "Rule", "check_rule", "float_or_none"]

#: The case of sentences that speak of categories, and of prompts that voters wrote.
FREE_PROMPTS_CASE = {"case": "free-prompts"}
#: A mean of shares that meets its bar exactly must not fail by rounding.
_ROUNDING_TOLERANCE = 1e-9


@dataclass(frozen=True, slots=True)
class Rule:
    """One thing that is asked before something is claimed."""

    #: For programs: ``top-rd``.
    name: str
    #: What it asks, in one plain sentence.
    text: str
    #: What was measured; ``None`` where nothing can be measured yet.
    value: float | None
    bar: float
    #: The value must be at most the bar; otherwise at least.
    at_most: bool
    holds: bool
    #: About how many more votes until it holds: 0 when it holds, ``None`` when no number can be given.
    missing: int | None
    #: Who or what falls short.
    detail: str
    #: What ``text`` and ``detail`` are made of, by the templates of `rule_templates`.
    values: Values = field(default_factory=dict, hash=False)
    detail_values: Values = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "values", frozen_values(self.values))
        object.__setattr__(self, "detail_values", frozen_values(self.detail_values))


def check_rule(
    name: str,
    values: Values,
    value: float | None,
    bar: float,
    *,
    missing: float | None,
    detail: Values | None = None,
    at_most: bool = False,
) -> Rule:
    """Measure ``value`` against its bar. What cannot be measured does not hold.

    ``values`` fill the sentence of the rule, and ``detail`` the one that says who falls short, if anybody does.
    ``missing`` is an estimate and may be a fraction, infinite or absent; a rule that holds misses
    nothing, and one that does not hold misses at least one vote.
    """
    value = float_or_none(value)
    holds = value is not None and (
        value <= bar + _ROUNDING_TOLERANCE if at_most else value >= bar - _ROUNDING_TOLERANCE
    )
    if holds:
        votes: int | None = 0
    elif missing is None or not math.isfinite(missing):
        votes = None
    else:
        votes = max(math.ceil(missing), 1)
    text, short = _said(name, values), "" if detail is None else _said(f"{name}.detail", detail)
    return Rule(name, text, value, float(bar), at_most, holds, votes, short, values, detail or {})


def _said(key: str, values: Values) -> str:
    template = template_of(RULES, key, values)
    assert template is not None, f"{key} has no sentence"
    return sentence(template.text, template, values)


def float_or_none(value: float | None) -> float | None:
    """A plain float, or ``None`` where there is none."""
    return None if value is None or not math.isfinite(value) else float(value)
