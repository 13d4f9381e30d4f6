"""Writes the folder of a tournament."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import BinaryIO, TypedDict, TypeVar, cast

from tiltyard.core.battles import Battle
from tiltyard.core.battles.outcome import TIE_BOTH_BAD
from tiltyard.core.board import RatedGroup
from tiltyard.core.judging.judged_question import JudgedQuestion
from tiltyard.errors import BadOption, UnreadableFile
from tiltyard.files import BattleSource, open_battles, write_battles
from tiltyard.files.answer import Answer
from tiltyard.files.battle_tables import copy_battles
from tiltyard.files.parquet_tables import write_columns, write_row_table
from tiltyard.foundation.local_files import (
    atomic_write,
    read_regular,
    refuse_unwritable,
    remove_drafts,
)
from tiltyard.report.run_documents import CostsDocument, DiagnosticsDocument, EloDocument
from tiltyard.report.verdict_parts import REPORT_DATA, VerdictParts
from tiltyard.runs.dimension_ratings import rate_dimensions
from tiltyard.runs.judged_run import ATTEMPT_COLUMNS, JudgedRun
from tiltyard.runs.judgments import pair_rows
from tiltyard.runs.manifest import (
    BATTLE_LINES,
    BATTLES,
    BOOTSTRAP,
    MANIFEST,
    MANIFEST_HASH,
    REPORT,
    WINRATES,
    bytes_hash_line,
    file_hash,
    json_bytes,
    json_line,
    parse_document,
    write_bytes,
    write_lines,
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
    MATCHES,
    PER_PERM,
    ComputedFiles,
    ReportDataWriter,
    expected_files,
    question_file,
    rubric_file,
    verdict_file,
)
from tiltyard.runs.tournament_manifest import TournamentManifest, draft_manifest
from tiltyard.runs.verdict_pass import HumanVotes, ResponseIndex, VerdictPass, answers_of, as_anchor_battles
from tiltyard.settings.rating_options import JUDGE_ARENA
from tiltyard.settings.yaml_file import write_yaml

_DRAFT_TEXTS = ("run_id", "started_at", "mode", "config_path")
_Thing = TypeVar("_Thing", Answer, JudgedQuestion)


class RunDraft(TypedDict):
    """What a manifest shows about its run, finished or not."""

    run_id: str
    started_at: str
    mode: str
    config_path: str
    finished_at: str | None
    limit_pairs: int | None
    model: str | None


def begin_folder(out: Path, run: JudgedRun) -> None:
    """Write the files that exist while judging is in progress: an unfinished manifest, matches, configuration.

    The manifest is written first, because it identifies the folder's run.
    """
    with refuse_unwritable(out):
        write_draft_manifest(out, run)
        _prepare(out, "matches", "questions", "verdicts")
        write_matches(out, run)
        write_bytes(out / CONFIG, write_yaml(dict(run.config)).encode())


def read_draft(folder: Path) -> RunDraft | None:
    """The run that a folder belongs to, finished or not; ``None`` if it has no readable tournament manifest."""
    try:
        found = parse_document(MANIFEST, read_regular(folder / MANIFEST))
    except (OSError, UnreadableFile):
        return None
    if (
        not isinstance(found, dict)
        or found.get("kind") != "tournament"
        or not found.keys() >= RunDraft.__required_keys__
    ):
        return None
    if not all(isinstance(found[name], str) for name in _DRAFT_TEXTS):
        return None
    return cast("RunDraft", {name: found[name] for name in RunDraft.__required_keys__})


def write_draft_manifest(out: Path, run: JudgedRun) -> None:
    """Write the manifest of a run that has just started: ``finished_at`` is null, no file is listed."""
    _write_manifest(out, draft_manifest(run))


def write_matches(out: Path, run: JudgedRun) -> None:
    """Write `matches/matches.jsonl`, before any judge is called."""
    answers = {(one.model, one.prompt_id): one for one in answers_of(run)}
    rows = pair_rows(run.matches.matches, run.entrants, lambda *place: answers[place])
    write_lines(out / MATCHES, rows)


def write_judged_run(out: Path, run: JudgedRun) -> list[RatedGroup]:
    """Write every file of the run to ``out``, the finished manifest last; return the rated groups.

    ``out`` is created if missing; an earlier draft of the same run is overwritten.
    Verdicts and attempts are streamed.
    """
    if run.finished_at is None:
        raise BadOption(
            "the run has no finished_at; the folder can be written only after judging has finished"
        )
    with refuse_unwritable(out):
        _prepare(out, "matches", "questions", "verdicts", "rubrics", REPORT_DATA)
        manifest, computed = _write_files(out, run)
        files = {name: file_hash(out / name) for name in expected_files(manifest)}
    _write_manifest(out, manifest.model_copy(update={"finished_at": run.finished_at, "files": files}))
    return list(computed.groups)


def read_run_documents(out: Path) -> tuple[DiagnosticsDocument, CostsDocument]:
    """Read `diagnostics.json` and `costs.json` of a finished run, for its summary."""
    diagnostics: DiagnosticsDocument = parse_document(DIAGNOSTICS, (out / DIAGNOSTICS).read_bytes())
    costs: CostsDocument = parse_document(COSTS, (out / COSTS).read_bytes())
    return diagnostics, costs


def read_elo(out: Path) -> EloDocument:
    """Read `elo_results.json` of a finished run."""
    document: EloDocument = parse_document(ELO, (out / ELO).read_bytes())
    return document


def _prepare(out: Path, *names: str) -> None:
    for folder in (out, *(out / name for name in names)):
        folder.mkdir(parents=True, exist_ok=True)
        remove_drafts(folder)


def _write_files(out: Path, run: JudgedRun) -> tuple[TournamentManifest, ComputedFiles]:
    manifest = draft_manifest(run)
    write_bytes(out / CONFIG, write_yaml(manifest.config).encode())
    for name, rubric in run.rubrics.items():
        write_bytes(out / rubric_file(name), rubric.file_text().encode())
    write_matches(out, run)
    report_data = ReportDataWriter(
        out, manifest, {(one.model, one.prompt_id): one.response for one in run.answers}
    )
    parts = report_data.parts
    with atomic_write(str(out / ANSWERS)) as file:
        answers = _noted(file, parts.texts(answers_of(run)))
        responses = ResponseIndex(answers, manifest.entrants, manifest.families)
    human = HumanVotes(_anchors(run), manifest.entrants)
    gathering = VerdictPass(manifest, responses, human)
    battles, anchors = _write_battles(out, run, gathering, parts)
    write_row_table(out / ATTEMPTS, ATTEMPT_COLUMNS, run.attempts())
    costs = costs_document(manifest, gathering.asked, read_attempts(out / ATTEMPTS))
    settings = manifest.settings()
    evaluated = evaluated_models(battles, settings) if battles.rows else frozenset[str]()
    manifest = manifest.model_copy(
        update={
            "anchor_battles": anchors,
            "evaluated": sorted(evaluated),
            "report_data": report_data.finish(),
        }
    )
    groups = rate_dimensions(battles, manifest)
    computed = ComputedFiles.of(manifest, groups, gathering, costs, parts.categories)
    for name, document in computed.documents():
        write_bytes(out / name, json_bytes(document))
    write_bytes(out / PER_PERM, computed.archive)
    if computed.manifest.n_bootstraps:
        write_columns(out / BOOTSTRAP, computed.bootstrap())
    write_bytes(out / WINRATES, computed.winrates.encode())
    write_bytes(out / REPORT, computed.page().encode())
    return manifest, computed


def _noted(file: BinaryIO, things: Iterable[_Thing]) -> Iterator[_Thing]:
    """Yield the items unchanged, and write each to the file as a line."""
    for thing in things:
        file.write(json_line(thing.to_dict()))
        yield thing


def _anchors(run: JudgedRun) -> Iterator[Battle]:
    spelling = TIE_BOTH_BAD if run.write_as == JUDGE_ARENA else None
    return as_anchor_battles(chain.from_iterable(source.battles() for source in run.anchors), spelling)


def _write_battles(
    out: Path, run: JudgedRun, gathering: VerdictPass, parts: VerdictParts
) -> tuple[BattleSource, int]:
    """Write `questions/`, `verdicts/`, `battles.jsonl` and its Parquet copy; return the copy and the number of anchors."""
    anchors = 0
    with atomic_write(str(out / BATTLE_LINES)) as file:
        for number, name in enumerate(run.dimensions):
            matches = (match for match in run.matches.matches if match.dimension == name)
            with (
                atomic_write(str(out / question_file(name))) as questions,
                atomic_write(str(out / verdict_file(name))) as verdicts,
            ):
                judged = _noted(questions, parts.verdicts(number, run.judged(name)))
                for settled, battle in gathering.settle(matches, judged):
                    verdicts.write(json_line(gathering.judgment_row(settled, battle)))
                    file.write(json_line(battle.to_dict()))
        for battle in _anchors(run):
            file.write(json_line(battle.to_dict()))
            anchors += 1
    if not (out / BATTLE_LINES).stat().st_size:
        write_battles(out / BATTLES, [])
        return open_battles(out / BATTLES), 0
    return copy_battles(out / BATTLES, [open_battles(out / BATTLE_LINES)]), anchors


def _write_manifest(out: Path, manifest: TournamentManifest) -> None:
    data = json_bytes(manifest.model_dump(mode="json"))
    out.mkdir(parents=True, exist_ok=True)
    write_bytes(out / MANIFEST_HASH, bytes_hash_line(data))
    write_bytes(out / MANIFEST, data)
