"""Compares battles in JSON Lines with the same battles in Parquet."""

from __future__ import annotations

import json
from itertools import zip_longest
from pathlib import Path

from tiltyard.core.battles import Battle
from tiltyard.errors import UnreadableFile
from tiltyard.files import BattleSource
from tiltyard.files.battle_stream import json_line
from tiltyard.files.read_limits import bounded_lines
from tiltyard.foundation.local_files import open_regular
from tiltyard.runs.json_files import parse_document


def first_difference(lines: Path, source: BattleSource) -> int | None:
    """The number of the first line that differs from the battle of that number; ``None`` if all are equal.

    Fields may be in any order, and empty fields may be left out.
    """
    battles = source.battles() if source.rows else iter(())
    try:
        with open_regular(lines) as file:
            read = bounded_lines(lines.name, file)
            for number, (line, battle) in enumerate(zip_longest(read, battles), start=1):
                if line is None or battle is None or not _same(f"{lines.name}, line {number}", line, battle):
                    return number
    except OSError as error:
        raise UnreadableFile(f"{lines}: {error.strerror}") from None
    return None


def _same(where: str, line: bytes, battle: Battle) -> bool:
    expected = json_line(where, battle.to_dict())
    if line == expected:
        return True
    found = parse_document(where, line)
    return isinstance(found, dict) and _fields(found) == _fields(json.loads(expected))


def _fields(row: dict[str, object]) -> str:
    """A battle's non-empty fields, in a fixed order."""
    present = {key: value for key, value in row.items() if value is not None}
    return json.dumps(present, sort_keys=True)
