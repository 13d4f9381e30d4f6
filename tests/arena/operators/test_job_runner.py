"""What scheduled jobs promise: each time once, by one of all processes, again if it was killed; the latest of missed ones."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support import noted_jobs
from support.worker_process import until
from tiltyard.arena.operators import scheduled_jobs
from tiltyard.arena.operators.job_status import (
    last_due,
    next_due,
)
from tiltyard.arena.operators.scheduled_jobs import (
    Job,
    JobRunner,
)
from tiltyard.postgres.connections import connect

YEARLY = "0 0 1 1 *"


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scheduled_jobs, "_FIRST_LOOK_SECONDS", 0.0)
    monkeypatch.setattr(scheduled_jobs, "_LOOK_SECONDS", 0.1)


MOMENTS = st.datetimes(min_value=datetime(2020, 1, 1), max_value=datetime(2035, 1, 1)).map(
    lambda naive: naive.replace(tzinfo=UTC)
)


class Process:
    """In place of a job's process."""

    def __init__(self) -> None:
        self.exitcode: int | None = None

    def is_alive(self) -> bool:
        return self.exitcode is None

    def kill(self) -> None:
        self.exitcode = -signal.SIGKILL if self.exitcode is None else self.exitcode

    def join(self) -> None:
        pass


class Runner(JobRunner):
    """A runner that looks when it is told to, and whose jobs end when they are told to."""

    def __init__(self, url: str, *names: str) -> None:
        super().__init__(url, [Job(name, YEARLY, noted_jobs.note) for name in names or ("work",)])
        self.started: list[tuple[str, datetime]] = []
        with connect(url) as connection:
            connection.execute(
                "INSERT INTO scheduled_jobs (name) SELECT unnest(%s::text[]) ON CONFLICT DO NOTHING",
                (list(self._jobs),),
            )

    def look(self) -> int:
        """How many jobs have been started so far."""
        with connect(self._url) as connection:
            self._look(connection)
        return len(self.started)

    def _start(self, name: str, due_at: datetime) -> Any:
        self.started.append((name, due_at))
        return Process()

    def end(self, name: str = "work", code: int = 0) -> None:
        self._running[name].exitcode = code  # type: ignore[misc]

    @property
    def running(self) -> list[str]:
        return list(self._running)


def rows(url: str) -> dict[str, tuple[bool, str | None]]:
    """Whether each job has ended, and what was wrong."""
    with connect(url) as connection:
        found = connection.execute(
            "SELECT name, finished_at IS NOT NULL, problem FROM scheduled_jobs"
        ).fetchall()
    return {name: (ended, problem) for name, ended, problem in found}


def change(url: str, what: str) -> None:
    with connect(url) as connection:
        connection.execute(f"UPDATE scheduled_jobs SET {what}")


def test_a_job_is_run_once_by_one_of_two(database: str) -> None:
    one, two = Runner(database), Runner(database)
    assert (one.look(), two.look(), one.look()) == (1, 0, 1)
    assert one.started == [("work", last_due(YEARLY, datetime.now(UTC)))]
    one.end()
    assert (one.look(), two.look()) == (1, 0)
    assert rows(database) == {"work": (True, None)}


def test_jobs_that_were_missed_start_one_after_the_other_and_each_for_the_latest_time(database: str) -> None:
    runner = Runner(database, "first", "second")
    change(database, "due_at = '2020-01-01', finished_at = '2020-01-01'")
    assert [runner.look() for _ in range(3)] == [1, 2, 2]
    assert {name for name, _ in runner.started} == {"first", "second"}
    assert {due_at.year for _, due_at in runner.started} == {datetime.now(UTC).year}


def test_a_job_whose_process_died_is_run_again_and_no_sooner(database: str) -> None:
    dead, other = Runner(database), Runner(database)
    assert dead.look() == 1
    change(database, "leased_until = now() + interval '1 second'")
    assert other.look() == 0
    change(database, "leased_until = now() - interval '1 second'")
    assert other.look() == 1
    # The first was only frozen: it has lost the job, and must not end it for the other.
    dead.end(code=1)
    dead.look()
    assert rows(database) == {"work": (False, None)}
    other.end()
    other.look()
    assert rows(database) == {"work": (True, None)}


