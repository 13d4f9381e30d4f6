"""What a connection may send, how slowly, and how many there may be: real sockets, a real process."""

import asyncio
import contextlib
import select
import signal
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx2
import pytest
import uvicorn

from support.child_processes import ChildProcess
from support.live_arenas import made_arena
from support.postgres_servers import fresh_database
from tiltyard.settings.arena_settings import ArenaSettings
from tiltyard.settings.serving_settings import ServingSettings
from tiltyard.web.edge import http_limits
from tiltyard.web.edge.http_limits import LimitedProtocol, close_late_connections
from tiltyard.web.server.supervisor import ChildConfig

GET = b"GET /healthz HTTP/1.1\r\nHost: arena.example\r\n"
POST = b"POST /api/v1/arenas/arena/matchups HTTP/1.1\r\nHost: arena.example\r\nContent-Type: application/json\r\n"
CHUNKED = POST + b"Transfer-Encoding: chunked\r\n\r\n"
MEGABYTE = 1024 * 1024


class WebProcess:
    """One web process, as `tiltyard serve` starts it."""

    def __init__(self, database, home, settings):
        self.listening = socket.create_server(("127.0.0.1", 0), backlog=2048)
        self.port = self.listening.getsockname()[1]
        self.log = home / "log"
        variables = {
            "TILTYARD_HOME": str(home),
            "TILTYARD_SECRET_KEY": "a secret for tests that is long enough",
        }
        self._process = ChildProcess(
            ChildConfig("web", database, settings, self.listening), self.log, variables
        )
        self._process.wait_until_ready()

    def connect(self):
        return socket.create_connection(("127.0.0.1", self.port), timeout=30)

    def answers_others(self):
        with self.connect() as other:
            other.sendall(GET + b"Connection: close\r\n\r\n")
            return status_of(read_all(other)) == 200

    def megabytes(self):
        """Of memory that the process has had at most since it was last asked."""
        status = Path(f"/proc/{self._process.pid}/status").read_text()
        peak = int(status.partition("VmHWM:")[2].split()[0]) / 1024
        Path(f"/proc/{self._process.pid}/clear_refs").write_text("5")
        return peak

    def said(self):
        return self.log.read_text()

    def close(self):
        self._process.send_signal(signal.SIGKILL)
        self._process.join()
        self.listening.close()


@pytest.fixture(scope="module")
def process(server, template, tmp_path_factory):
    with fresh_database(server, template) as database:
        made_arena(database, settings=ArenaSettings(gate="none"))
        settings = ServingSettings(port=0, base_url="http://arena.example")
        made = WebProcess(database, tmp_path_factory.mktemp("home"), settings)
        try:
            yield made
        finally:
            made.close()


def read_all(connection):
    """What comes until the other side closes."""
    told = b""
    with contextlib.suppress(ConnectionError):
        while piece := connection.recv(65536):
            told += piece
    return told


def status_of(answer):
    return int(answer.split(b" ", 2)[1]) if answer else None


def send_slowly(connection, piece, pause=0.1, seconds=20):
    """The same piece again and again, until an answer comes; what came, and after how long."""
    began = time.monotonic()
    with contextlib.suppress(ConnectionError):
        while not select.select([connection], [], [], pause)[0] and time.monotonic() - began < seconds:
            connection.sendall(piece)
    return read_all(connection), time.monotonic() - began


@pytest.mark.parametrize(
    "sent",
    [
        POST + b"Content-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        POST + b"Content-Length: 0\r\nContent-Length: 5\r\n\r\nhello",
        POST + b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
        POST + b"Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
        GET + b"Content-Length : 5\r\n\r\nhello",
        CHUNKED + b"FFFFFFFFFFFFFFFFF\r\nx",
    ],
    ids=["length and chunks", "two lengths", "unknown", "not the last", "space", "too long a chunk"],
)
def test_no_request_is_smuggled_behind_another(process, sent):
    """A proxy may see other ends of such requests than we do."""
    with process.connect() as connection, contextlib.suppress(ConnectionError):
        connection.sendall(sent + GET + b"\r\n")
        connection.shutdown(socket.SHUT_WR)
        told = read_all(connection)
        assert (told.count(b"HTTP/1.1 "), status_of(told)) in {(0, None), (1, 400)}


