"""Verifies a tournament's folder offline: recomputes everything from answers, verdicts and attempts."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from tiltyard.core.board.board_rows import parameters_of
from tiltyard.core.ratings.decisive_elo import DecisiveElo
from tiltyard.errors import TiltyardError
from tiltyard.files import open_battles
from tiltyard.report.verdict_parts import REPORT_DATA
from tiltyard.runs.dimension_ratings import rate_dimensions
from tiltyard.runs.manifest import (
    BATTLE_LINES,
    BATTLES,
    BOOTSTRAP,
    DIMENSION_RATINGS,
    MANIFEST,
    MANIFEST_HASH,
    RATINGS,
    REPORT,
    WINRATES,
    read_manifest_as,
)
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
    ReportDataCheck,
    expected_files,
)
from tiltyard.runs.tournament_manifest import RatingParameters, TournamentManifest, bradley_terry_method
from tiltyard.runs.tournament_replay import (
    ResponseTexts,
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
_COMPUTED = (COSTS, ELO, PER_PERM, DIMENSION_RATINGS, RATINGS, BOOTSTRAP, WINRATES, DIAGNOSTICS, REPORT)

_NAME = "configuration"
#: What is compared, the configured value, and the value in the manifest.
_Compared = tuple[str, object, object]


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
    matches, found = matches_check(folder, manifest, responses, texts)
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
    computed = ComputedFiles.of(manifest, groups, gathering, costs, parts.categories)
    for name, document in computed.documents():
        yield comparison_check(name, read_json(folder / name), json_round_trip(document))
    yield _archive(folder / PER_PERM, computed.archive)
    if computed.manifest.n_bootstraps:
        yield comparison_check(BOOTSTRAP, read_parquet(folder / BOOTSTRAP), computed.bootstrap())
    yield comparison_check(WINRATES, read_text_lines(folder / WINRATES), computed.winrates.split("\n"))
    yield page_check(folder / REPORT, computed.manifest.platform, computed.page)
    yield report_data.finish()


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


def configured_check(manifest: TournamentManifest) -> RunCheck:
    """Compare the manifest with the resolved configuration in it; missing sections are not compared."""
    config = manifest.config
    unsaid = [name for name in dict.fromkeys(sum(_PARTS, ())) if name not in config]
    for sections, part in _PARTS.items():
        if not set(sections).isdisjoint(unsaid):
            continue
        try:
            found = next((one for one in part(config, manifest) if one[1] != one[2]), None)
        except (TiltyardError, LookupError, TypeError, ValueError, AttributeError, OverflowError) as error:
            detail = f"{', '.join(sections)} cannot be compared with the manifest: {error!r}"
            return RunCheck(_NAME, passed=False, detail=detail)
        if found is not None:
            name, stated, used = found
            return RunCheck(_NAME, passed=False, detail=f"{name}: it has {stated}, but the manifest {used}")
    if not unsaid:
        return RunCheck(_NAME, passed=True, detail="the manifest agrees with it")
    missing = ", ".join(unsaid)
    detail = f"the manifest agrees with it; not compared, because it does not contain them: {missing}"
    unchecked = f"whether the run used the configured {missing}"
    return RunCheck(_NAME, passed=True, detail=detail, exact=False, unchecked=unchecked)


def _entrants(config: Mapping[str, Any], manifest: TournamentManifest) -> Iterator[_Compared]:
    stated = config["entrants"]
    yield "entrants", [one["entrant_id"] for one in stated], manifest.entrants
    yield "families", {one["entrant_id"]: one.get("family") for one in stated}, manifest.families


def _rubrics(config: Mapping[str, Any], manifest: TournamentManifest) -> Iterator[_Compared]:
    stated = config["rubrics"]
    yield "rubrics", list(stated), list(manifest.rubrics)
    needs = {name: rubric.needs for name, rubric in manifest.rubrics.items()}
    yield "needs of the rubrics", {name: one.get("needs") for name, one in stated.items()}, needs


def _mode(config: Mapping[str, Any], manifest: TournamentManifest) -> Iterator[_Compared]:
    mode = config["modes"][manifest.mode]
    judges = mode["judges"]
    yield "judges", [one["name"] for one in judges], manifest.judges
    yield "models of the judges", [one["model"] for one in judges], manifest.judge_models
    families = {one["name"]: one.get("family") for one in judges}
    yield "families of the judges", families, manifest.judge_families
    yield "quorum", mode["quorum"], manifest.quorum
    yield "seed of the mode", mode["seed"], manifest.pilot_seed
    yield "missing", config.get("missing", "pair"), manifest.missing_drops
    yield "limit_pairs", mode.get("limit_pairs", manifest.limit_pairs), manifest.limit_pairs
    yield "sample_pairs", mode.get("sample_pairs"), manifest.sample_pairs


def _methods(config: Mapping[str, Any], manifest: TournamentManifest) -> Iterator[_Compared]:
    elo, ratings = config["elo"], config["ratings"]
    yield "elo.n_perms", elo["n_perms"], manifest.n_perms
    yield "elo.shuffle_seed", elo["shuffle_seed"], manifest.shuffle_seed
    yield "elo.k_factor_sweep", list(elo["k_factor_sweep"]), manifest.k_sweep
    yield "elo.default_k", elo["default_k"], manifest.default_k
    start = DecisiveElo().start if elo["initial_rating"] is None else elo["initial_rating"]
    yield "elo.initial_rating", start, manifest.initial_rating
    yield "ratings.n_bootstraps", ratings["n_bootstraps"], manifest.n_bootstraps
    inconsistent = ratings["inconsistent"]
    parameters = RatingParameters(
        lean=ratings["lean"],
        inconsistent={"half": 0.5, "drop": None}.get(inconsistent, inconsistent),
        both_bad=ratings.get("both_bad"),
        cluster=ratings.get("cluster"),
        write_as=ratings.get("write_as", "tiltyard"),
        n_bootstraps=ratings["n_bootstraps"],
        seed=ratings["seed"],
        initial_rating=elo["initial_rating"],
    )
    stated = parameters_of(bradley_terry_method(parameters))
    for name in dict.fromkeys((*stated, *manifest.bradley_terry)):
        yield f"Bradley–Terry's {name}", stated.get(name), manifest.bradley_terry.get(name)


def _overall(config: Mapping[str, Any], manifest: TournamentManifest) -> Iterator[_Compared]:
    yield "anchors", len(config["anchors"]), len(manifest.anchors)
    weights = dict.fromkeys(manifest.rubrics, 1.0) if manifest.anchors else {}
    stated = config["overall"]
    yield "overall", weights if stated is None else stated, manifest.overall


#: Sections of the configuration, and the functions that compare them.
_PARTS: Mapping[tuple[str, ...], Callable[[Mapping[str, Any], TournamentManifest], Iterator[_Compared]]] = {
    ("entrants",): _entrants,
    ("rubrics",): _rubrics,
    ("modes",): _mode,
    ("elo", "ratings"): _methods,
    ("overall", "anchors"): _overall,
}
