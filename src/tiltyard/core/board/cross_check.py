"""The cross-check of a board: batch Bradley–Terry over all votes, clustered by prompt and by voter.

The policy's ratings take votes one by one, in the order of their coming; a batch fit takes them all at
once and says how sure it is for prompts and voters like these. Where the two orders part beyond that uncertainty,
one of them is wrong.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from tiltyard.core.battles import Table
from tiltyard.core.policy.state.standing import Standing
from tiltyard.core.policy.state.vote_log import VoteLog
from tiltyard.core.policy.validity.publication import EvaluationHistory
from tiltyard.core.policy.validity.rules import float_or_none
from tiltyard.core.ratings import BradleyTerry, Interval, Ratings
from tiltyard.core.ratings.findings import MIN_DOF, Finding
from tiltyard.core.ratings.group_fit import fit_groups
from tiltyard.core.ratings.leave_one_out import leave_one_out
from tiltyard.core.ratings.level_test import departure_by_group
from tiltyard.core.ratings.pairs import comparable_groups, score_pairs
from tiltyard.core.ratings.ranks import rank_models, tiers_of
from tiltyard.core.ratings.result import Uncertainty
from tiltyard.core.ratings.sentences import first_of
from tiltyard.core.ratings.variance import exceeds_chance
from tiltyard.core.ratings.weight_limits import LimitedTable
from tiltyard.errors import BadOption
from tiltyard.foundation.arrays import Bools, Floats, Ints

#: Fewer days than this say nothing of other days.
MIN_DAYS = 4
#: Voters of one day are joined until so many numbers are left, by model, or parts of a day, which cost little to exchange.
_EXCHANGED_NUMBER_LIMIT, _PART_COUNT = 1 << 13, 8
_ROUNDING_TOLERANCE = 1e-9

#: For prompts like these, and for these.
Uncertainties = tuple[Uncertainty | None, Uncertainty | None]
#: At so many evaluations in a row two orders must differ before they are said to disagree.
ALARM_EVALUATION_COUNT = 2


def count_days(
    log: VoteLog, limited: LimitedTable, method: BradleyTerry, ratings: Ratings
) -> tuple[int, Uncertainties | None]:
    """The days on which voters first voted, 0 if that is not known; and the uncertainty of ratings if those of a day vote alike.

    Who follows a link often belongs to a community with tastes of its own. By voter its members would count as so many
    independent opinions; by the day on which they came they count as one.
    """
    table, votes = limited.table, log.columns()
    session = votes["session"][: table.n_battles]
    sessions, first, voter = np.unique(session, return_index=True, return_inverse=True)
    days, day = np.unique(votes["day"][first], return_inverse=True)
    if len(sessions) < 2 or days[0] == 0:
        return 0, None
    like_these, these = ratings.uncertainty, ratings.these_prompts
    by_voter = ratings.interval is not None and "voter" in ratings.interval.clusters
    if len(days) < MIN_DAYS or not by_voter or like_these is None or these is None:
        return len(days), None
    scoring, codes, m = method.scoring(), table.log(), len(table.models)
    pairs = score_pairs(table.counts, m, scoring)
    fitted = fit_groups(pairs, comparable_groups(pairs, prior=False))
    scores = fitted.row_scores(scoring)
    part, day_of_part = _parts(day, m)
    at, size, residual = part[voter] * m, len(day_of_part) * m, np.nan_to_num(scores(codes)[0])
    sums = np.bincount(at + codes.a, residual, size) - np.bincount(at + codes.b, residual, size)
    if not _days_differ(np.asarray(sums.reshape(-1, m)), day_of_part):
        return len(days), None
    keys, unit = (day[voter] + 1).astype(np.uint64), method.scale / math.log(10.0)
    found = leave_one_out(table, scores, fitted.row_information(), lambda _: keys, fitted.bread)
    by_day = Uncertainty((found.covariance * unit**2,), found.dof)
    return len(days), (_widened(like_these, these, by_day), _widened(these, these, by_day))


def _widened(uncertainty: Uncertainty, by_voter: Uncertainty, by_day: Uncertainty) -> Uncertainty:
    """The same where days take the place of voters, if that is wider.

    The variance is then a sum of what days and what prompts add, with degrees of freedom of their own (Satterthwaite,
    Biometrics Bulletin 2, 1946).
    """
    days, dof = by_day.covariances[0], by_day.dof
    both = uncertainty.covariances[0] + days - by_voter.covariances[0]
    with np.errstate(divide="ignore", invalid="ignore"):
        parts = np.diag(days) ** 2 / dof + np.diag(both - days) ** 2 / uncertainty.dof
        joint = np.nan_to_num(np.diag(both) ** 2 / parts)
    joint = np.clip(joint, np.minimum(dof, uncertainty.dof), uncertainty.dof)
    return Uncertainty((*uncertainty.covariances, days, both), joint)


def _parts(day: Ints, models: int) -> tuple[Ints, Ints]:
    """The part of each voter, and the day of each part, in the order of days: voters of one day, joined if they are many."""
    most = max(_EXCHANGED_NUMBER_LIMIT // models, _PART_COUNT * int(day.max()))
    order = np.argsort(day, kind="stable")
    nth = np.arange(len(day)) - np.searchsorted(day[order], day[order])
    opens, part = nth % -(-len(day) // most) == 0, np.empty(len(day), dtype=np.int64)
    part[order] = np.cumsum(opens) - 1
    return part, day[order][opens]


def _days_differ(sums: Floats, day: Ints) -> bool:
    """Whether the sums of residuals, by part and model, are larger by day than if parts are exchanged among days."""
    departure = departure_by_group(sums, day)
    observed = departure(np.arange(len(sums))) * (1.0 - _ROUNDING_TOLERANCE)
    return exceeds_chance(observed, len(sums), lambda drawn: departure(np.argsort(drawn)))


@dataclass(frozen=True, slots=True, eq=False)
class BatchRatings:
    """Batch ratings of a standing's models, by its codes. NaN where the votes support no number."""

    method: BradleyTerry
    rating: Floats
    #: Only models of one group may be compared; group 0 has the most battles, −1 is none.
    group: Ints
    #: ``None`` if the method makes none.
    interval: Interval | None
    #: Who (row) is above whom (column) at one look, all pairs at once at the method's level.
    above: Bools
    #: The one-sided confidence level of "row is above column", one pair at a time; NaN where they cannot be compared.
    confidence: Floats
    findings: tuple[Finding, ...]
    #: Variances of differences for prompts (and voters) like these, and for these prompts; ``None`` without intervals.
    uncertainty: Uncertainty | None = None
    these_prompts: Uncertainty | None = None
    #: Votes of any kind behind it.
    votes: int = 0
    #: Whether there are voters, but too few of them to say anything of others.
    voters_lacking: bool = False
    #: Whether prompts are no sample: there is one, or none is named.
    prompts_lacking: bool = False
    #: The number of days on which voters first voted, 0 if it is not known; and the variances if those of different days
    #: differ.
    days: int = 0
    across_days: Uncertainties | None = None
    #: On how many days voters must have come before anything is settled, where everybody may vote; ``None`` among invited
    #: people, where days do not matter.
    least_days: int | None = None
    #: What was published and rated at the last evaluations, oldest first.
    evaluated: tuple[EvaluatedOrder, ...] = ()

    @property
    def score(self) -> Floats:
        """Ratings that belong in one order: those of the group with the most battles."""
        return np.where(self.group == 0, self.rating, np.nan)


