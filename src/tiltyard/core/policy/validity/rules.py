"""`Rule`: one bar of the ranking policy, what was measured against it, what is still missing, and the sentences for it.

The sentences are English texts by name: what a rule requires and, under ``NAME.detail``, which models or pairs fail it,
with a case if there are several sentences. Other languages translate them in the catalogue.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from tiltyard.core.ratings.sentences import Template, Values, frozen_values, sentence, template_of

#: The case of sentences that speak of categories, and of prompts that voters wrote.
FREE_PROMPTS_CASE = {"case": "free-prompts"}
#: A mean of shares that meets its bar exactly must not fail by rounding.
_ROUNDING_TOLERANCE = 1e-9


def _(text: str) -> str:
    """Mark a text for the catalogue."""
    return text


_COVERAGE = Template(_("Prompt coverage is at least {bar:g}."))
_COVERED = Template(_("{filled} of {eligible} prompts filled, {exhausted} exhausted"))
_CATEGORY_COVERAGE = Template(_("Category coverage is at least {bar:g}."))
_CATEGORIES_COVERED = Template(_("{filled} of {eligible} categories filled, {exhausted} exhausted"))
_RD = Template(_("RD is at most {bar:g}."))
_RD_IS = Template(_("RD is {rd:.0f}"))
_TOO_FEW = Template(_("fewer than two models are enabled"))
#: Adjacent pairs with too few votes or prompts, by what is missing.
_PAIRS: Mapping[str, str] = {
    "no-prompt": _("{above}–{below} share no prompt"),
    "no-category": _("{above}–{below} share no category"),
    "votes": _("{above}–{below} {votes} of {votes_needed} votes"),
    "prompts": _("{above}–{below} {prompts} of {prompts_needed} prompts"),
    "votes-and-prompts": _(
        "{above}–{below} {votes} of {votes_needed} votes and {prompts} of {prompts_needed} prompts"
    ),
    "votes-indistinguishable": _(
        "{above}–{below} {votes} of {votes_needed} votes (indistinguishable so far)"
    ),
    "prompts-indistinguishable": _(
        "{above}–{below} {prompts} of {prompts_needed} prompts (indistinguishable so far)"
    ),
    "votes-and-prompts-indistinguishable": _(
        "{above}–{below} {votes} of {votes_needed} votes and {prompts} of {prompts_needed} prompts "
        "(indistinguishable so far)"
    ),
}
#: By name, or name and case.
RULES: Mapping[str, Template] = {
    "decisive-votes": Template(_("The model has at least {bar} decisive votes.")),
    "decisive-votes.detail": Template(_("decisive: {decisive} of {votes}")),
    "established-coverage": _COVERAGE,
    "established-coverage.detail": _COVERED,
    "established-coverage/free-prompts": _CATEGORY_COVERAGE,
    "established-coverage.detail/free-prompts": _CATEGORIES_COVERED,
    "established-rd": _RD,
    "established-rd.detail": _RD_IS,
    "neighbour-floors": Template(_("The floors of the pairs with both neighbours in rank are met.")),
    "neighbour-floors.detail": Template(_("too few votes: {neighbours}"), items={"": _("{model} ({votes})")}),
    "stable-coverage": _COVERAGE,
    "stable-coverage.detail": _COVERED,
    "stable-coverage/free-prompts": _CATEGORY_COVERAGE,
    "stable-coverage.detail/free-prompts": _CATEGORIES_COVERED,
    "stable-rd": _RD,
    "stable-rd.detail": _RD_IS,
    "top-coverage": Template(_("The mean prompt coverage of the top {top} is at least {bar:g}.")),
    "top-coverage.detail": Template(
        _("{short} of {all} are below: {models}"), items={"": _("{model} {coverage:.2f}")}
    ),
    "top-coverage/free-prompts": Template(
        _("The mean category coverage of the top {top} is at least {bar:g}.")
    ),
    "top-coverage.detail/no-prompt": Template(_("no prompt to be compared on: {models}")),
    "top-coverage.detail/no-category": Template(_("no category to be compared in: {models}")),
    "top-coverage.detail/too-few": _TOO_FEW,
    "top-pairs": Template(
        _(
            "Of the adjacent pairs of the top {top}, {share:.0%} have {votes} decisive votes on {prompts} prompts, "
            "or on all that they share."
        )
    ),
    "top-pairs/free-prompts": Template(
        _(
            "Of the adjacent pairs of the top {top}, {share:.0%} have {votes} decisive votes on {prompts} different "
            "prompts that voters wrote."
        )
    ),
    "top-pairs.detail": Template(_("pairs short of votes: {short} of {all} ({pairs})"), items=_PAIRS),
    "top-pairs.detail/provisional": Template(_("fewer than two models are more than provisional")),
    "top-pairs.detail/too-few": _TOO_FEW,
    "top-rd": Template(_("The median RD of the top {top} is at most {bar:g}.")),
    "top-rd.detail": Template(
        _("{above} of {all} have a larger RD: {models}"), items={"": _("{model} {rd:.0f}")}
    ),
    "top-rd.detail/too-few": _TOO_FEW,
}


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
