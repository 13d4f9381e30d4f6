"""What schedules promise: each moment once, by one of all processes, and of missed ones the latest only."""

import os
import signal
import subprocess
import sys
import threading
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.worker_process import Journal, until
from tiltyard.errors import BadOption, TiltyardError
from tiltyard.jobs.engine import open_engine
from tiltyard.jobs.schedule import JobFailure, Schedule, run_schedules
from tiltyard.jobs.shards import Shard

EVERY_SECOND = "* * * * * *"
on_postgresql = pytest.mark.parametrize("database", ["postgresql"], indirect=True)
MOMENTS = st.datetimes(min_value=datetime(2020, 1, 1), max_value=datetime(2035, 1, 1)).map(
    lambda naive: naive.replace(tzinfo=UTC)
)


def nothing(moment: datetime) -> None:
    """Work that is none."""


class Ticks:
    """Moments for which work was done in this process."""

    def __init__(self) -> None:
        self.moments: list[datetime] = []

    def __call__(self, moment: datetime) -> None:
        self.moments.append(moment)


def statuses(database: str) -> dict[str, str]:
    with psycopg.connect(database) as connection:
        rows = connection.execute("SELECT workflow_uuid, status FROM dbos.workflow_status").fetchall()
    return dict(rows)


@pytest.mark.slow(but="postgresql")
def test_every_moment_is_done_once(database: str):
    ticks = Ticks()
    with run_schedules(database, [Schedule("often", EVERY_SECOND, ticks)]):
        until(lambda: len(ticks.moments) >= 2)
    assert len(set(ticks.moments)) == len(ticks.moments)
    assert all(one.microsecond == 0 for one in ticks.moments)


@pytest.mark.slow
@on_postgresql
def test_a_moment_that_was_done_is_not_done_again_by_the_next_process_life(database: str):
    first, second = Ticks(), Ticks()
    yearly = _yearly()
    for ticks in (first, second):
        with run_schedules(database, [Schedule("yearly", yearly, ticks)]):
            until(lambda: set(statuses(database).values()) == {"SUCCESS"})
            time.sleep(0.5)
    assert len(first.moments) == 1
    assert second.moments == []


@pytest.mark.slow
@on_postgresql
def test_of_the_moments_that_were_missed_only_the_latest_is_made_up_for(database: str):
    ticks = Ticks()
    with run_schedules(database, [Schedule("often", EVERY_SECOND, ticks)]):
        until(lambda: ticks.moments)
    before = len(ticks.moments)
    time.sleep(2.2)
    began = datetime.now(UTC)
    with run_schedules(database, [Schedule("often", EVERY_SECOND, ticks)]):
        until(lambda: len(ticks.moments) > before)
    assert ticks.moments[before] >= began - timedelta(seconds=1.5)


@pytest.mark.slow
@on_postgresql
def test_what_waited_in_the_queue_while_later_moments_passed_is_passed_over(database: str):
    ticks = Ticks()
    old = Shard("schedule/often", 1_000_000_000, 0, 0, 1)

    async def never(shard: Shard) -> dict[str, int]:
        raise AssertionError

    with open_engine(database, None, never, run="somewhere") as engine:
        engine.queue = "tiltyard:schedule"
        engine.submit([old])
    with run_schedules(database, [Schedule("often", "0 0 1 1 *", ticks)]):
        until(lambda: statuses(database)[old.id] == "SUCCESS")
    assert datetime.fromtimestamp(1_000_000_000, UTC) not in ticks.moments


@pytest.mark.slow
@on_postgresql
def test_of_several_processes_one_does_each_moment_also_when_some_are_killed(database: str, tmp_path: Path):
    journal = Journal(tmp_path / "journal")
    processes = [_process(database, journal) for _ in range(3)]
    try:
        until(lambda: len(journal.of("end")) >= 2)
        os.kill(processes[0].pid, signal.SIGKILL)
        processes[0].wait()
        before = len(journal.of("end"))
        until(lambda: len(journal.of("end")) >= before + 3)
        begun = {process.pid: process.poll() for process in processes[1:]}
        assert all(code is None for code in begun.values())
    finally:
        for process in processes:
            process.kill()
            process.wait()
    ended = journal.of("end")
    assert len(set(ended)) == len(ended)


@pytest.mark.slow
@on_postgresql
def test_a_moment_whose_worker_died_is_done_by_another(database: str, tmp_path: Path):
    journal = Journal(tmp_path / "journal")
    yearly = _yearly()
    dying = _process(database, journal, cron=yearly, seconds=60)
    try:
        until(lambda: journal.of("begin"))
    finally:
        dying.kill()
        dying.wait()
    assert journal.of("end") == []
    ticks = Ticks()
    with run_schedules(database, [Schedule("work", yearly, ticks)]):
        until(lambda: ticks.moments)
    assert len(ticks.moments) == 1


