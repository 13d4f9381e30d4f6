"""Run recipes of the justfile in parallel lanes, and report the time of each.

    python tools/lanes.py --first bundle --at-once 4 "pure rest" "lint layers types docs wheel"

Recipes of one lane run in sequence, lanes run in parallel: all, or so many at once, in the order in which they
are given. Each recipe's output goes to a file; the output of those that failed is printed at the end. Every recipe runs, whatever fails before it.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime as dt
import os
import platform
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LOGS = ROOT / ".cache" / "lanes"
#: How long an interrupted recipe may take to end.
STOP_SECONDS = 10.0
#: How often an interrupt is looked for.
_LOOK_SECONDS = 0.5


@dataclass(frozen=True)
class Finished:
    """A finished recipe."""

    recipe: str
    seconds: float
    code: int
    log: Path

    @property
    def passed(self) -> bool:
        return self.code == 0


class Runner:
    """Runs recipes, each in its own process group, until all have ended or `stop` is called."""

    def __init__(
        self,
        command: Sequence[str] = ("just",),
        logs: Path = LOGS,
        say: Callable[[str], None] | None = None,
    ) -> None:
        self._command = command
        self._logs = logs
        self._say = say or (lambda line: print(line, flush=True))
        self._running: set[subprocess.Popen[bytes]] = set()
        self._lock = threading.Lock()
        self._stopped = False

    def run(self, lanes: Sequence[Sequence[str]], at_once: int | None = None) -> list[Finished]:
        """Run lanes in parallel, all or so many at once; return the finished recipes, in the order of the lanes."""
        with ThreadPoolExecutor(at_once or max(1, len(lanes))) as threads:
            try:
                lanes_running = [threads.submit(self._lane, lane) for lane in lanes]
                # Not one long wait: a signal that comes just before it is not noticed until it ends.
                while wait(lanes_running, timeout=_LOOK_SECONDS).not_done:
                    pass
                return [finished for lane in lanes_running for finished in lane.result()]
            except BaseException:
                self.stop()
                raise

    def stop(self) -> None:
        """Stop all running recipes, and start no more."""
        with self._lock:
            self._stopped = True
            running = list(self._running)
        for process in running:
            _signal(process, signal.SIGINT)
        end = time.monotonic() + STOP_SECONDS
        while any(process.poll() is None for process in running) and time.monotonic() < end:
            time.sleep(0.05)
        for process in running:
            _signal(process, signal.SIGKILL)

    def _lane(self, recipes: Sequence[str]) -> list[Finished]:
        ended = (self._recipe(recipe) for recipe in recipes)
        return [finished for finished in ended if finished is not None]

    def _recipe(self, recipe: str) -> Finished | None:
        self._logs.mkdir(parents=True, exist_ok=True)
        log = self._logs / f"{recipe}.log"
        began = time.monotonic()
        with log.open("wb") as out:
            process = self._start(recipe, out.fileno())
            if process is None:
                return None
            code = process.wait()
        with self._lock:
            self._running.discard(process)
        finished = Finished(recipe, time.monotonic() - began, code, log)
        self._say(f"{'passed' if finished.passed else 'FAILED'}  {recipe}  {_minutes(finished.seconds)}")
        return finished

    def _start(self, recipe: str, out: int) -> subprocess.Popen[bytes] | None:
        """Start a recipe unless stopped; holds the lock, so that `stop` misses no process."""
        with self._lock:
            if self._stopped:
                return None
            process = subprocess.Popen(
                [*self._command, recipe],
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            self._running.add(process)
            return process


def _signal(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, number)


def summary(finished: Sequence[Finished], wall_seconds: float) -> str:
    """A table of the time of each recipe and in total."""
    rows = [
        (each.recipe, _minutes(each.seconds), "passed" if each.passed else f"failed ({each.code})")
        for each in finished
    ]
    rows.append(("wall time", _minutes(wall_seconds), ""))
    width = max(len(row[0]) for row in rows)
    return "\n".join(f"{name:{width}}  {taken:>8}  {end}".rstrip() for name, taken, end in rows)


def result_page(
    title: str, finished: Sequence[Finished], wall_seconds: float, today: dt.date, load: float
) -> str:
    """The same as a dated page of the documentation, with the last output line of each recipe.

    ``load`` is the load average before the run: how busy others kept the machine.
    """
    machine = f"Python {platform.python_version()} on {os.cpu_count()} cores (load {load:.0f} before it)"
    lines = [
        f"# {title}",
        "",
        f"Run on {today} with {machine}, {_minutes(wall_seconds)} in all. The justfile says what each step runs.",
        "",
        "| step | time | result | last line |",
        "|---|---:|---|---|",
    ]
    for each in finished:
        end = "passed" if each.passed else f"failed ({each.code})"
        lines.append(f"| `{each.recipe}` | {_minutes(each.seconds)} | {end} | {_last_line(each.log)} |")
    return "\n".join(lines) + "\n"


def _last_line(log: Path) -> str:
    lines = [line.strip(" =") for line in log.read_text(errors="replace").splitlines() if line.strip(" =")]
    return lines[-1].replace("|", "\\|") if lines else ""


def _minutes(seconds: float) -> str:
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d} min"


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("lanes", nargs="+", help="recipes of one lane, separated by spaces")
    parser.add_argument("--first", default="", help="recipes that run before the lanes")
    parser.add_argument(
        "--at-once", type=int, help="how many lanes run at once, the first ones first; by default all"
    )
    parser.add_argument("--page", type=Path, help="write the table to this page of the documentation")
    parser.add_argument("--title", default="The release run, measured", help="the title of that page")
    asked = parser.parse_args(arguments)
    runner = Runner()
    began, load = time.monotonic(), os.getloadavg()[1]
    try:
        finished = runner.run([asked.first.split()])
        finished += runner.run([lane.split() for lane in asked.lanes], asked.at_once)
    except KeyboardInterrupt:
        print("Interrupted.")
        return 130
    wall_seconds = time.monotonic() - began
    for each in finished:
        if not each.passed:
            print(
                f"\n--- {each.recipe} ({each.log.relative_to(ROOT)})\n{each.log.read_text(errors='replace')}"
            )
    print("\n" + summary(finished, wall_seconds))
    if asked.page is not None:
        today = dt.datetime.now(dt.UTC).date()
        asked.page.write_text(result_page(asked.title, finished, wall_seconds, today, load), encoding="utf-8")
    return 0 if all(each.passed for each in finished) else 1


if __name__ == "__main__":
    sys.exit(main())
