"""What sessions do around their votes: which matchups they skip, how long they look, and how regular their times are.

Three tests of each session. Each takes the most unusual honest voter that it allows for as its standard, and flags one
such session in two thousand at most:

========  ==============================================================  =====================================
test      what is counted                                                 who is allowed for
========  ==============================================================  =====================================
skips     matchups with one model that were skipped, against the others   skips it with twice the odds of others
hasty     votes before both responses can have been looked at             a fast voter: one vote in four
regular   how much the times of votes vary                                times within ± 40 % of each other
========  ==============================================================  =====================================
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
from scipy.special import bdtrc, chdtr, gammaln, ndtri

from tiltyard.core.integrity.voter_tests import CountedOf, VoterSign, VoterTest
from tiltyard.core.ratings.index_sums import sum_by_index

__all__ = ["ShownMatchups", "find_habits"]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

#: How often a session of honest voters may be flagged, by each test.
_FALSE_FLAG_SHARE = 0.0005
_LEAST_MATCHUPS = 10
_LEAST_SKIP_COUNT = 5
#: Whoever dislikes what a model writes may skip it more often; these are odds.
_SKIP_TASTE_RATIO = 2.0
_HASTY_SHARE = 0.25
#: In logarithms of seconds.
_TIME_SPREAD_RATIO = 0.4
#: Faster votes than this are hasty ones, whatever their rhythm.
_LEAST_MEAN_SECONDS = 0.5
_LEAST_SECONDS = 0.05
#: Sessions and models that are looked at closely: whose skips are this many standard deviations away.
_CLOSER_LOOK_LIMIT = 2.0


@dataclass(frozen=True, slots=True, eq=False)
class ShownMatchups:
    """Matchups that were shown and have ended, in the order of their ends; sessions and models by number."""

    session: Ints
    a: Ints
    b: Ints
    #: Whether it ended with a vote of any kind; if not, it was skipped or has expired.
    voted: Bools
    #: Whether the vote came before both responses can have been looked at.
    hasty: Bools
    #: Times in seconds.
    served: Floats
    ended: Floats


def find_habits(shown: ShownMatchups, models: int) -> list[VoterSign]:
    """Sessions that one of the tests flags, in the order of their numbers."""
    if not len(shown.session):
        return []
    sessions, place = np.unique(shown.session, return_inverse=True)
    found = [
        *_skips(shown, place, (len(sessions), models)),
        *_hasty(shown, place),
        *_regular(shown, place),
    ]
    signs = [replace(sign, session=int(sessions[sign.session])) for sign in found]
    return sorted(signs, key=lambda sign: (sign.session, sign.test))


def _skips(shown: ShownMatchups, place: Ints, shape: tuple[int, int]) -> list[VoterSign]:
    """Sessions that skip one model, or everything else, beyond what their own share of skips explains."""
    size = shape[0] * shape[1]
    skipped = (~shown.voted).astype(np.float64)
    with_model, skipped_with = np.zeros(size), np.zeros(size)
    for model in (shown.a, shown.b):
        cell = place * shape[1] + model
        with_model += sum_by_index(cell, np.ones(len(cell)), size)
        skipped_with += sum_by_index(cell, skipped, size)
    matchups = np.bincount(place).astype(np.float64)
    skips = sum_by_index(place, skipped, shape[0])
    n, k = with_model.reshape(shape), skipped_with.reshape(shape)
    usual = _usual_odds(n.sum(axis=0), k.sum(axis=0), matchups.sum(), skips.sum())
    share = (skips / matchups)[:, None]
    variance = n * share * (1.0 - share) * (1.0 - n / matchups[:, None])
    away = (k - n * share) / np.sqrt(np.maximum(variance, 1e-12))
    enough = (matchups >= _LEAST_MATCHUPS) & (skips >= _LEAST_SKIP_COUNT)
    found: list[VoterSign] = []
    level = _FALSE_FLAG_SHARE / (2 * shape[1])
    for one in np.flatnonzero(enough & (np.abs(away).max(axis=1) >= _CLOSER_LOOK_LIMIT)).tolist():
        of = (int(matchups[one]), int(skips[one]))
        chances = [_skip_chance(int(n[one, m]), int(k[one, m]), of, usual[m]) for m in range(shape[1])]
        rarest = int(np.argmin(chances))
        if chances[rarest] <= level:
            inside = (int(k[one, rarest]), int(n[one, rarest]))
            counted = CountedOf(*inside, of[1] - inside[0], of[0] - inside[1])
            deviations = float(np.sign(away[one, rarest]) * -ndtri(max(chances[rarest], 1e-300)))
            found.append(VoterSign(one, VoterTest.SKIPS, of[0], deviations, rarest, counted))
    return found


def _usual_odds(n: Floats, k: Floats, matchups: float, skips: float) -> Floats:
    """By which factor the odds of a skip are higher where a model is shown, for all voters together."""
    inside = (k + 1.0) / (n - k + 1.0)
    outside = (skips - k + 1.0) / (matchups - n - skips + k + 1.0)
    return np.asarray(inside / outside, dtype=np.float64)


def _skip_chance(n: int, k: int, of: tuple[int, int], usual: float) -> float:
    """The probability of so many skips of a model or more, or of so few or fewer, whichever is smaller.

    Given how many matchups and skips the session has in all, by Fisher's noncentral hypergeometric distribution.
    """
    matchups, skips = of
    counts = np.arange(max(0, skips - (matchups - n)), min(n, skips) + 1, dtype=np.float64)
    others, rest = matchups - n, skips - counts
    log = -(gammaln(counts + 1) + gammaln(n - counts + 1) + gammaln(rest + 1) + gammaln(others - rest + 1))
    ends = []
    for odds, chosen in (
        (usual * _SKIP_TASTE_RATIO, counts >= k),
        (usual / _SKIP_TASTE_RATIO, counts <= k),
    ):
        weight = log + counts * np.log(odds)
        weight = np.exp(weight - weight.max())
        ends.append(float(weight[chosen].sum() / weight.sum()))
    return min(ends)


def _hasty(shown: ShownMatchups, place: Ints) -> list[VoterSign]:
    """Sessions most of whose votes came before anybody can have looked at both responses."""
    votes = sum_by_index(place, shown.voted.astype(np.float64), int(place.max()) + 1)
    hasty = sum_by_index(place, (shown.voted & shown.hasty).astype(np.float64), len(votes))
    chance = np.where(
        hasty > 0, bdtrc(np.maximum(hasty - 1, 0), np.maximum(votes, 1).astype(np.int64), _HASTY_SHARE), 1.0
    )
    found: list[VoterSign] = []
    for one in np.flatnonzero(chance <= _FALSE_FLAG_SHARE).tolist():
        counted = CountedOf(int(hasty[one]), int(votes[one]))
        away = float(-ndtri(max(float(chance[one]), 1e-300)))
        found.append(VoterSign(one, VoterTest.HASTY, int(votes[one]), away, None, counted))
    return found


def _regular(shown: ShownMatchups, place: Ints) -> list[VoterSign]:
    """Sessions whose votes take almost the same time each, which no person does."""
    own = np.flatnonzero(shown.voted)
    at, seconds = place[own], _pace(shown, place)[own]
    logs = np.log(np.maximum(seconds, _LEAST_SECONDS))
    count = np.bincount(at, minlength=int(place.max()) + 1)
    mean = sum_by_index(at, logs, len(count)) / np.maximum(count, 1)
    squares = sum_by_index(at, (logs - mean[at]) ** 2, len(count))
    chance = chdtr(np.maximum(count - 1, 1), squares / _TIME_SPREAD_RATIO**2)
    found: list[VoterSign] = []
    tested = (count >= _LEAST_MATCHUPS) & (mean >= np.log(_LEAST_MEAN_SECONDS))
    for one in np.flatnonzero(tested & (chance <= _FALSE_FLAG_SHARE)).tolist():
        spread = float(np.sqrt(squares[one] / (count[one] - 1)))
        away = float(-ndtri(max(float(chance[one]), 1e-300)))
        counted = CountedOf(spread=spread, seconds=float(np.exp(mean[one])))
        found.append(VoterSign(one, VoterTest.REGULAR, int(count[one]), away, None, counted))
    return found


def _pace(shown: ShownMatchups, place: Ints) -> Floats:
    """Seconds that each matchup took: since it was served, or since the end of the one before if it was prefetched."""
    order = np.lexsort((shown.ended, place))
    gap = np.diff(shown.ended[order], prepend=-np.inf)
    gap[np.r_[True, np.diff(place[order]) != 0]] = np.inf
    seconds = np.empty(len(order))
    seconds[order] = np.minimum(gap, (shown.ended - shown.served)[order])
    return seconds
