"""The English sentences of the policy's rules, by name: what a rule requires, and which models or pairs fail it.

The latter are under ``NAME.detail``, with a case if there are several sentences. Other languages translate these
texts in the catalogue.
"""

from __future__ import annotations

from collections.abc import Mapping

from tiltyard.core.ratings.sentences import Template

__all__ = ["RULES"]


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
    "decisive-votes.detail": Template(_("{decisive} of {votes} votes were decisive")),
    "established-coverage": _COVERAGE,
    "established-coverage.detail": _COVERED,
    "established-coverage/free-prompts": _CATEGORY_COVERAGE,
    "established-coverage.detail/free-prompts": _CATEGORIES_COVERED,
    "established-rd": _RD,
    "established-rd.detail": _RD_IS,
    "neighbour-floors": Template(_("The floors of the pairs with both neighbours in rank are met.")),
    "neighbour-floors.detail": Template(_("short: {neighbours}"), items={"": _("{model} {votes} votes")}),
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
    "top-pairs.detail": Template(_("{short} of {all} adjacent pairs are short: {pairs}"), items=_PAIRS),
    "top-pairs.detail/too-few": _TOO_FEW,
    "top-rd": Template(_("The median RD of the top {top} is at most {bar:g}.")),
    "top-rd.detail": Template(
        _("{above} of {all} have a larger RD: {models}"), items={"": _("{model} {rd:.0f}")}
    ),
    "top-rd.detail/too-few": _TOO_FEW,
}
