"""Reads untrusted files; pipes, sockets and devices are rejected.

Opening a pipe blocks until another process writes to it, and a device may never end.
"""

from __future__ import annotations

import errno
import io
import os
import stat
from pathlib import Path

__all__ = ["SpecialFile", "check_no_device", "open_regular", "read_regular", "read_regular_text"]


class SpecialFile(OSError):
    """A pipe, a socket or a device instead of a regular file."""


def open_regular(path: Path) -> io.BufferedReader:
    """Open a regular file, or a link to one, for reading; never blocks."""
    _check_regular(path, path.stat().st_mode, "not a regular file")
    # The file may have been replaced since. O_NONBLOCK has no effect on a regular file.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    file = os.fdopen(descriptor, "rb")
    try:
        _check_regular(path, os.fstat(descriptor).st_mode, "not a regular file")
    except BaseException:
        file.close()
        raise
    return file


def read_regular(path: Path) -> bytes:
    """All bytes of a regular file."""
    with open_regular(path) as file:
        return file.read()


def read_regular_text(path: Path) -> str:
    """Read a regular file as UTF-8 text, with line endings converted to ``\\n``."""
    with io.TextIOWrapper(open_regular(path), encoding="utf-8-sig") as file:
        return file.read()


def check_no_device(path: Path) -> None:
    """Raise unless the path is a regular file or a pipe, such as a shell's ``<(…)``."""
    mode = path.stat().st_mode
    if not stat.S_ISFIFO(mode):
        _check_regular(path, mode, "neither a regular file nor a pipe")


def _check_regular(path: Path, mode: int, problem: str) -> None:
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if not stat.S_ISREG(mode):
        raise SpecialFile(errno.EINVAL, problem, str(path))
