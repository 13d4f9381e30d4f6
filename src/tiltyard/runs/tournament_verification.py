"""Verifies a tournament's folder offline: recomputes everything from answers, verdicts and attempts."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import numpy as np

from tiltyard.errors import TiltyardError
from tiltyard.files import open_battles
from tiltyard.report.verdict_browser import REPORT_DATA
from tiltyard.runs.config_check import configured_check
from tiltyard.runs.dimension_ratings import rate_dimensions
from tiltyard.runs.expected_questions import ResponseTexts
from tiltyard.runs.manifest import (
    BATTLE_LINES,
    BATTLES,
    BOOTSTRAP,
    MANIFEST,
    MANIFEST_HASH,
    RATINGS,
    REPORT,
    WINRATES,
    read_manifest_as,
)
from tiltyard.runs.report_data import ReportDataCheck
from tiltyard.runs.run_costs import costs_document, read_attempts
from tiltyard.runs.run_folder import evaluated_models
from tiltyard.runs.tournament_files import (
    ANSWERS,
    ATTEMPTS,
    CONFIG,
    COSTS,
    DIAGNOSTICS,
    ELO,
    PER_PERM,
    ComputedFiles,
    expected_files,
)
from tiltyard.runs.tournament_manifest import TournamentManifest
from tiltyard.runs.tournament_replay import (
    attempts_check,
    battles_check,
    config_file_check,
    matches_check,
    prompts_check,
    read_responses,
    rubrics_check,
    same_battles_check,
)
from tiltyard.runs.verdict_pass import HumanVotes, VerdictPass
from tiltyard.runs.verification_checks import (
    RunCheck,
    Verification,
    comparison_check,
    hash_check,
    json_round_trip,
    manifest_check,
    page_check,
    read_bytes,
    read_json,
    read_parquet,
    read_text_lines,
)

#: Files that are computed from the others.
_COMPUTED = (COSTS, ELO, PER_PERM, RATINGS, BOOTSTRAP, WINRATES, DIAGNOSTICS, REPORT)


def verify_tournament(folder: Path, *, recompute: bool = True) -> Verification:
    """Check the folder of a tournament; without ``recompute`` its hashes only."""
    manifest = read_manifest_as(TournamentManifest, folder)
    checks = [manifest_check(folder), _finished(manifest)]
    if manifest.finished_at is None:
        return Verification(tuple(checks))
    checks += _files(folder, manifest)
    if recompute and all(check.passed for check in checks if not _is_computed(check.name)):
        step = "manifest"
        try:
            for check in _recomputed(folder, manifest):
                checks.append(check)
                step = check.name
        except (TiltyardError, ValueError, LookupError, ArithmeticError, MemoryError, OSError) as error:
            # Forged data can raise anything, or request more than any machine can compute.
            checks.append(RunCheck(f"after {step}", passed=False, detail=str(error)))
    return Verification(tuple(checks))


def _is_computed(name: str) -> bool:
    return name in _COMPUTED or name.startswith(f"{REPORT_DATA}/")


def _finished(manifest: TournamentManifest) -> RunCheck:
    if manifest.finished_at is None:
        return RunCheck("finished", passed=False, detail="the run did not finish; resume it")
    return RunCheck("finished", passed=True, detail=f"at {manifest.finished_at}")


def _files(folder: Path, manifest: TournamentManifest) -> Iterator[RunCheck]:
    expected = list(expected_files(manifest))
    for name in expected:
        yield hash_check(folder, name, manifest.files.get(name))
    folders = {str(Path(name).parent) for name in expected}
    present = {
        path.relative_to(folder).as_posix()
        for path in folder.rglob("*")
        if not (path.is_dir() and path.relative_to(folder).as_posix() in folders)
    }
    for name in sorted((present | set(manifest.files)) - {MANIFEST, MANIFEST_HASH, *expected}):
        yield RunCheck(name, passed=False, detail="is not a file of this run")


def _recomputed(folder: Path, manifest: TournamentManifest) -> Iterator[RunCheck]:
    problem = manifest.contradiction()
    yield RunCheck("manifest", problem is None, problem or "consistent")
    if problem is not None:
        return
    yield config_file_check(folder / CONFIG, manifest)
    yield configured_check(manifest)
    yield rubrics_check(folder, manifest)
    texts = ResponseTexts(folder / ANSWERS)
    report_data = ReportDataCheck(folder, manifest, texts)
    parts = report_data.parts
    responses = read_responses(folder, manifest, parts)
    yield prompts_check(responses, manifest)
    matches, found = matches_check(folder, manifest, responses)
    yield found
    source = open_battles(folder / BATTLES)
    anchors = islice(source.battles(), max((source.rows or 0) - manifest.anchor_battles, 0), None)
    gathering = VerdictPass(manifest, responses, HumanVotes(anchors, manifest.entrants))
    yield from battles_check(folder, manifest, gathering, matches, texts, parts)
    yield same_battles_check(folder / BATTLE_LINES, source)
    yield attempts_check(folder / ATTEMPTS, gathering.asked)
    costs = costs_document(manifest, gathering.asked, read_attempts(folder / ATTEMPTS))
    evaluated = evaluated_models(source, manifest.settings()) if source.rows else frozenset[str]()
    same = sorted(evaluated) == manifest.evaluated
    yield RunCheck("evaluated models", same, "as the battles say" if same else "differ from the battles")
    groups = rate_dimensions(source, manifest)
    computed = ComputedFiles.of(manifest, groups, gathering.document(), costs, parts.categories)
    yield from _documents(folder, computed)
    yield report_data.finish()


def _documents(folder: Path, computed: ComputedFiles) -> Iterator[RunCheck]:
    for name, document in computed.documents():
        yield comparison_check(name, read_json(folder / name), json_round_trip(document))
    yield _archive(folder / PER_PERM, computed.archive())
    if computed.manifest.n_bootstraps:
        yield comparison_check(BOOTSTRAP, read_parquet(folder / BOOTSTRAP), computed.bootstrap())
    yield comparison_check(WINRATES, read_text_lines(folder / WINRATES), computed.winrates().split("\n"))
    yield page_check(folder / REPORT, computed.manifest.platform, computed.page)


def _archive(path: Path, computed: bytes) -> RunCheck:
    written = read_bytes(path)
    if written == computed:
        return RunCheck(path.name, passed=True, detail="recomputed, equal")
    return comparison_check(path.name, _arrays(written), _arrays(computed))


def _arrays(data: bytes) -> dict[str, object] | None:
    """The arrays of an archive as plain values; ``None`` if it is not an archive, or contains anything else."""
    try:
        with np.load(io.BytesIO(data), allow_pickle=False) as archive:
            return {name: [str(archive[name].dtype.kind), archive[name].tolist()] for name in archive.files}
    except (OSError, ValueError, KeyError, EOFError, AttributeError, zipfile.BadZipFile):
        return None
