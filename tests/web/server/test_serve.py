"""``tiltyard serve`` as a whole: it starts, serves, recovers what dies, and leaves nothing behind."""

import asyncio
import os
import pwd
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import httpx2
import pytest
from typer.testing import CliRunner

from support.live_arenas import answers_file, made_arena
from support.replayed_logs import replay_log
from support.served import make_token
from support.serving_process import PATIENCE, commandline, environment, running
from tiltyard.arena.maintenance import doctor
from tiltyard.arena.rating.checkpoints import STATE_VERSION, list_checkpoints, read_checkpoint
from tiltyard.cli import operator as token
from tiltyard.cli.serve import _greet, serve
from tiltyard.core.policy.validity.arena_fold import ArenaFold
from tiltyard.errors import BadOption, StoreFault
from tiltyard.postgres.connections import connect
from tiltyard.settings.arena_settings import ArenaSettings
from tiltyard.settings.environment import Environment, read_environment
from tiltyard.settings.serving_settings import ServingSettings
from tiltyard.web.server import supervisor
from tiltyard.web.server.startup import arena_name_from_file, listening_socket, prepare_server


def gone(numbers):
    end = time.monotonic() + 40
    while any("multiprocessing.spawn" in commandline(one) for one in numbers):
        assert time.monotonic() < end, [commandline(one) for one in numbers]
        time.sleep(0.05)


def status(number, name):
    """One line of what the system says of a process."""
    return re.search(rf"^{name}:\s*(\S+)", Path(f"/proc/{number}/status").read_text(), re.MULTILINE)[1]


def until(condition):
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, "waited too long"
        time.sleep(0.02)


def voted(url, arena, votes):
    with httpx2.Client(base_url=url, timeout=PATIENCE) as client:
        for _ in range(votes):
            matchup = client.post(f"/api/v1/arenas/{arena}/matchups").json()["matchup"]
            answer = client.post(f"/api/v1/matchups/{matchup}/vote", json={"winner": "model_a"})
            assert answer.status_code == 200, answer.text


def nobody_is_connected(connection):
    """A server takes a moment to see that a client has gone, and cleans its tables when it likes."""
    others = """SELECT application_name, state, query FROM pg_stat_activity
                WHERE datname = current_database() AND backend_type = 'client backend' AND pid <> pg_backend_pid()"""
    until = time.monotonic() + 20
    while (found := connection.execute(others).fetchall()) and time.monotonic() < until:
        time.sleep(0.1)
    assert found == []


def test_it_serves_an_answers_file_and_stops_cleanly(database, tmp_path):
    answers = answers_file(tmp_path / "My Answers.v2.jsonl", 4, 6)
    with running(tmp_path, answers, "--port", 0, "--workers", 2, database=database) as serving:
        serving.wait_for("Ctrl-C")
        assert "24 new responses" in serving.said
        assert re.search(rf"{serving.url}/claim/[\w-]{{43}}\n", serving.said)
        children = serving.children()
        assert len(children) == 3
        voted(serving.url, "my-answers", 5)
        assert httpx2.get(f"{serving.url}/readyz", timeout=60).status_code == 200
        reader = {"authorization": f"Bearer {make_token(database, 'metrics')}"}
        figures = httpx2.get(f"{serving.url}/metrics", headers=reader, timeout=60).text
        assert 'tiltyard_requests_total{method="POST",route="vote",status="200"} 5.0' in figures
        port = int(serving.url.rsplit(":", 1)[1])
        assert serving.stop() == 0
        assert serving.said.endswith("Stopped.\n")
    gone(children)
    with socket.socket() as probe:
        assert probe.connect_ex(("127.0.0.1", port)) != 0
    with connect(database) as connection:
        assert connection.execute("SELECT count(*) FROM battles").fetchone() == (5,)
        nobody_is_connected(connection)


