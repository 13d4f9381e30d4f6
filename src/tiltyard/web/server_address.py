"""The address of the server that runs in a home folder, so that commands print links that work."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tiltyard.foundation.local_files import lock_file

__all__ = ["SERVER_FILE", "publish_address", "read_address"]

#: A file in the home folder. It is locked while the server runs: a server that was killed leaves no valid address.
SERVER_FILE = "server-address"
_ADDRESS_BYTES = 2_000


@contextmanager
def publish_address(home: Path, address: str) -> Iterator[None]:
    """Publish a server's address while it runs; the first of several servers of one folder does.

    A folder that cannot be written is no reason not to serve: commands then print the configured address.
    """
    try:
        file = (home / SERVER_FILE).open("a+b")
    except OSError:
        yield
        return
    with file:
        if lock_file(file, wait=False):
            with suppress(OSError):
                file.truncate(0)
                file.write(address.encode())
                file.flush()
        yield


def read_address(home: Path) -> str | None:
    """The address of the server that runs in this folder; ``None`` if none does."""
    with suppress(OSError), (home / SERVER_FILE).open("rb") as file:
        if not lock_file(file, wait=False):
            return file.read(_ADDRESS_BYTES).decode("utf-8", "replace") or None
    return None
