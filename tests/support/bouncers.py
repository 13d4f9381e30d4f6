"""A real PgBouncer between a test and its database."""

import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from support.postgres_servers import account


@contextmanager
def bouncer(url: str, mode: str, *, size: int = 20) -> Iterator[str]:
    """The address of a real PgBouncer before the server of ``url``, with so many server connections for a database."""
    program = os.environ.get("TILTYARD_TEST_PGBOUNCER") or shutil.which(
        "pgbouncer", path="/usr/sbin:/usr/bin"
    )
    if program is None:
        assert "TILTYARD_TEST_NEEDS_DEBIAN" not in os.environ
        pytest.skip("pgbouncer is not installed; apt install pgbouncer to test with it")
    folder = Path(tempfile.mkdtemp(prefix="tiltyard-bouncer-"))
    with closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    (folder / "users").write_text('"tiltyard" ""\n')
    (folder / "ini").write_text(
        f"[databases]\n* = host=127.0.0.1 port={urlsplit(url).port}\n[pgbouncer]\nlisten_addr = 127.0.0.1\n"
        f"listen_port = {port}\nunix_socket_dir =\nauth_type = trust\nauth_file = {folder}/users\n"
        f"pool_mode = {mode}\ndefault_pool_size = {size}\n"
    )
    owner = account()
    other: dict[str, Any] = {}
    if owner is not None:
        other = {"user": owner.pw_uid, "group": owner.pw_gid, "extra_groups": []}
        for path in (folder, *folder.iterdir()):
            os.chown(path, owner.pw_uid, owner.pw_gid)
    process = subprocess.Popen(
        [program, folder / "ini"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **other
    )
    try:
        end = time.monotonic() + 60
        while True:
            with closing(socket.socket()) as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            assert process.poll() is None
            assert time.monotonic() < end
            time.sleep(0.02)
        yield url.replace(f":{urlsplit(url).port}/", f":{port}/")
    finally:
        process.kill()
        process.wait()
        shutil.rmtree(folder)
