"""What the engine promises within one process, on SQLite and on PostgreSQL."""

import asyncio
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psycopg
import pytest

from support.worker_process import Journal, shards, until
from tiltyard.errors import BadOption, MissingExtra, ProviderFault, TiltyardError
from tiltyard.jobs import engine
from tiltyard.jobs.engine import Shard, WorkerHooks, open_engine
from tiltyard.jobs.worker_locks import ServerLocks

on_sqlite = pytest.mark.parametrize("database", ["sqlite"], indirect=True)


def execute(database: str, sql: str) -> None:
    """One statement on the tables of DBOS, from outside."""
    if database.startswith("sqlite"):
        import sqlite3

        path = database.removeprefix("sqlite:///")
        with closing(sqlite3.connect(path)) as connection, connection:
            connection.execute(sql.replace("dbos.", ""))
    else:
        with psycopg.connect(database) as connection:
            connection.execute(sql)


@pytest.mark.slow(but="postgresql")
def test_every_shard_is_done_once_and_counted(database: str, journal: Journal):
    plan = shards("run", 12)
    with open_engine(database, None, journal.work(0), run="run") as worker:
        worker.submit(plan)
        worker.submit(plan[:5])
        assert worker.wait("run", 0, poll=0.05) == {"done": 12}
        worker.submit(plan)
        assert worker.status("run", 0) == {"done": 12}
        assert worker.failures("run", 0) == {}
    assert sorted(journal.of("begin")) == sorted(shard.id for shard in plan)


@on_sqlite
def test_what_was_done_stays_done_in_another_process_life(database: str, journal: Journal):
    for _ in range(2):
        with open_engine(database, None, journal.work(0)) as worker:
            worker.submit(shards("run", 3))
            assert worker.wait("run", 0, poll=0.05) == {"done": 3}
    assert len(journal.of("begin")) == 3


@pytest.mark.slow(but="sqlite")
def test_a_failing_shard_says_why_and_stops_no_other(database: str):
    tries: list[str] = []

    async def work(shard: Shard) -> dict[str, int]:
        tries.append(shard.id)
        if shard.generation == 0 and shard.index == 1:
            raise ProviderFault("the key was refused")
        if shard.generation == 0 and shard.index == 2:
            raise ZeroDivisionError(Unstorable())
        return {}

    with open_engine(database, None, work, run="run") as worker:
        for _ in range(2):
            worker.submit(shards("run", 4))
            assert worker.wait("run", 0, poll=0.05) == {"done": 2, "failed": 2}
        assert worker.failures("run", 0) == {
            "run:0:1": "the key was refused",
            "run:0:2": "ZeroDivisionError: unstorable",
        }
        worker.submit(shards("run", 4, generation=1)[1:3])
        assert worker.wait("run", 1, poll=0.05) == {"done": 2}
    assert len(tries) == 6


class Unstorable:
    def __str__(self) -> str:
        return "unstorable"

    def __reduce__(self) -> str:
        raise TypeError("cannot be pickled")


@on_sqlite
def test_all_work_and_both_hooks_run_on_one_event_loop(database: str):
    loops: list[tuple[str, asyncio.AbstractEventLoop, threading.Thread]] = []

    def note(what: str) -> None:
        loops.append((what, asyncio.get_running_loop(), threading.current_thread()))

    async def start() -> None:
        note("start")

    async def work(shard: Shard) -> dict[str, int]:
        note("work")
        return {}

    async def stop() -> None:
        note("stop")

    with open_engine(database, None, work, hooks=WorkerHooks(on_start=start, on_stop=stop)) as worker:
        worker.submit(shards("run", 5))
        worker.wait("run", 0, poll=0.05)
    assert [what for what, _, _ in loops] == ["start", *["work"] * 5, "stop"]
    assert len({id(loop) for _, loop, _ in loops}) == 1
    assert len({thread for _, _, thread in loops}) == 1
    assert threading.main_thread() not in {thread for _, _, thread in loops}


