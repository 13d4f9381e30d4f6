"""Checks of a run folder: compare written with recomputed values."""

from __future__ import annotations

import csv
import io
import json
import math
import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any

from tiltyard.core.battles import Battle
from tiltyard.errors import TiltyardError, UnreadableFile
from tiltyard.files import BattleSource
from tiltyard.files.battle_writer import json_line
from tiltyard.files.input_file import bounded_lines
from tiltyard.files.parquet_tables import read_columns
from tiltyard.foundation.local_files import open_regular, read_regular
from tiltyard.foundation.option_names import quoted
from tiltyard.runs.manifest import MANIFEST, MANIFEST_HASH, Platform, file_hash, hash_line, parse_document

#: The tolerance in rating points of a recomputed number: processors, numbers of threads and
#: library versions round differently.
TOLERANCE_POINTS = 1e-6

#: A number with a fraction, as Python writes it; other cells, such as a model called ``7``, are compared as texts.
_DECIMAL = re.compile(r"-?\d{1,20}\.\d{1,30}")

#: The libraries that draw the report; other versions may draw it differently.
_DRAWN_BY = ("tiltyard", "altair", "vl-convert-python")


@dataclass(frozen=True, slots=True)
class RunCheck:
    """One check; ``exact`` unless it passed only within the tolerance, or was not comparable."""

    name: str
    passed: bool
    detail: str
    exact: bool = True
    #: What could not be compared, in words.
    unchecked: str = ""


@dataclass(frozen=True, slots=True)
class Verification:
    """All checks of one folder."""

    checks: tuple[RunCheck, ...]

    @property
    def passed(self) -> bool:
        return all(check.passed for check in self.checks)

    @property
    def exact(self) -> bool:
        """Whether every number was reproduced bit for bit."""
        return all(check.exact for check in self.checks)

    @property
    def summary(self) -> str:
        if not self.passed:
            failed = sum(not check.passed for check in self.checks)
            return f"NOT verified: {failed} of {len(self.checks)} checks failed."
        equal = all(check.exact or check.unchecked for check in self.checks)
        nearly = (
            f"within {TOLERANCE_POINTS:g}; not to the last bit, as on another machine or with other versions"
        )
        result = f"every number recomputed from the battles, {'equal to the last bit' if equal else nearly}."
        unchecked = "; ".join(check.unchecked for check in self.checks if check.unchecked)
        return f"Verified: {result}" + (f" NOT checked: {unchecked}." if unchecked else "")


def manifest_check(folder: Path) -> RunCheck:
    same = read_bytes(folder / MANIFEST_HASH) == hash_line(folder)
    return RunCheck(MANIFEST, same, "hash matches" if same else f"does not match {MANIFEST_HASH}")


def hash_check(folder: Path, name: str, stated: str | None) -> RunCheck:
    """Whether a file exists, is listed, and is unchanged."""
    path = folder / name
    if not path.is_file():
        missing = not os.path.lexists(path)
        return RunCheck(name, passed=False, detail="missing" if missing else "not a regular file")
    if stated is None:
        return RunCheck(name, passed=False, detail="the manifest does not list it")
    same = file_hash(path) == stated
    return RunCheck(name, same, "hash matches" if same else "changed since it was written")


def drawn_with(platform: Platform) -> dict[str, str]:
    """The versions of the libraries that draw reports."""
    return {name: found for name in _DRAWN_BY if (found := platform.libraries.get(name)) is not None}


def page_check(path: Path, made_on: Platform, page: Callable[[], str]) -> RunCheck:
    """The report is text: it is compared as a whole, if the same library versions draw it."""
    if drawn_with(made_on) != drawn_with(Platform.here()):
        return RunCheck(
            path.name,
            passed=True,
            detail="not compared: drawn with other versions",
            exact=False,
            unchecked=f"the page {path.name}, which was drawn with other versions",
        )
    same = read_bytes(path) == page().encode()
    return RunCheck(path.name, same, "redrawn, equal" if same else "differs from the redrawn page")


def comparison_check(name: str, written: Any, computed: Any) -> RunCheck:
    if written is None:
        return RunCheck(name, passed=False, detail="cannot be read")
    if _difference(written, computed, exact=True) is None:
        return RunCheck(name, passed=True, detail="recomputed, equal")
    difference = _difference(written, computed, exact=False)
    if difference is None:
        return RunCheck(name, passed=True, detail=f"recomputed, within {TOLERANCE_POINTS:g}", exact=False)
    return RunCheck(name, passed=False, detail=f"recomputed, differs at {difference}")


def _difference(written: Any, computed: Any, *, exact: bool, at: str = "") -> str | None:
    """The first difference between two documents, or ``None``."""
    if isinstance(computed, dict) and isinstance(written, dict):
        if list(written) != list(computed):
            return at or "the keys"
        # Without numba another kernel runs; its numbers are compared anyway.
        keys = [key for key in computed if exact or key != "kernel" or at == "parameters"]
        parts = ((f"{at}.{key}".lstrip("."), written[key], computed[key]) for key in keys)
    elif isinstance(computed, list) and isinstance(written, list):
        if len(written) != len(computed):
            return at or "the length"
        parts = ((f"{at}[{k}]", w, c) for k, (w, c) in enumerate(zip(written, computed, strict=True)))
    else:
        return (
            None
            if _equal(written, computed, exact=exact)
            else f"{at}: {quoted(written)}, not {quoted(computed)}"
        )
    return next(
        (found for place, w, c in parts if (found := _difference(w, c, exact=exact, at=place)) is not None),
        None,
    )


def _equal(written: Any, computed: Any, *, exact: bool) -> bool:
    if type(written) is not type(computed):
        return False
    if exact or not isinstance(computed, float):
        return bool(written == computed)
    return math.isclose(written, computed, rel_tol=0.0, abs_tol=TOLERANCE_POINTS)


def read_bytes(path: Path) -> bytes:
    """A file's bytes; empty for a missing or special file, which the hash check has already reported."""
    try:
        return read_regular(path)
    except OSError:
        return b""


def read_json(path: Path) -> Any:
    try:
        return parse_document(path.name, read_bytes(path))
    except TiltyardError:
        return None


def json_round_trip(document: Any) -> Any:
    """A document after writing and reading it as JSON."""
    return json.loads(json.dumps(document))


def read_text_lines(path: Path) -> Any:
    try:
        return read_bytes(path).decode().split("\n")
    except UnicodeDecodeError:
        return None


def read_table(path: Path) -> Any:
    """A table in CSV, as `table_values` gives it."""
    lines = read_text_lines(path)
    return None if lines is None else table_values("\n".join(lines))


def table_values(text: str) -> list[list[float | str]]:
    """The cells of a table in CSV: numbers by their value, so that they can be compared within the tolerance."""
    try:
        return [
            [(cell if _DECIMAL.fullmatch(cell) is None else float(cell)) for cell in row]
            for row in csv.reader(io.StringIO(text))
        ]
    except csv.Error:
        return [[text]]


def read_parquet(path: Path) -> Any:
    try:
        return read_columns(path)
    except TiltyardError:
        return None


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
