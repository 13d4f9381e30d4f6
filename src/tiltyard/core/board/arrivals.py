"""Voters who came together: whether those of one day vote alike, and how uncertain orders are then.

Who follows a link often belongs to a community with tastes of its own. By voter its members would count as so many
independent opinions; by the day on which they came they count as one.
"""

from __future__ import annotations

import math

import numpy as np

from tiltyard.core.policy.state.vote_log import VoteLog
from tiltyard.core.ratings import BradleyTerry, Ratings
from tiltyard.core.ratings.group_fit import fit_groups
from tiltyard.core.ratings.groups import comparable_groups
from tiltyard.core.ratings.leave_one_out import leave_one_out
from tiltyard.core.ratings.level_test import departure_by_group
from tiltyard.core.ratings.pairs import score_pairs
from tiltyard.core.ratings.result import Uncertainty
from tiltyard.core.ratings.voter_test import exceeds_chance
from tiltyard.core.ratings.weight_limits import LimitedTable
from tiltyard.foundation.arrays import Floats, Ints

#: Fewer days than this say nothing of other days.
MIN_DAYS = 4
#: Voters of one day are joined until so many numbers are left, by model, or parts of a day, which cost little to exchange.
_EXCHANGED_NUMBER_LIMIT, _PART_COUNT = 1 << 13, 8
_ROUNDING_TOLERANCE = 1e-9

#: For prompts like these, and for these.
Uncertainties = tuple[Uncertainty | None, Uncertainty | None]


def count_days(
    log: VoteLog, limited: LimitedTable, method: BradleyTerry, ratings: Ratings
) -> tuple[int, Uncertainties | None]:
    """The days on which voters first voted, 0 if that is not known; and the uncertainty of ratings if those of a day vote alike."""
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
