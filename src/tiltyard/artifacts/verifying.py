"""Verifying a run folder: hashes first, then every number again from its battles."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tiltyard.artifacts.documents import bootstrap_columns, ratings_document, winrates_csv
from tiltyard.artifacts.folder import BATTLES, BOOTSTRAP, RATINGS, REPORT, WINRATES, evaluated_models, page_of
from tiltyard.artifacts.manifest import (
    MANIFEST,
    MANIFEST_HASH,
    Manifest,
    Platform,
    file_hash,
    hash_line,
    read_manifest,
)
from tiltyard.artifacts.rating import rate_files
from tiltyard.board import Rated
from tiltyard.errors import TiltyardError
from tiltyard.formats import open_battles
from tiltyard.formats.plain_parquet import read_columns

__all__ = ["TOLERANCE", "Check", "Verification", "verify_run"]

#: Rating points by which a recomputed number may differ: processors, numbers of threads and
#: versions of libraries round differently.
TOLERANCE = 1e-6

#: What draws the report; other versions may draw it otherwise.
_DRAWN_BY = ("tiltyard", "altair", "vl-convert-python")


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was checked; ``exact`` unless it was only near enough, or not comparable."""

    name: str
    passed: bool
    detail: str
    exact: bool = True


@dataclass(frozen=True, slots=True)
class Verification:
    """All checks of one folder."""

    checks: tuple[Check, ...]

    @property
    def passed(self) -> bool:
        return all(check.passed for check in self.checks)

    @property
    def exact(self) -> bool:
        """Whether every number came out equal to the last bit."""
        return all(check.exact for check in self.checks)

    @property
    def summary(self) -> str:
        if not self.passed:
            failed = sum(not check.passed for check in self.checks)
            return f"NOT verified: {failed} of {len(self.checks)} checks failed."
        if self.exact:
            return "Verified: every number recomputed from the battles, equal to the last bit."
        return (
            f"Verified: every number recomputed from the battles, within {TOLERANCE:g}; "
            "not to the last bit, as on another machine or with other versions."
        )


def verify_run(folder: Path) -> Verification:
    """Check a folder that `tiltyard rate --out` wrote."""
    manifest = read_manifest(folder)
    checks = list(_hashes(folder, manifest))
    if all(check.passed for check in checks if check.name == BATTLES):
        try:
            checks += _recomputed(folder, manifest)
        except (TiltyardError, ValueError, ArithmeticError, MemoryError) as error:
            # A forged manifest can ask for what no machine can compute.
            checks.append(Check("recompute", passed=False, detail=str(error)))
    return Verification(tuple(checks))


def _hashes(folder: Path, manifest: Manifest) -> Iterator[Check]:
    same = _read_bytes(folder / MANIFEST_HASH) == hash_line(folder)
    yield Check(MANIFEST, same, "hash matches" if same else f"does not match {MANIFEST_HASH}")
    expected = [BATTLES, RATINGS, WINRATES, REPORT, *([BOOTSTRAP] if manifest.n_bootstraps else [])]
    for name in expected:
        yield _hash_check(folder / name, manifest.files.get(name))
    present = {path.name for path in folder.iterdir()} | set(manifest.files)
    for name in sorted(present - {MANIFEST, MANIFEST_HASH, *expected}):
        yield Check(name, passed=False, detail="is no file of this run")


def _hash_check(path: Path, stated: str | None) -> Check:
    if not path.is_file():
        return Check(path.name, passed=False, detail="missing")
    if stated is None:
        return Check(path.name, passed=False, detail="the manifest does not list it")
    same = file_hash(path) == stated
    return Check(path.name, same, "hash matches" if same else "changed since it was written")


def _recomputed(folder: Path, manifest: Manifest) -> Iterator[Check]:
    settings = manifest.settings()
    source = open_battles(folder / BATTLES)
    groups = rate_files([source], settings, checks=True)
    evaluated = evaluated_models(source, settings)
    same = sorted(evaluated) == manifest.evaluated
    yield Check("evaluated models", same, "as the battles say" if same else "differ from the battles")
    document = json.loads(json.dumps(ratings_document(groups, settings, evaluated)))
    yield _compared(RATINGS, _read_json(folder / RATINGS), document)
    yield _compared(WINRATES, _read_lines(folder / WINRATES), winrates_csv(groups).split("\n"))
    if manifest.n_bootstraps:
        yield _compared(BOOTSTRAP, _read_parquet(folder / BOOTSTRAP), bootstrap_columns(groups))
    yield _page(folder, groups, manifest)


def _page(folder: Path, groups: list[Rated], manifest: Manifest) -> Check:
    """The report is text: it is compared whole, where the same versions draw it."""
    there, here = manifest.platform.libraries, Platform.here().libraries
    if any(there.get(name) != here.get(name) for name in _DRAWN_BY):
        return Check(REPORT, passed=True, detail="not compared: other versions drew it", exact=False)
    same = _read_bytes(folder / REPORT) == page_of(groups, manifest.settings()).encode()
    return Check(REPORT, same, "redrawn, equal" if same else "differs from what the battles give")


def _compared(name: str, written: Any, computed: Any) -> Check:
    if written is None:
        return Check(name, passed=False, detail="cannot be read")
    if _difference(written, computed, exact=True) is None:
        return Check(name, passed=True, detail="recomputed, equal")
    difference = _difference(written, computed, exact=False)
    if difference is None:
        return Check(name, passed=True, detail=f"recomputed, within {TOLERANCE:g}", exact=False)
    return Check(name, passed=False, detail=f"recomputed, differs at {difference}")


def _difference(written: Any, computed: Any, *, exact: bool, at: str = "") -> str | None:
    """The first place where two documents differ, or ``None``."""
    if isinstance(computed, dict) and isinstance(written, dict):
        if list(written) != list(computed):
            return at or "the keys"
        # Where numba is missing, another kernel runs; its numbers are compared all the same.
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
            else f"{at}: {_brief(written)}, not {_brief(computed)}"
        )
    return next(
        (found for place, w, c in parts if (found := _difference(w, c, exact=exact, at=place)) is not None),
        None,
    )


def _brief(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:80]}…"


def _equal(written: Any, computed: Any, *, exact: bool) -> bool:
    if type(written) is not type(computed):
        return False
    if exact or not isinstance(computed, float):
        return bool(written == computed)
    return math.isclose(written, computed, rel_tol=0.0, abs_tol=TOLERANCE)


def _read_bytes(path: Path) -> bytes:
    """A file's bytes; those of a missing one are none, and the hashes have said so."""
    try:
        return path.read_bytes()
    except OSError:
        return b""


def _read_json(path: Path) -> Any:
    try:
        return json.loads(_read_bytes(path), object_pairs_hook=_distinct)
    except (ValueError, RecursionError):
        return None


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object whose keys all differ: of two equal ones, readers disagree which counts."""
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key stands twice")
    return found


def _read_lines(path: Path) -> Any:
    try:
        return _read_bytes(path).decode().split("\n")
    except UnicodeDecodeError:
        return None


def _read_parquet(path: Path) -> Any:
    try:
        return read_columns(path)
    except TiltyardError:
        return None
