"""Several processes on one database, some of which are killed."""

import contextlib
import os
import random
import signal
import sqlite3
import subprocess
import time
from collections import Counter

import pytest

from support.worker_process import Journal, shards, until, worker_process
from tiltyard.jobs.engine import WorkerHooks, open_engine


def stop_between_writes(pid: int, database: str) -> None:
    """Stop a process, at a moment when it does not hold SQLite's lock: nobody else could write."""
    path = database.removeprefix("sqlite:///")
    while True:
        os.kill(pid, signal.SIGSTOP)
        os.waitpid(pid, os.WUNTRACED)
        with contextlib.closing(sqlite3.connect(path, timeout=0)) as connection:
            try:
                connection.execute("BEGIN IMMEDIATE")
            except sqlite3.OperationalError:
                os.kill(pid, signal.SIGCONT)
            else:
                return


@pytest.mark.slow(but="sqlite")
def test_after_a_kill_only_what_was_in_flight_is_repeated(database: str, journal: Journal):
    with worker_process(database, "run", 12, 0.15, 2, journal) as process:
        until(lambda: len(journal.of("end")) >= 4)
        process.kill()
        process.wait()
    before = Counter(journal.of("begin"))
    in_flight = set(before) - set(journal.of("end"))
    assert len(in_flight) <= 2
    dead: list[str] = []
    hooks = WorkerHooks(on_dead_worker=dead.append)
    with open_engine(database, None, journal.work(0), run="run", hooks=hooks) as worker:
        worker.submit(shards("run", 12))
        assert worker.wait("run", 0, poll=0.05) == {"done": 12}
    assert dead == ["run/worker-0"]
    begun = Counter(journal.of("begin"))
    ended = Counter(journal.of("end"))
    assert set(begun) == set(ended) == {shard.id for shard in shards("run", 12)}
    unrecorded = {shard for shard, times in ended.items() if times > 1}
    assert {shard for shard, times in begun.items() if times > 1} == in_flight | unrecorded
    assert len(in_flight | unrecorded) <= 2


@pytest.mark.slow
def test_two_workers_share_the_shards_and_repeat_none(database: str, journal: Journal):
    def free() -> None:
        if any(pid == os.getpid() for _, _, pid in journal.lines()):
            journal.free()

    with worker_process(database, "run", 16, 60, 2, journal) as process:
        until(lambda: journal.of("begin"))
        with open_engine(database, None, journal.work(0.1), run="run", parallel=2) as worker:
            assert worker.worker == "run/worker-1"
            worker.submit(shards("run", 16))
            assert worker.wait("run", 0, poll=0.05, on_tick=free) == {"done": 16}
        output, _ = process.communicate(timeout=60)
        assert process.returncode == 0
        assert output == b""
    assert Counter(journal.of("begin")) == {shard.id: 1 for shard in shards("run", 16)}
    assert {pid for event, _, pid in journal.lines() if event == "begin"} == {process.pid, os.getpid()}


@pytest.mark.slow(but="postgresql")
def test_a_live_worker_takes_over_from_a_dead_one_once_and_says_so_first(database: str, journal: Journal):
    def on_dead_worker(name: str) -> None:
        journal.write("dead", name)

    def kill() -> None:
        if journal.of("end"):
            process.kill()

    with worker_process(database, "run", 4, 60, 3, journal) as process:
        until(lambda: len(journal.of("begin")) == 3)
        hooks = WorkerHooks(on_dead_worker)
        with open_engine(database, None, journal.work(0), run="run", parallel=3, hooks=hooks) as worker:
            assert worker.wait("run", 0, poll=0.05, on_tick=kill) == {"done": 4}
            assert worker.resume() == []
    assert journal.of("dead") == ["run/worker-0", "run/worker-1", "run/worker-0"]
    assert Counter(journal.of("end")) == {shard.id: 1 for shard in shards("run", 4)}
    events = [event for event, _, pid in journal.lines() if pid == os.getpid()]
    assert events[:4] == ["dead", "begin", "end", "dead"]
    assert Counter(events[4:]) == {"begin": 3, "end": 3}


@pytest.mark.slow
@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
def test_a_worker_that_is_only_slow_keeps_its_shards(database: str, journal: Journal):
    with worker_process(database, "run", 1, 60, 1, journal) as process:
        until(lambda: journal.of("begin"))
        stop_between_writes(process.pid, database)
        with open_engine(database, None, journal.work(0), run="run") as worker:
            until_time = time.monotonic() + 1
            while time.monotonic() < until_time:
                assert worker.resume() == []
                time.sleep(0.1)
            assert worker.status("run", 0) == {"running": 1}
            journal.free()
            os.kill(process.pid, signal.SIGCONT)
            assert worker.wait("run", 0, poll=0.05) == {"done": 1}
        assert process.wait(timeout=60) == 0
    assert [event for event, _, _ in journal.lines() if event != "dead"] == ["begin", "free", "end"]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_three_workers_killed_twenty_times_at_random_moments(database: str, journal: Journal, seed: int):
    dice = random.Random(seed)
    plan = shards("run", 60)
    with contextlib.ExitStack() as stack:

        def start() -> subprocess.Popen[bytes]:
            return stack.enter_context(worker_process(database, "run", len(plan), 0.4, 2, journal))

        workers = [start() for _ in range(3)]
        for _ in range(20):
            time.sleep(dice.uniform(0.1, 3.0))
            victim = dice.randrange(3)
            workers[victim].kill()
            workers[victim].wait()
            workers[victim] = start()
        with open_engine(database, None, journal.work(0), run="run", parallel=2) as worker:
            worker.submit(plan)
            assert worker.wait("run", 0, poll=0.05) == {"done": len(plan)}
        for process in workers:
            assert process.wait(timeout=60) == 0
    assert journal.of("overlap") == []
    assert set(journal.of("end")) == {shard.id for shard in plan}
    assert len(journal.of("begin")) <= len(plan) + 20 * 2
