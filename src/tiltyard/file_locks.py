"""Locks on open files, which the operating system releases when their process ends, however it ends."""

from __future__ import annotations

import sys
from typing import IO

__all__ = ["lock_file"]

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
