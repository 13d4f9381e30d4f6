"""The runner of `just check` and `just release`: lanes side by side, every failure told, nothing left running."""

import datetime as dt
import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

TOOLS = Path(__file__).parents[2] / "tools"
#: Runs scripts with --help one after the other, each with its own folder first among the places of modules.
STARTS = """
import runpy, sys
from pathlib import Path

places, scripts = sys.path, sys.argv[1:]
for script in scripts:
    sys.argv, sys.path = [script, "--help"], [str(Path(script).parent), *places]
    try:
        runpy.run_path(script, run_name="__main__")
    except SystemExit as ended:
        assert not ended.code, script
"""


@pytest.fixture
def runner(monkeypatch, tmp_path):
    """A runner whose recipes are scripts in ``tmp_path``."""
    monkeypatch.syspath_prepend(str(TOOLS))
    from lanes import Runner

    return Runner(("sh", "-c", f'exec sh "{tmp_path}/$0"'), tmp_path / "logs", lambda _: None)


def test_every_script_of_the_release_and_of_the_studies_starts():
    """Where it is run: neither the tests' folders nor this one are among the places of its modules."""
    text = (TOOLS.parent / "justfile").read_text(encoding="utf-8")
    lanes = " ".join(
        re.search(pattern, text)[1] for pattern in (r'release.md [^"\n]*"([^"]+)"', r'studies := "([^"]+)"')
    )
    recipes = dict(re.findall(r"^([\w-]+)[^\n:]*:[^\n]*\n((?: +.*\n)+)", text, re.MULTILINE))
    scripts = {
        script for name in lanes.split() for script in re.findall(r"python (bench/\S+)", recipes[name])
    }
    assert "bench/intervals.py" in scripts
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | {
        "PYTHONPATH": str(TOOLS.parent / "src")
    }
    command = [sys.executable, "-P", "-c", STARTS, *sorted(scripts)]
    ended = subprocess.run(command, cwd=TOOLS.parent, env=clean, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr


def test_every_file_that_a_recipe_names_exists():
    text = (TOOLS.parent / "justfile").read_text(encoding="utf-8")
    named = re.findall(r"\b(?:tests|bench|tools)/[\w/]+(?:\.py)?", text)
    assert named
    assert [path for path in named if not (TOOLS.parent / path).exists()] == []


def test_lanes_run_side_by_side_and_recipes_of_a_lane_in_turn(runner, tmp_path):
    """Each lane waits for a file that the other makes: one after the other they would never end."""
    for lane in ("left", "right"):
        (tmp_path / f"make-{lane}").write_text(f"touch {tmp_path}/{lane}.made")
        (tmp_path / f"await-{lane}").write_text(f"while [ ! -e {tmp_path}/{lane}.made ]; do sleep 0.05; done")
    finished = runner.run([["make-left", "await-right"], ["await-left", "make-right"]])
    assert [each.recipe for each in finished] == ["make-left", "await-right", "await-left", "make-right"]
    assert all(each.passed for each in finished)


def test_so_many_lanes_run_at_once(runner, tmp_path):
    """Each recipe fails if another one runs beside it."""
    for name in ("first", "second", "third"):
        (tmp_path / name).write_text(f"mkdir {tmp_path}/busy && sleep 0.2 && rmdir {tmp_path}/busy")
    finished = runner.run([["first"], ["second"], ["third"]], at_once=1)
    assert [(each.recipe, each.code) for each in finished] == [("first", 0), ("second", 0), ("third", 0)]


def test_a_failure_stops_nothing_and_is_told(runner, tmp_path):
    from lanes import summary

    (tmp_path / "broken").write_text("echo what is wrong; exit 3")
    (tmp_path / "whole").write_text("true")
    finished = runner.run([["broken", "whole"]])
    assert [each.code for each in finished] == [3, 0]
    assert finished[0].log.read_text() == "what is wrong\n"
    assert [line.split() for line in summary(finished, 75).splitlines()] == [
        ["broken", "0:00", "min", "failed", "(3)"],
        ["whole", "0:00", "min", "passed"],
        ["wall", "time", "1:15", "min"],
    ]


def test_the_page_is_dated_and_has_the_last_line_of_each(runner, tmp_path):
    from lanes import result_page

    (tmp_path / "tests").write_text("echo '== 3 passed | 1 skipped =='; echo")
    page = result_page("Measured", runner.run([["tests"]]), 5, dt.date(2026, 11, 16), 0.4)
    assert page.startswith("# Measured\n\nRun on 2026-11-16 with Python ")
    assert "(load 0 before it), 0:05 min in all" in page
    assert page.endswith("| `tests` | 0:00 min | passed | 3 passed \\| 1 skipped |\n")


def test_what_is_stopped_leaves_nothing_running(runner, tmp_path):
    """The recipe's own children end too, and what would have come after it never starts."""
    pid, after = tmp_path / "pid", tmp_path / "after"
    (tmp_path / "long").write_text(f"sleep 300 & echo $! > {pid}.new; mv {pid}.new {pid}; wait")
    (tmp_path / "next").write_text(f"touch {after}")
    running = threading.Thread(target=runner.run, args=([["long", "next"]],))
    running.start()
    _await(pid)
    runner.stop()
    running.join(30)
    assert not running.is_alive()
    assert not after.exists()
    assert _ended(int(pid.read_text()))


def _await(path: Path) -> None:
    end = time.monotonic() + 60
    while not path.exists():
        assert time.monotonic() < end, path
        time.sleep(0.02)


def _ended(process: int) -> bool:
    for _ in range(200):
        try:
            if Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z":
                return True
        except OSError:
            return True
        time.sleep(0.05)
    return False


def test_an_interrupt_ends_the_whole_run(tmp_path):
    just = tmp_path / "just"
    just.write_text(f"#!/bin/sh\ntouch {tmp_path}/begun\nexec sleep 300\n")
    just.chmod(0o755)
    environment = os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    command = [sys.executable, str(TOOLS / "lanes.py"), "one-that-sleeps", "another-that-sleeps"]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
        _await(tmp_path / "begun")
        process.send_signal(signal.SIGINT)
        try:
            out, _ = process.communicate(timeout=60)
        finally:
            process.kill()
    assert process.returncode == 130
    assert out.endswith("Interrupted.\n")
