"""`just quick`: which tests stand nearest to a change, and what is said of those left out."""

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

TOOLS = Path(__file__).parents[2] / "tools"
SOURCES = {
    "src/tiltyard/core/ratings/__init__.py": "from tiltyard.core.ratings.elo import Elo",
    "src/tiltyard/core/ratings/elo.py": "",
    "src/tiltyard/core/ratings/kernels/loops.py": "",
    "src/tiltyard/web/server/app.py": "def make():\n    from tiltyard.core.ratings import Elo",
    "tests/support/served.py": "import tiltyard.web.server.app",
    "tests/core/ratings/test_elo.py": "def test_one(): ...\ndef test_two(): ...",
    "tests/core/ratings/test_glicko2.py": "def test_three(): ...",
    "tests/web/server/test_serve.py": "from served import served",
    "tests/web/test_app.py": "from tiltyard.web.server.app import make",
    "tests/project/test_docs.py": "",
    "tests/files/test_csv.py": "import csv",
    "lab/bars.py": "",
    "tests/simulation/test_bars_beside.py": "from lab.bars import Bar",
}


@pytest.fixture(autouse=True)
def _tools_on_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(TOOLS))


def order(*changed):
    from nearest import nearest

    return [near.path for near in nearest(changed, SOURCES)]


def test_the_test_of_the_same_name_comes_first_then_its_folder_then_importers():
    assert order("src/tiltyard/core/ratings/elo.py") == [
        "tests/core/ratings/test_elo.py",
        "tests/core/ratings/test_glicko2.py",
        "tests/web/test_app.py",
        "tests/web/server/test_serve.py",
    ]


def test_a_changed_test_comes_before_all_others():
    changed = "tests/files/test_csv.py", "src/tiltyard/web/server/app.py"
    assert order(*changed)[:2] == ["tests/files/test_csv.py", "tests/web/test_app.py"]


def test_the_validation_suite_leads_to_the_tests_that_import_it():
    assert order("lab/bars.py") == ["tests/simulation/test_bars_beside.py"]


def test_what_only_tests_share_leads_to_the_tests_that_import_it():
    assert order("tests/support/served.py") == ["tests/web/server/test_serve.py"]


def test_a_file_that_nobody_imports_leads_to_the_tests_of_its_folder():
    assert order("src/tiltyard/core/ratings/kernels/loops.py")[:2] == [
        "tests/core/ratings/test_elo.py",
        "tests/core/ratings/test_glicko2.py",
    ]
    assert order("src/tiltyard/web/templates/board.html") == [
        "tests/web/server/test_serve.py",
        "tests/web/test_app.py",
    ]


def test_a_page_of_the_documentation_leads_to_its_tests():
    assert order("docs/how-to/vote.md") == ["tests/project/test_docs.py"]


def test_a_removed_file_leads_nowhere():
    assert order("tests/web/test_gone.py") == []


def test_what_was_left_out_is_counted_by_folder():
    from quick import left_out

    waiting = Counter({"tests/web/test_app.py": 3, "tests/core/ratings/test_glicko2.py": 0})
    assert left_out(waiting, [["tests/core/ratings/test_elo.py"]], SOURCES).splitlines()[1:] == [
        "      2  tests/core/ratings",
        "      3  tests/web",
    ]
    assert left_out(Counter(), [], SOURCES) == "Nothing that this change reaches was left out."


def test_the_nearest_go_together_and_the_others_a_few_at_a_time(monkeypatch):
    import quick
    from nearest import nearest

    monkeypatch.setattr(quick, "BATCH_FILES", 2)
    assert quick.batches(nearest(["src/tiltyard/core/ratings/elo.py"], SOURCES)) == [
        ["tests/core/ratings/test_elo.py"],
        ["tests/core/ratings/test_glicko2.py", "tests/web/test_app.py"],
        ["tests/web/server/test_serve.py"],
    ]


@pytest.mark.slow
def test_it_stops_in_time_and_tells_what_is_left(tmp_path):
    """In a process of its own, as pytest's own state must not meet that of this run."""
    tests = tmp_path / "test_many.py"
    tests.write_text(
        "def test_one(): ...\ndef test_two(): import __main__; __main__.deadline.end = 0\ndef test_three(): ..."
    )
    code = f"""
import time, quick
deadline = quick.Deadline(time.monotonic() + 600)
never_begun = quick.run([[{str(tests)!r}], ["never.py"]], deadline)
print("RAN", deadline.passed, deadline.failed, sum(deadline.waiting.values()), never_begun)
"""
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(TOOLS)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.splitlines()[-1] == "RAN 2 0 1 [['never.py']]"