@pytest.mark.slow(but="sqlite")
def test_an_interrupt_passes_and_what_was_in_hand_is_done_next_time(database: str, journal: Journal):
    begun: list[str] = []
    stopped: list[str] = []

    async def endless(shard: Shard) -> dict[str, int]:
        begun.append(shard.id)
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            stopped.append(shard.id)
            raise
        return {}

    async def stop() -> None:
        stopped.append("stop")

    def work_until_interrupted() -> None:
        with open_engine(
            database, None, endless, run="run", parallel=2, hooks=WorkerHooks(on_stop=stop)
        ) as worker:

            def interrupt() -> None:
                if len(begun) == 2:
                    raise KeyboardInterrupt

            worker.submit(shards("run", 5))
            worker.wait("run", 0, poll=0.05, on_tick=interrupt)

    with pytest.raises(KeyboardInterrupt):
        work_until_interrupted()
    assert sorted(stopped) == ["run:0:0", "run:0:1", "stop"]
    assert stopped[-1] == "stop"
    with open_engine(database, None, journal.work(0), run="run") as worker:
        assert worker.wait("run", 0, poll=0.05) == {"done": 5}
    assert len(journal.of("begin")) == 5


@pytest.mark.slow(but="postgresql")
def test_runs_on_one_database_keep_to_themselves(database: str, journal: Journal):
    with open_engine(database, None, journal.work(0), run="one") as worker:
        assert worker.worker == "one/worker-0"
        worker.submit(shards("one", 2))
        worker.wait("one", 0, poll=0.05)
    execute(database, "UPDATE dbos.workflow_status SET status = 'PENDING' WHERE workflow_uuid = 'one:0:1'")
    dead: list[str] = []
    hooks = WorkerHooks(on_dead_worker=dead.append)
    with open_engine(database, None, journal.work(0), run="two", hooks=hooks) as worker:
        worker.submit(shards("two", 2))
        worker.wait("two", 0, poll=0.05)
        assert worker.resume() == []
        assert worker.status("one", 0) == {"done": 1, "running": 1}
    assert dead == ["two/worker-0"]


def test_a_shard_is_stranded_after_half_a_minute_of_looking_and_not_of_being_stopped(
    monkeypatch: pytest.MonkeyPatch,
):
    now = 1000.0
    monkeypatch.setattr(engine, "time", SimpleNamespace(monotonic=lambda: now))
    running: Any = SimpleNamespace(in_hand=set())
    worker = engine.Engine("worker", "queue", running, None, str)  # type: ignore[arg-type]
    assert worker._stranded({"shard"}) == set()
    now += 3600.0
    assert worker._stranded({"shard"}) == set()
    found = []
    for _ in range(32):
        now += 1.0
        found.append(bool(worker._stranded({"shard", "other"})))
    assert found.index(True) == 25
    assert worker._stranded({"shard", "other"}) == {"shard", "other"}
    running.in_hand.add("other")
    assert worker._stranded({"shard", "other"}) == {"shard"}
    assert worker._stranded(set()) == set()


@on_sqlite
def test_a_plan_is_not_confused_with_one_whose_name_begins_alike(database: str, journal: Journal):
    with open_engine(database, None, journal.work(0)) as worker:
        worker.submit([*shards("a", 2), *shards("a:0", 3, generation=1), *shards("a_", 4), *shards("ab", 5)])
        assert worker.wait("a", 0, poll=0.05) == {"done": 2}
        assert worker.wait("a:0", 1, poll=0.05) == {"done": 3}
        assert worker.wait("a_", 0, poll=0.05) == {"done": 4}
        assert worker.wait("ab", 0, poll=0.05) == {"done": 5}
        assert worker.wait("nobody", 0) == {}