def test_a_frozen_process_that_comes_back_ends_its_job(database: str) -> None:
    frozen, other = Runner(database), Runner(database)
    frozen.look()
    change(database, "leased_until = '-infinity'")
    assert other.look() == 1
    frozen.look()
    assert frozen.running == []
    assert other.running == ["work"]


@pytest.mark.parametrize(
    "what",
    [
        "due_at = now() + interval '9 days', finished_at = now()",
        "due_at = now(), finished_at = NULL, leased_until = now() + interval '9 days'",
    ],
)
def test_a_clock_that_was_set_back_stops_no_job(database: str, what: str) -> None:
    runner = Runner(database)
    change(database, what)
    assert runner.look() == 1


def test_a_clock_that_goes_forward_does_not_take_a_job_from_who_runs_it(database: str) -> None:
    runner = Runner(database)
    runner.look()
    change(database, "leased_until = now() - interval '1 day'")
    assert runner.look() == 1
    assert runner.running == ["work"]


@contextmanager
def running(url: str, **jobs: Callable[[str, datetime], None]) -> Iterator[None]:
    stop = threading.Event()
    runner = JobRunner(url, [Job(name, YEARLY, run) for name, run in jobs.items()])
    thread = threading.Thread(target=runner.run, args=(stop,))
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def noted(url: str) -> list[str]:
    with connect(url) as connection:
        return [row[0] for row in connection.execute("SELECT what FROM noted ORDER BY what")]


def test_jobs_run_in_processes_of_their_own_and_why_they_failed_is_stored(database: str) -> None:
    with running(database, badly=noted_jobs.fail, worse=noted_jobs.end_at_once):
        until(lambda: {ended for ended, _ in rows(database).values()} == {True})
    found = rows(database)
    assert found["badly"] == (True, "OSError: the disk is full; free some")
    assert "7" in str(found["worse"][1])


def run_slowly(url: str) -> None:
    JobRunner(url, [Job("work", YEARLY, noted_jobs.note_slowly)]).run(threading.Event())


@pytest.mark.slow
def test_a_job_dies_with_its_killed_server_and_is_run_again(database: str) -> None:
    with connect(database) as connection:
        connection.execute(noted_jobs.TABLE)
    server = multiprocessing.get_context("spawn").Process(target=run_slowly, args=(database,))
    server.start()
    until(lambda: noted(database) == ["begun"])
    assert rows(database) == {"work": (False, None)}
    assert server.pid is not None
    os.kill(server.pid, signal.SIGKILL)
    server.join()
    with connect(database) as connection:
        others = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
        until(lambda: connection.execute(others).fetchone() == (0,))
    change(database, "leased_until = now()")
    with running(database, work=noted_jobs.note):
        until(lambda: noted(database) == ["begun", "done"])


def test_a_short_job_runs_in_this_process(database: str) -> None:
    runs: list[datetime] = []

    def run(_url: str, moment: datetime) -> None:
        runs.append(moment)
        raise OSError("no room")

    runner = JobRunner(database, [Job("short", YEARLY, run, apart=False)])
    with connect(database) as connection:
        connection.execute("INSERT INTO scheduled_jobs (name) VALUES ('short')")
        for _ in range(2):
            runner._look(connection)
    assert runs == [last_due(YEARLY, datetime.now(UTC))]
    assert rows(database) == {"short": (True, "OSError: no room")}


def test_a_database_that_is_away_is_waited_for(caplog: pytest.LogCaptureFixture) -> None:
    with running("postgresql://nobody@127.0.0.1:9/none", work=noted_jobs.note):
        until(lambda: caplog.records)


@given(now=MOMENTS)
def test_what_is_due_was_due_and_nothing_later_was(now: datetime) -> None:
    moment = last_due("7 0 * * 1", now)
    assert now - timedelta(days=8) < moment <= now
    assert last_due("7 0 * * 1", moment) == moment
    assert last_due("7 0 * * 1", moment - timedelta(seconds=1)) < moment
    assert next_due("7 0 * * 1", now) > now
    assert last_due("7 0 * * 1", next_due("7 0 * * 1", now)) == next_due("7 0 * * 1", now)
