"""``tiltyard probe`` against a port that answers, one that does not, and one that tells of problems."""

import json

import pytest
from typer.testing import CliRunner

from tiltyard.cli import app
from tiltyard.web.monitoring_port import serve_monitoring
from tiltyard.web.supervisor_health import SupervisorHealth


@pytest.fixture
def health():
    return SupervisorHealth()


@pytest.fixture
def port(health):
    with serve_monitoring("127.0.0.1", 0, None, health) as found:
        yield found


def probed(*arguments):
    done = CliRunner().invoke(app, ["probe", *map(str, arguments)])
    return done.exit_code, done.output.strip()


def test_a_server_that_works_is_ok(port, health):
    assert probed("--port", port) == (0, "ok")
    code, said = probed("--port", port, "--ready")
    assert code == 1
    assert said == f"127.0.0.1 port {port} answers 503: not ready yet"
    health.child_ready()
    assert probed("--port", port, "--ready") == (0, "ok")


def test_variables_name_the_port_and_an_address_to_ask(port, monkeypatch):
    monkeypatch.setenv("TILTYARD_METRICS_PORT", str(port))
    monkeypatch.setenv("TILTYARD_METRICS_HOST", "0.0.0.0")
    assert probed() == (0, "ok")
    monkeypatch.setenv("TILTYARD_METRICS_PORT", "x")
    assert probed()[0] != 0


def test_a_process_that_hangs_is_named(port, health):
    health._beat_at = -1000.0
    code, said = probed("--port", port)
    assert code == 1
    assert "the supervisor has not responded for" in said


def test_nobody_there_is_a_failure(port):
    with serve_monitoring("127.0.0.1", 0, None, SupervisorHealth()) as gone:
        pass
    code, said = probed("--port", gone, "--seconds", 2)
    assert code == 1
    assert said.startswith(f"no answer from 127.0.0.1 port {gone}")


@pytest.mark.parametrize("body", [b"", b"[]", b"nonsense", json.dumps({"problems": 3}).encode()])
def test_strange_answers_are_survived(body):
    from tiltyard.cli.maintenance import _problems

    assert _problems(body) == "no details"


def test_a_problem_document_gives_its_detail():
    from tiltyard.cli.maintenance import _problems

    assert _problems(b'{"detail": "The database is not available."}') == "The database is not available."
