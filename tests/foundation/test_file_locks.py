"""Locks on files: exclusive or shared, waited for or not, and gone with whoever held them."""

import os
import signal
import subprocess
import sys
import threading

import pytest

from tiltyard.foundation.local_files import lock_file

HOLDER = """
import sys, time
from tiltyard.foundation.local_files import lock_file
file = open(sys.argv[1], "ab")
assert lock_file(file, shared=sys.argv[2] == "shared")
print("held", flush=True)
time.sleep(600)
"""


@pytest.fixture
def path(tmp_path):
    return tmp_path / "x.lock"


def test_one_holds_an_exclusive_lock_until_it_closes_the_file(path):
    with path.open("ab") as other:
        with path.open("ab") as holder:
            assert lock_file(holder)
            assert lock_file(holder, wait=False)
            assert not lock_file(other, wait=False)
            assert not lock_file(other, shared=True, wait=False)
        assert lock_file(other, wait=False)


def test_many_hold_a_shared_lock_and_the_last_can_make_it_exclusive(path):
    with path.open("ab") as one, path.open("ab") as two, path.open("ab") as other:
        assert lock_file(one, shared=True)
        assert lock_file(two, shared=True, wait=False)
        assert not lock_file(other, wait=False)
        one.close()
        assert lock_file(two, wait=False)
        assert not lock_file(other, shared=True, wait=False)


def test_who_waits_gets_the_lock_when_it_is_released(path):
    obtained = threading.Event()

    def wait():
        with path.open("ab") as file:
            assert lock_file(file)
            obtained.set()

    with path.open("ab") as holder:
        lock_file(holder)
        thread = threading.Thread(target=wait)
        thread.start()
        assert not obtained.wait(0.1)
    thread.join(60)
    assert obtained.is_set()


@pytest.mark.parametrize("kind", ["shared", "exclusive"])
def test_a_killed_process_holds_nothing(path, kind):
    with (
        subprocess.Popen([sys.executable, "-c", HOLDER, path, kind], stdout=subprocess.PIPE) as holder,
        path.open("ab") as file,
    ):
        assert holder.stdout.readline() == b"held\n"
        assert not lock_file(file, wait=False)
        os.kill(holder.pid, signal.SIGKILL)
        holder.wait()
        assert lock_file(file, wait=False)
