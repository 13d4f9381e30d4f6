"""Reads untrusted files; pipes, sockets and devices are rejected.

Opening a pipe blocks until another process writes to it, and a device may never end.
"""

from __future__ import annotations

import errno
import io
import os
import stat
from pathlib import Path

#: What is read of a file as a whole.
_WHOLE_FILE_BYTES = 1 << 30
#: Files above that size may not be almost empty: of one byte in so many, at least, there must be data on the disk.
_HOLES_FROM_BYTES = 1 << 30
_HOLES_RATIO = 256
#: Pieces of data between holes that are looked at.
_PIECE_LIMIT = 1_000


class SpecialFile(OSError):
    """A pipe, a socket or a device instead of a regular file."""


class OversizedFile(OSError):
    """A file that is larger than any of its kind, or consists of holes."""


def open_regular(path: Path) -> io.BufferedReader:
    """Open a regular file, or a link to one, for reading; never blocks. One that consists of holes is rejected."""
    _check_regular(path, path.stat().st_mode, "not a regular file")
    # The file may have been replaced since. O_NONBLOCK has no effect on a regular file.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    file = os.fdopen(descriptor, "rb")
    try:
        status = os.fstat(descriptor)
        _check_regular(path, status.st_mode, "not a regular file")
        _check_holes(path, descriptor, status.st_size)
    except BaseException:
        file.close()
        raise
    return file


def read_regular(path: Path) -> bytes:
    """All bytes of a regular file; raises `OversizedFile` if they are more than 1 GiB."""
    with open_regular(path) as file:
        return _read_whole(path, file)


def read_regular_text(path: Path) -> str:
    """Read a regular file as UTF-8 text, with line endings converted to ``\\n``."""
    text = read_regular(path).decode("utf-8-sig")
    return io.IncrementalNewlineDecoder(None, translate=True).decode(text, final=True)


def _read_whole(path: Path, file: io.BufferedReader) -> bytes:
    size = os.fstat(file.fileno()).st_size
    # Memory is taken for as much as is asked for. The file may grow meanwhile.
    data = b"" if size > _WHOLE_FILE_BYTES else file.read(size + 1)
    if size > _WHOLE_FILE_BYTES or len(data) > _WHOLE_FILE_BYTES:
        raise OversizedFile(errno.EFBIG, "larger than 1 GiB", str(path))
    return data if len(data) <= size else data + file.read(_WHOLE_FILE_BYTES - len(data))


def _check_holes(path: Path, descriptor: int, size: int) -> None:
    if size > _HOLES_FROM_BYTES and _has_only_holes(descriptor, size):
        raise OversizedFile(errno.EFBIG, "consists of holes (a sparse file)", str(path))


def _has_only_holes(descriptor: int, size: int) -> bool:
    """Whether next to nothing of a file is on the disk, as far as the file system says."""
    if not hasattr(os, "SEEK_DATA"):
        return False
    data, at = 0, 0
    try:
        for _ in range(_PIECE_LIMIT):
            start = os.lseek(descriptor, at, os.SEEK_DATA)
            at = os.lseek(descriptor, start, os.SEEK_HOLE)
            data += at - start
    except OSError:
        # There is no data after this place.
        pass
    else:
        return False
    finally:
        os.lseek(descriptor, 0, os.SEEK_SET)
    return data * _HOLES_RATIO < size


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
