"""The crowd: the board without each group of votes."""

import numpy as np

from tiltyard.arena.log.rosters import Roster
from tiltyard.arena.log.votes import Ballots
from tiltyard.arena.operators import crowd as group_previews
from tiltyard.arena.rating.crowd_watch import LatestVotes
from tiltyard.core.integrity.vote_groups import VOTE_GROUPS

MODELS = ("best", "good", "rigged")
NEW, GERMAN = VOTE_GROUPS.index("new-voters"), VOTE_GROUPS.index("language-de")


def votes():
    """Each model beats the next; new voters say that the last is the best. Their votes waited, and count from later on."""
    random = np.random.default_rng(1)
    rows = []
    for k in range(600):
        rigs = k >= 400
        a, b = (2, k % 2) if rigs else random.permutation(3)[:2].tolist()
        kind = 0 if rigs else int(random.random() > 1.0 / (1.0 + np.exp(0.8 * (a - b))))
        groups = 1 | (1 << NEW if rigs else 0) | (1 << GERMAN if k % 5 == 0 else 0)
        rows.append((k + 1, 1_000 + k, groups, a, b, kind))
    position, session, groups, a, b, kind = np.array(rows).T
    counts_from = np.where(position > 400, position + 5_000, position)
    zeros = np.zeros(len(rows), dtype=np.int64)
    return Ballots(counts_from, session, a, b, zeros, kind, zeros, zeros), LatestVotes(
        position, session, groups, a, b
    )


def test_without_the_group_that_rigs_the_order_is_the_honest_one(monkeypatch):
    ballots, latest = votes()
    found = group_previews._compute_previews(ballots, latest, Roster(MODELS, ("p",)), 77)
    assert (found.votes, found.position, found.first, found.left_out) == (600, 77, ("rigged",), 0)
    new, german = found.groups
    assert (new.group, new.votes, new.first, new.moved) == ("new-voters", 200, ("best",), 3)
    assert (new.moved_most.model, new.moved_most.rank, new.moved_most.rank_without) == ("rigged", 1, 3)
    assert (german.group, german.votes, german.first, german.moved_most) == (
        "language-de",
        120,
        ("rigged",),
        None,
    )
    # If there is no time, the largest group is computed all the same.
    monkeypatch.setattr(group_previews, "_COMPUTATION_SECONDS", -1.0)
    found = group_previews._compute_previews(ballots, latest, Roster(MODELS, ("p",)), 77)
    assert ([one.group for one in found.groups], found.left_out) == (["new-voters"], 1)


def test_votes_whose_groups_are_not_known_are_in_none():
    ballots, _ = votes()
    nothing = LatestVotes(*(np.empty(0, dtype=np.int64) for _ in range(5)))
    found = group_previews._compute_previews(ballots, nothing, Roster(MODELS, ("p",)), 0)
    assert (found.groups, found.votes, found.first) == ((), 600, ())
