"""Runs parsers in children with limits of time and memory, which a crash, a hang or a flood ends without harm.

A program: it loads the parsers once, and forks for each batch of inputs. A line on standard input is a batch
(``{"parser": …, "paths": […], "memory_bytes": …, "seconds": …}``), a line on standard output what became of it.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import resource
import select
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
#: Given to each input unless told otherwise; the machine may be busy, so that only the CPU's time counts.
HANG_SECONDS = 2.0
MEMORY_BYTES = 1 << 30


@dataclass(frozen=True)
class InputResult:
    """What became of one input: ``read``, ``refused``, ``raised``, ``hung``, ``flooded`` or ``crashed``."""

    path: str
    ending: str
    detail: str = ""
    seconds: float = 0.0
    #: Memory that was used beyond what the program itself takes.
    memory_bytes: int = 0

    @property
    def is_harmless(self) -> bool:
        return self.ending in {"read", "refused"}


class ParserServer:
    """A running program."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process

    def run(
        self,
        parser: str,
        paths: Sequence[Path],
        *,
        seconds: float = HANG_SECONDS,
        memory_bytes: int = MEMORY_BYTES,
    ) -> list[InputResult]:
        """Read each of these; inputs after one that does harm are read in another child."""
        asked = {
            "parser": parser,
            "paths": list(map(str, paths)),
            "seconds": seconds,
            "memory_bytes": memory_bytes,
        }
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(asked).encode() + b"\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, "the server of parsers ended; its standard error says why"
        return [InputResult(**one) for one in json.loads(line)]


@contextlib.contextmanager
def parser_server() -> Iterator[ParserServer]:
    """Start the program, for as long as the block runs."""
    paths = [ROOT / "tests" / "fuzz", ROOT / "tests", ROOT / "src"]
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join(map(str, paths)),
        # Threads of libraries do not live on in children.
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
        "ARROW_DEFAULT_MEMORY_POOL": "system",
    }
    with subprocess.Popen(
        [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment
    ) as process:
        assert process.stdin is not None
        try:
            yield ParserServer(process)
        finally:
            process.stdin.close()
            process.wait()


def _resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_bytes().split()[1]) * resource.getpagesize()


def _address_bytes() -> int:
    return int(Path("/proc/self/statm").read_bytes().split()[0]) * resource.getpagesize()


def _run_batch(parser: str, paths: list[str], seconds: float, memory_bytes: int) -> list[dict[str, Any]]:
    results: list[dict[str, Any]] = []
    while len(results) < len(paths):
        results += [asdict(one) for one in _run_child(parser, paths[len(results) :], seconds, memory_bytes)]
    return results


def _run_child(parser: str, paths: list[str], seconds: float, memory_bytes: int) -> list[InputResult]:
    """The results of the inputs up to the first that does harm."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reading)
        _read_inputs(parser, paths, seconds, memory_bytes, os.fdopen(writing, "wb", buffering=0))
    os.close(writing)
    results: list[InputResult] = []
    deadline = time.monotonic() + 300 * (seconds + 1)
    data = b""
    with os.fdopen(reading, "rb", buffering=0) as pipe:
        while True:
            ready, _, _ = select.select([pipe], [], [], max(0.0, deadline - time.monotonic()))
            chunk = pipe.read(1 << 16) if ready else b""
            if not chunk:
                break
            deadline = time.monotonic() + 300 * (seconds + 1)
            data += chunk
    if not ready:
        os.kill(pid, signal.SIGKILL)
    _, status, usage = os.wait4(pid, 0)
    results = [InputResult(**json.loads(line)) for line in data.splitlines() if line]
    if len(results) == len(paths) or (results and not results[-1].is_harmless):
        return results
    path = paths[len(results)]
    number = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
    ending = "hung" if not ready or number == signal.SIGXCPU else "crashed"
    detail = f"signal {number}" if number else f"exit code {os.waitstatus_to_exitcode(status)}"
    peak = usage.ru_maxrss * 1024 - _resident_bytes()
    return [*results, InputResult(path, ending, detail, usage.ru_utime + usage.ru_stime, max(0, peak))]


def _read_inputs(parser: str, paths: list[str], seconds: float, memory_bytes: int, pipe: Any) -> None:
    from parsers import PARSERS, REFUSALS

    gc.freeze()
    with contextlib.suppress(BaseException):
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        limit = _address_bytes() + memory_bytes
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        read = PARSERS[parser]
        base = _resident_bytes()
        for path in paths:
            _allow_seconds(seconds)
            began, ending, detail = time.process_time(), "read", ""
            try:
                read(Path(path))
            except MemoryError:
                ending = "flooded"
            except REFUSALS as error:
                ending, detail = "refused", str(error)[:1000]
                if "Cannot allocate memory" in detail or "malloc" in detail:
                    ending = "flooded"
            except BaseException:
                ending, detail = "raised", traceback.format_exc(limit=-6)[-3000:]
            used = time.process_time() - began
            if used > seconds and ending in {"read", "refused"}:
                ending = "hung"
            peak = max(0, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - base)
            result = InputResult(path, ending, detail, used, peak)
            pipe.write(json.dumps(asdict(result)).encode() + b"\n")
            if not result.is_harmless:
                break
    os._exit(0)


def _allow_seconds(seconds: float) -> None:
    """CPU time from now on: the kernel ends the process that uses more."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    limit = int(used.ru_utime + used.ru_stime + 3 * seconds) + 2
    resource.setrlimit(resource.RLIMIT_CPU, (limit, resource.RLIM_INFINITY))


def _warm_up() -> None:
    """Load what parsers load at their first call, so that children need not."""
    from parsers import PARSERS

    # What pyarrow loads at its first table.
    for name in ("pandas", "pyarrow.dataset"):
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    with tempfile.TemporaryDirectory() as name:
        for data in (b"{}", b"a,b\n1,2\n", b"PAR1", b"PK\3\4"):
            path = Path(name) / "data"
            path.write_bytes(data)
            for read in PARSERS.values():
                with contextlib.suppress(Exception):
                    read(path)


def main() -> None:
    _warm_up()
    for line in sys.stdin.buffer:
        asked = json.loads(line)
        results = _run_batch(asked["parser"], asked["paths"], asked["seconds"], asked["memory_bytes"])
        sys.stdout.buffer.write(json.dumps(results).encode() + b"\n")
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
