"""A disk of a few megabytes, to be filled up and emptied again."""

import contextlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from support.postgres_servers import account

_BLOCK = bytes(1 << 16)


@dataclass(frozen=True)
class SmallDisk:
    """Where it is mounted."""

    folder: Path

    def fill(self) -> None:
        """Take all the room that is left."""
        with (self.folder / "ballast").open("ab", buffering=0) as ballast, contextlib.suppress(OSError):
            while ballast.write(_BLOCK):
                pass

    def empty(self) -> None:
        """Give it back."""
        (self.folder / "ballast").unlink(missing_ok=True)

    @property
    def free(self) -> int:
        return shutil.disk_usage(self.folder).free


@contextmanager
def small_disk(megabytes: int) -> Iterator[SmallDisk]:
    """A file system of its own in memory; only root can make one."""
    if os.getuid() != 0:
        pytest.skip("only root can mount a small disk to fill up")
    folder = Path(tempfile.mkdtemp(prefix="tiltyard-disk-"))
    owner = account()
    assert owner is not None
    options = f"size={megabytes}m,uid={owner.pw_uid},gid={owner.pw_gid},mode=700"
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", options, "tmpfs", folder], check=False, capture_output=True, text=True
    )
    try:
        if mounted.returncode:
            pytest.skip(f"a small disk cannot be mounted here: {mounted.stderr.strip()}")
        yield SmallDisk(folder)
    finally:
        if not mounted.returncode:
            subprocess.run(["umount", "-l", folder], check=True)
        folder.rmdir()
