"""Groups of sessions that act together, though none of them is unusual alone.

**In step.** Sessions of one program often vote at the same intervals. Five intervals in a row that agree to a fifth of
a second are a key; sessions that share a key belong together. An inverted index over keys finds them: the cost grows
with the number of votes (and its logarithm, for sorting), not with pairs of sessions.

**Together.** Three votes for one model are no evidence against anybody; a hundred sessions with three such votes are,
if honest voters would make twenty. For each session and model the probability of so many wins is computed from the
ratings and from what honest voters are like: most have a taste, some vote at random (how many, the other models tell).
Sessions in the last few percent
are counted, and compared with how many there should be. The cost grows with the number of votes. It needs honest votes
to compare with: where the group has a large part of a model's votes, the ratings follow it.

Nobody is in a group for what others did: each of its sessions has the intervals, or the votes, by itself. But in the
second kind some are honest, about as many as are expected; the group says how many.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from scipy.special import expit, logit, ndtri, pdtrc

from tiltyard.core.integrity.session_habits import ShownMatchups
from tiltyard.core.integrity.voter_tests import SessionVotes, VoterTest, outcome_probabilities

__all__ = ["SessionGroup", "find_groups_in_step", "find_groups_together"]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

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
_LEAST_TOGETHER_COUNT = 15
#: The probability that a group is found where there is none, for all models and both directions together.
_FALSE_GROUP_SHARE = 1e-4
#: Nodes and weights of a normal distribution (Gauss–Hermite, five of them).
_NODES = np.array([0.0, 1.355626, -1.355626, 2.856970, -2.856970])
_NODE_SHARES = np.array([0.533333, 0.222076, 0.222076, 0.011257, 0.011257])


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
