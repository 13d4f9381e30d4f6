"""The threat model: whatever it says to be stopped is stopped by a test that exists."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "explanation" / "threat-model.md"
#: A file of tests, and one test in it.
TEST = re.compile(r"`(tests/[\w/]+\.py)::(test_\w+)`")


def rows() -> list[list[str]]:
    """Cells of the tables that say what stops whom."""
    tables = re.findall(r"^\| who wants what .*?(?=\n\n|\Z)", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    lines = [line for table in tables for line in table.splitlines()[2:]]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]


@cache
def functions(path: str) -> set[str]:
    tree = ast.parse((ROOT / path).read_text())
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}


@pytest.mark.parametrize("row", rows(), ids=lambda row: row[0][:60])
def test_what_is_said_to_be_stopped_names_its_test(row):
    assert len(row) == 3
    named = TEST.findall(row[1])
    assert named, row
    for path, name in named:
        assert name in functions(path), f"{path} has no {name}"


def test_the_page_has_all_three_ways_in():
    assert len(rows()) > 20
