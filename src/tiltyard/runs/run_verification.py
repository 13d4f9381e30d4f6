"""Verifies a run folder: checks hashes first, then recomputes every number from its battles."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

from tiltyard.errors import TiltyardError, UnreadableFile
from tiltyard.files import BattleSource, open_battles
from tiltyard.runs.battle_lines import first_difference
from tiltyard.runs.battle_rating import rate_files
from tiltyard.runs.manifest import (
    BATTLE_LINES,
    BATTLES,
    BOOTSTRAP,
    MANIFEST,
    MANIFEST_HASH,
    RATINGS,
    REPORT,
    WINRATES,
    RunManifest,
    locate_run,
    manifest_kind,
    read_manifest,
)
from tiltyard.runs.rating_documents import (
    BOARD_CSV,
    BOARD_TEXTS,
    FIGURES,
    board_documents,
    bootstrap_columns,
    figure_documents,
    ratings_document,
    winrates_csv,
)
from tiltyard.runs.release_manifest import RELEASE
from tiltyard.runs.release_verification import verify_release
from tiltyard.runs.run_folder import evaluated_models, render_report, written_files
from tiltyard.runs.tournament_verification import verify_tournament
from tiltyard.runs.verification_checks import (
    RunCheck,
    Verification,
    comparison_check,
    hash_check,
    json_round_trip,
    manifest_check,
    page_check,
    read_json,
    read_parquet,
    read_table,
    read_text_lines,
    table_values,
)


def verify(folder: str | os.PathLike[str]) -> Verification:
    """Check a run folder: the hash of every file, then every number, recomputed from the battles.

    The result has ``passed``, ``exact`` (to the last bit), ``summary`` and ``checks``.
    """
    return verify_run(Path(folder))


def verify_run(folder: Path, *, recompute: bool = True) -> Verification:
    """Check a folder written by `tiltyard rate --out` or a tournament, or an arena's release; its manifest says which.

    Without ``recompute`` only the hashes are checked, and that no file is missing or foreign.
    """
    folder = locate_run(folder)
    kind = manifest_kind(folder)
    if kind == "tournament":
        return verify_tournament(folder, recompute=recompute)
    if kind == RELEASE:
        return verify_release(folder, recompute=recompute)
    manifest = read_manifest(folder)
    checks = list(_hashes(folder, manifest))
    if recompute and all(check.passed for check in checks if check.name == BATTLES):
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
    # Which figures there must be follows from the battles.
    figures = (name for name in manifest.files if name.startswith(f"{FIGURES}/"))
    expected += [BOARD_CSV, *BOARD_TEXTS, *figures]
    for name in expected:
        yield hash_check(folder, name, manifest.files.get(name))
    folders = {path.name for path in folder.iterdir() if path.is_dir()} - {FIGURES}
    present = set(written_files(folder)) | set(manifest.files) | folders
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
    battles_sha256 = manifest.files[BATTLES]
    same = manifest.has_own_identity()
    detail = "of these battles and settings" if same else "of other battles or settings"
    yield RunCheck("identity", same, detail)
    boards, figures = board_documents(groups), figure_documents(groups)
    yield comparison_check(BOARD_CSV, read_table(folder / BOARD_CSV), table_values(boards.pop(BOARD_CSV)))
    for name, text in boards.items():
        yield page_check(folder / name, manifest.platform, partial(str, text))
    yield _figures_check(folder, manifest, figures)
    yield page_check(
        folder / REPORT, manifest.platform, lambda: render_report(groups, settings, battles_sha256)
    )


def _figures_check(folder: Path, manifest: RunManifest, figures: Mapping[str, str]) -> RunCheck:
    listed = {name for name in manifest.files if name.startswith(f"{FIGURES}/")}
    if listed != figures.keys():
        return RunCheck(FIGURES, passed=False, detail="the battles give other figures")
    checks = [
        page_check(folder / name, manifest.platform, partial(str, text)) for name, text in figures.items()
    ]
    failed = next((check for check in checks if not check.passed), None)
    if failed is not None or not checks:
        return failed or RunCheck(FIGURES, passed=True, detail="none")
    return replace(checks[0], name=FIGURES)


def _lines_check(path: Path, source: BattleSource) -> RunCheck:
    """Whether the battles in JSON Lines equal those in Parquet. Invalid JSON counts as a difference."""
    try:
        number = first_difference(path, source)
    except UnreadableFile as error:
        return RunCheck(path.name, passed=False, detail=str(error))
    if number is not None:
        return RunCheck(path.name, passed=False, detail=f"line {number} is not battle {number} of {BATTLES}")
    return RunCheck(path.name, passed=True, detail=f"the same battles as {BATTLES}")