@pytest.mark.parametrize(
    ("begun", "piece", "megabytes"),
    [
        (GET + b"X: ", b"a" * MEGABYTE, 60),
        (GET, b"X: a\r\n" * 170_000, 20),
        (b"GET /", b"a" * MEGABYTE, 20),
        (CHUNKED + b"2\r\n{}\r\n0\r\n", b"X: a\r\n" * 170_000, 20),
        (CHUNKED + b"2\r\n{}\r\n0\r\nX: ", b"a" * MEGABYTE, 20),
    ],
    ids=["one header", "many headers", "the address", "many trailers", "one trailer"],
)
def test_endless_headers_are_refused_and_take_no_memory(process, begun, piece, megabytes):
    before = process.megabytes()
    with process.connect() as connection:
        with contextlib.suppress(ConnectionError):
            connection.sendall(begun)
            for _ in range(megabytes):
                connection.sendall(piece)
        answer = read_all(connection)
    assert status_of(answer) in {400, None}
    assert process.megabytes() - before < 16
    assert process.answers_others()
    assert '"level"' not in process.said().partition("web ready")[2]


def test_a_hundred_headers_and_a_long_cookie_are_well(process):
    with process.connect() as connection:
        many = b"".join(b"X-%d: a\r\n" % k for k in range(97))
        connection.sendall(GET + many + b"Cookie: " + b"a" * 60_000 + b"\r\nConnection: close\r\n\r\n")
        assert status_of(read_all(connection)) == 200


def test_requests_sent_ahead_are_answered_and_too_many_are_not_kept(process):
    before = process.megabytes()
    with process.connect() as connection:
        connection.sendall((GET + b"\r\n") * 4 + GET + b"Connection: close\r\n\r\n")
        assert read_all(connection).count(b"HTTP/1.1 200") == 5
    with process.connect() as connection:
        with contextlib.suppress(ConnectionError):
            connection.sendall(b"GET /healthz HTTP/1.1\r\n\r\n" * 200_000)
        assert read_all(connection).count(b"HTTP/1.1 200") < 100
    assert process.megabytes() - before < 16
    assert process.answers_others()


async def streaming_app(scope, receive, send):
    """Events for some seconds, whatever was asked; or the body read after a while."""
    assert scope["type"] == "http"
    if scope["path"] in {"/later", "/now"}:
        await asyncio.sleep(2 if scope["path"] == "/later" else 0)
        body = b""
        while (message := await receive())["type"] == "http.request":
            body += message["body"]
            if not message["more_body"]:
                break
            await asyncio.sleep(0.02)
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"%d" % len(body)})
        return
    await send(
        {
            "type": "http.response.start",
            "status": 200,
            "headers": [(b"content-type", b"text/event-stream")],
        }
    )
    for number in range(8):
        await send({"type": "http.response.body", "body": b"data: %d\n\n" % number, "more_body": True})
        await asyncio.sleep(0.3)
    await send({"type": "http.response.body", "body": b""})


class Server(uvicorn.Server):
    async def on_tick(self, counter):
        close_late_connections(self.server_state)
        return await super().on_tick(counter)


@pytest.fixture(scope="module")
def streams():
    """The port of a server whose time limits are a second, and which has twenty connections."""
    listening = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(
        streaming_app, http=LimitedProtocol, ws="none", lifespan="off", log_config=None, timeout_keep_alive=30
    )
    server = Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(http_limits, "HEADER_SECONDS", 1.0)
        patch.setattr(http_limits, "BODY_SECONDS", 1.0)
        patch.setattr(http_limits, "CONNECTION_LIMIT", 20)
        thread.start()
        try:
            yield listening.getsockname()[1]
        finally:
            server.should_exit = True
            thread.join(30)
            listening.close()


def connected(port):
    return socket.create_connection(("127.0.0.1", port), timeout=30)