@pytest.mark.slow(but="sqlite")
def test_a_shard_that_was_taken_but_never_arrived_is_put_back(
    database: str, journal: Journal, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(engine, "_STRANDED_SECONDS", 0.5)
    with open_engine(database, None, journal.work(0), run="run") as worker:
        worker.submit(shards("run", 2))
        worker.wait("run", 0, poll=0.05)
        taken = f"status = 'PENDING', executor_id = '{worker.worker}'"
        execute(database, f"UPDATE dbos.workflow_status SET {taken} WHERE workflow_uuid = 'run:0:1'")
        assert worker.wait("run", 0, poll=0.05) == {"done": 2}


@on_sqlite
def test_only_one_engine_is_open_in_a_process(database: str, tmp_path: Path, journal: Journal):
    other = f"sqlite:///{tmp_path}/other.sqlite"
    with open_engine(database, None, journal.work(0)) as worker:
        with (
            pytest.raises(RuntimeError, match="already open"),
            open_engine(other, None, journal.work(0)),
        ):
            pass
        worker.submit(shards("run", 1))
        assert worker.wait("run", 0, poll=0.05) == {"done": 1}
    with open_engine(other, None, journal.work(0)) as worker:
        assert worker.wait("run", 0) == {}


@pytest.mark.slow(but_every=5)
@pytest.mark.parametrize(
    "address", ["mysql://me:secret@host/db", "dbos.sqlite", "sqlite://", "sqlite:///", ""]
)
def test_an_address_that_cannot_be_used_is_an_error_without_the_password(address: str, journal: Journal):
    with pytest.raises(BadOption, match="sqlite:///PATH") as error:
        open_engine(address, None, journal.work(0)).__enter__()
    assert "secret" not in str(error.value)


def test_a_server_that_is_not_there_is_an_error_that_says_so(journal: Journal):
    with pytest.raises(BadOption, match="DATABASE_URL") as error:
        open_engine("postgresql://me:secret@127.0.0.1:9/none", None, journal.work(0)).__enter__()
    assert "secret" not in str(error.value)


def test_a_file_that_is_no_database_is_an_error_and_the_engine_can_be_opened_elsewhere(
    tmp_path: Path, journal: Journal
):
    events: list[str] = []

    async def start() -> None:
        events.append("start")

    async def stop() -> None:
        events.append("stop")

    (tmp_path / "broken.sqlite").write_bytes(b"not a database at all" * 100)
    with pytest.raises(BadOption, match="cannot store"):
        open_engine(
            f"sqlite:///{tmp_path}/broken.sqlite",
            None,
            journal.work(0),
            hooks=WorkerHooks(on_start=start, on_stop=stop),
        ).__enter__()
    assert events == ["start", "stop"]
    with open_engine(f"sqlite:///{tmp_path}/whole.sqlite", None, journal.work(0)) as worker:
        assert worker.status("run", 0) == {}


@pytest.mark.slow
def test_a_file_left_half_made_by_a_killed_process_is_made_anew(tmp_path: Path, journal: Journal):
    (tmp_path / ".dbos.sqlite.part").write_bytes(b"half")
    with open_engine(f"sqlite:///{tmp_path}/dbos.sqlite", tmp_path / "locks", journal.work(0)) as worker:
        assert worker.status("run", 0) == {}
        assert {path.name for path in (tmp_path / "locks").iterdir()} == {"starting.lock", "worker-0.lock"}
    assert not (tmp_path / ".dbos.sqlite.part").exists()


def test_without_the_extra_the_error_names_it(monkeypatch: pytest.MonkeyPatch, journal: Journal):
    monkeypatch.setattr(engine, "find_spec", lambda _name: None)
    with pytest.raises(MissingExtra, match="judges"):
        open_engine("sqlite:///x", None, journal.work(0)).__enter__()


@pytest.mark.slow
@on_sqlite
def test_an_error_of_the_caller_closes_the_engine_and_keeps_what_was_submitted(
    database: str, journal: Journal
):
    def plan() -> Iterator[Shard]:
        yield Shard("run", 0, 0, 0, 10)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError), open_engine(database, None, journal.work(0)) as worker:
        worker.submit(plan())
    with open_engine(database, None, journal.work(0)) as worker:
        assert worker.wait("run", 0, poll=0.05) == {"done": 1}


@pytest.mark.parametrize("database", ["postgresql"], indirect=True)
def test_a_worker_whose_session_ended_stops_work_and_says_so(database: str, journal: Journal):
    stopped = threading.Event()

    async def endless(shard: Shard) -> dict[str, int]:
        journal.write("begin", shard.id)
        try:
            await asyncio.sleep(600)
        finally:
            stopped.set()
        return {}

    with psycopg.connect(database, autocommit=True) as outside:
        with open_engine(database, None, endless, run="run", parallel=2) as worker:
            worker.submit(shards("run", 6))
            until(lambda: len(journal.of("begin")) == 2)
            outside.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE application_name = 'tiltyard worker'"
            )
            assert stopped.wait(timeout=60)
            assert ServerLocks.grace > engine._LOCK_WATCH_SECONDS
            with pytest.raises(TiltyardError, match="held its lock"):
                worker.wait("run", 0, poll=0.05)
            until(lambda: worker.status("run", 0) == {"running": 4, "waiting": 2})
            time.sleep(0.5)
            assert worker.status("run", 0) == {"running": 4, "waiting": 2}
        assert len(journal.of("begin")) == 2
        with open_engine(database, None, journal.work(0), run="run") as worker:
            assert worker.wait("run", 0, poll=0.05) == {"done": 6}
