"""Run the tests nearest to the change, for at most a minute, and list what was skipped.

    python tools/quick.py [--base main] [--seconds 60]

The change is the difference to ``--base``, including uncommitted and untracked files; on the base itself,
without such files, it is the last commit.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Generator, Sequence
from pathlib import Path, PurePosixPath
from types import FrameType

import pytest

from nearest import CHANGED, NAMESAKE, Near, nearest, test_count

ROOT = Path(__file__).resolve().parents[1]
LIMIT_SECONDS = 60.0
#: The last seconds of these, in which a running test may finish.
GRACE_SECONDS = 5.0
#: Number of further test files collected at a time.
BATCH_FILES = 12


class Deadline:
    """A pytest plugin that counts tests and stops at the time limit."""

    def __init__(self, end: float) -> None:
        self.end = end
        self.failed = 0
        self.passed = 0
        #: Whether the current batch has been collected.
        self.collected = False
        self.waiting: Counter[str] = Counter()

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        self.failed += report.failed

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self.collected = True
        self.waiting.update(_file(item.nodeid) for item in session.items)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.failed += 1
        elif report.when == "call":
            self.passed += 1

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        done = yield
        self.waiting[_file(item.nodeid)] -= 1
        if time.monotonic() > self.end - GRACE_SECONDS:
            item.session.shouldstop = "the time is over"
        return done


def _file(nodeid: str) -> str:
    return nodeid.split("::", maxsplit=1)[0]


def changed_files(base: str) -> list[str]:
    """Changed paths, relative to the root of the repository."""
    start = _git("merge-base", base, "HEAD") or ["HEAD"]
    found = {*_git("diff", "--name-only", start[0]), *_git("ls-files", "--others", "--exclude-standard")}
    return sorted(found or _git("diff", "--name-only", "HEAD~1"))


def _git(*arguments: str) -> list[str]:
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)  # noqa: S607
    return done.stdout.splitlines() if done.returncode == 0 else []


def python_sources() -> dict[str, str]:
    """The text of every Python file of the package, the validation suite and the tests."""
    paths = [*(ROOT / "src").rglob("*.py"), *(ROOT / "lab").rglob("*.py"), *(ROOT / "tests").rglob("*.py")]
    return {path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8") for path in paths}


def batches(tests: Sequence[Near]) -> list[list[str]]:
    """Batches of test files for pytest: the nearest together, the others a few at a time."""
    first = [near.path for near in tests if near.rank in {CHANGED, NAMESAKE}]
    others = [near.path for near in tests if near.rank not in {CHANGED, NAMESAKE}]
    parts = [others[at : at + BATCH_FILES] for at in range(0, len(others), BATCH_FILES)]
    return [part for part in (first, *parts) if part]


def run(parts: Sequence[list[str]], deadline: Deadline) -> list[list[str]]:
    """Run the batches until the time limit; return those not started."""
    signal.signal(signal.SIGALRM, _interrupt)
    for number, part in enumerate(parts):
        left = deadline.end - time.monotonic()
        if left <= GRACE_SECONDS:
            return list(parts[number:])
        deadline.collected = False
        signal.setitimer(signal.ITIMER_REAL, left)
        try:
            pytest.main(["-q", "--tb=short", "--no-header", "-n0", *part], plugins=[deadline])
        except KeyboardInterrupt:
            print("Stopped while tests were collected.")
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
        if not deadline.collected and time.monotonic() >= deadline.end:
            return list(parts[number:])
    return []


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def left_out(waiting: Counter[str], never_begun: Sequence[list[str]], sources: dict[str, str]) -> str:
    """How many tests of which folders were not run; of files never collected, how many functions."""
    counted: Counter[str] = Counter()
    for path, count in waiting.items():
        counted[str(PurePosixPath(path).parent)] += count
    for path in (path for part in never_begun for path in part):
        counted[str(PurePosixPath(path).parent)] += test_count(sources[path])
    lines = [f"  {count:5}  {folder}" for folder, count in sorted(counted.items()) if count > 0]
    if not lines:
        return "Nothing that this change reaches was left out."
    return "\n".join(["Left out for want of time (`just check` runs them):", *lines])


def lint(changed: Sequence[str]) -> bool:
    """Whether ruff accepts the changed files."""
    files = [path for path in changed if path.endswith(".py") and (ROOT / path).exists()]
    if not files:
        return True
    commands = (["ruff", "check", *files], ["ruff", "format", "--check", *files])
    return all([subprocess.run(command, cwd=ROOT, check=False).returncode == 0 for command in commands])  # noqa: C419


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    known = "origin/main" if _git("rev-parse", "--verify", "--quiet", "origin/main") else "main"
    parser.add_argument("--base", default=known, help=f"what the change is compared with (default: {known})")
    parser.add_argument("--seconds", type=float, default=LIMIT_SECONDS, help="stop after so many seconds")
    asked = parser.parse_args(arguments)
    deadline = Deadline(time.monotonic() + asked.seconds)
    os.chdir(ROOT)
    changed = changed_files(asked.base)
    print(f"{len(changed)} changed files")
    clean = lint(changed)
    sources = python_sources()
    never_begun = run(batches(nearest(changed, sources)), deadline)
    print(f"\n{deadline.passed} passed, {deadline.failed} failed")
    print(left_out(deadline.waiting, never_begun, sources))
    return 0 if clean and not deadline.failed else 1


if __name__ == "__main__":
    sys.exit(main())
