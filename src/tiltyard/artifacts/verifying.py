"""Verifying a run folder: hashes first, then every number again from its battles."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tiltyard.artifacts.documents import bootstrap_columns, ratings_document, winrates_csv
from tiltyard.artifacts.folder import BATTLES, BOOTSTRAP, RATINGS, REPORT, WINRATES, evaluated_models, page_of
from tiltyard.artifacts.manifest import MANIFEST, MANIFEST_HASH, Manifest, Platform, file_hash, read_manifest
from tiltyard.artifacts.rating import rate_files
from tiltyard.board import Rated
from tiltyard.errors import TiltyardError
from tiltyard.formats import open_battles
from tiltyard.formats.plain_parquet import read_columns

__all__ = ["TOLERANCE", "Check", "Verification", "verify_run"]

#: Rating points by which a recomputed number may differ on another platform.
TOLERANCE = 1e-6


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was checked."""

    name: str
    passed: bool
    detail: str


@dataclass(frozen=True, slots=True)
class Verification:
    """All checks of one folder; ``exact`` says whether equality to the last bit was demanded."""

    checks: tuple[Check, ...]
    exact: bool

    @property
    def passed(self) -> bool:
        return all(check.passed for check in self.checks)

    @property
    def summary(self) -> str:
        if not self.passed:
            failed = sum(not check.passed for check in self.checks)
            return f"NOT verified: {failed} of {len(self.checks)} checks failed."
        if self.exact:
            return "Verified: every number recomputed from the battles, equal to the last bit."
        return f"Verified: every number recomputed from the battles, within {TOLERANCE:g} (another platform)."


def verify_run(folder: Path) -> Verification:
    """Check a folder that `tiltyard rate --out` wrote."""
    manifest = read_manifest(folder)
    here = Platform.here()
    exact = manifest.platform == here
    checks = list(_hashes(folder, manifest))
    if (folder / BATTLES).is_file():
        try:
            checks += _recomputed(folder, manifest, exact=exact)
        except TiltyardError as error:
            checks.append(Check("recompute", passed=False, detail=str(error)))
    return Verification(tuple(checks), exact)


def _hashes(folder: Path, manifest: Manifest) -> Iterator[Check]:
    try:
        stated = (folder / MANIFEST_HASH).read_text(encoding="utf-8").split()
    except (OSError, UnicodeDecodeError):
        stated = []
    same = stated == [file_hash(folder / MANIFEST), MANIFEST]
    yield Check(MANIFEST, same, "hash matches" if same else f"does not match {MANIFEST_HASH}")
    for name, stated_hash in manifest.files.items():
        path = folder / name
        if Path(name).name != name or not path.is_file():
            yield Check(name, passed=False, detail="missing")
            continue
        same = file_hash(path) == stated_hash
        yield Check(name, same, "hash matches" if same else "changed since it was written")
    known = {MANIFEST, MANIFEST_HASH, *manifest.files}
    for path in sorted(folder.iterdir()):
        if path.name not in known:
            yield Check(path.name, passed=False, detail="is not in the manifest")
    for name in (BATTLES, RATINGS, WINRATES, REPORT, *([BOOTSTRAP] if manifest.n_bootstraps else [])):
        if name not in manifest.files:
            yield Check(name, passed=False, detail="the manifest does not list it")


def _recomputed(folder: Path, manifest: Manifest, *, exact: bool) -> Iterator[Check]:
    settings = manifest.settings()
    source = open_battles(folder / BATTLES)
    groups = rate_files([source], settings, checks=True)
    evaluated = evaluated_models(source, settings)
    same = sorted(evaluated) == manifest.evaluated
    yield Check("evaluated models", same, "as the battles say" if same else "differ from the battles")
    document = json.loads(json.dumps(ratings_document(groups, settings, evaluated)))
    yield _compared(RATINGS, _read_json(folder / RATINGS), document, exact=exact)
    rows = list(csv.reader(winrates_csv(groups).splitlines()))
    yield _compared(WINRATES, _read_csv(folder / WINRATES), rows, exact=exact)
    if manifest.n_bootstraps:
        yield _compared(BOOTSTRAP, _read_parquet(folder / BOOTSTRAP), bootstrap_columns(groups), exact=exact)
    yield _page(folder, groups, manifest, exact=exact)


def _page(folder: Path, groups: list[Rated], manifest: Manifest, *, exact: bool) -> Check:
    """The report is text: it is compared whole, where the same libraries draw it."""
    if not exact:
        return Check(REPORT, passed=True, detail="not redrawn: its numbers are those of the files above")
    try:
        written = (folder / REPORT).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return Check(REPORT, passed=False, detail="cannot be read")
    same = written == page_of(groups, manifest.settings())
    return Check(REPORT, same, "redrawn, equal" if same else "differs from what the battles give")


def _compared(name: str, written: Any, computed: Any, *, exact: bool) -> Check:
    difference = _difference(written, computed, exact=exact)
    if difference is None:
        return Check(
            name, passed=True, detail="recomputed, equal" if exact else f"recomputed, within {TOLERANCE:g}"
        )
    return Check(name, passed=False, detail=f"recomputed, differs at {difference}")


def _difference(written: Any, computed: Any, *, exact: bool, at: str = "") -> str | None:
    """The first place where two documents differ, or ``None``."""
    if isinstance(computed, dict) and isinstance(written, dict):
        if list(written) != list(computed):
            return at or "the keys"
        parts = ((f"{at}.{key}".lstrip("."), written[key], computed[key]) for key in computed)
    elif isinstance(computed, list) and isinstance(written, list):
        if len(written) != len(computed):
            return at or "the length"
        parts = ((f"{at}[{k}]", w, c) for k, (w, c) in enumerate(zip(written, computed, strict=True)))
    else:
        return None if _equal(written, computed, exact=exact) else f"{at}: {written!r}, not {computed!r}"
    return next(
        (found for place, w, c in parts if (found := _difference(w, c, exact=exact, at=place)) is not None),
        None,
    )


def _equal(written: Any, computed: Any, *, exact: bool) -> bool:
    if type(written) is not type(computed):
        return False
    if exact or not isinstance(computed, float):
        return bool(written == computed)
    return math.isclose(written, computed, rel_tol=0.0, abs_tol=TOLERANCE)


def _read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return None


def _read_csv(path: Path) -> Any:
    try:
        return list(csv.reader(path.read_text(encoding="utf-8").splitlines()))
    except (OSError, ValueError, csv.Error):
        return None


def _read_parquet(path: Path) -> Any:
    try:
        return read_columns(path)
    except TiltyardError:
        return None
