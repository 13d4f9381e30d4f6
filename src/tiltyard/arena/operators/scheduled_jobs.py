"""Scheduled jobs: weekly reports, thinning out snapshots, deletions, admission of votes that waited, judging rounds.

Each runs once for each time it is due, in any of the processes. The heavy part runs
as a separate program (``python -m tiltyard.arena.operators.scheduled_jobs``): folding millions of events again
would slow down the rater in the same process.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TypedDict

from tiltyard.arena.boards.snapshots import thin_snapshots
from tiltyard.arena.boards.weekly_reports import is_reported, list_reportable_arenas
from tiltyard.arena.content.blob_store import BlobStore
from tiltyard.arena.content.object_storage import open_configured_storage
from tiltyard.arena.judging.judge_panel import open_panel
from tiltyard.arena.judging.judge_voters import judge_arena
from tiltyard.arena.operators.arena_deletion import delete_due_arenas
from tiltyard.arena.operators.data_retention import delete_old_accounts, delete_old_texts
from tiltyard.arena.operators.job_status import JOB_PLANS, last_whole_week
from tiltyard.arena.operators.reported_week import report_arena
from tiltyard.arena.operators.schedule_status import keep_failure
from tiltyard.arena.operators.session_erasure import erase_absent_voters
from tiltyard.arena.voting.admissions import admit_due_votes
from tiltyard.client import AsyncClient
from tiltyard.errors import BadConfig, TiltyardError
from tiltyard.jobs.schedule import Schedule, run_schedules
from tiltyard.postgres.connections import connect, open_pool
from tiltyard.settings.arena_judges import JudgeRound, load_judge_rounds
from tiltyard.settings.environment import Environment, read_environment

__all__ = ["ROUNDS_VARIABLE", "admit_waiting_votes", "make_weekly_reports", "run_scheduled_jobs"]

#: Environment variable with the path of the file of judging rounds.
ROUNDS_VARIABLE = "TILTYARD_JUDGE_ROUNDS"
#: When absent voters are erased: once a day, because logs are folded again.
_ABSENT_VOTERS_HOURS = frozenset({3})


@contextmanager
def run_scheduled_jobs(url: str, environment: Environment) -> Iterator[None]:
    """Run all scheduled jobs until the end of the block."""
    job_processes = _JobProcesses(url)
    schedules = [
        Schedule(
            "weekly-reports",
            JOB_PLANS["weekly-reports"].schedule,
            lambda moment: job_processes.run("reports", moment),
        ),
        Schedule(
            "thin-snapshots",
            JOB_PLANS["thin-snapshots"].schedule,
            lambda moment: job_processes.run("thinning", moment),
        ),
        Schedule(
            "sweep-bytes",
            JOB_PLANS["sweep-bytes"].schedule,
            lambda moment: job_processes.run("sweeping", moment),
        ),
        Schedule(
            "delete-arenas",
            JOB_PLANS["delete-arenas"].schedule,
            lambda moment: job_processes.run("deleting", moment),
        ),
        Schedule(
            "delete-live-texts",
            JOB_PLANS["delete-live-texts"].schedule,
            lambda moment: job_processes.run("retention", moment),
        ),
        # Short, and often: not worth a process of its own.
        Schedule("admit-votes", JOB_PLANS["admit-votes"].schedule, lambda _moment: _admit(url)),
    ]
    rounds = environment.variables.get(ROUNDS_VARIABLE)
    if rounds:
        schedules += [_round(one, environment, job_processes) for one in load_judge_rounds(Path(rounds))]
    try:
        with run_schedules(url, schedules, partial(keep_failure, url)):
            try:
                yield
            finally:
                job_processes.stop()
    finally:
        job_processes.stop()


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


def admit_waiting_votes(url: str) -> int:
    """Admit votes of new voters that have waited long enough, in all arenas; return how many."""

    async def admitting() -> int:
        async with open_pool(url, most=1, name="tiltyard admissions") as pool:
            return await admit_due_votes(pool)

    return asyncio.run(admitting())


def _admit(url: str) -> None:
    admit_waiting_votes(url)


class _Judging(TypedDict, total=False):
    """What a round of judges needs besides."""

    #: The fields of a `JudgeRound`.
    round: dict[str, object]
    token: str


class _JobOrder(_Judging):
    """What a process of its own reads from standard input."""

    work: str
    url: str
    moment: str


class _JobProcesses:
    """Runs jobs in child processes, which are terminated when this process stops."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._turn = threading.Lock()
        self._running: set[subprocess.Popen[str]] = set()
        self._stopped = False

    def run(self, work: str, moment: datetime, judging: _Judging | None = None) -> None:
        """Run a job and wait for it; raise if it fails."""
        with self._turn:
            if self._stopped:
                raise TiltyardError(f"{work} was not started: the server is stopping")
            process = subprocess.Popen(
                [sys.executable, "-m", "tiltyard.arena.operators.scheduled_jobs"],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
            )
            self._running.add(process)
        try:
            # Sent by standard input, because other users can see the arguments of a process.
            order: _JobOrder = {
                "work": work,
                "url": self._url,
                "moment": moment.isoformat(),
                **(judging or {}),
            }
            _, problem = process.communicate(json.dumps(order))
        finally:
            with self._turn:
                self._running.discard(process)
        if process.returncode:
            said = problem.strip().rpartition("\n")[2]
            raise TiltyardError(f"{work} ended with code {process.returncode}: {said}")

    def stop(self) -> None:
        """Terminate running jobs and start no more."""
        with self._turn:
            self._stopped = True
            for process in self._running:
                process.kill()


