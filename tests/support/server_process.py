"""A process that uses an embedded server: prints its address, then waits to be told to stop, or killed."""

import sys
from pathlib import Path

from tiltyard.postgres.embedded_server import EmbeddedServer

if __name__ == "__main__":
    home, user = Path(sys.argv[1]), sys.argv[2] or None
    with EmbeddedServer(home, user=user) as server:
        print(server.url, flush=True)
        sys.stdin.readline()
