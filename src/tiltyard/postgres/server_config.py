"""Settings of the embedded server, and its PID file."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

#: Template with ``port`` and ``socket``, the folder of the socket.
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
# Seven daily log files, each overwritten after a week; without texts of prompts and responses.
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
    """The content of ``postmaster.pid``."""

    pid: int
    port: int
    socket: str

    @classmethod
    def read(cls, data: Path) -> Postmaster | None:
        """Read the file of a data folder; ``None`` if it is missing or incomplete."""
        try:
            lines = (data / "postmaster.pid").read_text(encoding="utf-8").splitlines()
            return cls(int(lines[0]), int(lines[3]), lines[4])
        except (FileNotFoundError, NotADirectoryError, IndexError, ValueError):
            return None

    def alive(self) -> bool:
        """Whether a process with this ID exists; it may be a different program."""
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
    """Whether a process has ended but was not reaped, as in containers whose process 1 does not reap."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    return text.rpartition(")")[2].split()[0] == "Z"
