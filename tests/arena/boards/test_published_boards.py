"""Stored boards are parsed in one place, and once."""

from pathlib import Path

import pytest

import tiltyard
from tiltyard.arena.boards.snapshots import parsed_board
from tiltyard.errors import StoreFault

STORED = (Path(__file__).parents[2] / "core" / "board" / "published" / "phase-4.json").read_text()


def test_a_stored_board_is_parsed_once():
    assert parsed_board(STORED) is parsed_board(STORED)


def test_a_stored_board_that_cannot_be_read_is_a_fault_of_the_store():
    with pytest.raises(StoreFault, match="tiltyard arena doctor"):
        parsed_board("{}")


def test_nobody_parses_the_document_of_a_snapshot_alone():
    source = Path(tiltyard.__file__).parent
    parsing = [
        f"{path.relative_to(source)}: {line.strip()}"
        for path in sorted(source.rglob("*.py"))
        for line in path.read_text().splitlines()
        if "json.loads(" in line and ".document" in line.partition("json.loads(")[2]
    ]
    assert parsing == []