@on_postgresql
def test_work_that_fails_stops_nothing_and_is_kept_with_its_reason(database: str, caplog):
    ticks = Ticks()

    def failing(moment: datetime) -> None:
        raise TiltyardError("the report cannot be made")

    failures: list[JobFailure] = []

    def fail_too(failure: JobFailure) -> None:
        failures.append(failure)
        raise TiltyardError("nor can this be stored")

    schedules = [Schedule("failing", EVERY_SECOND, failing), Schedule("often", EVERY_SECOND, ticks)]
    with run_schedules(database, schedules, fail_too):
        until(lambda: len(ticks.moments) >= 2)
        until(lambda: "the report cannot be made" in caplog.text)
        until(lambda: "nor can this be stored" in caplog.text)
    assert (failures[0].name, failures[0].problem) == ("failing", "the report cannot be made")
    assert failures[0].retry_at > failures[0].due_at


@pytest.mark.slow
@on_postgresql
def test_work_goes_on_after_the_database_has_thrown_everybody_out(database: str):
    ticks = Ticks()
    with run_schedules(database, [Schedule("often", EVERY_SECOND, ticks)]):
        until(lambda: ticks.moments)
        with psycopg.connect(database, autocommit=True) as connection:
            connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE pid <> pg_backend_pid() AND datname = current_database()"
            )
        before = len(ticks.moments)
        until(lambda: len(ticks.moments) >= before + 2)
    assert len(set(ticks.moments)) == len(ticks.moments)


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
def test_one_engine_in_a_process(database: str, journal: Journal):
    schedules = [Schedule("often", EVERY_SECOND, nothing)]
    with (
        open_engine(database, None, journal.work(0)),
        pytest.raises(RuntimeError, match="open in this process"),
        run_schedules(database, schedules),
    ):
        pass
    with (
        run_schedules(database, schedules),
        pytest.raises(RuntimeError, match="open in this process"),
        open_engine(database, None, journal.work(0)),
    ):
        pass


def test_a_database_that_is_away_is_waited_for(caplog):
    before = set(threading.enumerate())
    with run_schedules("postgresql://nobody@127.0.0.1:9/none", [Schedule("often", EVERY_SECOND, nothing)]):
        until(lambda: "will be retried" in caplog.text)
    assert len(set(threading.enumerate()) - before) < 20


@given(now=MOMENTS, zone=st.sampled_from(["UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata"]))
def test_what_is_due_was_due_and_nothing_later_was(now: datetime, zone: str):
    schedule = Schedule("weekly", "7 0 * * 1", nothing, zone)
    moment = schedule.due(now)
    assert now - timedelta(days=8) < moment <= now
    assert schedule.due(moment) == moment
    assert schedule.due(moment - timedelta(seconds=1)) < moment


@given(now=MOMENTS)
def test_time_never_takes_a_moment_back(now: datetime):
    schedule = Schedule("hourly", "7 * * * *", nothing, "Europe/Berlin")
    assert schedule.due(now) <= schedule.due(now + timedelta(minutes=20))


@pytest.mark.slow(but_every=3)
@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        ({"cron": "every monday"}, "not a cron expression"),
        ({"name": "a:b"}, "without ':'"),
        ({"name": ""}, "without ':'"),
        ({"timezone": "Mars/Olympus"}, "expected e.g. UTC"),
        ({"timezone": "../etc/passwd"}, "expected e.g. UTC"),
    ],
)
def test_a_schedule_that_makes_no_sense_is_refused(changed: dict[str, str], problem: str):
    with pytest.raises(BadOption, match=problem):
        Schedule(**{"name": "weekly", "cron": "7 0 * * 1", "run": nothing, **changed})


def test_two_schedules_of_one_name_are_refused():
    twice = [Schedule("weekly", "7 0 * * 1", nothing), Schedule("weekly", "8 0 * * 1", nothing)]
    with pytest.raises(BadOption, match="same name"), run_schedules("sqlite:///nowhere", twice):
        pass


def _yearly() -> str:
    """Once a year, a good while ago."""
    then = datetime.now(UTC) - timedelta(days=40)
    return f"{then.minute} {then.hour} {then.day} {then.month} *"


def _process(
    database: str, journal: Journal, cron: str = EVERY_SECOND, seconds: float = 0.0
) -> subprocess.Popen[bytes]:
    """A process that does scheduled work until it is killed."""
    arguments = [database, str(journal.path), cron, str(seconds)]
    return subprocess.Popen([sys.executable, __file__, *arguments], stdin=subprocess.DEVNULL)


def main() -> None:
    database, path, cron, seconds = sys.argv[1:]
    journal = Journal(Path(path))

    def work(moment: datetime) -> None:
        journal.write("begin", str(int(moment.timestamp())))
        time.sleep(float(seconds))
        journal.write("end", str(int(moment.timestamp())))

    with run_schedules(database, [Schedule("work", cron, work)]):
        time.sleep(300)


if __name__ == "__main__":
    main()