@dataclass(frozen=True, slots=True, eq=False)
class EvaluatedOrder:
    """The order that was published at an evaluation, best first, and batch ratings of the votes until then."""

    order: Ints
    batch: BatchRatings


def batch_ratings(
    standing: Standing, method: BradleyTerry | None = None, *, votes: int | None = None
) -> BatchRatings:
    """Fit the first ``votes`` of a standing at once, or all, those of retired models too.

    The default method clusters its intervals by prompt, and by voter where voters are known.
    """
    method = BradleyTerry() if method is None else method
    m = len(standing.models)
    if not m:
        return BatchRatings(
            method, np.empty(0), np.empty(0, np.int64), None, np.empty((0, 0), bool), np.empty((0, 0)), ()
        )
    limited = method.limited(votes_table(standing, votes))
    table, ratings = limited.table, method.rated(limited)
    assert standing.vote_log is not None
    days, across_days = count_days(standing.vote_log, limited, method, ratings)
    place = _places(standing.models)
    ranks = rank_models(ratings, level=method.level)
    square = np.ix_(place, place)
    return BatchRatings(
        method=method,
        rating=ratings.rating[place],
        group=ratings.group[place],
        interval=None
        if (found := ratings.interval) is None
        else replace(found, low=found.low[place], high=found.high[place]),
        above=np.zeros((m, m), dtype=bool) if ranks is None else ranks.above[square],
        confidence=np.full((m, m), np.nan) if ranks is None else ranks.confidence[square],
        # Without votes there is nothing to say of prompts and voters.
        findings=tuple(map(with_arena_advice, ratings.findings)) if len(table.log()) else (),
        uncertainty=_permuted(ratings.uncertainty, place),
        these_prompts=_permuted(ratings.these_prompts, place),
        votes=len(table.log()),
        voters_lacking="voter" in table.keyed and any(one.name == "few-voters" for one in ratings.findings),
        prompts_lacking=ratings.interval is None or "prompt" not in ratings.interval.clusters,
        days=days,
        across_days=across_days and (_permuted(across_days[0], place), _permuted(across_days[1], place)),
    )


