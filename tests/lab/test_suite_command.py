"""``python -m lab``: the policy measured against its bars."""

import json
import re

import pytest

from lab import __main__ as command
from lab.bars import PolicyBar
from lab.policy_suite import SuiteResult
from tiltyard.simulation.studies import from_plain


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("TILTYARD_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("COLUMNS", "100")


def run(monkeypatch, *arguments):
    """The code that the command exits with."""
    monkeypatch.setattr("sys.argv", ["lab", *map(str, arguments)])
    with pytest.raises(SystemExit) as stop:
        command.main()
    return stop.value.code


def test_a_row_of_the_suite_is_measured_and_written(tmp_path, monkeypatch, capsys):
    out = tmp_path / "suite"
    assert run(monkeypatch, "--only", "glicko-2", "--processes", 0, "--out", out) == 0
    assert re.search(r"glicko-2 +6\d\.\d +.*59\.5 to 61\.5 +holds", capsys.readouterr().out)
    assert from_plain(SuiteResult, json.loads((out / "suite.json").read_text())).bars[0].name == "glicko-2"
    assert {path.name for path in out.iterdir()} >= {"suite.json", "suite.md", "suite.html"}


def test_a_missed_bar_ends_in_code_1(monkeypatch, capsys):
    missed = PolicyBar("x", "what is measured", 0.1, 0.0, 0.2, 0.5, None, "at least 0.5", False, 24)
    monkeypatch.setattr(command, "run_suite", lambda *_size, **_options: SuiteResult("small", (missed,)))
    assert run(monkeypatch) == 1
    assert "Missed: x." in capsys.readouterr().out


def test_an_unknown_row_is_one_line(monkeypatch):
    said = run(monkeypatch, "--only", "nonsense")
    assert said.startswith("Error: ")
