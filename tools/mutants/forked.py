"""Tests run in a forked process, which has the libraries loaded already and the package not yet."""

from __future__ import annotations

import contextlib
import importlib.metadata
import json
import os
import signal
import sys
import time
import traceback
import warnings
from collections import defaultdict
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import coverage
import pytest


@dataclass(frozen=True)
class Tests:
    """Which tests: files or folders, and of these, if any are named, only those."""

    paths: tuple[str, ...]
    only: tuple[str, ...] = ()
    #: Where to write which test runs which line; without it nothing is traced and the first failure ends it.
    traced: str | None = None
    #: A PostgreSQL server with a migrated template, so that each process need not start its own.
    database: str | None = None


@dataclass
class Child:
    """A forked run of tests: a process group of its own."""

    pid: int
    log: Path
    started: float
    status: int | None = None

    def poll(self) -> int | None:
        """The exit code, once there is one."""
        if self.status is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.status = os.waitstatus_to_exitcode(status)
                self.kill()
        return self.status

    def kill(self) -> None:
        """End whatever is left of the group, and nothing else."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)
        if self.status is None:
            _, status = os.waitpid(self.pid, 0)
            self.status = os.waitstatus_to_exitcode(status)

    def wait(self, seconds: float) -> int | None:
        """The exit code; ``None`` if it had to be killed."""
        while self.poll() is None:
            if time.monotonic() - self.started > seconds:
                self.kill()
                return None
            time.sleep(0.05)
        return self.status

    @property
    def failed(self) -> str:
        """The first test that failed, as the run has noted it."""
        note = self.log.with_suffix(".failed")
        return note.read_text(encoding="utf-8") if note.exists() else ""


def load_libraries(names: Sequence[str], package: str = "tiltyard") -> None:
    """Import what is not mutated, and pytest's plugins, once for all runs."""
    plugins = [one.module for one in importlib.metadata.entry_points(group="pytest11")]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in [*names, *plugins]:
            with contextlib.suppress(ImportError):
                importlib.import_module(name)
    if any(name.partition(".")[0] == package for name in sys.modules):
        sys.exit("the package is loaded already: mutants would not be seen")


def fork_tests(root: Path, tests: Tests, log: Path) -> Child:
    """Begin to run tests in a copy of the repository."""
    log.with_suffix(".failed").unlink(missing_ok=True)
    pid = os.fork()
    if pid:
        return Child(pid, log, time.monotonic())
    code = 3
    try:
        os.setsid()
        with log.open("w", encoding="utf-8") as file:
            os.dup2(file.fileno(), 1)
            os.dup2(file.fileno(), 2)
        code = _run(root, tests, log)
    except BaseException:  # noqa: BLE001 - whatever it is, it must not go on as a second parent
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        os._exit(code)


def _run(root: Path, tests: Tests, log: Path) -> int:
    os.chdir(root)
    sys.dont_write_bytecode = True
    os.environ |= {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": f"{root / 'src'}"}
    sys.path[:0] = [f"{root / 'src'}", f"{root / 'tests'}"]
    if tests.database is not None:
        _share_server(tests.database)
    tracing = _Tracing(root) if tests.traced else None
    plugins: list[object] = [_Chosen(tests.only, log.with_suffix(".failed"))]
    plugins += [tracing] if tracing else []
    options = ["-q", "-p", "no:cacheprovider", "-W", "ignore::pytest.PytestAssertRewriteWarning"]
    options += [] if tracing else ["-x"]
    code = int(pytest.main([*options, *tests.paths], plugins=plugins))
    if tracing and tests.traced:
        tracing.write(Path(tests.traced))
    return code


def _share_server(url: str) -> None:
    from support import postgres_servers

    @contextlib.contextmanager
    def running(binaries: Path | None = None) -> Iterator[str]:
        if binaries is None:
            yield url
        else:
            with own(binaries) as other:
                yield other

    own, postgres_servers.postgres = postgres_servers.postgres, running
    migrated = postgres_servers.migrated_template
    postgres_servers.migrated_template = lambda server: (
        "tiltyard_template" if server == url else migrated(server)
    )


class _Chosen:
    """Runs chosen tests only, those of one file together, short ones first; failures are not shrunk."""

    def __init__(self, only: tuple[str, ...], note: Path) -> None:
        self._order = {name: place for place, name in enumerate(only)}
        self._note = note

    def pytest_collection(self) -> None:
        from hypothesis import Phase, settings

        settings.register_profile(
            "mutants", parent=settings(), phases=[Phase.explicit, Phase.generate], report_multiple_bugs=False
        )
        settings.load_profile("mutants")

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        if not self._order:
            return
        first: dict[str, int] = {}
        for name, place in self._order.items():
            first.setdefault(name.partition("::")[0], place)
        items[:] = sorted(
            (item for item in items if item.nodeid in self._order),
            key=lambda item: (first[item.nodeid.partition("::")[0]], self._order[item.nodeid]),
        )

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed and not self._note.exists():
            self._note.write_text(report.nodeid, encoding="utf-8")

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed and not self._note.exists():
            self._note.write_text(f"import of {report.nodeid}", encoding="utf-8")


class _Tracing:
    """Notes the lines and the seconds of every test."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._seconds: dict[str, float] = defaultdict(float)
        self._coverage = coverage.Coverage(data_file=None, source=[str(root / "src")], config_file=False)
        self._coverage.start()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        """Processor time: what a test waits for is mostly the other processes of a busy machine."""
        began = time.process_time()
        self._coverage.switch_context(item.nodeid)
        done = yield
        self._seconds[item.nodeid] = time.process_time() - began
        return done

    def write(self, out: Path) -> None:
        self._coverage.stop()
        data: Any = self._coverage.get_data()
        lines = {}
        for file in data.measured_files():
            found = {
                str(line): [test for test in tests if test]
                for line, tests in data.contexts_by_lineno(file).items()
            }
            path = str(Path(file).relative_to(self._root))
            lines[path] = {line: tests for line, tests in found.items() if tests}
        out.write_text(json.dumps({"seconds": self._seconds, "lines": lines}), encoding="utf-8")
