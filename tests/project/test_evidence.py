"""The evidence pages: every table of figures is linked, and every command that they name exists."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EVIDENCE = ROOT / "docs" / "evidence"
PAGES = {path.stem: path.read_text(encoding="utf-8") for path in sorted(EVIDENCE.glob("*.md"))}


def test_there_is_one_page_for_each_way_in():
    assert {"ratings", "tournaments", "arenas"} <= set(PAGES)


def test_every_table_of_figures_is_linked_from_a_page():
    linked = {name for text in PAGES.values() for name in re.findall(r"\]\(data/([\w-]+\.md)", text)}
    assert {path.name for path in (EVIDENCE / "data").iterdir()} == linked


@pytest.mark.parametrize("name", PAGES)
def test_every_script_and_test_that_a_page_names_exists(name):
    scripts = re.findall(r"python ((?:bench|tests)/[\w/]+\.py)", PAGES[name])
    assert [path for path in scripts if not (ROOT / path).is_file()] == []
    tests = set(re.findall(r"\btests/[\w/]*?(test_\w+\.py)", PAGES[name]))
    assert tests - {path.name for path in (ROOT / "tests").rglob("test_*.py")} == set()


def test_what_the_benchmarks_write_is_among_the_tables():
    written = re.findall(r"--out docs/evidence/data/(\S+)", (ROOT / "justfile").read_text(encoding="utf-8"))
    assert written
    assert set(written) <= {path.name for path in (EVIDENCE / "data").iterdir()}
