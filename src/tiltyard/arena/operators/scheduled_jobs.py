"""Scheduled jobs: weekly reports, thinning out snapshots, deletions, admission of votes that waited, judging rounds.

Any number of processes may run them. A table has one row for each job; whoever claims a row runs the job, once for each
time it is due, in a process of its own, because folding millions of events again would slow down the rater. A claim is
a lease: a job whose process was killed is run again. Of the times that were missed while no process ran, the latest is
made up for. All times are those of the database.
"""

from __future__ import annotations

import asyncio
import logging
import multiprocessing
import os
import sys
import threading
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stderr
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from multiprocessing.process import BaseProcess
from pathlib import Path

import psycopg

from tiltyard.arena.boards.snapshots import thin_snapshots
from tiltyard.arena.boards.weekly_reports import is_reported, list_reportable_arenas
from tiltyard.arena.content.arenas import find_arena
from tiltyard.arena.content.blob_store import BlobStore
from tiltyard.arena.content.object_storage import open_configured_storage
from tiltyard.arena.judging.judge_voters import judge_arena, open_panel
from tiltyard.arena.log.buckets import fetch_rows
from tiltyard.arena.log.event_log import WaitingVote, append_batch
from tiltyard.arena.operators.job_status import JOB_PLANS, last_due, last_whole_week, next_due
from tiltyard.arena.operators.reported_week import report_arena
from tiltyard.arena.operators.stages import delete_due_arenas
from tiltyard.arena.operators.voter_data import delete_old_accounts, delete_old_texts, erase_absent_voters
from tiltyard.arena.operators.voters import FLAGGED_REASON, hold_flagged_voters
from tiltyard.client import AsyncClient
from tiltyard.errors import BadConfig, TiltyardError
from tiltyard.foundation.retries import Backoff, Retries
from tiltyard.postgres.connections import Connection, connect, open_pool, translate_errors
from tiltyard.postgres.statements import bucket_statement, statement
from tiltyard.settings.arena_judges import JudgeRound, load_judge_rounds
from tiltyard.settings.arena_settings import ArenaSettings
from tiltyard.settings.environment import Environment, read_environment

#: Environment variable with the path of the file of judging rounds.
ROUNDS_VARIABLE = "TILTYARD_JUDGE_ROUNDS"
#: When absent voters are erased: once a day, because logs are folded again.
_ABSENT_VOTERS_HOURS = frozenset({3})
#: Seconds before the first look at the table, so that what was missed does not slow down the start of the server;
#: seconds between two looks; and how long a claim lasts that is not renewed.
_FIRST_LOOK_SECONDS = 15.0
_LOOK_SECONDS = 2.0
_LEASE_DURATION = timedelta(minutes=2)
#: First and longest delay when the database is unavailable.
_FIRST_RETRY_SECONDS, _MAX_RETRY_SECONDS = 2.0, 60.0
#: Seconds that stopping waits for the database.
_STOP_WAIT_SECONDS = 10.0
#: Characters of an error that are stored.
_MAX_PROBLEM_CHARACTERS = 1000

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class Job:
    """A job and its cron schedule: five fields, or six with seconds first, in UTC.

    ``run`` is called with the database's URL and the due time. It must be idempotent, and known by name to another
    process.
    """

    name: str
    cron: str
    run: Callable[[str, datetime], object]
    #: Whether it runs in a process of its own, as everything must that may take longer than a moment.
    apart: bool = True


@contextmanager
def run_scheduled_jobs(url: str, environment: Environment) -> Iterator[None]:
    """Run all scheduled jobs in a thread and in processes until the end of the block."""
    jobs = [
        Job(name, plan.schedule, _JOB_FUNCTIONS[name], apart=name not in _SHORT_JOBS)
        for name, plan in JOB_PLANS.items()
    ]
    rounds = environment.variables.get(ROUNDS_VARIABLE)
    if rounds:
        jobs += [_judging_job(one, environment) for one in load_judge_rounds(Path(rounds))]
    stop = threading.Event()
    thread = threading.Thread(
        target=JobRunner(url, jobs).run, args=(stop,), name="scheduled jobs", daemon=True
    )
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(_STOP_WAIT_SECONDS)


