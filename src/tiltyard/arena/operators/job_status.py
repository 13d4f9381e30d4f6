"""Status of scheduled jobs for the operator: done, running, failed or late."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import NamedTuple
from zoneinfo import ZoneInfo

from tiltyard.arena.boards.weekly_reports import ReportSummary, read_method
from tiltyard.arena.content.arenas import Arena
from tiltyard.arena.operators.schedule_status import ScheduledRun
from tiltyard.core.policy.state.rating_fold import method_from_dict
from tiltyard.jobs.schedule import JobFailure, Schedule
from tiltyard.postgres.connection_pool import Connection


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
    "admit-votes": JobPlan("Votes of new voters that have waited long enough", "*/10 * * * *"),
}
#: The first phase of the policy that has weekly reports.
FIRST_REPORTED_PHASE = 4
#: A job not started this long after it was due is late, and so is a report this long after its week.
_LATE_START_DURATION = timedelta(minutes=15)
_LATE_REPORT_DURATION = timedelta(hours=3)
_WEEK_DURATION = timedelta(days=7)


@dataclass(frozen=True, slots=True)
class ScheduledJob:
    """A scheduled job: when it was last due, and ``done``, ``running``, ``waiting``, ``failed`` or ``late``."""

    name: str
    due: datetime
    state: str
    #: Why it failed, and when it is tried again; ``None`` if it did not fail, or that was not stored.
    problem: str | None = None
    retry_at: datetime | None = None

    @property
    def title(self) -> str:
        """What it does."""
        return JOB_PLANS[self.name].title if self.name in JOB_PLANS else "Judging round of this arena"


def list_jobs(
    arena: str, ticks: Mapping[str, ScheduledRun], failures: Mapping[str, JobFailure], now: datetime
) -> list[ScheduledJob]:
    """The server's scheduled jobs, and the arena's judging round if it has judges."""
    found = [
        _explained(_job(name, plan.schedule, ticks.get(name), now), failures.get(name))
        for name, plan in JOB_PLANS.items()
    ]
    judges = ticks.get(f"judges-{arena}")
    if judges is not None:
        job = ScheduledJob("judges", judges.moment, judges.state)
        found.append(_explained(job, failures.get(f"judges-{arena}")))
    return found


async def report_is_late(
    connection: Connection, arena: Arena, reports: Sequence[ReportSummary], now: datetime
) -> bool:
    """Whether the report of the last week is overdue."""
    _, until = last_whole_week(now - _LATE_REPORT_DURATION, arena.settings.timezone)
    if arena.created_at >= until or any(one.until >= until for one in reports):
        return False
    method = await read_method(connection, arena.arena, until)
    return method is not None and method_from_dict(method)[0].phase >= FIRST_REPORTED_PHASE


def last_whole_week(moment: datetime, timezone: str) -> tuple[datetime, datetime]:
    """The last whole week that had ended at a moment, from Monday to Monday in a timezone."""
    zone = ZoneInfo(timezone)
    today = moment.astimezone(zone).date()
    monday = today - timedelta(days=today.weekday())
    first, last = (
        datetime(day.year, day.month, day.day, tzinfo=zone) for day in (monday - _WEEK_DURATION, monday)
    )
    return first.astimezone(UTC), last.astimezone(UTC)


def _job(name: str, cron: str, tick: ScheduledRun | None, now: datetime) -> ScheduledJob:
    due = Schedule(name, cron, lambda _moment: None).due(now - _LATE_START_DURATION)
    if tick is None or tick.moment < due:
        return ScheduledJob(name, due, "late")
    return ScheduledJob(name, tick.moment, tick.state)


def _explained(job: ScheduledJob, failure: JobFailure | None) -> ScheduledJob:
    """The job with the reason why it failed, if that is known of this run."""
    if job.state != "failed" or failure is None or failure.due_at != job.due:
        return job
    return replace(job, problem=failure.problem, retry_at=failure.retry_at)
