"""The port for monitoring, served by the supervisor in a thread: metrics and probes, without a token."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from tiltyard.arena.operators.service_status import ServiceStatusReader
from tiltyard.web.metrics import METRICS_TYPE, metrics_page
from tiltyard.web.supervisor_health import SupervisorHealth

__all__ = ["serve_monitoring"]

_REQUEST_TIMEOUT_SECONDS = 10

#: Status, content type and body.
_Answer = tuple[int, str, bytes]


@contextmanager
def serve_monitoring(
    host: str, port: int, reader: ServiceStatusReader, health: SupervisorHealth
) -> Iterator[int]:
    """Serve ``/metrics``, ``/healthz`` and ``/readyz`` within this block; yields the port."""
    pages: dict[str, Callable[[], _Answer]] = {
        "/metrics": lambda: (200, METRICS_TYPE, metrics_page(None, reader.read)),
        "/healthz": lambda: _answer(health.problems()),
        "/readyz": lambda: _answer([] if health.ready else health.problems() or ["not ready yet"]),
    }

    class Handler(BaseHTTPRequestHandler):
        timeout = _REQUEST_TIMEOUT_SECONDS

        def do_GET(self) -> None:
            page = pages.get(self.path.partition("?")[0])
            status, kind, body = (404, "text/plain", b"Not found\n") if page is None else page()
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Log nothing: probes come every few seconds."""

    server = ThreadingHTTPServer((host, port), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, name="monitoring", daemon=True)
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _answer(problems: list[str]) -> _Answer:
    body = {"status": "failing", "problems": problems} if problems else {"status": "ok"}
    return (503 if problems else 200), "application/json", json.dumps(body).encode() + b"\n"
