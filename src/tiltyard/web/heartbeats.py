"""Heartbeats: a child process of `tiltyard serve` writes the time, and the supervisor reads it.

The time is that of the system's monotonic clock, which all processes of a machine share.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

__all__ = ["FOLDER_VARIABLE", "Heartbeat", "read_heartbeat"]

#: The folder in which the processes of one server keep metrics and heartbeats. Prometheus's library reads it when
#: it is imported.
FOLDER_VARIABLE = "PROMETHEUS_MULTIPROC_DIR"

_WIDTH_BYTES = 24
#: Seconds between writes, however often `Heartbeat.beat` is called.
_WRITE_SECONDS = 1.0


class Heartbeat:
    """The heartbeat of this process, in a folder that its supervisor reads; without a folder it does nothing."""

    def __init__(self, folder: str | None) -> None:
        self._file: int | None = None
        self._written = float("-inf")
        if folder:
            path = _path(Path(folder), os.getpid())
            self._file = os.open(path, os.O_CREAT | os.O_WRONLY, 0o600)
            self.beat()

    def beat(self) -> None:
        """Tell that this process works."""
        now = time.monotonic()
        if self._file is not None and now - self._written >= _WRITE_SECONDS:
            self._written = now
            # One write of a fixed width, so that a reader never sees a part of it.
            os.pwrite(self._file, f"{now:<{_WIDTH_BYTES}.3f}".encode(), 0)


def read_heartbeat(folder: Path, pid: int) -> float | None:
    """Seconds since the last heartbeat of a process; ``None`` if it has not written any yet."""
    try:
        written = float(_path(folder, pid).read_text("ascii"))
    except (FileNotFoundError, ValueError):
        return None
    return time.monotonic() - written


def _path(folder: Path, pid: int) -> Path:
    return folder / f"{pid}.heartbeat"
