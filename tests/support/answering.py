"""A server on loopback that answers as it is told: one answer for each request, the last one for ever."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

MATCHUP = {
    "matchup": "qUOzXkV3T0m4gJm1s1yR0g",
    "arena": "demo",
    "prompt": {"text": "What is 1 + 1?"},
    "responses": {"a": {"url": "/m/q/a", "kind": "text"}, "b": {"url": "/m/q/b", "kind": "text"}},
    "served_at": "2026-01-01T00:00:00+00:00",
    "expires_at": "2026-01-01T02:00:00+00:00",
    "ballot": 0,
}
ENDED = {
    "matchup": "qUOzXkV3T0m4gJm1s1yR0g",
    "kind": "vote",
    "winner": "tie",
    "label": "tie",
    "both_bad": None,
    "position": 7,
    "at": "2026-01-01T00:00:00+00:00",
    "undo_until": None,
    "revealed": False,
    "ballot": 0,
    "blind": True,
    "unrated": None,
}


@dataclass(frozen=True)
class Answer:
    """One answer; without a status the connection is cut once the request was read."""

    status: int | None = 200
    body: Any = None
    headers: dict[str, str] = field(default_factory=dict)
    media_type: str = "application/json"
    #: Bytes that the answer claims to have, if not the truth.
    claimed: int | None = None


def problem(status: int, name: str, **headers: str) -> Answer:
    """A problem document."""
    document = {
        "type": f"urn:tiltyard:problem:{name}",
        "title": "no",
        "status": status,
        "detail": "why not",
        "instance": "urn:tiltyard:occurrence:1",
    }
    sent = {key.replace("_", "-"): value for key, value in headers.items()}
    return Answer(status, document, sent, "application/problem+json")


@dataclass
class Heard:
    """What the server was asked."""

    url: str
    requests: list[tuple[str, str, dict[str, str], bytes]] = field(default_factory=list)


@contextmanager
def answering(*answers: Answer) -> Iterator[Heard]:
    heard = Heard("")
    left = list(answers)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def handle_one(self) -> None:
            body = self._body()
            heard.requests.append(
                (self.command, self.path, {name.lower(): value for name, value in self.headers.items()}, body)
            )
            answer = left.pop(0) if len(left) > 1 else left[0]
            if answer.status is None:
                self.close_connection = True
                return
            data = answer.body if isinstance(answer.body, bytes) else json.dumps(answer.body).encode()
            self.send_response(answer.status)
            self.send_header("content-type", answer.media_type)
            self.send_header("content-length", str(answer.claimed or len(data)))
            for name, value in answer.headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(data)
            self.close_connection = answer.claimed is not None

        def _body(self) -> bytes:
            if self.headers.get("transfer-encoding") != "chunked":
                return self.rfile.read(int(self.headers.get("content-length") or 0))
            pieces = []
            while size := int(self.rfile.readline(), 16):
                pieces.append(self.rfile.read(size))
                self.rfile.readline()
            self.rfile.readline()
            return b"".join(pieces)

        def __getattr__(self, name: str) -> Any:
            if name.startswith("do_"):
                return self.handle_one
            raise AttributeError(name)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    heard.url = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield heard
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
