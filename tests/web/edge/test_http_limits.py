"""What a connection may send, how slowly, and how many an address may have: real sockets, a real process."""

import asyncio
import contextlib
import json
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
from tiltyard.web.edge.http_limits import HttpLimits, limited_protocol
from tiltyard.web.server.supervisor import ChildConfig

#: Of the process in these tests: short, and larger than the pauses of a crowded machine.
SETTINGS = ServingSettings(
    port=0,
    header_seconds=3,
    body_seconds=3,
    connections_per_address=40,
    trusted_proxies=("127.0.0.9",),
    base_url="http://arena.example",
)
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

    def connect(self, source="127.0.0.2"):
        return socket.create_connection(("127.0.0.1", self.port), timeout=30, source_address=(source, 0))

    def answers_others(self):
        """Whether somebody at another address is served."""
        with self.connect("127.0.0.7") as other:
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


@contextlib.contextmanager
def web_process(server, template, home, settings):
    with fresh_database(server, template) as database:
        made_arena(database, settings=ArenaSettings(gate="none"))
        process = WebProcess(database, home, settings)
        try:
            yield process
        finally:
            process.close()


@pytest.fixture(scope="module")
def process(server, template, tmp_path_factory):
    with web_process(server, template, tmp_path_factory.mktemp("home"), SETTINGS) as made:
        yield made


def read_all(connection):
    """What comes until the other side closes."""
    told = b""
    with contextlib.suppress(ConnectionError):
        while piece := connection.recv(65536):
            told += piece
    return told


def read_one(connection):
    """One response, whole: its headers and its body may come apart."""
    told = b""
    while b"\r\n\r\n" not in told:
        told += connection.recv(65536) or pytest.fail(f"closed after {told!r}")
    head, _, body = told.partition(b"\r\n\r\n")
    length = int(head.lower().partition(b"content-length:")[2].split()[0])
    while len(body) < length:
        body += connection.recv(65536) or pytest.fail(f"closed after {told!r}")
    return head


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
    assert status_of(answer) == 431
    document = json.loads(answer.partition(b"\r\n\r\n")[2])
    assert document["type"] == "urn:tiltyard:problem:headers-too-large"
    assert process.megabytes() - before < 16
    assert process.answers_others()


def test_a_hundred_headers_and_a_long_cookie_are_well(process):
    with process.connect() as connection:
        many = b"".join(b"X-%d: a\r\n" % k for k in range(97))
        connection.sendall(GET + many + b"Cookie: " + b"a" * 60_000 + b"\r\nConnection: close\r\n\r\n")
        assert status_of(read_all(connection)) == 200


#: What slow clients send: at first, and then again and again; and the status that each gets, if any.
SLOW = {
    "headers byte by byte": (GET + b"X: ", b"a", 408),
    "half a header": (GET + b"X", b"", 408),
    "empty lines": (b"\r\n", b"\r\n", None),
    "nothing": (b"", b"", None),
    "a body byte by byte": (POST + b"Content-Length: 1000\r\n\r\n{", b" ", 408),
    "half a body": (POST + b"Content-Length: 1000\r\n\r\n{", b"", 408),
    "a chunk byte by byte": (CHUNKED + b"400\r\n{", b" ", 408),
    "half a chunk": (CHUNKED + b"400\r\n{", b"", 408),
    "trailers byte by byte": (CHUNKED + b"2\r\n{}\r\n0\r\nX: ", b"a", 408),
}


@pytest.fixture(scope="module")
def slow_clients(process):
    """All of them at once, so that their waits pass together: what each was told, and after how long."""

    def scene(begun, piece):
        with process.connect() as connection:
            connection.sendall(begun)
            return send_slowly(connection, piece)

    with ThreadPoolExecutor(len(SLOW)) as pool:
        yield {name: pool.submit(scene, begun, piece) for name, (begun, piece, _) in SLOW.items()}


@pytest.mark.parametrize("name", SLOW)
def test_what_does_not_come_in_time_is_given_up(slow_clients, name):
    answer, seconds = slow_clients[name].result()
    assert status_of(answer) == SLOW[name][2]
    if answer:
        assert json.loads(answer.partition(b"\r\n\r\n")[2])["type"] == "urn:tiltyard:problem:too-slow"
    assert 2 < seconds < 60


def test_the_next_request_of_a_connection_has_a_deadline_too(process):
    with process.connect() as connection:
        connection.sendall(GET + b"\r\n")
        assert status_of(read_one(connection)) == 200
        connection.sendall(GET)
        assert status_of(read_all(connection)) == 408


