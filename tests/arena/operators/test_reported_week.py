"""Weekly reports that go on from what checkpoints and the last report have kept."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime, timedelta

import pytest

from support.live_arenas import make_arena, voting_queue_of
from support.postgres_servers import fresh_database
from support.rewritten_logs import allow_rewriting
from tiltyard.arena.operators import reported_week
from tiltyard.arena.operators.scheduled_jobs import make_weekly_reports
from tiltyard.arena.rating import log_replay
from tiltyard.arena.rating.checkpoints import StoredCheckpoint, add_checkpoint
from tiltyard.arena.rating.log_replay import FoldProgress, fold_until
from tiltyard.arena.rating.rater_progress import log_head
from tiltyard.arena.voting.voter_requests import Voter
from tiltyard.core.battles import Kind
from tiltyard.core.policy.state.policy import Policy
from tiltyard.core.policy.validity.arena_fold import ArenaFold
from tiltyard.postgres.connections import connect

FIRST = datetime(2026, 3, 4, 12, tzinfo=UTC)
WEEK = timedelta(days=7)
VOTES = 40


@pytest.fixture(scope="module")
def prepared(server, template):
    """A database to be copied, and its arena."""
    with fresh_database(server, template) as database:
        yield database.rpartition("/")[2], voted_for_two_weeks(database)


@pytest.fixture
def database(server, prepared):
    with fresh_database(server, prepared[0]) as url:
        yield url


@pytest.fixture
def arena(prepared):
    return prepared[1]


def voted_for_two_weeks(database):
    """An arena with votes in two weeks, each reported: the second from what was kept of the first."""
    # Half of the matchups are of the exploration lane, whose votes are kept.
    policy = Policy(phase=4, evaluated_every=10, lane_weights=(0.2, 0.2, 0.1, 0.5))
    made = asyncio.run(make_arena(database, 5, 6, policy=policy))
    with connect(database) as connection:
        allow_rewriting(connection)
        connection.execute("UPDATE arenas SET created_at = %s", (FIRST,))
    vote_in_week(database, made, FIRST)
    assert make_weekly_reports(database, FIRST + WEEK) == 1
    vote_in_week(database, made, FIRST + WEEK, after=reports(database)[0]["position"])
    return made


def vote_in_week(database, arena, at, after=0):
    """Events after a position: votes of both sources, some skipped, some undone and cast again; all are final."""

    async def scene():
        async with voting_queue_of(database, arena) as queue:
            for number in range(VOTES):
                voter = Voter(1 + number // 6, source=int(number % 5 == 0))
                offered = await queue.next_matchup(voter)
                if number % 11 == 10:
                    await queue.skip(voter, offered.matchup)
                    continue
                await queue.vote(voter, offered.matchup, Kind(number % 4))
                if number % 17 == 16:
                    await queue.undo(voter, offered.matchup)
                    await queue.vote(voter, offered.matchup, Kind.TIE, ballot=1)

    asyncio.run(scene())
    with connect(database) as connection:
        allow_rewriting(connection)
        connection.execute(
            "UPDATE events SET at = %(at)s + (at - (SELECT min(at) FROM events WHERE position > %(after)s)) "
            "WHERE position > %(after)s",
            {"at": at, "after": after},
        )
        finish(connection, arena.arena)


def finish(connection, arena):
    """Make all votes final and write a checkpoint, as a rater does, without its boards."""
    head, progress = log_head(connection, arena), FoldProgress()
    fold_until(connection, arena, progress, head, 0)
    state = progress.save()
    add_checkpoint(connection, StoredCheckpoint(arena, 0, head, ArenaFold.digest_all(state), state))
    connection.execute("UPDATE raters SET horizon = %s WHERE arena = %s", (head, arena))


def reports(database):
    with connect(database) as connection:
        rows = connection.execute("SELECT document FROM reports ORDER BY until").fetchall()
    return [json.loads(document) for (document,) in rows]


def forget_reports(database, *kept):
    """Delete all reports, and the sums and checkpoints unless they are named."""
    with connect(database) as connection:
        for table in {"reports", "report_sums", "checkpoints"} - set(kept):
            connection.execute(f"DELETE FROM {table}")  # type: ignore[arg-type]


@pytest.fixture
def read_ranges(monkeypatch):
    """The ranges of the log that are read."""
    ranges, read_columns = [], log_replay.read_columns

    def watched(connection, arena, after, upto):
        ranges.append((after, upto))
        return read_columns(connection, arena, after, upto)

    monkeypatch.setattr(log_replay, "read_columns", watched)
    monkeypatch.setattr(reported_week, "read_columns", watched)
    return ranges


def test_a_report_reads_its_own_week_alone_and_says_what_the_whole_log_says(database, arena, read_ranges):
    first = reports(database)[0]
    assert make_weekly_reports(database, FIRST + 2 * WEEK) == 1
    with connect(database) as connection:
        head = connection.execute("SELECT max(position) FROM events").fetchone()
    assert read_ranges == [(first["position"], head[0])]
    second = reports(database)[1]
    assert second["report"]["span"]["votes_before"] == first["report"]["span"]["votes"] > 0
    assert second["report"]["exploration"]["votes"] > first["report"]["exploration"]["votes"] > 0
    forget_reports(database)
    assert make_weekly_reports(database, FIRST + 2 * WEEK) == 1
    assert reports(database) == [second]


@pytest.mark.parametrize("kept", ["report_sums", "checkpoints"])
def test_either_of_the_two_may_be_missing(database, arena, kept):
    with connect(database) as connection:
        sums = connection.execute("SELECT * FROM report_sums").fetchall()
    assert make_weekly_reports(database, FIRST + 2 * WEEK) == 1
    second = reports(database)[1]
    forget_reports(database, kept)
    if kept == "report_sums":
        with connect(database) as connection:
            connection.execute("DELETE FROM report_sums")
            connection.execute("INSERT INTO report_sums VALUES (%s, %s, %s, %s, %s)", sums[0])
    assert make_weekly_reports(database, FIRST + 2 * WEEK) == 1
    assert reports(database) == [second]


def test_votes_of_an_earlier_week_that_were_excluded_since_are_left_out(database, arena):
    with connect(database) as connection:
        connection.execute(
            "WITH made AS (INSERT INTO exclusions (arena, reason, excluded) VALUES (%s, 'a test', 3) "
            "RETURNING exclusion) INSERT INTO excluded_votes SELECT exclusion, %s, 0, serial FROM made, "
            "generate_series(0, 9) AS serial",
            (arena.arena, arena.arena),
        )
    first = reports(database)[0]["report"]
    assert make_weekly_reports(database, FIRST + 2 * WEEK) == 1
    second = reports(database)[1]
    assert second["report"]["span"]["votes_before"] < first["span"]["votes"]
    forget_reports(database)
    assert make_weekly_reports(database, FIRST + 2 * WEEK) == 1
    assert reports(database) == [second]


def test_an_earlier_week_is_not_reported_from_the_sums_of_a_later_one(database, arena):
    first = reports(database)[0]
    assert make_weekly_reports(database, FIRST + 2 * WEEK) == 1
    with connect(database) as connection:
        connection.execute("DELETE FROM reports")
    assert make_weekly_reports(database, FIRST + WEEK) == 1
    assert reports(database) == [first]


def test_a_week_without_an_event_is_reported(database, arena):
    assert make_weekly_reports(database, FIRST + 2 * WEEK) == 1
    assert make_weekly_reports(database, FIRST + 3 * WEEK) == 1
    last = reports(database)[2]["report"]
    assert (last["span"]["events"], last["matchups"]["votes"]) == (0, 0)
    assert last["span"]["votes_before"] == last["span"]["votes"]
