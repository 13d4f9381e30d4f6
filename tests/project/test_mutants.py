"""The runner of mutants: what it changes, what it draws, and that it tells a caught change from a missed one."""

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

RUNNER = Path(__file__).parents[2] / "tools" / "mutants"


@pytest.fixture(autouse=True)
def _on_path(monkeypatch):
    monkeypatch.syspath_prepend(str(RUNNER))


def test_every_operator_makes_the_changes_of_its_examples():
    from cosmic_ray.mutating import mutate_code
    from extra_operators import PYTHON_OPERATORS

    for operator in PYTHON_OPERATORS.values():
        for example in operator.examples():
            made = mutate_code(example.pre_mutation_code, operator(), example.occurrence)
            assert made == example.post_mutation_code


def test_conditions_of_a_statement_are_turned_one_by_one_and_comments_are_not():
    from extra_operators import sql_changes

    text = "-- name: a AND b\nSELECT 1 WHERE x <= 2 AND y IS NULL;\n"
    assert [(line, changed.splitlines()[1]) for line, _, changed in sql_changes(text)] == [
        (2, "SELECT 1 WHERE x < 2 AND y IS NULL;"),
        (2, "SELECT 1 WHERE x <= 2 OR y IS NULL;"),
        (2, "SELECT 1 WHERE x <= 2 AND y IS NOT NULL;"),
    ]


def test_a_seed_draws_the_same_mutants_and_no_two_of_one_place(tmp_path):
    from sampling import sample

    (tmp_path / "a.py").write_text(
        "def f(x: int | None, *, y=3):\n    return x + y if x > 2 else max(x, y)\n"
    )
    (tmp_path / "b.py").write_text("K = 0.2\n")
    once, again = (sample(tmp_path, ["a.py", "b.py"], 50, 7) for _ in range(2))
    assert once == again
    assert {one.path for one in once} == {"a.py", "b.py"}
    places = [(one.path, one.line, one.column) for one in once]
    assert len(set(places)) == len(places)
    assert ("a.py", 1, 13) not in places, "an annotation is not run"
    for one in once:
        source = (tmp_path / one.path).read_text()
        assert one.applied(source) not in {None, source}


def test_a_constant_meets_tests_of_its_module_first_then_those_that_only_read_it():
    from covering import Covered
    from sampling import Mutant

    covered = Covered({"runs": 5.0, "reads": 1.0, "slow": 9.0}, {"m.py": {"7": ["runs"]}})
    assert covered.nearest(Mutant("m.py", "ScaleNumber", 0, 1, 4), 6.0) == ["runs", "reads"]
    assert covered.nearest(Mutant("m.py", "ScaleNumber", 0, 7, 4), 6.0) == ["runs"]


@pytest.mark.slow
def test_a_caught_change_is_killed_and_a_missed_one_is_told(tmp_path):
    """A small repository of its own, tested from beginning to end, and again: nothing is left to do."""
    repository = tmp_path / "repository"
    (repository / "tools").mkdir(parents=True)
    (repository / "tools" / "mutants").mkdir()
    for path in RUNNER.glob("*.py"):
        (repository / "tools" / "mutants" / path.name).write_text(path.read_text())
    (repository / "tools" / "mutants" / "targets.toml").write_text(
        'libraries = ["hypothesis"]\n[[group]]\nname = "small"\nsources = ["src/small"]\ntests = ["tests/small"]\n'
    )
    (repository / "src" / "small").mkdir(parents=True)
    (repository / "src" / "small" / "__init__.py").write_text("")
    (repository / "src" / "small" / "limits.py").write_text(
        "def is_open(x):\n    return x < 3\n\n\ndef is_far(x):\n    return x > 700\n"
    )
    (repository / "tests" / "small").mkdir(parents=True)
    (repository / "tests" / "small" / "test_limits.py").write_text(
        "from small.limits import is_far, is_open\n\n\n"
        "def test_open():\n    assert [is_open(2), is_open(3), is_open(4)] == [True, False, False]\n\n\n"
        "def test_far():\n    assert is_far(1e9)\n"
    )
    command = [sys.executable, "tools/mutants", "--size", "12", "--processes", "1", "--out", "build/mutants"]
    first = subprocess.run(command, cwd=repository, capture_output=True, text=True, check=False)
    assert first.returncode == 0, first.stderr
    told = (repository / "build" / "mutants" / "survivors.md").read_text()
    assert "is_open" not in told
    assert "return x < 3" not in told
    assert "-    return x > 700" in told
    second = subprocess.run(command, cwd=repository, capture_output=True, text=True, check=True)
    assert "killed  " not in second.stdout
    assert second.stdout.splitlines()[-1] == first.stdout.splitlines()[-1]


def test_what_is_mutated_and_its_tests_exist():
    root = RUNNER.parents[1]
    targets = tomllib.loads((RUNNER / "targets.toml").read_text(encoding="utf-8"))
    named = [path for group in targets["group"] for path in (*group["sources"], *group["tests"])]
    assert [path for path in named if not (root / path).exists()] == []