def votes_table(standing: Standing, votes: int | None = None) -> Table:
    """The first votes of a standing as battles in log order, or all of them."""
    if standing.vote_log is None:
        raise BadOption("this standing has forgotten its votes; batch ratings need one that keeps them")
    return standing.vote_log.table(standing.models, standing.compared_prompts, votes)


def _places(names: tuple[str, ...]) -> Ints:
    """Where each code's name stands among the sorted names."""
    place = {name: k for k, name in enumerate(sorted(names))}
    return np.array([place[name] for name in names], dtype=np.int64)


def _permuted(uncertainty: Uncertainty | None, place: Ints) -> Uncertainty | None:
    if uncertainty is None:
        return None
    square = np.ix_(place, place)
    return Uncertainty(tuple(one[square] for one in uncertainty.covariances), uncertainty.dof[place])


class BatchHistory:
    """Remembers the last fits of one standing. What it returns does not depend on what it remembers."""

    def __init__(self) -> None:
        #: By votes and models.
        self._kept: dict[tuple[int, int], BatchRatings] = {}

    def ratings(self, standing: Standing, history: EvaluationHistory) -> BatchRatings:
        """Batch ratings of all votes, with those of the last evaluations."""
        recent = history.evaluations[-ALARM_EVALUATION_COUNT:]
        fits = {
            (votes, len(standing.models)): self._fit(standing, votes)
            for votes in (*(one.votes for one in recent), standing.votes)
        }
        self._kept = fits
        evaluated = [EvaluatedOrder(one.order, fits[one.votes, len(standing.models)]) for one in recent]
        return replace(fits[standing.votes, len(standing.models)], evaluated=tuple(evaluated))

    def _fit(self, standing: Standing, votes: int) -> BatchRatings:
        kept = self._kept.get((votes, len(standing.models)))
        return batch_ratings(standing, votes=votes) if kept is None else kept


@dataclass(frozen=True, slots=True)
class CrossCheckRow:
    """One model of the published order. What the votes do not support is ``None``."""

    #: Place in the published order, and among the published models of its group by batch rating.
    published: int
    rank: int | None
    model: str
    group: int | None
    rating: float | None
    low: float | None
    high: float | None
    #: Places not ruled out, among the same models; all ranges hold together, at one look. They are no claim of the board,
    #: whose own ranges hold at every look.
    rank_low: int | None
    rank_high: int | None
    #: Every model of a tier is above every model of the next at the method's level, at one look.
    tier: int | None
    #: The one-sided confidence level that it is above the next of the published order, not corrected for looking at many.
    above_next: float | None


@dataclass(frozen=True, slots=True)
class Disagreement:
    """Two models that the published order and the batch ratings put the other way round."""

    #: As published.
    above: str
    below: str
    #: Points by which the batch ratings put the second above the first.
    gap: float


@dataclass(frozen=True, slots=True)
class CrossCheck:
    """Batch ratings beside a published order, and where the two part beyond uncertainty."""

    rows: tuple[CrossCheckRow, ...]
    level: float
    #: ``prompts like these``, with the number of prompts behind it; ``None`` without intervals.
    scope: str | None
    n_clusters: int | None
    #: Widest gap first.
    disagreements: tuple[Disagreement, ...]
    #: Of the fit; the alarm is apart.
    findings: tuple[Finding, ...]
    #: What ranks and tiers of its rows hold for. Those of the board hold at every look.
    ranks_hold: Literal["at one look"] = "at one look"

    @property
    def alarm(self) -> Finding | None:
        """The orders disagree; ``None`` if they do not."""
        if not self.disagreements:
            return None
        pairs = [{"above": pair.below, "below": pair.above} for pair in self.disagreements]
        return Finding("orders-disagree", first_of("pairs", pairs))