@pytest.mark.slow
def test_it_serves_a_live_arena_from_a_models_file(database, tmp_path):
    models = tmp_path / "models.yaml"
    local = "provider: openai, base_url: 'http://127.0.0.1:8081/v1', price: {input: 0, output: 0}"
    entries = [f"- {{name: {name}, model: {name}, {local}}}\n" for name in ("Heron", "Plover")]
    models.write_text("models:\n" + "".join(entries))
    with running(tmp_path, "--models", models, "--port", 0, database=database) as serving:
        serving.wait_for("Ctrl-C")
        link = re.search(
            rf"Live arena live is made. Let people in: ({serving.url}/join/[\w-]+)\n", serving.said
        )
        with httpx2.Client(follow_redirects=True, timeout=60) as client:
            assert client.get(f"{serving.url}/api/v1/arenas/live").status_code == 403
            assert client.get(link[1]).status_code == 200
        assert serving.stop() == 0
    with connect(database) as connection:
        assert connection.execute("SELECT name FROM live_entrants ORDER BY model").fetchall() == [
            ("Heron",),
            ("Plover",),
        ]


@pytest.mark.slow
def test_what_dies_is_started_again_and_nothing_outlives_whoever_started_it(database, tmp_path):
    answers = answers_file(tmp_path / "answers.jsonl", 4, 6)
    with running(tmp_path, answers, "--port", 0, database=database) as serving:
        serving.wait_for("Ctrl-C")
        before = serving.children()
        for child in before:
            os.kill(child, signal.SIGKILL)
        end = time.monotonic() + PATIENCE
        while len(set(serving.children()) - set(before)) < 2:
            assert time.monotonic() < end, serving.logged
            time.sleep(0.1)
        voted(serving.url, "answers", 2)
        assert serving.logged.count('"child ended"') == 2
        after = serving.children()
        assert len(after) == 2
        serving.process.kill()
        serving.process.wait(10)
    gone([*before, *after])


@pytest.mark.slow
def test_a_second_signal_does_not_wait(database, tmp_path):
    with running(tmp_path, "--port", 0, "--role", "rater", database=database) as serving:
        serving.wait_for("The rater is ready.")
        (child,) = serving.children()
        os.kill(child, signal.SIGSTOP)
        until(lambda: status(child, "State") == "T")
        began = time.monotonic()
        serving.process.send_signal(signal.SIGINT)
        until(lambda: int(status(child, "ShdPnd"), 16) & 1 << signal.SIGTERM - 1)
        assert serving.process.poll() is None
        serving.process.send_signal(signal.SIGINT)
        gone([child])
        assert time.monotonic() - began < supervisor._STOP_GRACE_SECONDS, (
            "the first signal's time was waited for"
        )
        assert serving.process.wait(PATIENCE) == 0


@pytest.mark.parametrize(
    ("base_url", "external", "warned"),
    [
        ("https://arena.example.org", False, True),
        ("https://arena.example.org", True, False),
        (None, False, False),
    ],
)
def test_strangers_on_the_embedded_server_are_warned_of(
    database, tmp_path, monkeypatch, capsys, base_url, external, warned
):
    monkeypatch.setattr(doctor, "missing_releases", lambda _: ["a release"])
    settings = ServingSettings(base_url=base_url)
    own = Environment(home=tmp_path, database_url=database if external else None, variables={})
    prepared = asyncio.run(prepare_server(database, own, settings))
    assert prepared.unpatched is warned
    _greet(settings, prepared)
    assert ("security releases" in capsys.readouterr().out) is warned


@pytest.mark.slow
def test_roles_share_the_work(database, tmp_path):
    for role, said in (("rater", "The rater is ready."), ("web", "Tiltyard is ready")):
        folder = tmp_path / role
        folder.mkdir()
        with running(folder, "--port", 0, "--role", role, "--metrics-port", 0, database=database) as serving:
            serving.wait_for(said)
            assert len(serving.children()) == 1
            assert serving.stop() == 0


@pytest.mark.slow
def test_a_rater_resumes_where_one_in_another_environment_stopped(database, tmp_path):
    made_arena(database, settings=ArenaSettings(undo_seconds=0.0))
    versions = "SELECT position, kernel FROM checkpoints ORDER BY position"
    ends = []
    for core, threads in (("Prescott", "1"), ("Haswell", "4")):
        variables = {
            "OPENBLAS_NUM_THREADS": threads,
            "OMP_NUM_THREADS": threads,
            "OPENBLAS_CORETYPE": core,
        }
        with (
            running(tmp_path, "--port", 0, database=database, variables=variables) as serving,
            connect(database) as connection,
        ):
            serving.wait_for("Ctrl-C")
            voted(serving.url, "arena", 4)
            ends.append(connection.execute("SELECT max(position) FROM events").fetchone()[0])
            until(lambda: connection.execute("SELECT position FROM raters").fetchone() == (ends[-1],))
            assert serving.stop() == 0
    with connect(database) as connection:
        assert connection.execute(versions).fetchall() == [(end, STATE_VERSION) for end in ends]
        replayed = replay_log(connection, 1, ends[-1], 0)
        state = ArenaFold.save_all([replayed[source] for source in sorted(replayed)])
        newest, *_ = list_checkpoints(connection, 1)
        assert read_checkpoint(connection, 1, newest).digest == ArenaFold.digest_all(state)