@pytest.mark.slow
def test_a_body_that_comes_slowly_but_steadily_is_taken(process):
    body = b"{" + b" " * 50_000 + b"}"
    with process.connect() as connection:
        connection.sendall(POST + b"Connection: close\r\nContent-Length: %d\r\n\r\n" % len(body))
        for start in range(0, len(body), 5_000):
            connection.sendall(body[start : start + 5_000])
            time.sleep(0.4)
        assert status_of(read_all(connection)) == 201


def test_half_open_requests_of_one_address_are_refused_or_closed_in_time(process):
    flood(process, 120, kept=40, source="127.0.0.3")


def test_other_addresses_and_ended_connections_are_not_counted(process):
    for _ in range(3):
        held = [process.connect("127.0.0.4") for _ in range(40)]
        held[-1].sendall(GET + b"Connection: close\r\n\r\n")
        assert status_of(read_all(held[-1])) == 200
        for connection in held:
            connection.close()
        deadline = time.monotonic() + 10
        while not free(process, "127.0.0.4"):
            assert time.monotonic() < deadline


def free(process, source):
    """Whether this address may have one more connection."""
    with process.connect(source) as connection:
        connection.sendall(GET + b"Connection: close\r\n\r\n")
        return status_of(read_all(connection)) == 200


def test_a_trusted_proxy_may_have_any_number(process):
    with contextlib.ExitStack() as stack:
        held = [stack.enter_context(process.connect("127.0.0.9")) for _ in range(120)]
        for connection in held:
            connection.sendall(GET + b"X-Forwarded-For: 203.0.113.5\r\n\r\n")
        for connection in held:
            assert status_of(read_one(connection)) == 200


@pytest.mark.slow
def test_a_client_that_keeps_its_connection_may_pause_between_requests(process):
    with process.connect() as connection:
        for pause in (SETTINGS.header_seconds + 1, 0):
            connection.sendall(GET + b"\r\n")
            assert status_of(read_one(connection)) == 200
            time.sleep(pause)


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


def test_refusals_of_slow_bodies_are_no_errors_of_ours(process, slow_clients):
    for told in slow_clients.values():
        told.result()
    assert process.answers_others()
    assert '"level": "error"' not in process.said()


def flood(process, connections, *, kept, source):
    """Half requests from one address: what is above the limit is refused at once, the rest ends in time."""
    before, began = process.megabytes(), time.monotonic()
    with contextlib.ExitStack() as stack:
        held = []
        for number in range(connections):
            connection = stack.enter_context(process.connect(source))
            with contextlib.suppress(ConnectionError):
                connection.sendall(GET + b"X: " if number % 2 else POST + b"Content-Length: 9\r\n\r\n{")
            held.append(connection)
        assert process.answers_others()
        statuses = [status_of(read_all(connection)) for connection in held]
    assert statuses.count(408) == kept
    assert statuses.count(429) + statuses.count(None) == connections - kept
    assert kept == connections or statuses.count(429) > 0
    assert process.megabytes() - before < 16 + connections * 0.03
    return time.monotonic() - began


@pytest.mark.slow
def test_three_thousand_half_open_requests(server, template, tmp_path):
    settings = ServingSettings(port=0, base_url="http://arena.example")
    with web_process(server, template, tmp_path, settings) as process:
        seconds = flood(process, 3_000, kept=1_000, source="127.0.0.3")
        print(f"\n3,000 half-open requests, 1,000 kept: all closed after {seconds:.0f} s")
    settings = ServingSettings(port=0, base_url="http://arena.example", connections_per_address=0)
    (tmp_path / "any").mkdir()
    with web_process(server, template, tmp_path / "any", settings) as process:
        seconds = flood(process, 3_000, kept=3_000, source="127.0.0.3")
        print(f"\n3,000 half-open requests, all kept: all closed after {seconds:.0f} s")


async def streaming_app(scope, receive, send):
    """Events for some seconds, whatever was asked; or the body read after a while."""
    assert scope["type"] == "http"
    if scope["path"] == "/later":
        await asyncio.sleep(2)
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


@pytest.fixture(scope="module")
def streams():
    """An address at which responses take longer than any deadline."""
    settings = ServingSettings(port=0, header_seconds=1, body_seconds=1)
    listening = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(
        streaming_app,
        http=limited_protocol(HttpLimits(settings)),
        ws="none",
        lifespan="off",
        log_config=None,
        timeout_keep_alive=30,
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    try:
        yield listening.getsockname()[1]
    finally:
        server.should_exit = True
        thread.join(30)
        listening.close()


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