#: What slow clients send: at first, and then again and again.
POST_NOW = b"POST /now HTTP/1.1\r\nHost: a\r\n"
SLOW = {
    "headers byte by byte": (GET + b"X: ", b"a"),
    "half a header": (GET + b"X", b""),
    "empty lines": (b"\r\n", b"\r\n"),
    "nothing": (b"", b""),
    "a body byte by byte": (POST_NOW + b"Content-Length: 1000\r\n\r\n{", b" "),
    "half a body": (POST_NOW + b"Content-Length: 1000\r\n\r\n{", b""),
    "a chunk byte by byte": (POST_NOW + b"Transfer-Encoding: chunked\r\n\r\n400\r\n{", b" "),
    "trailers byte by byte": (POST_NOW + b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\nX: ", b"a"),
}


def test_what_does_not_come_in_time_is_given_up(streams):
    def scene(begun, piece):
        with connected(streams) as connection:
            connection.sendall(begun)
            return send_slowly(connection, piece)

    with ThreadPoolExecutor(len(SLOW)) as pool:
        for answer, seconds in pool.map(lambda sent: scene(*sent), SLOW.values()):
            assert answer == b""
            assert 0.9 < seconds < 20


def test_the_next_request_of_a_connection_has_a_deadline_too(streams):
    for half in (GET, b"\r\n"):
        with connected(streams) as connection:
            connection.sendall(b"HEAD /now HTTP/1.1\r\n\r\n")
            assert status_of(connection.recv(65536)) == 200
            # Between two requests it may pause.
            time.sleep(1.5)
            connection.sendall(half)
            assert read_all(connection) == b""


def test_a_body_that_comes_slowly_but_steadily_is_taken(streams):
    with connected(streams) as connection:
        connection.sendall(POST_NOW + b"Connection: close\r\nContent-Length: 50000\r\n\r\n")
        for _ in range(10):
            connection.sendall(b" " * 5_000)
            time.sleep(0.4)
        assert read_all(connection).endswith(b"\r\n50000\r\n0\r\n\r\n")


def test_connections_are_bounded_and_half_open_ones_end(streams):
    with contextlib.ExitStack() as stack:
        held = [stack.enter_context(connected(streams)) for _ in range(40)]
        for number, connection in enumerate(held):
            with contextlib.suppress(ConnectionError):
                connection.sendall(GET + b"X: " if number % 2 else POST_NOW + b"Content-Length: 9\r\n\r\n{")
        began = time.monotonic()
        waited = []
        for connection in held:
            assert read_all(connection) == b""
            waited.append(time.monotonic() - began)
        assert waited[-1] < 20
    with connected(streams) as connection:
        connection.sendall(b"HEAD /now HTTP/1.1\r\n\r\n")
        assert status_of(connection.recv(65536)) == 200


@pytest.mark.slow(but_every=3)
@pytest.mark.parametrize(
    "after", [b"", b"\r\n", b"GET /next HT"], ids=["nothing", "a line", "half a request"]
)
def test_a_long_response_is_not_cut_off(streams, after):
    with socket.create_connection(("127.0.0.1", streams), timeout=30) as connection:
        connection.sendall(b"GET /events HTTP/1.1\r\nHost: a\r\n\r\n" + after)
        told = b""
        while not told.endswith(b"0\r\n\r\n"):
            piece = connection.recv(65536)
            assert piece, told
            told += piece
    assert told.count(b"data: ") == 8


@pytest.mark.slow
def test_a_body_that_the_application_does_not_read_yet_has_no_deadline(streams):
    with httpx2.Client(base_url=f"http://127.0.0.1:{streams}", timeout=60) as client:
        assert client.post("/later", content=b"a" * 3_000_000).text == "3000000"
    with socket.create_connection(("127.0.0.1", streams), timeout=30) as connection:
        head = b"POST /later HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nConnection: close\r\n"
        connection.sendall(head + b"Expect: 100-continue\r\n\r\n")
        assert connection.recv(65536).startswith(b"HTTP/1.1 100")
        connection.sendall(b"ab")
        assert read_all(connection).startswith(b"HTTP/1.1 200")
