"""What an embedded server is told in its settings, and what it says of itself."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

__all__ = ["SERVER_SETTINGS", "Postmaster"]

#: With room for the ``port`` and the folder of the ``socket``.
SERVER_SETTINGS = """\
# Written by Tiltyard at every start. Use ALTER SYSTEM for settings of your own.
listen_addresses = ''
port = {port}
unix_socket_directories = '{socket}'
unix_socket_permissions = 0700
max_connections = 100
shared_buffers = 256MB
max_wal_size = 2GB
checkpoint_timeout = 15min
jit = off
timezone = 'UTC'
log_timezone = 'UTC'
# A week of logs, each day's over that of the week before; without texts of prompts and responses.
logging_collector = on
log_directory = '../logs'
log_filename = 'postgresql-%a.log'
log_file_mode = 0600
log_truncate_on_rotation = on
log_rotation_age = 1d
log_rotation_size = 0
log_checkpoints = off
log_min_error_statement = panic
log_parameter_max_length = 0
log_parameter_max_length_on_error = 0
"""


@dataclass(frozen=True)
class Postmaster:
    """What a server says of itself in ``postmaster.pid``."""

    pid: int
    port: int
    socket: str

    @classmethod
    def read(cls, data: Path) -> Postmaster | None:
        """That of a data folder, if its file is there and complete."""
        try:
            lines = (data / "postmaster.pid").read_text(encoding="utf-8").splitlines()
            return cls(int(lines[0]), int(lines[3]), lines[4])
        except (FileNotFoundError, NotADirectoryError, IndexError, ValueError):
            return None

    def alive(self) -> bool:
        """Whether a process of that number lives; perhaps another one."""
        if _is_zombie(self.pid):
            return False
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return False
        except PermissionError:
            pass
        return True


def _is_zombie(pid: int) -> bool:
    """Whether a process is dead, and nobody has asked how it ended: so it stays where process 1 never asks."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    return text.rpartition(")")[2].split()[0] == "Z"
