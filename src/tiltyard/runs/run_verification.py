"""Verifies a run folder: checks hashes first, then recomputes every number from its battles."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tiltyard.errors import TiltyardError, UnreadableFile
from tiltyard.files import BattleSource, open_battles
from tiltyard.runs.battle_lines import first_difference
from tiltyard.runs.battle_rating import rate_files
from tiltyard.runs.manifest import MANIFEST, MANIFEST_HASH, RunManifest, manifest_kind, read_manifest
from tiltyard.runs.rating_documents import bootstrap_columns, ratings_document, winrates_csv
from tiltyard.runs.run_folder import (
    BATTLE_LINES,
    BATTLES,
    BOOTSTRAP,
    RATINGS,
    REPORT,
    WINRATES,
    evaluated_models,
    render_report,
)
from tiltyard.runs.tournament_verification import verify_tournament
from tiltyard.runs.verification_checks import (
    TOLERANCE_POINTS,
    RunCheck,
    Verification,
    comparison_check,
    hash_check,
    json_round_trip,
    manifest_check,
    page_check,
    read_json,
    read_parquet,
    read_text_lines,
)

__all__ = ["TOLERANCE_POINTS", "RunCheck", "Verification", "verify_run"]


def verify_run(folder: Path) -> Verification:
    """Check a folder written by `tiltyard rate --out` or a tournament; its manifest says which."""
    if manifest_kind(folder) == "tournament":
        return verify_tournament(folder)
    manifest = read_manifest(folder)
    checks = list(_hashes(folder, manifest))
    if all(check.passed for check in checks if check.name == BATTLES):
        try:
            checks += _recomputed(folder, manifest)
        except (TiltyardError, ValueError, ArithmeticError, MemoryError) as error:
            # A forged manifest can request more than any machine can compute.
            checks.append(RunCheck("recompute", passed=False, detail=str(error)))
    return Verification(tuple(checks))


def _hashes(folder: Path, manifest: RunManifest) -> Iterator[RunCheck]:
    yield manifest_check(folder)
    expected = [BATTLES, RATINGS, WINRATES, REPORT, *([BOOTSTRAP] if manifest.n_bootstraps else [])]
    # These are optional; a file of that name without an entry is not part of the run.
    expected += [BATTLE_LINES] if BATTLE_LINES in manifest.files else []
    for name in expected:
        yield hash_check(folder, name, manifest.files.get(name))
    present = {path.name for path in folder.iterdir()} | set(manifest.files)
    for name in sorted(present - {MANIFEST, MANIFEST_HASH, *expected}):
        yield RunCheck(name, passed=False, detail="is not a file of this run")


def _recomputed(folder: Path, manifest: RunManifest) -> Iterator[RunCheck]:
    settings = manifest.settings()
    source = open_battles(folder / BATTLES)
    groups = rate_files([source], settings, checks=True)
    if BATTLE_LINES in manifest.files:
        yield _lines_check(folder / BATTLE_LINES, source)
    evaluated = evaluated_models(source, settings)
    same = sorted(evaluated) == manifest.evaluated
    yield RunCheck("evaluated models", same, "as the battles say" if same else "differ from the battles")
    document = json_round_trip(ratings_document(groups, settings, evaluated))
    yield comparison_check(RATINGS, read_json(folder / RATINGS), document)
    yield comparison_check(WINRATES, read_text_lines(folder / WINRATES), winrates_csv(groups).split("\n"))
    if manifest.n_bootstraps:
        yield comparison_check(BOOTSTRAP, read_parquet(folder / BOOTSTRAP), bootstrap_columns(groups))
    yield page_check(folder / REPORT, manifest.platform, lambda: render_report(groups, settings))


def _lines_check(path: Path, source: BattleSource) -> RunCheck:
    """Whether the battles in JSON Lines equal those in Parquet. Invalid JSON counts as a difference."""
    try:
        number = first_difference(path, source)
    except UnreadableFile as error:
        return RunCheck(path.name, passed=False, detail=str(error))
    if number is not None:
        return RunCheck(path.name, passed=False, detail=f"line {number} is not battle {number} of {BATTLES}")
    return RunCheck(path.name, passed=True, detail=f"the same battles as {BATTLES}")