def test_the_demo_is_filled_by_one_thread(tmp_path):
    program = (
        "import os, sys; from pathlib import Path; from tiltyard.cli import demo; "
        "demo._own_environment(Path(sys.argv[1])); import numpy; print(len(os.listdir('/proc/self/task')))"
    )
    environ = {**os.environ, "OPENBLAS_NUM_THREADS": "4", "OMP_NUM_THREADS": "4"}
    filled = subprocess.run(
        [sys.executable, "-c", program, tmp_path], env=environ, check=True, capture_output=True, text=True
    )
    assert filled.stdout.strip() == "1"


def test_what_cannot_be_served_is_told_before_anything_starts(server, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TILTYARD_HOME", str(tmp_path / "home"))
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(BadOption, match=f"port {port}.*--port"):
            listening_socket(ServingSettings(port=port))
    with pytest.raises(BadOption, match="--base-url"):
        serve(host="0.0.0.0")
    with pytest.raises(BadOption, match="--trusted-proxies"):
        serve(base_url="https://arena.example.org")
    with pytest.raises(BadOption, match="file not found"):
        serve(Path("none.jsonl"))
    read = read_environment(variables={"TILTYARD_HOME": str(tmp_path / "home")})
    with pytest.raises(StoreFault, match="tiltyard arena migrate"):
        asyncio.run(prepare_server(server, read, ServingSettings()))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("file", "name"),
    [
        ("answers.jsonl", "answers"),
        ("My Answers.v2.jsonl", "my-answers"),
        ("_.x", "arena"),
        ("Ä-ö!.csv", "arena"),
    ],
)
def test_an_arena_is_called_like_its_file(file, name):
    assert arena_name_from_file(Path("some") / file) == name


@pytest.fixture
def open_folder():
    """A folder that other users can enter, for a PostgreSQL that root may not run."""
    folder = Path(tempfile.mkdtemp(prefix="tiltyard-serve-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.slow
def test_with_nothing_configured_it_brings_its_own_database(tmp_path, open_folder):
    known = {one.pw_name for one in pwd.getpwall()}
    as_user = ["--as-user", "postgres" if "postgres" in known else "nobody"] if os.getuid() == 0 else []
    home = open_folder / "home"
    answers = answers_file(tmp_path / "answers.jsonl", 4, 6)
    for votes in (3, 0):
        with running(tmp_path, answers, "--port", 0, *as_user, home=home) as serving:
            serving.wait_for("Ctrl-C")
            voted(serving.url, "answers", votes)
            brought = "24 new responses" if votes else "0 new responses"
            assert brought in serving.said
            assert serving.stop() == 0
    assert not [one for one in Path("/proc").glob("[0-9]*") if str(home) in commandline(one.name)]


def test_tokens_from_the_command_line(database, tmp_path):
    def said(*arguments):
        done = CliRunner().invoke(token.token_app, list(arguments), env=environment(tmp_path, database))
        return done.stdout if done.exception is None else str(done.exception)

    secret = said("create", "ci", "--scope", "read", "--scope", "import", "--days", "7").strip()
    assert re.fullmatch(r"tyt_[\w-]{43}", secret)
    assert "read" in said("create", "x", "--scope", "root")
    listed = said("list")
    assert "ci" in listed
    assert "import,read" in listed
    assert secret not in listed
    assert "is revoked" in said("revoke", "1")
    assert "revoked 2" in said("list")
    assert "Session 5000000000 is revoked" in said("revoke-session", "5000000000")
    assert "no such session: 7" in said("revoke-session", "7")
    with connect(database) as connection:
        rows = connection.execute("SELECT session, source, revoked_at IS NULL FROM sessions").fetchall()
    assert rows == [(5_000_000_000, 0, False)]
    assert re.fullmatch(r"http://127\.0\.0\.1:8420/claim/[\w-]{43}\n", said("operator"))
