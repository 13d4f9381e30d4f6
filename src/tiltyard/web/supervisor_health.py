"""Whether a supervisor and its child processes work, for probes and for systemd's watchdog."""

from __future__ import annotations

import time
from pathlib import Path

from tiltyard.web.heartbeats import read_heartbeat

__all__ = ["SupervisorHealth"]

#: Seconds without a heartbeat after which a process counts as hung. A rater beats between steps, of which one with
#: many boards can take minutes.
_SILENT_SECONDS = {"supervisor": 15.0, "web": 30.0, "rater": 300.0}
#: Seconds that a child has for its first heartbeat.
_START_SECONDS = 120.0


class SupervisorHealth:
    """Kept up to date by the supervisor's event loop and read by other threads."""

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder
        self._beat_at = time.monotonic()
        #: Part and time of start of each running child, by process id.
        self._children: dict[int, tuple[str, float]] = {}
        self._unready = 1

    def watch(self, folder: Path, parts: int) -> None:
        """Start to watch: where children write their heartbeats, and how many must get ready."""
        self._folder = folder
        self._unready = parts
        self.beat()

    def beat(self) -> None:
        """Tell that the supervisor's event loop runs."""
        self._beat_at = time.monotonic()

    def child_started(self, part: str, pid: int) -> None:
        self._children[pid] = (part, time.monotonic())

    def child_ready(self) -> None:
        self._unready -= 1

    def child_ended(self, pid: int, *, was_ready: bool) -> None:
        self._children.pop(pid, None)
        self._unready += was_ready

    @property
    def ready(self) -> bool:
        """Whether every child process is ready."""
        return self._unready <= 0 and not self.problems()

    def problems(self) -> list[str]:
        """What does not work; a child that is being restarted is no problem."""
        now = time.monotonic()
        found = []
        if now - self._beat_at > _SILENT_SECONDS["supervisor"]:
            found.append(f"the supervisor has not responded for {now - self._beat_at:.0f} s")
        for pid, (part, started) in list(self._children.items()):
            silent = None if self._folder is None else read_heartbeat(self._folder, pid)
            limit = _START_SECONDS if silent is None else _SILENT_SECONDS[part]
            if (silent := now - started if silent is None else silent) > limit:
                found.append(f"the {part} process has not responded for {silent:.0f} s")
        return found
