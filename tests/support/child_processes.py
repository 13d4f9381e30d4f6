"""Processes of `tiltyard serve`, started without its supervisor, each with a log of its own."""

import logging
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from ctypes import c_double
from pathlib import Path
from typing import Any

from tiltyard.arena.operators.crowd import hold_crowd_change
from tiltyard.arena.rating.rater_process import RaterPace, RaterProcess
from tiltyard.web.server.supervisor import ChildConfig, run_child, stop_by_signal

_START_SECONDS = 240.0


class ChildProcess:
    """One process, which runs until it is signalled or the tests end. ``run`` is `run_child` or `run_quick_rater`."""

    def __init__(
        self,
        config: ChildConfig,
        log: Path,
        variables: Mapping[str, str],
        run: Callable[[ChildConfig, c_double], None] = run_child,
    ) -> None:
        context = multiprocessing.get_context("spawn")
        self._beat_at: Any = context.RawValue(c_double, 0.0)
        self._log = log
        self._process = context.Process(target=_run_logged, args=(run, config, self._beat_at, log))
        with _environment(variables):
            self._process.start()

    @property
    def pid(self) -> int:
        assert self._process.pid is not None
        return self._process.pid

    def wait_until_ready(self) -> None:
        until = time.monotonic() + _START_SECONDS
        while not self._beat_at.value:
            assert self._process.is_alive(), self._log.read_text()[-2000:]
            assert time.monotonic() < until, self._log.read_text()[-2000:]
            time.sleep(0.01)

    def alive(self) -> bool:
        return self._process.is_alive()

    def send_signal(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError):
            os.kill(self.pid, number)

    def join(self, seconds: float | None = None) -> bool:
        """Wait for its end; whether it has ended."""
        self._process.join(seconds)
        return not self._process.is_alive()


def run_quick_rater(config: ChildConfig, beat_at: c_double) -> None:
    """A rater that writes checkpoints often."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    logging.basicConfig(level=logging.INFO)
    parent, stop = multiprocessing.parent_process(), threading.Event()
    assert parent is not None
    threading.Thread(target=lambda: (parent.join(), os._exit(1)), daemon=True).start()
    stop_by_signal(stop.set)
    pace = RaterPace(step=500, checkpoint_events=200)
    RaterProcess(
        config.url,
        pace=pace,
        on_step=lambda: setattr(beat_at, "value", time.monotonic()),
        hold_change=hold_crowd_change,
    ).run(stop)


def _run_logged(
    run: Callable[[ChildConfig, c_double], None], config: ChildConfig, beat_at: c_double, log: Path
) -> None:
    with log.open("ab") as file:
        os.dup2(file.fileno(), 2)
    run(config, beat_at)


@contextmanager
def _environment(variables: Mapping[str, str]) -> Iterator[None]:
    before = dict(os.environ)
    os.environ.update(variables)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)
