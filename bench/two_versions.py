"""CPU time of two installed versions, run in turn: `python bench/two_versions.py --old PYTHON --new PYTHON`.

PYTHON is the interpreter of an environment in which one version is installed from its wheel, with the extra
`arena` (for the cases with a server). Only what both versions have is used: the public API, the commands and the HTTP
API. Each pair runs every case once with either version, the order alternating, so that a busy machine slows both alike.

With `--limits` the limits of sessions and networks are counted, as on a public address, and nobody reaches them. What
the defences cost on the path of a vote: `--only "vote cycle" --limits`, with `--old` a version before them (64b3e640).
"""

from __future__ import annotations

import argparse
import os
import re
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tiltyard import Client

FIT = """
import sys, time, tiltyard
table = tiltyard.read_table(sys.argv[1])
method = tiltyard.BradleyTerry()
method(table)
start = time.process_time()
for _ in range(5):
    method(table)
print(time.process_time() - start)
"""
CYCLE_VOTES = 300
BOARD_REQUESTS = 60
DEMO_VOTES = 1500
FIT_ROWS = 200_000


@dataclass(frozen=True)
class Version:
    """One installed version, and its server, which runs as long as the measurement."""

    name: str
    python: Path
    address: str
    process: int
    #: How long each vote took, with its matchup and both responses, in seconds of the clock.
    vote_seconds: list[float] = field(default_factory=list)


def cpu_seconds(root: int) -> float:
    """CPU time of a process and of everything below it, PostgreSQL included."""
    parents, spent = {}, {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            text = (folder / "stat").read_text()
        except OSError:
            continue
        fields = text.rpartition(")")[2].split()
        parents[int(folder.name)] = int(fields[1])
        spent[int(folder.name)] = sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")

    def below(process: int) -> bool:
        while process > 1:
            if process == root:
                return True
            process = parents.get(process, 0)
        return False

    return sum(seconds for process, seconds in spent.items() if below(process))


def fit(version: Version, data: Path) -> float:
    """Five Bradley–Terry fits with intervals, of a table that is read already."""
    command = [str(version.python), "-c", FIT, str(data)]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def rate(version: Version, data: Path) -> float:
    """The whole command on a Parquet file, interpreter and imports included."""
    process = subprocess.Popen(
        [str(version.python), "-m", "tiltyard", "rate", str(data)], stdout=subprocess.DEVNULL
    )
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{version.name}: tiltyard rate ended with {process.returncode}")
    return usage.ru_utime + usage.ru_stime


def cycle(version: Version, _: Path) -> float:
    """Votes over HTTP, each with its matchup and both responses: CPU time of the server."""
    start = cpu_seconds(version.process)
    for _voter in range(3):
        with Client(version.address) as voter:
            for _vote in range(CYCLE_VOTES // 3):
                asked = time.perf_counter()
                matchup = voter.next_matchup("demo")
                voter.response(matchup.matchup, "a")
                voter.response(matchup.matchup, "b")
                voter.vote(matchup.matchup, "model_a")
                version.vote_seconds.append(time.perf_counter() - asked)
    return cpu_seconds(version.process) - start


def board(version: Version, _: Path) -> float:
    """Pages of the board, each with another query so that none is kept: CPU time of the server."""
    import urllib.request

    start = cpu_seconds(version.process)
    for number in range(BOARD_REQUESTS):
        url = f"{version.address}/arenas/demo?q=a{os.urandom(4).hex()}{number}"
        with urllib.request.urlopen(url) as answer:
            answer.read()
    return cpu_seconds(version.process) - start


#: Limits that are counted and not reached. A version that knows none overlooks them.
_MANY = "matchups=1000000, votes=1000000, skips=1000000, reveals=1000000, reports=1000000"
LIMITS = {"TILTYARD_SESSION_LIMITS": _MANY, "TILTYARD_NETWORK_LIMITS": _MANY}

CASES = {"bt": fit, "rate on Parquet": rate, "vote cycle": cycle, "board page": board}
SERVED = {"vote cycle", "board page"}


@contextmanager
def serving(name: str, python: Path, account: str | None, *, limits: bool = False) -> Iterator[Version]:
    """A version with its demonstration arena."""
    with tempfile.TemporaryDirectory() as home:
        Path(home).chmod(0o755)
        command = [str(python), "-m", "tiltyard", "demo", "--home", f"{home}/demo", "--port", "0"]
        command += ["--votes", str(DEMO_VOTES), *(["--as-user", account] if account else [])]
        with subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, **(LIMITS if limits else {})},
        ) as process:
            assert process.stdout is not None
            try:
                for line in process.stdout:
                    print(f"{name}: {line}", end="")
                    if found := re.search(r"http://127\.0\.0\.1:\d+", line):
                        yield Version(name, python, found[0], process.pid)
                        return
                raise SystemExit(f"{name}: the server did not start")
            finally:
                process.terminate()
                process.communicate()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--old", type=Path, required=True)
    parser.add_argument("--new", type=Path, required=True)
    parser.add_argument("--pairs", type=int, default=12)
    parser.add_argument("--only", choices=list(CASES), action="append")
    parser.add_argument("--rows", type=int, default=FIT_ROWS)
    parser.add_argument("--as-user")
    parser.add_argument("--limits", action="store_true")
    options = parser.parse_args()
    served = not options.only or not SERVED.isdisjoint(options.only)
    with tempfile.TemporaryDirectory() as folder, ExitStack() as servers:
        old, new = (
            servers.enter_context(serving(name, python, options.as_user, limits=options.limits))
            if served
            else Version(name, python, "", 0)
            for name, python in (("old", options.old), ("new", options.new))
        )
        data = Path(folder) / "battles.parquet"
        command = [str(old.python), "-m", "tiltyard", "demo", "battles", str(data)]
        subprocess.run([*command, "--n", str(options.rows)], check=True)
        print(
            "| case | CPU s, old | CPU s, new | median of new ÷ old | quartiles |\n|---|---:|---:|---:|---:|"
        )
        for name, case in CASES.items():
            if options.only and name not in options.only:
                continue
            pairs = []
            for number in range(options.pairs):
                first, second = (old, new) if number % 2 else (new, old)
                seconds = {first.name: case(first, data), second.name: case(second, data)}
                pairs.append((seconds["old"], seconds["new"]))
            ratios = [after / before for before, after in pairs]
            low, middle, high = statistics.quantiles(ratios, n=4)
            before, after = (statistics.median(side) for side in zip(*pairs, strict=True))
            print(
                f"| {name} | {before:.3f} | {after:.3f} | {middle:.3f} | {low:.3f}–{high:.3f} |", flush=True
            )
        for version in (old, new):
            if version.vote_seconds:
                waits = statistics.quantiles(version.vote_seconds, n=100)
                print(
                    f"{version.name}: {len(version.vote_seconds):,} votes, each with its matchup and both "
                    f"responses: p50 {waits[49] * 1000:.1f} ms, p99 {waits[98] * 1000:.1f} ms"
                )


if __name__ == "__main__":
    main()
