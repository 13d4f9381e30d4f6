"""Commands print links with the address at which people reach the running server."""

import re

import httpx2
import pytest

from support.bare_arenas import make_arena
from support.command import run
from support.live_arenas import answers_file
from support.serving_process import running
from tiltyard.web.server.startup import SERVER_FILE, publish_address, read_address


def test_the_address_is_valid_while_the_server_runs(tmp_path):
    assert read_address(tmp_path) is None
    with publish_address(tmp_path, "http://127.0.0.1:9000"):
        assert read_address(tmp_path) == "http://127.0.0.1:9000"
        with publish_address(tmp_path, "http://127.0.0.1:9001"):
            assert read_address(tmp_path) == "http://127.0.0.1:9000"
    # As a server leaves it that was killed.
    assert (tmp_path / SERVER_FILE).read_text() == "http://127.0.0.1:9000"
    assert read_address(tmp_path) is None
    with publish_address(tmp_path, "http://[::1]:1"):
        assert read_address(tmp_path) == "http://[::1]:1"


def test_a_folder_that_cannot_be_written_stops_nobody(tmp_path):
    with publish_address(tmp_path / "missing", "http://127.0.0.1:9000"):
        assert read_address(tmp_path / "missing") is None


@pytest.mark.parametrize(
    ("set_here", "expected"),
    [({}, "http://127.0.0.1:9000"), ({"TILTYARD_BASE_URL": "https://a.example"}, "https://a.example")],
)
def test_the_public_address_goes_first(database, monkeypatch, tmp_path, set_here, expected):
    monkeypatch.setenv("DATABASE_URL", database)
    for name, value in {"TILTYARD_HOME": str(tmp_path), "TILTYARD_PORT": "8888", **set_here}.items():
        monkeypatch.setenv(name, value)
    make_arena(database, "poems")
    commands = (
        ("arena", "invite", "poems", "--batch", "Ada"),
        ("arena", "operator", "invite", "analyst", "--for", "Ada"),
        ("arena", "token", "operator"),
    )
    with publish_address(tmp_path, "http://127.0.0.1:9000"):
        for command in commands:
            done = run(*command)
            assert done.out.startswith(f"{expected}/"), done
            assert "No server" not in done.err
    if not set_here:
        for command in commands:
            done = run(*command)
            assert done.out.startswith("http://127.0.0.1:8888/"), done
            assert "No server of" in done.err
            assert "--base-url" in done.err


@pytest.mark.slow
def test_a_server_on_any_free_port_says_which(database, tmp_path, monkeypatch):
    answers = answers_file(tmp_path / "poems.jsonl", 2, 2)
    home = tmp_path / "home"
    home.mkdir()
    with running(tmp_path, answers, "--port", 0, database=database, home=home) as serving:
        serving.wait_for("Ctrl-C")
        monkeypatch.setenv("DATABASE_URL", database)
        monkeypatch.setenv("TILTYARD_HOME", str(home))
        made = run("arena", "invite", "poems", "--batch", "Ada")
        assert made.out.startswith(f"{serving.url}/join/"), made
        assert httpx2.get(made.out.strip(), timeout=60).status_code == 200
        claim = re.search(r"http\S+/claim/\S+", serving.said)[0]
        with httpx2.Client(base_url=serving.url, headers={"origin": serving.url}, timeout=60) as client:
            form = {"name": "Ada", "password": "correct horse battery"}
            assert client.post(claim, data=form).status_code == 200
            form = {"batch": "Bob", "uses": "1", "days": "3"}
            page = client.post("/operator/arenas/poems/invitations", data=form).text
            assert f"{serving.url}/join/" in page
