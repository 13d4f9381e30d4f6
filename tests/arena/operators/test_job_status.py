"""Scheduled work, as it is told: done, failed, late; and reports that should be there."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from support.live_arenas import make_arena
from support.rewritten_logs import allow_rewriting
from tiltyard.arena.content.arenas import find_arena
from tiltyard.arena.operators.job_status import (
    JOB_PLANS,
    ScheduledJob,
    last_whole_week,
    list_jobs,
    report_is_late,
)
from tiltyard.core.policy.state.policy import Policy
from tiltyard.postgres.connections import connect, connect_async
from tiltyard.wire.arenas import ReportInfo

NOW = datetime(2026, 11, 18, 12, 30, tzinfo=UTC)
LAST = datetime(2026, 11, 18, 12, 7, tzinfo=UTC)


def jobs(database: str, arena: str, now: datetime, *rows: str) -> list[ScheduledJob]:
    """The jobs of a table with these rows: name, due, end, problem and next time."""

    async def reading() -> list[ScheduledJob]:
        async with await connect_async(database) as connection:
            await connection.execute("DELETE FROM scheduled_jobs")
            for row in rows:
                await connection.execute(
                    f"INSERT INTO scheduled_jobs (name, due_at, finished_at, problem, retry_at) VALUES ({row})"
                )
            return await list_jobs(connection, arena, now)

    return asyncio.run(reading())


REPORTS = f"'weekly-reports', '{LAST}'"
LATER = LAST + timedelta(hours=1)


@pytest.mark.parametrize(
    ("rest", "state", "problem"),
    [
        ("now(), NULL", "done", None),
        ("NULL, NULL", "running", None),
        ("now(), 'the disk is full'", "failed", "the disk is full"),
    ],
)
def test_work_that_was_begun_in_time_is_told_as_it_went(
    database: str, rest: str, state: str, problem: str | None
):
    found = jobs(database, "arena", NOW, f"{REPORTS}, {rest}, '{LATER}'")
    assert found[0] == ScheduledJob("weekly-reports", LAST, state, problem, LATER)


@pytest.mark.parametrize(
    ("now", "moment", "state"),
    [
        (NOW, LAST - timedelta(hours=1), "late"),
        (LAST + timedelta(minutes=10), LAST - timedelta(hours=1), "done"),
        (LAST + timedelta(minutes=16), LAST - timedelta(hours=1), "late"),
        (LAST + timedelta(minutes=16), LAST, "done"),
    ],
)
def test_work_is_late_once_nobody_has_begun_it_for_a_while(
    database: str, now: datetime, moment: datetime, state: str
):
    job = jobs(database, "arena", now, f"'weekly-reports', '{moment}', now(), NULL, '{LATER}'")[0]
    assert (job.state, job.due) == (state, LAST if state == "late" else moment)


def test_work_that_was_never_done_is_late_and_other_arenas_judges_are_not_told(database: str):
    judges = [f"'judges-{name}', '{LAST}', now(), 'why', '{LATER}'" for name in ("one", "two")]
    found = jobs(database, "one", NOW, *judges, "'admit-votes', NULL, NULL, NULL, NULL")
    assert [(one.name, one.state) for one in found] == [(name, "late") for name in JOB_PLANS] + [
        ("judges", "failed")
    ]
    assert found[1].due == datetime(2026, 11, 18, 3, 23, tzinfo=UTC)


def test_a_report_is_late_where_one_was_due_and_none_was_made(database: str):
    asyncio.run(make_arena(database, policy=Policy(phase=1)))
    now = datetime.now(UTC)
    since, until = last_whole_week(now + timedelta(days=7), "UTC")
    made = ReportInfo("", since, until, 1, until)

    async def told(reports: list[ReportInfo], moment: datetime) -> bool:
        async with await connect_async(database) as connection:
            return await report_is_late(connection, await find_arena(connection, "arena"), reports, moment)

    assert not asyncio.run(told([], now)), "no week has ended since the arena was made"
    assert not asyncio.run(told([], until + timedelta(hours=2))), "it has a few hours"
    assert asyncio.run(told([], until + timedelta(hours=4)))
    assert not asyncio.run(told([made], until + timedelta(hours=4)))
    with connect(database) as connection:
        allow_rewriting(connection)
        connection.execute("UPDATE events SET at = at + interval '8 days'")
    assert not asyncio.run(told([], until + timedelta(hours=4))), "the log had not begun"
