"""Scheduled jobs for the operator: when each is due, and whether it is done, running, failed or late."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import NamedTuple
from zoneinfo import ZoneInfo

from tiltyard.arena.boards.weekly_reports import read_method
from tiltyard.arena.content.arenas import Arena
from tiltyard.arena.log.buckets import fetch_rows
from tiltyard.postgres.connections import Connection
from tiltyard.wire.arenas import ReportInfo


class JobPlan(NamedTuple):
    """What a job of the server does, and its cron schedule."""

    title: str
    schedule: str


#: Reports are attempted every hour, because weeks end at different times in different timezones, and to retry failures.
JOB_PLANS: Mapping[str, JobPlan] = {
    "weekly-reports": JobPlan("Weekly reports of all arenas", "7 * * * *"),
    "thin-snapshots": JobPlan("Thinning out old boards", "23 3 * * *"),
    "sweep-bytes": JobPlan("Deletion of withdrawn files", "41 3 * * *"),
    "delete-arenas": JobPlan("Deletion of arenas that are due", "17 * * * *"),
    "delete-live-texts": JobPlan("Deletion of texts and hashes of addresses that are due", "53 * * * *"),
    "admit-votes": JobPlan("Tests of voters, and votes that have waited long enough", "* * * * *"),
}
#: A job not started this long after it was due is late, and so is a report this long after its week.
_LATE_START_DURATION = timedelta(minutes=15)
_LATE_REPORT_DURATION = timedelta(hours=3)


@dataclass(frozen=True, slots=True)
class ScheduledJob:
    """A scheduled job: when it was last due, and ``done``, ``running``, ``failed`` or ``late``."""

    name: str
    due: datetime
    state: str
    #: Why it failed, and when it is tried again.
    problem: str | None = None
    retry_at: datetime | None = None

    @property
    def title(self) -> str:
        return JOB_PLANS[self.name].title if self.name in JOB_PLANS else "Judging round of this arena"


def last_due(cron: str, now: datetime) -> datetime:
    """The latest due time that is not after ``now``."""
    from croniter import croniter  # type: ignore[import-untyped]

    after = now.astimezone(UTC).replace(microsecond=0) + timedelta(seconds=1)
    moment: datetime = croniter(cron, after, second_at_beginning=True).get_prev(datetime)
    return moment


def next_due(cron: str, now: datetime) -> datetime:
    """The first due time after ``now``."""
    from croniter import croniter

    moment: datetime = croniter(cron, now.astimezone(UTC), second_at_beginning=True).get_next(datetime)
    return moment


async def list_jobs(connection: Connection, arena: str, now: datetime) -> list[ScheduledJob]:
    """The server's scheduled jobs, and the arena's judging round if it has judges."""
    rows = await fetch_rows(connection, "scheduled_jobs_list", {})
    known = {row[0]: ScheduledJob(*row) for row in rows}
    found = []
    for name, plan in JOB_PLANS.items():
        due = last_due(plan.schedule, now - _LATE_START_DURATION)
        job = known.get(name)
        found.append(ScheduledJob(name, due, "late") if job is None or job.due < due else job)
    judges = known.get(f"judges-{arena}")
    if judges is not None:
        found.append(ScheduledJob("judges", judges.due, judges.state, judges.problem, judges.retry_at))
    return found


async def report_is_late(
    connection: Connection, arena: Arena, reports: Sequence[ReportInfo], now: datetime
) -> bool:
    """Whether the report of the last week is overdue."""
    _, until = last_whole_week(now - _LATE_REPORT_DURATION, arena.settings.timezone)
    if arena.created_at >= until or any(one.until >= until for one in reports):
        return False
    return await read_method(connection, arena.arena, until) is not None


def last_whole_week(moment: datetime, timezone: str) -> tuple[datetime, datetime]:
    """The last whole week that had ended at a moment, from Monday to Monday in a timezone."""
    zone = ZoneInfo(timezone)
    today = moment.astimezone(zone).date()
    monday = today - timedelta(days=today.weekday())
    first, last = (
        datetime(day.year, day.month, day.day, tzinfo=zone) for day in (monday - timedelta(weeks=1), monday)
    )
    return first.astimezone(UTC), last.astimezone(UTC)
