"""Atomic writes and locks of files.

A file or a folder appears under its name when it is complete, or not at all. The operating system releases a lock
when its process ends, however it ends.
"""

from __future__ import annotations

import glob
import os
import secrets
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, BinaryIO

from tiltyard.errors import BadOption

_PRIVATE = partial(os.open, mode=0o600)


@contextmanager
def atomic_write(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Write an output file that the user named: `replace_file` with `BadOption` if it cannot be written."""
    try:
        with replace_file(Path(path)) as file:
            yield file
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


def remove_folder_drafts(parent: Path) -> None:
    """Remove what killed processes left of `replace_folder` in a folder; a replacement that had begun is finished.

    No other process may be writing there.
    """
    for workshop in parent.glob(".*.*"):
        place = parent / workshop.name[1:].rpartition(".")[0]
        new, old = workshop / "new", workshop / "old"
        if old.exists() and not place.exists():
            (new if new.exists() else old).replace(place)
        if workshop.is_dir():
            shutil.rmtree(workshop)


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
    """Make a new name durable. Windows cannot open folders, and needs no flush."""
    if sys.platform == "win32":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


if sys.platform == "win32":
    import msvcrt

    def lock_file(file: IO[bytes], *, shared: bool = False, wait: bool = True) -> bool:
        """Lock a file until it is closed; return whether the lock was obtained. There are no shared locks."""
        assert not shared
        try:
            msvcrt.locking(file.fileno(), msvcrt.LK_LOCK if wait else msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

else:
    import fcntl

    def lock_file(file: IO[bytes], *, shared: bool = False, wait: bool = True) -> bool:
        """Lock a file until it is closed; return whether the lock was obtained.

        Many can hold a shared lock, and nobody else an exclusive one. A second call on the same file changes
        the kind of its lock. Without ``wait`` the answer is immediate.
        """
        kind = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
        try:
            fcntl.flock(file.fileno(), kind if wait else kind | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True
