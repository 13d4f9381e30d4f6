"""Where files stand: tests beside what they test, statements beside the module that runs them, nouns as names."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src/tiltyard"
TESTS = ROOT / "tests"

#: Folders of tests that go through several packages, or that hold what tests need.
ACROSS = {"faults", "fuzz", "isolation", "pages", "servers", "typing"}
#: Names of modules and packages that end like a verb's gerund but are the field's own words for a thing.
NOUNS_IN_ING = {
    "battle_rating",
    "blinding",
    "judging",
    "matchmaking",
    "rating",
    "scoring",
    "standing",
    "state_encoding",
    "voting",
}

#: What a mechanism is made of, and where it is allowed (decision 0048).
ONE_OF_EACH = {
    r"\bOrderedDict\b": {"caches.py"},
    r"del self\.\w+\[next\(iter\(": {"arena/voting/revealed_names.py", "core/policy/state/session_memory.py"},
    r"\bos\.(fsync|link|replace)\b": {"atomic_files.py"},
    r"^\s*import (fcntl|msvcrt)\b": {"file_locks.py"},
    r"-- name: \(": {"postgres/statements.py"},
}


def folders(root: Path) -> set[str]:
    """Folders with Python files, as paths below the root."""
    return {path.parent.relative_to(root).as_posix() for path in root.rglob("*.py")} - {"."}


def test_tests_follow_the_layout_of_the_package():
    known = folders(PACKAGE) | {"lab"}
    stray = {each for each in folders(TESTS) if each.split("/")[0] not in ACROSS and each not in known} - {
        "runs/tournament"
    }
    assert not stray, "name a folder of tests like the folder of the package that it tests"


def test_every_folder_of_the_package_is_a_package_that_says_what_it_is_for():
    for folder in folders(PACKAGE):
        init = PACKAGE / folder / "__init__.py"
        assert init.exists(), f"{folder} has no __init__.py"
        assert init.read_text(encoding="utf-8").startswith('"""'), f"{folder}/__init__.py has no docstring"


def test_statements_stand_beside_the_module_that_runs_them():
    for sql in (PACKAGE / "arena").rglob("*.sql"):
        assert sql.with_suffix(".py").exists(), f"{sql.name} has no module of its name beside it"


def test_modules_are_named_by_nouns():
    gerunds = {
        path.relative_to(PACKAGE).as_posix()
        for path in PACKAGE.rglob("*.py")
        if path.stem.split("_")[-1].endswith("ing") and path.stem not in NOUNS_IN_ING
    }
    assert not gerunds, "name a module by the thing in it, not by what it does"


def test_the_validation_suite_is_not_in_the_package():
    assert not (PACKAGE / "lab").exists()
    assert (ROOT / "lab/__init__.py").exists()


@pytest.mark.parametrize("pattern", ONE_OF_EACH)
def test_each_mechanism_is_written_once(pattern: str):
    users = {
        path.relative_to(PACKAGE).as_posix()
        for path in PACKAGE.rglob("*.py")
        if re.search(pattern, path.read_text(encoding="utf-8"), re.MULTILINE)
    }
    assert users == ONE_OF_EACH[pattern], "use caches, atomic_files, file_locks or load_statements"
