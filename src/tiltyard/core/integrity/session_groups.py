"""What sessions do around their votes that honest voters do not, each by itself and several together.

**Habits.** Three tests of each session. Each takes the most unusual honest voter that it allows for as its standard, and
flags one such session in two thousand at most, or where several skip or choose the same model, one in twenty of these:

========  ==============================================================  =====================================
test      what is counted                                                 who is allowed for
========  ==============================================================  =====================================
skips     matchups with one model that were skipped, against the others   skips it with twice the odds of others
hasty     votes before both responses can have been looked at             a fast voter: one vote in four
regular   how much the times of votes vary                                times within ± 40 % of each other
========  ==============================================================  =====================================

**In step.** Sessions of one program often vote at the same intervals. Five intervals in a row that agree to a fifth of
a second are a key; sessions that share a key belong together. An inverted index over keys finds them: the cost grows
with the number of votes (and its logarithm, for sorting), not with pairs of sessions.

**Together.** Three votes for one model are no evidence against anybody; a hundred sessions with three such votes are,
if honest voters would make twenty. For each session and model the probability of so many wins is computed from the
ratings and from what honest voters are like: most have a taste, some vote at random (how many, the other models tell).
Sessions in the last few percent are counted, and compared with how many there should be. The cost grows with the number
of votes. It needs honest votes to compare with: where the group has a large part of a model's votes, the ratings follow
it.

Nobody is in a group for what others did: each of its sessions has the intervals, or the votes, by itself. But in the
second kind some are honest, about as many as are expected; the group says how many.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from scipy.special import bdtrc, chdtr, expit, gammaln, logit, ndtr, ndtri, pdtrc

from tiltyard.core.integrity.voter_tests import (
    CountedOf,
    SessionVotes,
    VoterSign,
    VoterTest,
    outcome_probabilities,
)
from tiltyard.core.ratings.pairs import sum_by_index
from tiltyard.foundation.arrays import Bools, Floats, Ints

#: How often a session of honest voters may be flagged, by each test.
_FALSE_FLAG_SHARE = 0.0005
_LEAST_MATCHUPS = 10
_LEAST_SKIP_COUNT = 5
#: The share of honest sessions among those that are flagged because others skip or choose the same model.
_HONEST_SHARE = 0.05
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
#: Intervals in a row that must agree, how well, and for how long together at least: faster votes are hasty ones.
_KEY_INTERVAL_COUNT = 5
_INTERVAL_SECONDS = 0.2
_LEAST_KEY_SECONDS = 2.5
_LEAST_SESSION_COUNT = 3
#: Votes of a session on one model: fewer show nothing, and for more there is the test of single sessions.
_LEAST_MODEL_VOTES = 2
_MOST_MODEL_VOTES = 16
#: The last part of honest sessions with votes on a model, whose number is compared with how many there should be; the
#: part that shows most is taken, of those that hold at most this share of all careful voters.
_TAIL_SHARES = (0.05, 0.02, 0.01, 0.005)
_CAREFUL_SHARE = 0.006
#: Honest voters: tastes differ by this deviation in logits; some vote at random, between these shares, and now and then
#: for a tie.
_TASTE_LOGITS = 0.5
_RANDOM_VOTER_SHARES = (0.02, 0.5)
_RANDOM_WIN_SHARE = 0.42
#: Voters differ from that in ways that nobody knows: so many times the expected number is allowed for.
_EXPECTED_MARGIN_RATIO = 1.2
_LEAST_TOGETHER_COUNT = 5
#: The probability that a group is found where there is none, for all models and both directions together.
_FALSE_GROUP_SHARE = 1e-4
#: Nodes and weights of a normal distribution (Gauss–Hermite, five of them).
_NODES = np.array([0.0, 1.355626, -1.355626, 2.856970, -2.856970])
_NODE_SHARES = np.array([0.533333, 0.222076, 0.222076, 0.011257, 0.011257])


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
    # By which factor the odds of a skip are higher where a model is shown (Mantel and Haenszel 1959), as if each session
    # had skipped once: those that choose by skips are few, and skip most.
    share_of = 1.0 / (np.maximum(skips, 1.0) * matchups)[:, None]
    inside = (k * (matchups[:, None] - n - skips[:, None] + k) * share_of).sum(axis=0)
    outside = ((skips[:, None] - k) * (n - k) * share_of).sum(axis=0)
    usual = (inside + 1.0) / (outside + 1.0)
    share = (skips / matchups)[:, None]
    variance = n * share * (1.0 - share) * (1.0 - n / matchups[:, None])
    away = (k - n * share) / np.sqrt(np.maximum(variance, 1e-12))
    enough = (matchups >= _LEAST_MATCHUPS) & (skips >= _LEAST_SKIP_COUNT)
    found: list[VoterSign] = []
    chance_of: dict[tuple[int | None, bool], list[float]] = {}
    for one in np.flatnonzero(enough & (np.abs(away).max(axis=1) >= _CLOSER_LOOK_LIMIT)).tolist():
        of = (int(matchups[one]), int(skips[one]))
        chances = [_skip_chance(int(n[one, m]), int(k[one, m]), of, usual[m]) for m in range(shape[1])]
        rarest = int(np.argmin(chances))
        own = (int(k[one, rarest]), int(n[one, rarest]))
        counted = CountedOf(*own, of[1] - own[0], of[0] - own[1])
        deviations = float(np.sign(away[one, rarest]) * -ndtri(max(chances[rarest], 1e-300)))
        found.append(VoterSign(one, VoterTest.SKIPS, of[0], deviations, rarest, counted))
        chance_of.setdefault((rarest, deviations > 0.0), []).append(chances[rarest])
    bars = {cell: _pooled_bar(chances, int(enough.sum()), shape[1]) for cell, chances in chance_of.items()}
    return [sign for sign in found if ndtr(-abs(sign.deviations)) <= bars[sign.model, sign.deviations > 0.0]]


def _pooled_bar(chances: Sequence[float], tested: int, models: int) -> float:
    """How unlikely a session must be to be flagged: less so where others skip or choose the same model.

    Together they must be more than chance explains, with one honest session in twenty among them at most.
    """
    bar, group_bar = (share / (2 * models) for share in (_FALSE_FLAG_SHARE, _FALSE_GROUP_SHARE))
    for count, chance in enumerate(sorted(chances), 1):
        expected = tested * chance
        if expected <= _HONEST_SHARE * count and pdtrc(count - 1, expected) <= group_bar:
            bar = max(bar, chance)
    # The chances that it is compared with went through deviations and back.
    return bar * (1.0 + 1e-9)


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


@dataclass(frozen=True, slots=True)
class SessionGroup:
    """Sessions that act together."""

    test: VoterTest
    #: In the order of their numbers.
    sessions: tuple[int, ...]
    #: How unlikely so large a group is, in standard deviations; 0 for groups in step.
    deviations: float = 0.0
    #: For `VoterTest.TOGETHER`: the model, whether they vote for it, and how many such sessions honest voters make.
    model: int | None = None
    wins: bool = True
    expected: float = 0.0


def find_groups_in_step(shown: ShownMatchups) -> list[SessionGroup]:
    """Sessions that vote at the same intervals, the largest group first."""
    own = np.flatnonzero(shown.voted)
    order = own[np.lexsort((shown.ended[own], shown.session[own]))]
    session = shown.session[order]
    gap = np.diff(shown.ended[order])
    same = session[1:] == session[:-1]
    windows = len(gap) - _KEY_INTERVAL_COUNT + 1
    if windows < 1:
        return []
    rows = np.lib.stride_tricks.sliding_window_view(gap, _KEY_INTERVAL_COUNT)
    whole = np.lib.stride_tricks.sliding_window_view(same, _KEY_INTERVAL_COUNT).all(axis=1)
    rows, owner = rows[whole], session[:windows][whole]
    slow = rows.sum(axis=1) >= _LEAST_KEY_SECONDS
    rows, owner = rows[slow], owner[slow]
    if not len(rows):
        return []
    sessions, place = np.unique(owner, return_inverse=True)
    # Two grids: what lies on both sides of a line of one is together in the other.
    keys = [np.floor(rows / _INTERVAL_SECONDS + shift).astype(np.int64) for shift in (0.0, 0.5)]
    numbers = [np.unique(grid, axis=0, return_inverse=True)[1].reshape(-1) for grid in keys]
    first = len(sessions)
    key = np.concatenate([first + numbers[0], first + numbers[0].max() + 1 + numbers[1]])
    size = int(key.max()) + 1
    graph = coo_array((np.ones(len(key)), (np.tile(place, 2), key)), shape=(size, size))
    part = connected_components(graph, directed=False)[1][:first]
    groups = [sessions[part == one] for one in np.flatnonzero(np.bincount(part) >= _LEAST_SESSION_COUNT)]
    found = [SessionGroup(VoterTest.IN_STEP, tuple(members.tolist())) for members in groups]
    return sorted(found, key=lambda group: (-len(group.sessions), group.sessions))


def find_groups_together(votes: SessionVotes, models: int) -> list[SessionGroup]:
    """Sessions that vote for one model, or against it, where there are more of them than honest voters make."""
    if not len(votes.session):
        return []
    chance = outcome_probabilities(votes, models)
    sessions, place = np.unique(votes.session, return_inverse=True)
    cell = np.concatenate([place * models + votes.a, place * models + votes.b])
    a_wins, b_wins = votes.score == 1.0, votes.score == 0.0
    sides = (
        _Cells.of(cell, np.concatenate([chance[0], chance[2]]), np.concatenate([a_wins, b_wins])),
        _Cells.of(cell, np.concatenate([chance[2], chance[0]]), np.concatenate([b_wins, a_wins])),
    )
    best: dict[tuple[int, int], tuple[float, SessionGroup]] = {}
    for parts in zip(*(side.tails() for side in sides), strict=True):
        counts, careful, expected = _counted(sides, parts, models)
        level = pdtrc(np.maximum(counts - 1.0, 0.0), _EXPECTED_MARGIN_RATIO * expected)
        sure = level <= _FALSE_GROUP_SHARE / (2 * models * len(_TAIL_SHARES))
        sure &= (counts >= _LEAST_TOGETHER_COUNT) & (careful <= _CAREFUL_SHARE * len(sessions))
        for side, model in np.argwhere(sure).tolist():
            unlikely = float(level[side, model])
            if (side, model) not in best or unlikely < best[side, model][0]:
                number = sides[side].number[parts[side].beyond]
                members = sessions[number[number % models == model] // models]
                away = float(-ndtri(max(unlikely, 1e-300)))
                group = SessionGroup(
                    VoterTest.TOGETHER,
                    tuple(members.tolist()),
                    away,
                    model,
                    side == 0,
                    float(expected[side, model]),
                )
                best[side, model] = unlikely, group
    found = [group for _, group in best.values()]
    return sorted(found, key=lambda group: (-group.deviations, group.model, group.wins))


def _counted(
    sides: Sequence[_Cells], parts: Sequence[_LastPart], models: int
) -> tuple[Floats, Floats, Floats]:
    """By direction and model: sessions in the last part, how many of careful voters are, and how many of all are expected.

    How many vote at random is not known. It is estimated for each model from the sessions in the last parts of all
    others: who votes at random does so whatever is shown.
    """
    counts, careful, random = (np.zeros((2, models)) for _ in range(3))
    for k, (side, part) in enumerate(zip(sides, parts, strict=True)):
        model = side.number % models
        counts[k] = np.bincount(model[part.beyond], minlength=models)
        careful[k] = np.bincount(model, part.careful, models)
        random[k] = np.bincount(model, part.random, models)
    others = [one.sum() - one.sum(axis=0) for one in (counts, careful, random)]
    share = (others[0] - others[1]) / np.maximum(others[2] - others[1], 1.0)
    share = np.clip(share, *_RANDOM_VOTER_SHARES)
    return counts, careful, (1.0 - share) * careful + share * random


class _LastPart(NamedTuple):
    """The last part of the sessions with votes on a model, by cell."""

    #: How likely it is for who has a taste, and for who votes at random; and who is in it.
    careful: Floats
    random: Floats
    beyond: npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class _Cells:
    """Votes of a session on a model, one row for each cell that has neither too few nor too many."""

    #: Session and model of each cell, as one number.
    number: Ints
    #: The probability of a win in each of its votes, 0 where there is none; and how many were won.
    chance: Floats
    won: Ints

    @classmethod
    def of(cls, cell: Ints, chance: Floats, won: npt.NDArray[np.bool_]) -> _Cells:
        order = np.argsort(cell, kind="stable")
        number, first, count = np.unique(cell[order], return_index=True, return_counts=True)
        kept = (count >= _LEAST_MODEL_VOTES) & (count <= _MOST_MODEL_VOTES)
        row = np.repeat(np.arange(len(number)), count)
        column = np.arange(len(cell)) - first[row]
        place = np.cumsum(kept) - 1
        inside = kept[row]
        matrix = np.zeros((int(kept.sum()), _MOST_MODEL_VOTES))
        matrix[place[row[inside]], column[inside]] = chance[order][inside]
        wins = np.bincount(place[row[inside]], won[order][inside], len(matrix))
        return cls(number[kept], matrix, wins.astype(np.int64))

    def tails(self) -> Iterator[_LastPart]:
        """The last part of each size."""
        cast = self.chance > 0.0
        logits = logit(np.where(cast, self.chance, 0.5))
        mixed = np.zeros((len(self.won), _MOST_MODEL_VOTES + 1))
        for node, share in zip(_NODES, _NODE_SHARES, strict=True):
            mixed += share * _count_chances(np.where(cast, expit(logits + _TASTE_LOGITS * node), 0.0))
        at_random = _count_chances(np.where(cast, _RANDOM_WIN_SHARE, 0.0))
        # One column more: nobody has that many wins.
        nobody = np.zeros((len(self.won), 1))
        tail, random_tail = (
            np.hstack([one[:, ::-1].cumsum(axis=1)[:, ::-1], nobody]) for one in (mixed, at_random)
        )
        possible = np.arange(_MOST_MODEL_VOTES + 2) <= cast.sum(axis=1)[:, None]
        for share in _TAIL_SHARES:
            inside = (tail <= share) & possible
            bar = np.where(inside.any(axis=1), inside.argmax(axis=1), _MOST_MODEL_VOTES + 1)[:, None]
            careful, random = (np.take_along_axis(one, bar, axis=1)[:, 0] for one in (tail, random_tail))
            yield _LastPart(careful, random, self.won >= bar[:, 0])


def _count_chances(chance: Floats) -> Floats:
    """The distribution of the number of wins, by row: each vote has its own probability."""
    found = np.zeros((len(chance), chance.shape[1] + 1))
    found[:, 0] = 1.0
    for vote in range(chance.shape[1]):
        p = chance[:, vote : vote + 1]
        moved = found[:, :-1] * p
        found *= 1.0 - p
        found[:, 1:] += moved
    return found
