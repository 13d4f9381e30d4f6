"""Files of this machine: written whole or not at all, locked, and read without waiting.

A file or a folder appears under its name when it is complete. The operating system releases a lock when its process
ends, however it ends. Where a regular file is expected, pipes, sockets and devices are rejected: opening a pipe blocks
until another process writes to it, and a device may never end.
"""

from __future__ import annotations

import errno
import glob
import io
import os
import secrets
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, BinaryIO

from tiltyard.errors import BadOption

_PRIVATE = partial(os.open, mode=0o600)
#: Never waiting, never the terminal, and every byte as it is; each as far as the operating system knows it.
_READ_FLAGS = (
    os.O_RDONLY
    | getattr(os, "O_NONBLOCK", 0)
    | getattr(os, "O_NOCTTY", 0)
    | getattr(os, "O_CLOEXEC", 0)
    | getattr(os, "O_BINARY", 0)
)
#: What processes lock of a file on Windows: a byte that no file has.
_BEHIND_ANY_FILE_BYTES = 1 << 30
#: What is read of a file as a whole.
_WHOLE_FILE_BYTES = 1 << 30
#: Files above that size may not be almost empty: of one byte in so many, at least, there must be data on the disk.
_HOLES_FROM_BYTES = 1 << 30
_HOLES_RATIO = 256
#: Pieces of data between holes that are looked at.
_PIECE_LIMIT = 1_000


@contextmanager
def atomic_write(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Write an output file that the user named: `replace_file` with `BadOption` if it cannot be written."""
    with refuse_unwritable(path), replace_file(Path(path)) as file:
        yield file


@contextmanager
def refuse_unwritable(path: str | os.PathLike[str]) -> Iterator[None]:
    """Raise `BadOption` if a file or folder that the user named cannot be written in this block."""
    try:
        yield
    except OSError as error:
        raise BadOption(f"cannot write {os.fspath(path)}: {error.strerror or error}") from None


@contextmanager
def replace_file(path: Path, *, durable: bool = False, private: bool = False) -> Iterator[BinaryIO]:
    """Write to a temporary file that replaces ``path`` at the end of the block; an error removes it.

    ``durable``: the content and then the name are flushed to disk, so that a power failure afterwards loses
    neither. ``private``: only the owner can read the file, from the start.
    """
    draft = _draft(path)
    try:
        with open(draft, "x+b", opener=_PRIVATE if private else None) as file:
            yield file
            if durable:
                _flush(file)
        draft.replace(path)
    except BaseException:
        with suppress(OSError):
            draft.unlink()
        raise
    if durable:
        _flush_folder(path.parent)


@contextmanager
def replace_folder(path: Path) -> Iterator[Path]:
    """Fill an empty folder that replaces ``path`` at the end of the block; an error removes it."""
    place = path.resolve()
    place.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix=f".{place.name}.", dir=place.parent) as workshop:
        draft = Path(workshop) / "new"
        draft.mkdir()
        yield draft
        _put_folder(draft, place, Path(workshop) / "old")


def _put_folder(draft: Path, place: Path, old: Path) -> None:
    """Move the draft to its place; an earlier folder is moved to ``old``, and restored if that fails."""
    earlier = place.exists()
    if earlier:
        place.replace(old)
    try:
        draft.replace(place)
    except BaseException:
        if earlier:
            old.replace(place)
        raise


def create_private_file(path: Path, data: bytes) -> bool:
    """Write a file that only its owner can read, unless ``path`` exists; return whether it was written.

    If several processes do this at the same time, one of them writes. The file survives a power failure.
    """
    draft = _draft(path)
    try:
        with open(draft, "xb", opener=_PRIVATE) as file:
            file.write(data)
            _flush(file)
        os.link(draft, path)
    except FileExistsError:
        return False
    finally:
        with suppress(OSError):
            draft.unlink()
    _flush_folder(path.parent)
    return True


def remove_drafts(folder: Path, name: str | None = None) -> None:
    """Remove the temporary files that killed processes left in a folder: of one file, or of all.

    No other process may be writing these files.
    """
    wanted = "*" if name is None else glob.escape(name)
    for draft in folder.glob(f".{wanted}.*.part"):
        draft.unlink(missing_ok=True)


def _draft(path: Path) -> Path:
    return path.with_name(f".{path.name}.{secrets.token_hex(6)}.part")


def _flush(file: BinaryIO) -> None:
    file.flush()
    os.fsync(file.fileno())


def _flush_folder(folder: Path) -> None:
    """Make a new name durable, where folders can be opened."""
    if sys.platform == "win32":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def lock_file(file: IO[bytes], *, shared: bool = False, wait: bool = True) -> bool:
    """Lock a file until it is closed; return whether the lock was obtained.

    Many can hold a shared lock, and nobody else an exclusive one. A second call on the same file changes
    the kind of its lock. Without ``wait`` the answer is immediate. Windows knows exclusive locks only.
    """
    return _lock(file, shared, wait)


if sys.platform == "win32":
    import msvcrt

    def _lock(file: IO[bytes], _shared: bool, wait: bool) -> bool:
        while True:
            file.seek(_BEHIND_ANY_FILE_BYTES)
            try:
                # Waits for ten seconds at most.
                msvcrt.locking(file.fileno(), msvcrt.LK_LOCK if wait else msvcrt.LK_NBLCK, 1)
            except OSError as error:
                if error.errno not in (errno.EACCES, errno.EDEADLK):
                    raise
                if not wait:
                    return False
            else:
                return True

else:
    import fcntl

    def _lock(file: IO[bytes], shared: bool, wait: bool) -> bool:
        kind = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
        try:
            fcntl.flock(file.fileno(), kind if wait else kind | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


class SpecialFile(OSError):
    """A pipe, a socket or a device instead of a regular file."""


class OversizedFile(OSError):
    """A file that is larger than any of its kind, or consists of holes."""


def open_regular(path: Path) -> io.BufferedReader:
    """Open a regular file, or a link to one, for reading; never blocks. One that consists of holes is rejected."""
    _check_regular(path, path.stat().st_mode, "not a regular file")
    # The file may have been replaced since. O_NONBLOCK has no effect on a regular file.
    descriptor = os.open(path, _READ_FLAGS)
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
        size = os.fstat(file.fileno()).st_size
        # Memory is taken for as much as is asked for. The file may grow meanwhile.
        data = b"" if size > _WHOLE_FILE_BYTES else file.read(size + 1)
        if size > _WHOLE_FILE_BYTES or len(data) > _WHOLE_FILE_BYTES:
            raise OversizedFile(errno.EFBIG, "larger than 1 GiB", str(path))
        return data if len(data) <= size else data + file.read(_WHOLE_FILE_BYTES - len(data))


def read_regular_text(path: Path) -> str:
    """Read a regular file as UTF-8 text, with line endings converted to ``\\n``."""
    text = read_regular(path).decode("utf-8-sig")
    return io.IncrementalNewlineDecoder(None, translate=True).decode(text, final=True)


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
