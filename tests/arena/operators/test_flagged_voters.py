"""Sessions that are flagged are read from the log: votes, skips, marks and times."""

import asyncio

import pytest

from support.rewritten_logs import allow_rewriting
from support.voted_arenas import voted
from tiltyard.arena.operators.exclusions import VoteSelection, exclude
from tiltyard.arena.operators.voters import find_flagged_group, list_flagged_groups, read_latest_matchups
from tiltyard.core.integrity.voter_tests import VoterTest
from tiltyard.errors import NotFound
from tiltyard.postgres.connections import connect, connect_from_pool, open_pool


def asked(url, work):
    async def run():
        async with open_pool(url, most=2) as pool:
            return await work(pool)

    return asyncio.run(run())


def test_few_votes_point_at_nobody(database):
    arena = voted(database, votes=1)
    assert asked(database, lambda pool: list_flagged_groups(pool, arena)) == []


def in_step(url):
    """Give every session the same times: a vote every four seconds, two minutes after the session before."""
    with connect(url) as connection:
        allow_rewriting(connection)
        connection.execute(
            "WITH timed AS (SELECT arena, source, serial, timestamptz '2026-01-01' + session * interval '2 minutes' "
            "+ row_number() OVER (PARTITION BY session ORDER BY serial) * interval '4 s' AS at FROM matchups), "
            "moved AS (UPDATE matchups m SET served_at = t.at - interval '3 s' FROM timed t "
            "WHERE (m.arena, m.source, m.serial) = (t.arena, t.source, t.serial)) "
            "UPDATE endings d SET at = t.at, mark = CASE WHEN d.serial %% 5 = 1 THEN 2 END FROM timed t "
            "WHERE (d.arena, d.source, d.serial) = (t.arena, t.source, t.serial)".replace("%%", "%")
        )


def test_times_and_marks_of_the_log_are_what_is_tested(database):
    arena = voted(database, votes=60)
    in_step(database)
    groups = {group.key: group for group in asked(database, lambda pool: list_flagged_groups(pool, arena))}
    step = groups["in-step-1"]
    assert (step.test, step.sessions) == (VoterTest.IN_STEP, (1, 2, 3, 4, 5))
    assert {flag.session for flag in groups["regular"].flags} == {1, 2, 3, 4, 5}
    assert groups["regular"].flags[0].counted.seconds == pytest.approx(3.0)
    (hasty,) = groups["hasty"].flags
    assert (hasty.counted.found, hasty.counted.among) == (12, 12)
    assert asked(database, lambda pool: find_flagged_group(pool, arena, "in-step-1")) == step
    with pytest.raises(NotFound, match="no longer found"):
        asked(database, lambda pool: find_flagged_group(pool, arena, "in-step-2"))

    async def leave_out(pool):
        await exclude(pool, arena.name, VoteSelection(sessions=step.sessions), "in step", actor="a")
        return await list_flagged_groups(pool, arena)

    assert asked(database, leave_out) == []


def test_skips_are_read_beside_votes_and_votes_that_do_not_count_rate_nobody(database):
    arena = voted(database, votes=60)
    in_step(database)

    async def latest(pool):
        async with connect_from_pool(pool) as connection:
            return await read_latest_matchups(connection, arena.arena, after=0)

    found = asked(database, latest)
    assert len(found.shown.session) == 60
    assert int(found.shown.hasty.sum()) == 12
    assert len(found.votes.session) <= 48
    assert not set(found.votes.session.tolist()) & set(found.shown.session[found.shown.hasty].tolist())