class JobRunner:
    """Claims jobs that are due, and runs each in a process of its own."""

    def __init__(self, url: str, jobs: Sequence[Job]) -> None:
        self._url = url
        self._jobs = {job.name: job for job in jobs}
        self._values = {"process": uuid.uuid4().hex, "lease": _LEASE_DURATION}
        self._running: dict[str, BaseProcess] = {}
        self._retries = Retries(_LOG, "scheduled jobs", Backoff(_FIRST_RETRY_SECONDS, _MAX_RETRY_SECONDS))

    def run(self, stop: threading.Event) -> None:
        """Run jobs until stopped; what is interrupted is left to the next process. Retries if the database is away."""
        stop.wait(_FIRST_LOOK_SECONDS)
        while not stop.is_set():
            try:
                with (
                    connect(self._url, name="tiltyard jobs") as connection,
                    translate_errors("run scheduled jobs"),
                ):
                    connection.execute(statement("scheduled_jobs_add"), {"names": list(self._jobs)})
                    while not stop.is_set():
                        self._look(connection)
                        self._retries.succeeded()
                        stop.wait(_LOOK_SECONDS)
                    self._kill(list(self._running))
                    connection.execute(statement("scheduled_jobs_release"), self._values)
            except Exception as error:  # noqa: BLE001 - whatever it is, jobs must go on some time
                # Leases cannot be renewed.
                self._kill(list(self._running))
                stop.wait(self._retries.failed(error))

    def _look(self, connection: psycopg.Connection) -> None:
        """Note which jobs have ended, renew the leases of the others, and start one that is due."""
        for name, process in list(self._running.items()):
            if not process.is_alive():
                # A process that failed has said why, unless it was killed.
                problem = f"it ended with code {process.exitcode}" if process.exitcode else None
                self._finish(connection, name, problem)
                self._kill([name])
        if self._running:
            values = {"names": list(self._running), **self._values}
            renewed = {row[0] for row in connection.execute(statement("scheduled_jobs_renew"), values)}
            self._kill([name for name in self._running if name not in renewed])
        row = connection.execute("SELECT now()").fetchone()
        assert row is not None
        due = {
            "names": list(self._jobs),
            "due_at": [last_due(job.cron, row[0]) for job in self._jobs.values()],
            "retry_at": [next_due(job.cron, row[0]) for job in self._jobs.values()],
        }
        # One in a look, so that those that were missed do not all start at once.
        claimed = connection.execute(statement("scheduled_jobs_claim"), {**due, **self._values}).fetchone()
        if claimed is not None:
            name, due_at = claimed
            if self._jobs[name].apart:
                self._running[name] = self._start(name, due_at)
            else:
                self._finish(connection, name, _attempt(self._jobs[name], self._url, due_at))

    def _finish(self, connection: psycopg.Connection, name: str, problem: str | None) -> None:
        if problem is not None:
            _LOG.error("scheduled job %s failed: %s", name, problem)
        values = {"name": name, "problem": problem, **self._values}
        connection.execute(statement("scheduled_jobs_finish"), values)

    def _start(self, name: str, due_at: datetime) -> BaseProcess:
        arguments = (self._jobs[name], self._url, due_at, self._values)
        process = multiprocessing.get_context("spawn").Process(target=_run_job, args=arguments)
        process.start()
        return process

    def _kill(self, names: Sequence[str]) -> None:
        for name in names:
            process = self._running.pop(name)
            process.kill()
            process.join()


def _run_job(job: Job, url: str, due_at: datetime, values: dict[str, object]) -> None:
    """Run a job in this process, which ends with its parent, and store why it failed."""
    parent = multiprocessing.parent_process()
    assert parent is not None

    def exit_with_parent() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=exit_with_parent, daemon=True).start()
    # What libraries print may be private.
    with Path(os.devnull).open("w") as nowhere, redirect_stderr(nowhere):
        problem = _attempt(job, url, due_at)
    if problem is not None:
        with connect(url, name="tiltyard jobs") as connection:
            connection.execute(
                statement("scheduled_jobs_finish"), {"name": job.name, "problem": problem, **values}
            )
        sys.exit(1)


def _attempt(job: Job, url: str, due_at: datetime) -> str | None:
    try:
        job.run(url, due_at)
    except Exception as error:  # noqa: BLE001 - every error is stored
        kind = "" if isinstance(error, TiltyardError) else f"{type(error).__name__}: "
        problem = kind + str(error).partition("\n")[0]
        return problem[:_MAX_PROBLEM_CHARACTERS].replace("\0", "")
    return None


def make_weekly_reports(url: str, moment: datetime) -> int:
    """Make the report of the last week for every arena that has reports; return how many were made.

    If votes of the week are not final yet, the arena is left for the next run.
    """
    made = 0
    with connect(url, name="tiltyard reports") as connection:
        for arena in list_reportable_arenas(connection):
            since, until = last_whole_week(moment, arena.settings.timezone)
            if arena.created_at < until and not is_reported(connection, arena.arena, since, until):
                made += report_arena(connection, arena, since, until)
    return made


def admit_waiting_votes(url: str, moment: datetime | None = None) -> int:
    """Hold whom a test of voters flags, then admit votes that have waited long enough; return how many.

    Every minute where a few votes move ranks; each of the other arenas in one of ten minutes, or now without a moment.
    """
    turn = None if moment is None else moment.minute % 10

    async def admitting() -> int:
        admitted = 0
        async with (
            open_pool(url, most=2, name="tiltyard admissions") as pool,
            pool.connection() as used,
        ):
            for name, arena, hours in await _waiting_arenas(used, turn):
                if hours:
                    await hold_flagged_voters(pool, await find_arena(used, name))
                while (count := await admit_votes(used, arena, hours)) > 0:
                    admitted += count
        return admitted

    return asyncio.run(admitting())


