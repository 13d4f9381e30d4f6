"""The port for monitoring, served by the supervisor in a thread: metrics and probes, without a token."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from tiltyard.arena.operators.service_status import ServiceStatusReader
from tiltyard.web.metrics import METRICS_TYPE, metrics_page

_REQUEST_TIMEOUT_SECONDS = 10
#: Returns what is wrong.
FindProblems = Callable[[], list[str]]


@contextmanager
def serve_monitoring(
    host: str, port: int, reader: ServiceStatusReader, health: FindProblems, readiness: FindProblems
) -> Iterator[int]:
    """Serve ``/metrics``, ``/healthz`` and ``/readyz`` within this block; yields the port."""
    probes = {"/healthz": health, "/readyz": readiness}

    class Handler(BaseHTTPRequestHandler):
        timeout = _REQUEST_TIMEOUT_SECONDS

        def do_GET(self) -> None:
            path = self.path.partition("?")[0]
            if path == "/metrics":
                self._answer(200, METRICS_TYPE, metrics_page(None, reader.read))
            elif path in probes:
                problems = probes[path]()
                body = {"status": "failing", "problems": problems} if problems else {"status": "ok"}
                self._answer(503 if problems else 200, "application/json", json.dumps(body).encode() + b"\n")
            else:
                self._answer(404, "text/plain", b"Not found\n")

        def _answer(self, status: int, kind: str, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Log nothing: probes come every few seconds."""

    with ThreadingHTTPServer((host, port), Handler) as server:
        threading.Thread(target=server.serve_forever, name="monitoring", daemon=True).start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()