def cross_check(
    standing: Standing,
    batch: BatchRatings,
    published: Ints | None = None,
) -> CrossCheck:
    """Lay batch ratings beside an order: codes of its models, best first; by conservative score if not said.

    The orders disagree on a pair if, at both of the last two evaluations, the batch ratings put it the other way round by
    more than a standard error; or if a rank is outside of the range that batch ratings leave it now. RD is bookkeeping
    and excuses nothing.
    """
    order = standing.order if published is None else published
    interval = batch.interval
    rows = _rows(standing.models, batch, order)
    # Pairs (as published: row above column) that the batch puts the other way round, if a rank of theirs is ruled out.
    found = np.zeros(batch.above.shape, dtype=bool)
    place: dict[int | None, int] = {}
    outside = np.zeros(len(found), dtype=bool)
    for model, row in zip(order.tolist(), rows, strict=True):
        place[row.group] = place.get(row.group, 0) + 1
        if row.rank_low is not None and row.rank_high is not None:
            outside[model] = not row.rank_low <= place[row.group] <= row.rank_high
    square = np.ix_(order, order)
    found[square] = np.triu(batch.above[square].T, 1)
    wrong = np.asarray(found & (outside[:, None] | outside[None, :])).copy()
    last = [_inverted(one.order, one.batch) for one in batch.evaluated[-ALARM_EVALUATION_COUNT:]]
    if len(last) == ALARM_EVALUATION_COUNT:
        wrong |= np.logical_and.reduce(last)
    pairs = [
        Disagreement(
            standing.models[above], standing.models[below], float(batch.rating[below] - batch.rating[above])
        )
        for above, below in np.argwhere(wrong).tolist()
    ]
    return CrossCheck(
        rows=rows,
        level=batch.method.level,
        scope=None if interval is None else interval.scope,
        n_clusters=None if interval is None else interval.n_clusters,
        disagreements=tuple(sorted(pairs, key=lambda pair: -pair.gap)),
        findings=batch.findings,
    )


def _rows(names: tuple[str, ...], batch: BatchRatings, order: Ints) -> tuple[CrossCheckRow, ...]:
    rating, group, above = batch.rating[order], batch.group[order], batch.above[np.ix_(order, order)]
    peers = (group[:, None] == group[None, :]) & (group >= 0)[:, None]
    rank = 1 + (peers & (rating[None, :] > rating[:, None])).sum(axis=1)
    low, high = 1 + above.sum(axis=0), peers.sum(axis=1) - above.sum(axis=1)
    tier = tiers_of(np.lexsort((-rating, group)), group, above)
    rows: list[CrossCheckRow] = []
    for k, model in enumerate(order.tolist()):
        rated = group[k] >= 0
        below = order[k + 1 : k + 2]
        rows.append(
            CrossCheckRow(
                published=k + 1,
                rank=int(rank[k]) if rated else None,
                model=names[model],
                group=int(group[k]) if rated else None,
                rating=float_or_none(rating[k]),
                low=None if batch.interval is None else float_or_none(batch.interval.low[model]),
                high=None if batch.interval is None else float_or_none(batch.interval.high[model]),
                rank_low=int(low[k]) if rated else None,
                rank_high=int(high[k]) if rated else None,
                tier=int(tier[k]) if rated else None,
                above_next=float_or_none(batch.confidence[model, below[0]]) if len(below) else None,
            )
        )
    return tuple(rows)


def _inverted(order: Ints, batch: BatchRatings) -> Bools:
    """Pairs (as published: row above column) of which the batch ratings put the lower higher, beyond a standard error."""
    found = np.zeros(batch.above.shape, dtype=bool)
    if batch.uncertainty is None:
        return found
    same = (batch.group[:, None] == batch.group[None, :]) & (batch.group >= 0)[:, None]
    known = same & (batch.uncertainty.difference_dof() >= MIN_DOF)
    value = np.nan_to_num(batch.rating)
    behind = value[None, :] - value[:, None] > np.sqrt(batch.uncertainty.differences())
    square = np.ix_(order, order)
    found[square] = np.triu((known & behind)[square], 1)
    return found


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
