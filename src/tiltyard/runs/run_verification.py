"""Verifies a run folder or an arena's release: checks hashes first, then recomputes every number from its battles."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt

from tiltyard.core.battles import Kind, Table
from tiltyard.core.battles.outcome import SPELLED, Outcome
from tiltyard.core.board.document import BoardDocument, document_hash, published_number
from tiltyard.core.policy.state.rating_fold import Rater
from tiltyard.core.policy.validity.rules import float_or_none
from tiltyard.errors import BrokenArtifact, TiltyardError, UnreadableFile
from tiltyard.files import BattleSource, open_battles
from tiltyard.files.battle_tables import count_table
from tiltyard.runs.battle_rating import rate_files
from tiltyard.runs.manifest import (
    BATTLE_LINES,
    BATTLES,
    BOARD,
    BOOTSTRAP,
    MANIFEST,
    MANIFEST_HASH,
    PAIRS,
    RATINGS,
    RELEASE,
    REPORT,
    ReleaseManifest,
    ReleaseTable,
    RunManifest,
    locate_run,
    manifest_kind,
    read_manifest,
    read_release_manifest,
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
from tiltyard.runs.run_folder import evaluated_models, render_report, written_files
from tiltyard.runs.tournament_verification import verify_tournament
from tiltyard.runs.verification_checks import (
    RunCheck,
    Verification,
    comparison_check,
    first_difference,
    hash_check,
    json_round_trip,
    manifest_check,
    page_check,
    read_bytes,
    read_json,
    read_parquet,
    read_table,
    read_text_lines,
    table_values,
)

Ints = npt.NDArray[np.int64]
#: All that a battle of any table may have, and what one with voters may have besides.
_PLAIN_FIELDS = frozenset({"model_a", "model_b", "winner", "label", "both_bad", "source", "dimension"})
_VOTER_FIELDS = frozenset({"question_id", "voter"})
_COUNTS = ("wins", "losses", "ties", "both_bad")
#: Which of the counts an outcome adds to, for the model on the left and for that on the right.
_RESULTS = {
    Outcome.MODEL_A: (0, 1),
    Outcome.MODEL_B: (1, 0),
    Outcome.TIE: (2, 2),
    Outcome.BOTH_BAD: (3, 3),
}


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
        checks += _guarded(_recomputed(folder, manifest))
    return Verification(tuple(checks))


def _guarded(checks: Iterator[RunCheck]) -> Iterator[RunCheck]:
    """The checks, and one that failed where they raise: forged data can request more than any machine can compute."""
    try:
        yield from checks
    except (TiltyardError, ValueError, ArithmeticError, MemoryError) as error:
        yield RunCheck("recompute", passed=False, detail=str(error))


def _hashes(folder: Path, manifest: RunManifest) -> Iterator[RunCheck]:
    yield manifest_check(folder)
    expected = [BATTLES, RATINGS, PAIRS, REPORT, *([BOOTSTRAP] if manifest.n_bootstraps else [])]
    # These are optional; a file of that name without an entry is not part of the run.
    expected += [BATTLE_LINES] if BATTLE_LINES in manifest.files else []
    # Which figures there must be follows from the battles.
    figures = (name for name in manifest.files if name.startswith(f"{FIGURES}/"))
    expected += [BOARD_CSV, *BOARD_TEXTS, *figures]
    yield from _file_checks(folder, manifest.files, expected, "run")


def _file_checks(
    folder: Path, files: Mapping[str, str], expected: Sequence[str], kind: str
) -> Iterator[RunCheck]:
    """Compare the expected files with their hashes, and name all others."""
    for name in expected:
        yield hash_check(folder, name, files.get(name))
    folders = {path.name for path in folder.iterdir() if path.is_dir()}
    folders -= {FIGURES} if kind == "run" else set()
    present = set(written_files(folder)) | set(files) | folders
    for name in sorted(present - {MANIFEST, MANIFEST_HASH, *expected}):
        yield RunCheck(name, passed=False, detail=f"is not a file of this {kind}")


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
    yield comparison_check(PAIRS, read_text_lines(folder / PAIRS), winrates_csv(groups).split("\n"))
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


def verify_release(folder: Path, *, recompute: bool = True) -> Verification:
    """Check a release: hashes, that the two tables hold the same battles, and the numbers of the board.

    Without ``recompute`` only the hashes are checked, and that no file is missing or foreign.
    """
    manifest = read_release_manifest(folder)
    expected = manifest.expected_files()
    checks = [manifest_check(folder), *_file_checks(folder, manifest.files, expected, "release")]
    if recompute and all(check.passed for check in checks):
        checks += _guarded(_recomputed_release(folder, manifest))
    return Verification(tuple(checks))


def _recomputed_release(folder: Path, manifest: ReleaseManifest) -> Iterator[RunCheck]:
    paths = [folder / manifest.table_name(table) for table in ("ordered", "voters")]
    if not manifest.votes and not any(path.stat().st_size for path in paths):
        # JSON Lines without a line; the other formats have a header.
        yield RunCheck("battles", passed=True, detail="none")
        return
    sources = [open_battles(path) for path in paths]
    yield _fields_check("ordered", sources[0])
    yield _fields_check("voters", sources[1])
    ordered, voters = (count_table([source]) for source in sources)
    # Whether two tables are the same battles, whatever their order.
    votes = manifest.votes
    first, second = (_sorted_codes(table) for table in (ordered, voters))
    same = ordered.models == voters.models and np.array_equal(first, second) and len(first) == votes
    detail = f"{votes:,}, the same in both tables"
    if not same:
        detail = (
            f"{len(first):,} ordered, {len(second):,} with voters, {votes:,} stated: not the same battles"
        )
    yield RunCheck("battles", same, detail)
    if manifest.snapshot is None:
        yield RunCheck(BOARD, passed=True, detail="none: no board had been published")
        return
    written = read_bytes(folder / BOARD)
    board = BoardDocument.from_json(written)
    stated = (manifest.snapshot, manifest.arena, manifest.source, manifest.position, manifest.generation)
    found = (document_hash(written), board.arena, board.source, board.position, board.generation)
    same = stated == found and board.votes == manifest.votes
    yield RunCheck(BOARD, same, "of these battles" if same else f"is not the board that {MANIFEST} names")
    if manifest.votes:
        yield _ratings_check(board, ordered)
        yield _intervals_check(board, voters)


def _fields_check(table: ReleaseTable, source: BattleSource) -> RunCheck:
    """Whether a table has nothing else by which its rows could be found in other files."""
    allowed = _PLAIN_FIELDS if table == "ordered" else _PLAIN_FIELDS | _VOTER_FIELDS
    told = {
        name
        for battle in source.battles()
        for name, value in battle.to_dict().items()
        if value is not None and name not in allowed
    }
    detail = "models and outcomes only" if table == "ordered" else "models, outcomes, prompts and voters only"
    if told:
        detail = f"has {', '.join(sorted(told))}, by which battles can be found in other files"
    return RunCheck(f"{table} table", not told, detail)


def _sorted_codes(table: Table) -> Ints:
    log = table.log()
    pair = log.a.astype(np.int64) * len(table.models) + log.b
    return np.sort(pair * len(Kind) + log.kind)


def _ratings_check(board: BoardDocument, ordered: Table) -> RunCheck:
    """Records and the ratings that take votes one by one, from the ordered table."""
    place = _places(ordered)
    if missing := set(place) - {row.model for row in board.rows}:
        raise BrokenArtifact(f"{BOARD}: has no row of {', '.join(sorted(missing))}, which the tables have")
    rater = Rater(board.method.rater, len(ordered.models))
    rater.fold(ordered.log())
    state = rater.glicko2(ordered.models)
    numbers = {"rating": state.rating, "rd": state.rd, "legacy_elo": rater.elo}
    # Wins, losses, ties and both-bad votes of each model.
    log = ordered.log()
    found = np.zeros((len(ordered.models), len(_COUNTS)), dtype=np.int64)
    for kind in Kind:
        rows = log.kind == kind
        left, right = _RESULTS[SPELLED[kind][0]]
        np.add.at(found[:, left], log.a[rows], 1)
        np.add.at(found[:, right], log.b[rows], 1)
    counts = dict(zip(_COUNTS, found.T, strict=True))
    written: list[Mapping[str, object]] = []
    again: list[Mapping[str, object]] = []
    for row in board.rows:
        k = place.get(row.model)
        if k is None and row.record.votes:
            raise BrokenArtifact(f"{BOARD}: {row.model} has votes, and no battle in the tables")
        if k is None:
            # What a model without votes starts with is a parameter.
            continue
        shown = {name: getattr(row, name) for name in numbers if getattr(row, name) is not None}
        tally = {name: getattr(row.record, name) for name in counts}
        written.append(shown | tally)
        again.append(
            {name: _like(value, float(numbers[name][k])) for name, value in shown.items()}
            | {name: int(counts[name][k]) for name in tally}
        )
    return comparison_check("online ratings", written, again)


def _intervals_check(board: BoardDocument, voters: Table) -> RunCheck:
    """Batch ratings with their clustered intervals, from the table with voters."""
    name = "clustered intervals"
    if board.cross_check is None:
        return RunCheck(name, passed=True, detail="the board has none")
    place = _places(voters)
    ratings = board.method.cross_check(voters)
    written: list[Mapping[str, object]] = []
    again: list[Mapping[str, object]] = []
    for row in board.cross_check.rows:
        k = place.get(row.model)
        if k is None:
            continue
        shown = {"rating": row.rating, "low": row.low, "high": row.high}
        interval = ratings.interval
        computed = {
            "rating": float_or_none(ratings.rating[k]),
            "low": None if interval is None else float_or_none(interval.low[k]),
            "high": None if interval is None else float_or_none(interval.high[k]),
        }
        written.append({**shown})
        again.append({key: _like(shown[key], value) for key, value in computed.items()})
    return comparison_check(name, written, again)


def _places(table: Table) -> dict[str, int]:
    return {name: k for k, name in enumerate(table.models)}


def _like(written: object, computed: float | None) -> float | None:
    """A number as it is published if that is what was written; else as it was computed, to be compared within the tolerance."""
    if computed is None:
        return None
    rounded = published_number(computed)
    return rounded if rounded == written else computed
