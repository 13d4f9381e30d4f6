"""`Rule`: one bar of the ranking policy, what was measured against it, what is still missing, and the sentences for it.

The sentences are English texts by name: what a rule requires and, under ``NAME.detail``, which models or pairs fail it,
with a case if there are several sentences. Other languages translate them in the catalogue.

How fast votes bring a bar nearer is a rough law with its reason. Where a law has nothing to go by it says infinity, which
a rule shows as "no number can be given".
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from tiltyard.core.policy.state.policy import Lane
from tiltyard.core.policy.state.prompt_cells import LOSS, TIE
from tiltyard.core.policy.state.standing import Standing
from tiltyard.core.ratings.portable_functions import log
from tiltyard.core.ratings.sentences import Template, Values, frozen_values, sentence, template_of
from tiltyard.foundation.arrays import Floats, Ints

#: The case of sentences that speak of categories, and of prompts that voters wrote.
FREE_PROMPTS_CASE = {"case": "free-prompts"}
#: A mean of shares that meets its bar exactly must not fail by rounding.
_ROUNDING_TOLERANCE = 1e-9
#: RD of a model of which nothing is known.
INITIAL_RD_POINTS = 350.0
#: The arena's decisive share counts as much as this many of a pair's own votes.
_SHARE_PRIOR_VOTES = 10.0
#: Of the contender lane's draws, the least share that goes to adjacent pairs while one is short.
_ADJACENT_DRAW_SHARE = 0.5
#: Exposures at the even share that count beside a model's own: one matchup says little of a newcomer.
_PRIOR_EXPOSURE_COUNT = 1.0


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


def votes_to_gain(missing: float, useful: float) -> float:
    """Votes that bring what is missing, if each brings ``useful`` of it; infinite if none does."""
    if missing == 0.0:
        return 0.0
    return missing / useful if useful > 0.0 else math.inf


def decisive_share(standing: Standing) -> float:
    """How many votes of the arena are decisive; NaN before the first."""
    total = int(standing.record.sum())
    return float(standing.record[:, : LOSS + 1].sum()) / total if total else float("nan")


def pair_decisive_share(decisive: int, attempts: int, overall: float) -> float:
    """The same for a pair: its own votes, pulled to the arena's share while they are few."""
    return (decisive + _SHARE_PRIOR_VOTES * overall) / (attempts + _SHARE_PRIOR_VOTES)


def exposure_rate(standing: Standing) -> Floats:
    """Exposures of each model for every vote of the arena from now on; 0 for retired models.

    An even share is 2/M. A model had its exposures in the window where even shares would have given
    it so many, counting only matchups served while it was enabled, each with the M of that moment;
    that ratio times the even share of now is its rate. So a newcomer is not measured by a window it
    has not seen, and who is left when others retire gets their share. The mix of lanes is taken to
    stay as it is.
    """
    window = standing.window
    ratio = (window.exposures[0] + _PRIOR_EXPOSURE_COUNT) / (
        window.even_shares(scoped=False) + _PRIOR_EXPOSURE_COUNT
    )
    return np.where(standing.enabled, np.minimum(ratio * 2.0 / max(standing.n_enabled, 1), 1.0), 0.0)


def votes_to_rd(standing: Standing, models: Ints, bar: float) -> Floats:
    """Votes that each of these models needs until its RD is at most ``bar``.

    1/RD² grows by about the same amount with each vote, so what a model's votes have brought so far
    is taken as what the next ones will bring. Too many while opponents are still unknown; too few
    where volatility keeps RD from falling further, or where ratings began below an RD of 350.
    Infinite for a model without a vote that rates skill: whatever its RD, votes have not brought it.
    """
    rd = standing.strengths.rd[models]
    precision = 1.0 / (rd * rd)
    votes, rated = standing.record[models].sum(axis=1), standing.record[models, : TIE + 1].sum(axis=1)
    gained = np.maximum(precision - 1.0 / (INITIAL_RD_POINTS * INITIAL_RD_POINTS), 0.0)
    lacking = np.maximum(1.0 / (bar * bar) - precision, 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        needed = np.where((gained > 0.0) & (rated > 0), lacking * votes / gained, np.inf)
    return np.where(lacking > 0.0, needed, 0.0)


def short_prompt_rate(standing: Standing, covered: float, bar: float) -> float:
    """How many of a model's votes fall on a prompt that is still short, on the way from here to the bar.

    Those of the coverage lane do; the others fall evenly, so that they hit as large a share as is
    still uncovered. Hits so become rarer on the way: the answer is the logarithmic mean of the rate
    now and at the bar, by which the time it takes comes out right.
    """
    lanes = standing.lanes.sum(axis=0)
    total = int(lanes.sum())
    sought = lanes[Lane.COVERAGE] / total if total else standing.policy.lane_weights[Lane.COVERAGE]
    now, then = (float(sought + (1.0 - sought) * (1.0 - share)) for share in (covered, bar))
    if now <= then or then <= 0.0:
        return now
    return (now - then) / log(now / then)


def adjacent_rate(standing: Standing, top: Ints) -> float:
    """Meetings of adjacent models of the top for every vote of the arena from now on.

    The largest of three shares:

    - of the window's matchups, those between neighbours of now;
    - half of the contender lane's: that half goes to adjacent pairs as long as one is short,
      whichever pairs were adjacent before;
    - what even pairs would give, 2(k − 1) / M(M − 1): no lane keeps neighbours apart.

    The first two are taken over the matchups served while all of the top were enabled: before a
    newcomer came it could not meet its neighbours. The order is taken to stay; while it still
    changes, new neighbours start anew and the estimate is too low.
    """
    window, n = standing.window, standing.n_enabled
    even = 2.0 * (len(top) - 1) / max(n * (n - 1), 1)
    epochs = [epoch for epoch, among in window.enabled.items() if among[top].all()]
    matchups, contender = (sum(window.matchups[epoch][k] for epoch in epochs) for k in (0, 1))
    if not matchups:
        return even
    place = np.full(len(standing.models), -2 * len(standing.models))
    place[top] = np.arange(len(top))
    adjacent = np.abs(place[window.a] - place[window.b]) == 1
    met = np.count_nonzero(adjacent & (window.state > 0) & np.isin(window.epoch_of, epochs))
    return max(float(met) / matchups, _ADJACENT_DRAW_SHARE * contender / matchups, even)


def blind_votes_of_one(responses: Sequence[int], told_after: int | None) -> int | None:
    """Blind votes that one voter has at least, or ``None`` where no names are told: any number.

    ``responses`` are the enabled models that have answered each prompt, ``told_after`` the votes after which the
    names of all of them are told.

    A vote makes at most two responses known, and a prompt with m responses gives a blind matchup while two of them
    are unknown. So a prompt has at least ⌊m/2⌋ blind votes, whenever names are told, and exactly so many where they
    are told after each vote. Before the first telling everything is blind, whatever is repeated: a voter who does
    not ask for names earlier has as many different matchups as a session has votes, or as there are.

    =======================================  ============  =========
    prompts × models                         after 1 vote  after 20
    =======================================  ============  =========
    1 × 2                                    1             1
    3 × 5                                    6             20
    10 × 4                                   20            20
    50 × 9                                   200           200
    =======================================  ============  =========
    """
    if told_after is None:
        return None
    apart = sum(count // 2 for count in responses)
    different = sum(count * (count - 1) // 2 for count in responses)
    return max(apart, min(told_after, different))
