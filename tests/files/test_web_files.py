"""Files fetched over HTTPS, from local servers."""

import gc
import gzip
import hashlib
import json
import os
import ssl
import tempfile
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest

import tiltyard
from support.certificates import make_certificate
from support.command import run
from support.loopback import only_loopback
from tiltyard.errors import BadOption, UnreadableFile
from tiltyard.files import open_battles
from tiltyard.files.web_files import check_redirect

CSV = b"model_a,model_b,winner\nx,y,model_a\nx,y,model_b\nx,y,tie\n"
ROWS = b'{"model_a": "x", "model_b": "y", "winner": "tie"}\n' * 4


class _FileHandler(BaseHTTPRequestHandler):
    """Answers each path with a status, headers and a body."""

    answers: dict

    def do_GET(self):
        status, headers, body = self.answers.get(self.path.partition("?")[0], (404, {}, b"nothing"))
        self.send_response(status)
        for name, value in ({"Content-Length": str(len(body))} | headers).items():
            if value is not None:
                self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@contextmanager
def serving(answers, certificate=None):
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_FileHandler,), {"answers": answers}))
    server.daemon_threads = True
    if certificate is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate / "cert.pem", certificate / "key.pem")
        server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield f"http{'s' if certificate else ''}://localhost:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    return make_certificate(tmp_path_factory.mktemp("certificate"))


@pytest.fixture
def trusted(certificate, monkeypatch):
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate / "cert.pem"))
    # The tests' own cache of the machine's certificates.
    ssl.create_default_context.cache_clear()
    yield certificate
    ssl.create_default_context.cache_clear()


@pytest.fixture(scope="module")
def spool(tmp_path_factory):
    """Where files are kept while they are read: empty again when all tests have ended."""
    folder = tmp_path_factory.mktemp("spool")
    yield folder
    # The traceback of an error holds the file.
    gc.collect()
    assert list(folder.iterdir()) == []


@pytest.fixture(autouse=True)
def _on_loopback(monkeypatch, spool):
    for name in [name for name in os.environ if name.lower().endswith("_proxy")]:
        monkeypatch.delenv(name)
    monkeypatch.setattr(tempfile, "tempdir", str(spool))
    with only_loopback():
        yield


def error_of(address):
    with pytest.raises((UnreadableFile, BadOption)) as caught:
        open_battles(address)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def served_error(answer):
    with serving({"/b.csv": answer}) as address:
        return error_of(f"{address}/b.csv")


@pytest.mark.parametrize(
    ("body", "headers", "battles"),
    [
        (CSV, {}, 3),
        (ROWS, {"Content-Type": "text/html"}, 4),
        (gzip.compress(ROWS), {}, 4),
        (gzip.compress(CSV), {"Content-Encoding": "gzip"}, 3),
        (CSV, {"Content-Length": None}, 3),
    ],
    ids=["CSV", "JSON Lines", "gzip", "encoded", "no length"],
)
def test_a_file_is_rated(trusted, body, headers, battles):
    with serving({"/b.csv": (200, headers, body)}, trusted) as address:
        ran = run("rate", f"{address}/b.csv")
    assert ran.code == 0, ran.err
    assert f"{battles} battles" in ran.out
    assert ran.err == f"{address}/b.csv: {len(body):,} bytes\n"


def test_the_manifest_has_address_and_hash_and_no_key(trusted, tmp_path):
    with serving({"/b.csv": (200, {}, CSV)}, trusted) as address:
        ran = run("rate", f"{address}/b.csv?signature=secret#top", "--out", tmp_path / "run")
    assert ran.code == 0, ran.err
    assert "secret" not in ran.out + ran.err
    (read,) = json.loads((tmp_path / "run" / "manifest.json").read_text())["inputs"]
    assert read["path"] == f"{address}/b.csv?…"
    assert read["sha256"] == hashlib.sha256(CSV).hexdigest()


def test_a_bar_is_shown_to_a_person(tmp_path):
    with serving({"/b.csv": (200, {}, CSV)}) as address:
        assert "fetching" in run("rate", f"{address}/b.csv", watched=True).err


def test_two_files_of_answers_are_compared():
    sides = {
        f"/{name}.jsonl": (200, {}, "".join(rows).encode())
        for name, rows in {
            name: [
                json.dumps({"prompt_id": str(k), "prompt": "?", "model": "m", "response": name, "scores": {"s": k % step}})
                + "\n"
                for k in range(20)
            ]
            for name, step in (("first", 2), ("second", 3))
        }.items()
    }  # fmt: skip
    with serving(sides) as address:
        ran = run("ab", f"{address}/first.jsonl?key=secret.txt", f"{address}/second.jsonl")
    assert "second" in ran.out, ran.err
    assert "secret" not in ran.out + ran.err


