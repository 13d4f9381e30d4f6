"""``tiltyard serve`` as a process of its own, started as a person starts it."""

import os
import re
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

PATIENCE = 120.0


def environment(home, database=None):
    kept = {name: value for name, value in os.environ.items() if not name.startswith("TILTYARD_")}
    kept.pop("DATABASE_URL", None)
    more = {} if database is None else {"DATABASE_URL": database}
    return {**kept, "TILTYARD_HOME": str(home), "TILTYARD_SECRET_KEY": "s" * 40, **more}


class Running:
    """A server that was started as a person starts it."""

    def __init__(self, process, out, err):
        self.process, self._out, self._err = process, out, err

    @property
    def said(self):
        return self._out.read_text()

    @property
    def logged(self):
        return self._err.read_text()

    def wait_for(self, text):
        end = time.monotonic() + PATIENCE
        while text not in self.said:
            assert self.process.poll() is None, self.said + self.logged
            assert time.monotonic() < end, self.said + self.logged
            time.sleep(0.05)

    @property
    def url(self):
        return re.search(r"ready: (http\S+)", self.said)[1]

    def children(self):
        """Process numbers of web processes and rater."""
        found = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        return [int(one) for one in found if "multiprocessing.spawn" in commandline(one)]

    def stop(self, number=signal.SIGTERM):
        self.process.send_signal(number)
        return self.process.wait(PATIENCE)


def commandline(number):
    try:
        return Path(f"/proc/{number}/cmdline").read_text().replace("\0", " ")
    except OSError:
        return ""


@contextmanager
def running(folder, *arguments, database=None, home=None, variables=None):
    out, err = folder / "out.txt", folder / "err.txt"
    with out.open("w") as said, err.open("w") as logged:
        process = subprocess.Popen(
            [sys.executable, "-m", "tiltyard", "serve", *map(str, arguments)],
            stdout=said,
            stderr=logged,
            stdin=subprocess.DEVNULL,
            env=environment(home or folder / "home", database) | (variables or {}),
            cwd=folder,
        )
        started = Running(process, out, err)
        try:
            yield started
        finally:
            if process.poll() is None:
                started.stop()
