"""Locks: one holder at a time, whatever the moment."""

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from tiltyard.errors import BadOption, TiltyardError
from tiltyard.jobs.worker_locks import FileLocks, ServerLocks, WorkerLocks, lock_worker_name


@pytest.fixture
def connect(database: str, tmp_path: Path) -> Callable[[], WorkerLocks]:
    """Another worker's view of the same locks."""
    if database.startswith("sqlite"):
        return lambda: FileLocks(tmp_path / "locks")
    return lambda: ServerLocks(database)


@pytest.mark.slow(but="sqlite")
def test_a_lock_has_one_holder_and_can_be_had_after_its_release(connect: Callable[[], WorkerLocks]):
    one, two = connect(), connect()
    lock = one.take("worker-0")
    assert lock is not None
    assert two.take("worker-0") is None
    other = two.take("worker-1")
    assert other is not None
    lock.release()
    again = two.take("worker-0")
    assert again is not None
    assert one.take("worker-0") is None
    assert one.kept()
    for held in (again, other):
        held.release()
    one.close()
    two.close()


@pytest.mark.slow(but="postgresql")
def test_the_lowest_free_name_is_taken_in_each_run(connect: Callable[[], WorkerLocks]):
    views = [connect() for _ in range(4)]
    first, second, third = (lock_worker_name(view, "a/b: ü") for view in views[:3])
    assert [lock.name for lock in (first, second, third)] == [
        f"a/b: ü/worker-{number}" for number in range(3)
    ]
    second.release()
    fourth, outside = lock_worker_name(views[3], "a/b: ü"), lock_worker_name(views[3], None)
    assert (fourth.name, outside.name) == ("a/b: ü/worker-1", "worker-0")
    for lock in (first, third, fourth, outside):
        lock.release()
    for view in views:
        view.close()


@pytest.mark.slow(but="postgresql")
def test_locks_are_exclusive_under_contention(connect: Callable[[], WorkerLocks]):
    holders = [0]
    most = [0]
    takes = [0]
    guard = threading.Lock()

    def contend() -> None:
        locks = connect()
        for _ in range(150):
            lock = locks.take("worker-0")
            if lock is not None:
                with guard:
                    holders[0] += 1
                    takes[0] += 1
                    most[0] = max(most[0], holders[0])
                with guard:
                    holders[0] -= 1
                lock.release()
        locks.close()

    threads = [threading.Thread(target=contend) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most[0] == 1
    assert takes[0] >= 6


def test_a_lost_session_is_noticed_and_never_trusted_again(server: str):
    locks = ServerLocks(server)
    lock = locks.take("worker-0")
    assert lock is not None
    locks._session.close()
    assert not locks.kept()
    with pytest.raises(TiltyardError, match="PostgreSQL"):
        locks.take("worker-1")
    lock.release()
    locks.close()


def test_a_released_lock_leaves_no_file_and_can_be_released_twice(tmp_path: Path):
    lock = FileLocks(tmp_path).take("worker-0")
    assert lock is not None
    assert [path.name for path in tmp_path.iterdir()] == ["worker-0.lock"]
    lock.release()
    lock.release()
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_used_is_an_error(tmp_path: Path):
    (tmp_path / "file").write_text("")
    with pytest.raises(BadOption, match="cannot create"):
        FileLocks(tmp_path / "file" / "locks")
    locks = FileLocks(tmp_path)
    (tmp_path / "worker-0.lock").mkdir()
    with pytest.raises(BadOption, match="cannot write"):
        locks.take("worker-0")
