"""Scheduled work, as it is told: done, failed, late; and reports that should be there."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from support.live_arenas import make_arena
from support.rewritten_logs import allow_rewriting
from tiltyard.arena.boards.weekly_reports import ReportSummary
from tiltyard.arena.content.arenas import find_arena
from tiltyard.arena.operators.job_status import (
    JOB_PLANS,
    ScheduledJob,
    last_whole_week,
    list_jobs,
    report_is_late,
)
from tiltyard.arena.operators.schedule_status import ScheduledRun, keep_failure, read_failures
from tiltyard.core.policy.state.policy import Policy
from tiltyard.jobs.schedule import JobFailure
from tiltyard.postgres.connections import connect, connect_async

NOW = datetime(2026, 11, 18, 12, 30, tzinfo=UTC)
LAST = datetime(2026, 11, 18, 12, 7, tzinfo=UTC)


@pytest.mark.parametrize("state", ["done", "failed", "running", "waiting"])
def test_work_that_was_begun_in_time_is_told_as_it_went(state: str):
    ticks = {"weekly-reports": ScheduledRun("weekly-reports", LAST, state)}
    assert list_jobs("arena", ticks, {}, NOW)[0] == ScheduledJob("weekly-reports", LAST, state)


@pytest.mark.parametrize(
    ("now", "moment", "state"),
    [
        (NOW, LAST - timedelta(hours=1), "late"),
        (LAST + timedelta(minutes=10), LAST - timedelta(hours=1), "done"),
        (LAST + timedelta(minutes=16), LAST - timedelta(hours=1), "late"),
        (LAST + timedelta(minutes=16), LAST, "done"),
    ],
)
def test_work_is_late_once_nobody_has_begun_it_for_a_while(now: datetime, moment: datetime, state: str):
    job = list_jobs("arena", {"weekly-reports": ScheduledRun("weekly-reports", moment, "done")}, {}, now)[0]
    assert (job.state, job.due) == (state, LAST if state == "late" else moment)


def test_work_that_was_never_done_is_late_and_other_arenas_judges_are_not_told():
    judges = {f"judges-{name}": ScheduledRun(f"judges-{name}", LAST, "failed") for name in ("one", "two")}
    found = list_jobs("one", judges, {}, NOW)
    assert [(one.name, one.state) for one in found] == [(name, "late") for name in JOB_PLANS] + [
        ("judges", "failed")
    ]
    assert found[1].due == datetime(2026, 11, 18, 3, 23, tzinfo=UTC)


def test_a_failure_says_why_and_when_it_is_tried_again(database: str):
    later = LAST + timedelta(hours=1)
    failure = JobFailure("weekly-reports", LAST, "the disk is full\0; free some", later)
    for _ in range(2):
        keep_failure(database, failure)

    async def read() -> dict[str, JobFailure]:
        async with await connect_async(database) as connection:
            return await read_failures(connection)

    failures = asyncio.run(read())
    ticks = {"weekly-reports": ScheduledRun("weekly-reports", LAST, "failed")}
    job = list_jobs("arena", ticks, failures, NOW)[0]
    assert (job.problem, job.retry_at) == ("the disk is full; free some", later)
    # Neither of another run, nor of one that has succeeded since.
    assert list_jobs(
        "arena", {"weekly-reports": replace(ticks["weekly-reports"], state="done")}, failures, NOW
    )[0] == ScheduledJob("weekly-reports", LAST, "done")
    other = {"weekly-reports": replace(failures["weekly-reports"], due_at=LAST - timedelta(hours=1))}
    assert list_jobs("arena", ticks, other, NOW)[0].problem is None


@pytest.mark.parametrize(("phase", "late"), [(4, True), (3, False)])
def test_a_report_is_late_where_one_was_due_and_none_was_made(database: str, phase: int, late: bool):
    asyncio.run(make_arena(database, policy=Policy(phase=phase)))
    now = datetime.now(UTC)
    since, until = last_whole_week(now + timedelta(days=7), "UTC")
    made = ReportSummary(since, until, 1, "", until)

    async def told(reports: list[ReportSummary], moment: datetime) -> bool:
        async with await connect_async(database) as connection:
            return await report_is_late(connection, await find_arena(connection, "arena"), reports, moment)

    assert not asyncio.run(told([], now)), "no week has ended since the arena was made"
    assert not asyncio.run(told([], until + timedelta(hours=2))), "it has a few hours"
    assert asyncio.run(told([], until + timedelta(hours=4))) == late
    assert not asyncio.run(told([made], until + timedelta(hours=4)))
    with connect(database) as connection:
        allow_rewriting(connection)
        connection.execute("UPDATE events SET at = at + interval '8 days'")
    assert not asyncio.run(told([], until + timedelta(hours=4))), "the policy had not come so far"
