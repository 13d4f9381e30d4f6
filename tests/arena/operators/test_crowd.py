"""The crowd: the board without each group of votes, and what is told of a change, also of those who voted after it was found."""

import json

import numpy as np
import pytest

from support.pool_work import asked
from support.voted_arenas import voted
from tiltyard.arena.log.rosters import Roster
from tiltyard.arena.log.votes import Ballots
from tiltyard.arena.operators import crowd as group_previews
from tiltyard.arena.operators.crowd import explain_crowd_change, read_crowd_changes
from tiltyard.arena.rating.crowd_watch import LatestVotes
from tiltyard.core.integrity.vote_groups import VOTE_GROUPS
from tiltyard.postgres.connections import connect

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


@pytest.mark.parametrize("shift", [212.0, -212.0])
def test_sessions_that_go_on_in_its_direction_are_named_until_it_is_explained(database, shift):
    arena = voted(database, votes=60)
    detail = {
        "since": 1, "until": 40, "votes": 9, "shift": shift, "log_evidence": 31.9, "bar": 13.3, "sessions": [77],
    }  # fmt: skip
    with connect(database) as connection:
        connection.execute(
            "INSERT INTO crowd_changes (arena, position, found_at, model, vote_group, detail) "
            "VALUES (1, 12, now(), 1, 0, %s)",
            (json.dumps(detail),),
        )
        rows = connection.execute(
            "SELECT e.session, e.a, e.outcome FROM events e JOIN endings d USING (arena, source, serial, position) "
            "WHERE e.kind = 1 AND e.position > 40 AND 1 IN (e.a, e.b) AND d.undone IS NULL AND e.outcome < 2 "
            "AND e.blind IS NOT FALSE"
        ).fetchall()
    rising = {session for session, a, outcome in rows if (a == 1) == (outcome == 0)}
    falling = {session for session, a, outcome in rows if (a == 1) != (outcome == 0)}
    [change] = asked(database, lambda pool: read_crowd_changes(pool, arena.arena))
    assert change.detail["sessions"][0] == 77
    assert set(change.detail["sessions"][1:]) == (rising if shift > 0 else falling)
    assert len(change.detail["sessions"]) > 1
    asked(database, lambda pool: explain_crowd_change(pool, arena.name, 12, "a campaign", actor="Ada"))
    [explained] = asked(database, lambda pool: read_crowd_changes(pool, arena.arena))
    assert explained.detail["sessions"] == [77]
