"""Scheduled jobs: each due time is processed once, by any of the running processes.

A tick is a shard whose number is its due time, so that the guarantees of the engine apply: no two live
workers process the same tick, the tick of a dead worker is requeued, and a finished tick is not repeated.
Of the ticks missed while no process was running, only the latest is made up for. (DBOS's own schedules make
up for all of them or for none.)
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from importlib.util import find_spec
from zoneinfo import ZoneInfo

from tiltyard.errors import BadOption, MissingExtra, TiltyardError
from tiltyard.foundation.retries import Backoff, Retries
from tiltyard.jobs.engine import Engine, open_engine
from tiltyard.jobs.shards import Shard

__all__ = ["RUN", "JobFailure", "Schedule", "run_schedules"]

#: The run that all ticks belong to.
RUN = "schedule"
#: Interval of checking the clock.
_CLOCK_POLL_SECONDS = 0.25
#: Interval of checking for dead workers.
_RESUME_SECONDS = 2.0
#: First and longest delay of the exponential backoff when the database is unavailable.
_FIRST_RETRY_SECONDS, _MAX_RETRY_SECONDS = 2.0, 60.0
#: How long stopping waits for running jobs.
_STOP_WAIT_SECONDS = 30.0

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Schedule:
    """A job and its schedule. ``run`` is called with the due time and must be idempotent.

    ``cron`` has five fields (minute, hour, day, month, day of the week), or six with seconds first, in
    ``timezone``.
    """

    name: str
    cron: str
    run: Callable[[datetime], None]
    timezone: str = "UTC"

    def __post_init__(self) -> None:
        if find_spec("dbos") is None:
            raise MissingExtra("arena", "Scheduled work")
        from croniter import croniter  # type: ignore[import-untyped]

        if not self.name or ":" in self.name:
            raise BadOption(f"a schedule is named {self.name!r}; expected a name without ':'")
        if not croniter.is_valid(self.cron, second_at_beginning=True):
            raise BadOption(
                f"schedule {self.name}: {self.cron!r} is not a cron expression; expected e.g. 7 * * * *"
            )
        try:
            ZoneInfo(self.timezone)
        except (OSError, ValueError, KeyError):
            raise BadOption(
                f"schedule {self.name}: the timezone is {self.timezone!r}; expected e.g. UTC or Europe/Berlin"
            ) from None

    def due(self, now: datetime) -> datetime:
        """The latest due time that is not after ``now``."""
        from croniter import croniter

        after = now.replace(microsecond=0) + timedelta(seconds=1)
        moments = croniter(self.cron, after.astimezone(ZoneInfo(self.timezone)), second_at_beginning=True)
        moment: datetime = moments.get_prev(datetime)
        return moment.astimezone(UTC)

    def next_due(self, now: datetime) -> datetime:
        """The first due time after ``now``."""
        from croniter import croniter

        moments = croniter(self.cron, now.astimezone(ZoneInfo(self.timezone)), second_at_beginning=True)
        moment: datetime = moments.get_next(datetime)
        return moment.astimezone(UTC)


@dataclass(frozen=True, slots=True)
class JobFailure:
    """Why the job of a schedule failed, and when it is tried again."""

    name: str
    due_at: datetime
    problem: str
    retry_at: datetime


@contextlib.contextmanager
def run_schedules(
    database: str, schedules: Sequence[Schedule], on_failure: Callable[[JobFailure], None] | None = None
) -> Iterator[None]:
    """Run due jobs until the block is left; retries if the database is unavailable.

    ``on_failure`` is called in a thread with every job that failed.
    Raises `RuntimeError` if another engine is open in this process.
    """
    by_name = {schedule.name: schedule for schedule in schedules}
    if len(by_name) < len(schedules):
        raise BadOption("two schedules have the same name; names must be unique")
    ticking = _ScheduleThread(database, by_name, on_failure)
    ticking.begin()
    try:
        yield
    finally:
        ticking.end()


class _ScheduleThread:
    """A thread that enqueues due jobs."""

    def __init__(
        self, database: str, schedules: dict[str, Schedule], on_failure: Callable[[JobFailure], None] | None
    ) -> None:
        self._database = database
        self._on_failure = on_failure
        self._schedules = schedules
        self._closing = threading.Event()
        self._retries = Retries(_log, "scheduled work", Backoff(_FIRST_RETRY_SECONDS, _MAX_RETRY_SECONDS))
        self._began: Future[None] = Future()
        self._thread = threading.Thread(target=self._live, name="tiltyard-schedule", daemon=True)

    def begin(self) -> None:
        """Start, and wait until the engine is open or the database has turned out to be unavailable."""
        self._thread.start()
        self._began.result()

    def end(self) -> None:
        self._closing.set()
        self._thread.join(_STOP_WAIT_SECONDS)

    def _live(self) -> None:
        while not self._closing.is_set():
            try:
                with open_engine(
                    self._database, None, self._work, run=RUN, parallel=len(self._schedules) + 1
                ) as engine:
                    self._has_begun()
                    self._retries.succeeded()
                    self._tick(engine)
            except RuntimeError as error:
                # Another engine is open in this process: a retry cannot help.
                if not self._began.done():
                    self._began.set_exception(error)
                    return
                self._wait(error)
            except Exception as error:  # noqa: BLE001 - drivers raise many types, and each means: retry
                self._has_begun()
                self._wait(error)

    def _has_begun(self) -> None:
        if not self._began.done():
            self._began.set_result(None)

    def _wait(self, error: Exception) -> None:
        self._closing.wait(self._retries.failed(error))

    def _tick(self, engine: Engine) -> None:
        """Submit ticks when they are due, and resume those of dead workers, until closed."""
        submitted: dict[str, datetime] = {}
        since_resume = _RESUME_SECONDS
        while not self._closing.is_set():
            now = datetime.now(UTC)
            for name, schedule in self._schedules.items():
                moment = schedule.due(now)
                if submitted.get(name) != moment:
                    engine.submit([_shard(name, moment)])
                    submitted[name] = moment
            if since_resume >= _RESUME_SECONDS:
                engine.resume()
                since_resume = 0.0
            self._closing.wait(_CLOCK_POLL_SECONDS)
            since_resume += _CLOCK_POLL_SECONDS

    async def _work(self, shard: Shard) -> dict[str, int]:
        schedule = self._schedules.get(shard.run.partition("/")[2])
        moment = datetime.fromtimestamp(shard.generation, UTC)
        if schedule is None or schedule.due(datetime.now(UTC)) > moment:
            return {"passed": 1}
        try:
            await asyncio.to_thread(schedule.run, moment)
        except Exception as error:  # noqa: BLE001 - every error is stored with the tick
            _log.error(
                "scheduled work %s of %s failed: %s", schedule.name, moment.isoformat(), _first_line(error)
            )
            await asyncio.to_thread(self._report, schedule, moment, _first_line(error))
            raise TiltyardError(f"{schedule.name}: {_first_line(error)}") from None
        return {"done": 1}

    def _report(self, schedule: Schedule, moment: datetime, problem: str) -> None:
        """Pass a failure on. That this may fail too, as when the database is down, is only logged."""
        if self._on_failure is None:
            return
        failure = JobFailure(schedule.name, moment, problem, schedule.next_due(datetime.now(UTC)))
        try:
            self._on_failure(failure)
        except Exception as error:  # noqa: BLE001 - the job itself failed, which is stored with its tick
            _log.error("the failure of %s could not be stored: %s", schedule.name, _first_line(error))


def _shard(name: str, moment: datetime) -> Shard:
    return Shard(f"{RUN}/{name}", int(moment.timestamp()), 0, 0, 1)


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0] or type(error).__name__
