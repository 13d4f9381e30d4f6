"""``tiltyard arena probe`` against a port that answers, one that does not, and one that tells of problems."""

import pytest
from typer.testing import CliRunner

from tiltyard.cli import app
from tiltyard.web.server.supervisor import serve_monitoring


class Monitored:
    """A port that answers with these problems."""

    def __init__(self):
        self.problems, self.unready = [], ["not ready yet"]
        self.serving = serve_monitoring("127.0.0.1", 0, None, lambda: self.problems, lambda: self.unready)


@pytest.fixture
def monitored():
    return Monitored()


@pytest.fixture
def port(monitored):
    with monitored.serving as found:
        yield found


def probed(*arguments):
    done = CliRunner().invoke(app, ["arena", "probe", *map(str, arguments)])
    return done.exit_code, done.output.strip()


def test_a_server_that_works_is_ok(port, monitored):
    assert probed("--port", port) == (0, "ok")
    code, said = probed("--port", port, "--ready")
    assert code == 1
    assert "503" in said
    assert "not ready yet" in said
    monitored.unready = []
    assert probed("--port", port, "--ready") == (0, "ok")


def test_variables_name_the_port_and_an_address_to_ask(port, monkeypatch):
    monkeypatch.setenv("TILTYARD_METRICS_PORT", str(port))
    monkeypatch.setenv("TILTYARD_METRICS_HOST", "0.0.0.0")
    assert probed() == (0, "ok")
    monkeypatch.setenv("TILTYARD_METRICS_PORT", "x")
    assert probed()[0] != 0


def test_a_problem_is_named(port, monitored):
    monitored.problems = ["a problem"]
    code, said = probed("--port", port)
    assert code == 1
    assert "a problem" in said


def test_nobody_there_is_a_failure():
    with Monitored().serving as gone:
        pass
    code, said = probed("--port", gone, "--seconds", 2)
    assert code == 1
    assert f"port {gone}" in said


@pytest.mark.parametrize(
    ("body", "told"),
    [
        *((body, "no details") for body in (b"", b"[]", b"nonsense", b'{"problems": 3}')),
        (b'{"detail": "The database is not available."}', "The database is not available."),
    ],
)
def test_strange_answers_are_survived(body, told):
    from tiltyard.cli.maintenance import _problems

    assert _problems(body) == told