def test_redirects_are_followed(trusted):
    with ExitStack() as stack:
        target = stack.enter_context(serving({"/c.csv": (200, {}, CSV)}, trusted))
        start = stack.enter_context(serving({"/b.csv": (302, {"Location": f"{target}/c.csv"}, b"")}, trusted))
        board = tiltyard.rate(f"{start}/b.csv")
        assert board.n_battles == 3
        assert board.fetched == (f"{start}/b.csv",)


def test_a_redirect_to_plain_http_is_refused(trusted):
    answers = {"/b.csv": (302, {"Location": "http://localhost:9/c.csv?key=secret"}, b"")}
    with serving(answers, trusted) as address:
        problem = error_of(f"{address}/b.csv")
    assert "http://localhost:9/c.csv?…" in problem


def test_redirects_in_a_circle():
    assert "too many redirects (302)" in served_error((302, {"Location": "/b.csv"}, b""))


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("https://9.9.9.9/a", "https://8.8.8.8/a", None),
        ("https://9.9.9.9/a", "http://8.8.8.8/a", "which is not https"),
        ("https://9.9.9.9/a", "http://127.0.0.1/a", "which is not https"),
        ("https://9.9.9.9/a", "https://127.0.0.1/a", "which is in a private network"),
        ("https://9.9.9.9/a", "https://localhost/a", "which is in a private network"),
        ("https://9.9.9.9/a", "https://10.1.2.3/a", "which is in a private network"),
        ("https://9.9.9.9/a", "https://169.254.169.254/latest", "which is in a private network"),
        ("https://9.9.9.9/a", "https:///a", "which is no valid address"),
        ("https://10.1.2.3/a", "https://10.1.2.4/a", None),
        ("http://127.0.0.1/a", "http://127.0.0.1/b", None),
        ("http://127.0.0.1/a", "http://9.9.9.9/b", "which is not https"),
    ],
)
def test_where_a_redirect_may_lead(old, new, problem):
    if problem is None:
        check_redirect(old, new)
        return
    with pytest.raises(UnreadableFile, match=problem):
        check_redirect(old, new)


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ((401, {}, b""), "access is refused (401); download the file where you are signed in"),
        ((403, {}, b""), "access is refused (403)"),
        ((404, {}, b""), "there is no such file (404); check the address"),
        ((418, {}, b""), "the server answered 418; check the address"),
        ((429, {"Retry-After": "17"}, b""), "rate limit is reached (429); wait 17 seconds"),
        ((429, {}, b""), "wait some minutes"),
        ((503, {}, b""), "the server failed (503); try again later"),
        ((200, {}, b"\n<!DOCTYPE html><html>"), "is a web page, not a file of data"),
        ((200, {}, gzip.compress(b"<html>")), "is a web page, not a file of data"),
        ((200, {}, b""), "the file is empty"),
        ((200, {"Content-Length": "999"}, CSV), f"the connection ended after {len(CSV)} of 999 bytes; run the command again"),
        ((200, {"Content-Length": None, "Transfer-Encoding": "chunked"}, b"99\r\nmodel_a"), "the connection broke (IncompleteRead)"),
        ((200, {}, gzip.compress(CSV)[:-9]), "broken gzip data"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_says_what_to_do(answer, said):
    assert said in served_error(answer)


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("http://example.org/b.csv", "anybody on the way could change it; use https://"),
        (
            "https://user:secret@example.org/b.csv",
            "https://example.org/b.csv: names and passwords in addresses",
        ),
        ("https://", "expected https://HOST/FILE"),
        ("https://[::1/b.csv?key=secret", "no valid address"),
        ("https://localhost:99999/b.csv", "no valid address"),
        ("http://localhost:9/b.csv", "the server refuses connections"),
    ],
)
def test_addresses_that_are_not_asked(address, said):
    problem = error_of(address)
    assert said in problem
    assert "secret" not in problem


def test_a_server_that_nobody_vouches_for(certificate):
    with serving({"/b.csv": (200, {}, CSV)}, certificate) as address:
        assert "certificate" in error_of(f"{address}/b.csv")


def test_a_disk_that_is_full(monkeypatch):
    def full(*_arguments):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("shutil.copyfileobj", full)
    assert "TMPDIR" in served_error((200, {}, CSV))


def test_ctrl_c_leaves_no_file(monkeypatch):
    def stop(*_arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr("tiltyard.foundation.fetch_listener.FetchListener.receive", stop)
    with serving({"/b.csv": (200, {}, CSV)}) as address, pytest.raises(KeyboardInterrupt):
        open_battles(f"{address}/b.csv")


def test_a_file_of_that_name_is_a_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "https").write_bytes(CSV)
    assert tiltyard.rate("https").n_battles == 3