def _thin(url: str, moment: datetime) -> None:
    with connect(url, name="tiltyard thinning") as connection:
        thin_snapshots(connection, moment)


def _sweep(url: str, _moment: datetime) -> None:
    """Delete the bytes of withdrawn responses that a crash left behind."""
    object_storage = open_configured_storage(read_environment())

    async def sweeping() -> None:
        async with open_pool(url, most=2, name="tiltyard sweeping") as pool:
            await BlobStore(pool, object_storage).sweep()

    asyncio.run(sweeping())


def _delete_arenas(url: str, moment: datetime) -> None:
    object_storage = open_configured_storage(read_environment())

    async def deleting() -> None:
        async with open_pool(url, most=2, name="tiltyard deleting") as pool:
            await delete_due_arenas(pool, BlobStore(pool, object_storage), moment)

    asyncio.run(deleting())


def _delete_texts(url: str, moment: datetime) -> None:
    """Delete texts and absent voters that their arenas do not keep any longer, and hashes of addresses."""

    async def deleting() -> None:
        async with open_pool(url, most=1, name="tiltyard retention") as pool:
            await delete_old_texts(pool, moment)
            await delete_old_accounts(pool, moment)
            if moment.hour in _ABSENT_VOTERS_HOURS:
                await erase_absent_voters(pool, moment)

    asyncio.run(deleting())


_JOB_FUNCTIONS: dict[str, Callable[[str, datetime], object]] = {
    "weekly-reports": make_weekly_reports,
    "thin-snapshots": _thin,
    "sweep-bytes": _sweep,
    "delete-arenas": _delete_arenas,
    "delete-live-texts": _delete_texts,
    "admit-votes": admit_waiting_votes,
}
#: Too short, and too often, for a process of their own.
_SHORT_JOBS = frozenset({"admit-votes"})


def _judging_job(one: JudgeRound, environment: Environment) -> Job:
    from croniter import croniter  # type: ignore[import-untyped]

    token = environment.variables.get(one.token_env, "").strip()
    if not token:
        raise BadConfig(
            f"the judges of the arena {one.arena} need a token: set {one.token_env} to one with the scope judge "
            "(tiltyard arena token create NAME --scope judge)"
        )
    if not croniter.is_valid(one.cron, second_at_beginning=True):
        raise BadConfig(
            f"the judges of the arena {one.arena}: {one.cron!r} is not a cron expression; expected e.g. 7 * * * *"
        )
    return Job(f"judges-{one.arena}", one.cron, partial(_judge, one, token))


def _judge(one: JudgeRound, token: str, _url: str, _moment: datetime) -> None:
    async def judging() -> None:
        async with AsyncClient(one.url, token=token) as client:
            panel = open_panel(Path(one.config))
            await judge_arena(panel, [client], one.arena, place=one.url, matchups=one.matchups)

    asyncio.run(judging())


#: A new voter need not wait any longer after so many votes over so long a time.
CHECKED_VOTE_COUNT = 20
CHECKED_MINUTES = 60
#: Votes that are admitted in one batch; voters wait as long as it takes.
_BATCH_VOTE_LIMIT = 500


async def admit_votes(
    connection: Connection, arena: int, hours: float, *, limit: int = _BATCH_VOTE_LIMIT
) -> int:
    """Admit votes whose voters have waited so many hours or passed the checks, the oldest first; return how many."""
    async with append_batch(connection, arena) as batch:
        values = {
            "arena": arena,
            "horizon": batch.horizon,
            "now": batch.now,
            "hours": hours,
            "votes": CHECKED_VOTE_COUNT,
            "minutes": CHECKED_MINUTES,
            "reason": FLAGGED_REASON,
            "limit": limit,
        }
        found = await connection.execute(bucket_statement("admissions_due", batch.bucket), values)
        rows = await found.fetchall()
        for row in rows:
            batch.admit(WaitingVote(*row))
    return len(rows)


async def _waiting_arenas(connection: Connection, turn: int | None) -> list[tuple[str, int, float]]:
    """Arenas in which votes wait or may be looked at, by name and number, and for how many hours."""
    buckets = await fetch_rows(connection, "raters_buckets", {})
    rows = []
    for (bucket,) in buckets:
        text = bucket_statement("admissions_arenas", bucket)
        rows += await (await connection.execute(text, {"bucket": bucket, "turn": turn})).fetchall()
    return [(name, int(arena), ArenaSettings.kept(saved).waiting_hours) for name, arena, saved in rows]