def _round(one: JudgeRound, environment: Environment, job_processes: _JobProcesses) -> Schedule:
    """The scheduled judging round of one arena."""
    token = environment.variables.get(one.token_env, "").strip()
    if not token:
        raise BadConfig(
            f"the judges of the arena {one.arena} need a token: set {one.token_env} to one with the scope judge "
            "(tiltyard token create NAME --scope judge)"
        )
    judging: _Judging = {"round": one.model_dump(), "token": token}
    return Schedule(
        f"judges-{one.arena}", one.cron, lambda moment: job_processes.run("judges", moment, judging)
    )


def _judge(order: _JobOrder) -> None:
    one = JudgeRound.model_validate(order["round"])

    async def judging() -> None:
        async with AsyncClient(one.url, token=order["token"]) as client:
            panel = open_panel(Path(one.config))
            await judge_arena(panel, [client], one.arena, place=one.url, matchups=one.matchups)

    asyncio.run(judging())


def _thin(order: _JobOrder) -> None:
    with connect(order["url"], name="tiltyard thinning") as connection:
        thin_snapshots(connection, datetime.fromisoformat(order["moment"]))


def _sweep(order: _JobOrder) -> None:
    """Delete the bytes of withdrawn responses that a crash left behind."""
    object_storage = open_configured_storage(read_environment())

    async def sweeping() -> None:
        async with open_pool(order["url"], most=2, name="tiltyard sweeping") as pool:
            await BlobStore(pool, object_storage).sweep()

    asyncio.run(sweeping())


def _delete(order: _JobOrder) -> None:
    """Delete arenas whose time to be restored has passed."""
    object_storage = open_configured_storage(read_environment())

    async def deleting() -> None:
        async with open_pool(order["url"], most=2, name="tiltyard deleting") as pool:
            await delete_due_arenas(
                pool, BlobStore(pool, object_storage), datetime.fromisoformat(order["moment"])
            )

    asyncio.run(deleting())


def _delete_texts(order: _JobOrder) -> None:
    """Delete texts and absent voters that their arenas do not keep any longer, and hashes of addresses."""

    async def deleting() -> None:
        async with open_pool(order["url"], most=1, name="tiltyard retention") as pool:
            moment = datetime.fromisoformat(order["moment"])
            await delete_old_texts(pool, moment)
            await delete_old_accounts(pool, moment)
            if moment.hour in _ABSENT_VOTERS_HOURS:
                await erase_absent_voters(pool, moment)

    asyncio.run(deleting())


def _report_weeks(order: _JobOrder) -> None:
    make_weekly_reports(order["url"], datetime.fromisoformat(order["moment"]))


_JOB_FUNCTIONS: Mapping[str, Callable[[_JobOrder], None]] = {
    "reports": _report_weeks,
    "thinning": _thin,
    "sweeping": _sweep,
    "deleting": _delete,
    "retention": _delete_texts,
    "judges": _judge,
}


def main() -> None:
    """Run the job described on standard input; an error is one line on standard error."""
    order: _JobOrder = json.load(sys.stdin)
    try:
        _JOB_FUNCTIONS[order["work"]](order)
    except TiltyardError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
