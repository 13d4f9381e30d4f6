"""What an operator is told of a change of the crowd: also of those who voted after it was found."""

import asyncio
import json

import pytest

from support.voted_arenas import voted
from tiltyard.arena.operators.crowd import explain_crowd_change, read_crowd_changes
from tiltyard.postgres.connections import connect, open_pool


def asked(url, work):
    async def run():
        async with open_pool(url, most=2) as pool:
            return await work(pool)

    return asyncio.run(run())


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
