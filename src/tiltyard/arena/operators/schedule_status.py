"""The latest run of each schedule, as recorded by DBOS."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from tiltyard.jobs.engine import queue_of
from tiltyard.jobs.schedule import RUN, JobFailure
from tiltyard.postgres.connections import Connection, connect, translate_errors
from tiltyard.postgres.statements import statement

__all__ = ["ScheduledRun", "keep_failure", "read_failures", "read_ticks"]

#: Characters of an error that are stored.
_MAX_PROBLEM_CHARACTERS = 1000

_KNOWN = "SELECT to_regclass('dbos.workflow_status') IS NOT NULL"
#: Ticks of the last weeks, by the names that schedules give them. Only columns that DBOS documents: where it keeps
#: errors has changed before.
_LATEST = """
SELECT DISTINCT ON (name) name, moment, status
FROM (
    SELECT substr(split_part(workflow_uuid, ':', 1), length(%(prefix)s) + 1) AS name,
           split_part(workflow_uuid, ':', 2)::bigint AS moment, status
    FROM dbos.workflow_status
    WHERE queue_name = %(queue)s AND starts_with(workflow_uuid, %(prefix)s)
        AND created_at > 1000 * extract(epoch FROM now() - interval '40 days')
) ticks
ORDER BY name, moment DESC
"""
_STATES = {"SUCCESS": "done", "ENQUEUED": "waiting", "DELAYED": "waiting", "PENDING": "running"}


@dataclass(frozen=True, slots=True)
class ScheduledRun:
    """One run of a schedule: ``waiting``, ``running``, ``done`` or ``failed``."""

    name: str
    moment: datetime
    state: str


def keep_failure(url: str, failure: JobFailure) -> None:
    """Store why a job failed."""
    values = {
        "name": failure.name,
        "due_at": failure.due_at,
        "problem": failure.problem[:_MAX_PROBLEM_CHARACTERS].replace("\0", ""),
        "retry_at": failure.retry_at,
    }
    with connect(url, name="tiltyard schedule") as connection, translate_errors("store why a job failed"):
        connection.execute(statement("job_failures_keep"), values)


async def read_failures(connection: Connection) -> dict[str, JobFailure]:
    """Why each job failed last, by the name of its schedule."""
    with translate_errors("read why scheduled work failed"):
        rows = await (await connection.execute(statement("job_failures_list"))).fetchall()
    return {row[0]: JobFailure(*row) for row in rows}


async def read_ticks(connection: Connection) -> dict[str, ScheduledRun]:
    """The latest run by schedule name; empty if this database has never run a schedule."""
    with translate_errors("read how scheduled work went"):
        row = await (await connection.execute(_KNOWN)).fetchone()
        if row is None or not row[0]:
            return {}
        values = {"queue": queue_of(RUN), "prefix": f"{RUN}/"}
        rows = await (await connection.execute(_LATEST, values)).fetchall()
    return {
        name: ScheduledRun(name, datetime.fromtimestamp(moment, UTC), _STATES.get(status, "failed"))
        for name, moment, status in rows
    }
