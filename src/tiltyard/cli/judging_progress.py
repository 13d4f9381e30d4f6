"""Progress of judge calls: a bar on a terminal, plain lines in a log."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import typer

from tiltyard.report.terminal_escape import escape_controls
from tiltyard.settings.prices import format_dollars

if TYPE_CHECKING:
    from tiltyard.judges.judging_run import RunProgress


#: Seconds between progress lines in a log.
_LOG_LINE_SECONDS = 10.0
_REPLIED = ("ok", "refused", "truncated", "unparseable")
_SHOWN = ("ok", "refused", "truncated", "unparseable", "provider_error", "expired", "lost")


class JudgingProgress:
    """Shows finished calls by result, dollars spent, and the time left."""

    def __init__(self) -> None:
        self._bar: Any = None
        self._task: Any = None
        self._total = 0
        self._spent = 0
        self._cap: int | None = None
        self._printed_at = self._began = time.monotonic()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close_bar()

    def _close_bar(self) -> None:
        if self._bar is not None:
            self._bar.stop()
            self._bar = None

    def begun(self, out: Path, calls: int, spent: int, cap: int | None, *, resumed: bool) -> None:
        self._close_bar()
        self._total, self._spent, self._cap = calls, spent, cap
        self._printed_at = self._began = time.monotonic()
        self._tell_begin(out, resumed)
        if calls and sys.stderr.isatty():
            self._open_bar(calls)

    def _tell_begin(self, out: Path, resumed: bool) -> None:
        verb = "Resuming" if resumed else "Writing to"
        place = escape_controls(str(out))
        typer.echo(f"{verb} {place}: {self._total:,} calls to make{self._limit()}.", err=True)

    def _limit(self) -> str:
        if self._cap is None:
            return ""
        return f", {format_dollars(self._spent)} of {format_dollars(self._cap)} spent"

    def _open_bar(self, calls: int) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        columns = (
            TextColumn("judging"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.description}"),
            TimeRemainingColumn(),
        )
        self._bar = Progress(*columns, console=Console(stderr=True), transient=True)
        self._task = self._bar.add_task("", total=calls)
        self._bar.start()

    def tick(self, progress: RunProgress) -> None:
        # A reply that could not be parsed is retried once and then counts twice: cap the count at the total.
        done = min(sum(progress.states[name] for name in _REPLIED), self._total)
        if self._bar is not None:
            self._bar.update(self._task, completed=done, description=self._line(progress))
            return
        now = time.monotonic()
        if now - self._printed_at >= _LOG_LINE_SECONDS:
            self._printed_at = now
            left = (self._total - done) * (now - self._began) / done if done else None
            eta = "" if left is None else f", about {_duration(left)} left"
            typer.echo(f"{done:,} of {self._total:,} calls ({self._line(progress)}){eta}", err=True)

    def _line(self, progress: RunProgress) -> str:
        states = ", ".join(f"{name} {progress.states[name]:,}" for name in _SHOWN if progress.states[name])
        spent = None if progress.spent is None else self._spent + progress.spent
        money = (
            format_dollars(spent)
            if self._cap is None
            else f"{format_dollars(spent)} of {format_dollars(self._cap)}"
        )
        return f"{states or 'none yet'}; {money}"

    def note(self, sentence: str) -> None:
        self.tell(f"{sentence}.")

    def tell(self, line: str) -> None:
        """Print a line, above the bar if there is one."""
        if self._bar is not None:
            self._bar.console.print(escape_controls(line), markup=False, highlight=False, soft_wrap=True)
        else:
            typer.echo(escape_controls(line), err=True)

    def rating(self) -> None:
        if self._bar is not None:
            self._bar.update(self._task, description="rating")


class QuietProgress(JudgingProgress):
    """The progress of a run that is made of many short ones: only the first says where it is written."""

    _told = False

    def _tell_begin(self, out: Path, resumed: bool) -> None:
        if not self._told:
            self._told = True
            super()._tell_begin(out, resumed)


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
