"""A worker in a process of its own, to be killed. Its work writes down when it begins and ends.

Run as a program: DATABASE RUN SHARDS SECONDS PARALLEL JOURNAL
"""

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tiltyard.jobs.engine import Shard, WorkerHooks, open_engine


class Journal:
    """Lines of ``event shard pid``, appended by any number of processes."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def write(self, event: str, subject: str) -> None:
        line = f"{event} {subject} {os.getpid()}\n".encode()
        descriptor = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(descriptor, line)
        os.close(descriptor)

    def lines(self) -> list[tuple[str, str, int]]:
        if not self.path.exists():
            return []
        rows = [line.split() for line in self.path.read_text().splitlines()]
        return [(event, subject, int(pid)) for event, subject, pid in rows]

    def of(self, event: str) -> list[str]:
        return [subject for kind, subject, _ in self.lines() if kind == event]

    def note_overlap(self, shard: str) -> None:
        """Write it down if another process that lives has begun a shard and not ended it."""
        having = {}
        for event, subject, pid in self.lines():
            if subject == shard:
                having[pid] = event == "begin"
        for pid, has in having.items():
            if has and pid != os.getpid() and _lives(pid):
                self.write("overlap", shard)

    def free(self) -> None:
        """Let all work end, now and from now on."""
        self.write("free", "all")

    def work(self, seconds: float) -> Callable[[Shard], Awaitable[dict[str, int]]]:
        """Work that lasts so long, unless it is let end before."""

        async def work(shard: Shard) -> dict[str, int]:
            self.note_overlap(shard.id)
            self.write("begin", shard.id)
            end = time.monotonic() + seconds
            while (left := end - time.monotonic()) > 0 and not self.of("free"):  # noqa: ASYNC110  another process says so
                await asyncio.sleep(min(left, 0.05))
            self.write("end", shard.id)
            return {"questions": shard.last - shard.first}

        return work


def _lives(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in "ZX"


def shards(run: str, number: int, generation: int = 0) -> list[Shard]:
    return [Shard(run, generation, index, 10 * index, 10 * index + 10) for index in range(number)]


@contextmanager
def worker_process(
    database: str, run: str, number: int, seconds: float, parallel: int, journal: Journal
) -> Iterator[subprocess.Popen[bytes]]:
    """A worker that submits so many shards and waits for them; killed at the end if still there."""
    arguments = [database, run, str(number), str(seconds), str(parallel), str(journal.path)]
    process = subprocess.Popen(
        [sys.executable, "-W", "error", __file__, *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def until(condition: Callable[[], object], seconds: float = 60.0, *, pause: float = 0.02) -> None:
    """Wait for something to become true, and fail if it does not."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited too long"
        time.sleep(pause)


def main() -> None:
    database, run, number, seconds, parallel, path = sys.argv[1:]
    journal = Journal(Path(path))
    work = journal.work(float(seconds))
    hooks = WorkerHooks(lambda name: journal.write("dead", name))
    with open_engine(database, None, work, run=run, parallel=int(parallel), hooks=hooks) as engine:
        engine.submit(shards(run, int(number)))
        engine.wait(run, 0, poll=0.05)


if __name__ == "__main__":
    main()
