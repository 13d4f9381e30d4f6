"""Things in a file system that are no regular files: reading one may block, or never end."""

import os
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

SPECIAL = ("pipe", "link to a pipe", "socket", "device", "folder")


def put_special(kind: str, path: Path) -> None:
    """Put one of these in the place of a file."""
    path.unlink(missing_ok=True)
    match kind:
        case "pipe":
            os.mkfifo(path)
        case "link to a pipe":
            os.mkfifo(path.with_name("a pipe"))
            path.symlink_to(path.with_name("a pipe"))
        case "socket":
            # A socket's address has few bytes; the name of a folder of tests may have more.
            here = Path.cwd()
            os.chdir(path.parent)
            with socket.socket(socket.AF_UNIX) as made:
                made.bind(path.name)
            os.chdir(here)
        case "device":
            path.symlink_to("/dev/zero")
        case "folder":
            path.mkdir()


@contextmanager
def within_seconds(seconds: int) -> Iterator[None]:
    """Fail in the middle of what takes longer."""

    def stop(*_: object) -> None:
        pytest.fail(f"not done after {seconds} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
