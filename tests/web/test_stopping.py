"""A rater that is told to stop stops, and does not wait for a lock that it holds itself."""

import subprocess
import sys
import time

PROGRAM = """
import threading
from tiltyard.web.child_process import stop_by_signals

stop = threading.Event()
stop_by_signals(stop.set)
print("ready", flush=True)
while not stop.is_set():
    stop.wait(0.5)
"""


def test_it_stops_when_it_is_told_twice_at_once():
    """The supervisor tells its children by the signal that it got, and once more when it waits for them.

    Here it goes on telling until they are gone, so that some of it comes while an interpreter is leaving.
    """
    children = [
        subprocess.Popen([sys.executable, "-c", PROGRAM], stdout=subprocess.PIPE, text=True) for _ in range(6)
    ]
    try:
        for child in children:
            assert child.stdout.readline() == "ready\n"
        time.sleep(0.1)
        until = time.monotonic() + 20
        while any(child.poll() is None for child in children) and time.monotonic() < until:
            for child in children:
                child.terminate()
        assert [child.wait(20) for child in children] == [0] * len(children)
    finally:
        for child in children:
            child.kill()
            child.wait()
            child.stdout.close()
