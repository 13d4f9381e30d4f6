"""The folder of a tournament: the names of its files, the content of the computed ones, and how it is written."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO, TypedDict, TypeVar, cast

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
from tiltyard.report.board_charts import charts_available
from tiltyard.report.board_page import PAGE_FOOTER, boards_html
from tiltyard.report.html_parts import charts_note, charts_script, offline_page
from tiltyard.report.judging_sections import (
    choices_section,
    costs_section,
    elo_section,
    judges_section,
    questions_section,
    tournament_lede,
)
from tiltyard.report.run_documents import ChoiceDocument, CostsDocument, DiagnosticsDocument, EloDocument
from tiltyard.report.verdict_parts import (
    CHARTS_NAME,
    PART_KINDS,
    REPORT_DATA,
    BrowserHead,
    VerdictParts,
    browser_address,
    browser_head,
    browser_scripts,
    browser_section,
    part_name,
)
from tiltyard.runs.dimension_ratings import rate_dimensions, scoring_choices
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
    Platform,
    bytes_hash_line,
    file_hash,
    json_bytes,
    json_line,
    parse_document,
    write_bytes,
    write_lines,
)
from tiltyard.runs.rating_documents import bootstrap_columns, ratings_document
from tiltyard.runs.run_costs import costs_document, read_attempts
from tiltyard.runs.run_folder import evaluated_models
from tiltyard.runs.tournament_manifest import (
    ATTEMPT_COLUMNS,
    OVERALL,
    JudgedRun,
    ReportDataEntry,
    TournamentManifest,
)
from tiltyard.runs.verdict_pass import (
    HumanVotes,
    ResponseIndex,
    VerdictPass,
    answers_of,
    as_anchor_battles,
    elo_archive,
    elo_document,
    pair_rows,
)
from tiltyard.runs.verification_checks import RunCheck, drawn_with, read_bytes
from tiltyard.settings.rating_options import JUDGE_ARENA
from tiltyard.settings.yaml_file import write_yaml

_DRAFT_TEXTS = ("run_id", "started_at", "mode", "config_path")
_Thing = TypeVar("_Thing", Answer, JudgedQuestion)

CONFIG = "config.yaml"
ANSWERS = "answers.jsonl"
MATCHES = "matches/matches.jsonl"
ATTEMPTS = "attempts.parquet"
COSTS = "costs.json"
ELO = "elo_results.json"
PER_PERM = "elo_per_perm.npz"
DIAGNOSTICS = "diagnostics.json"

_Responses = Mapping[tuple[str, str], str]


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
    _write_manifest(out, run.draft)


def write_matches(out: Path, run: JudgedRun) -> None:
    """Write `matches/matches.jsonl`, before any judge is called."""
    answers = {(one.model, one.prompt_id): one for one in answers_of(run)}
    rows = pair_rows(run.matches.matches, run.draft.entrants, lambda *place: answers[place])
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
    manifest = run.draft
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
    spelling = TIE_BOTH_BAD if run.config["ratings"]["write_as"] == JUDGE_ARENA else None
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


def rubric_file(dimension: str) -> str:
    return f"rubrics/{dimension}.txt"


def question_file(dimension: str) -> str:
    return f"questions/{dimension}.jsonl"


def verdict_file(dimension: str) -> str:
    return f"verdicts/{dimension}.jsonl"


def report_data_file(part: str) -> str:
    return f"{REPORT_DATA}/{part}.js"


def expected_files(manifest: TournamentManifest) -> Iterator[str]:
    """Every file of the folder except the manifest and its hash, by relative path."""
    yield from (CONFIG, ANSWERS)
    yield from map(rubric_file, manifest.dimensions)
    yield MATCHES
    yield from map(question_file, manifest.dimensions)
    yield from map(verdict_file, manifest.dimensions)
    yield from (ATTEMPTS, COSTS, BATTLE_LINES, BATTLES, ELO, PER_PERM, DIMENSION_RATINGS)
    if manifest.model is not None:
        yield RATINGS
    if manifest.n_bootstraps:
        yield BOOTSTRAP
    yield from (WINRATES, DIAGNOSTICS, REPORT)
    yield from map(report_data_file, _report_parts(manifest.report_data))


def _report_parts(written: ReportDataEntry) -> Iterator[str]:
    if written.charts:
        yield CHARTS_NAME
    for kind in PART_KINDS:
        yield from (part_name(kind, number) for number in range(getattr(written, kind)))


@dataclass(frozen=True)
class ComputedFiles:
    """Everything computed from battles, verdicts and attempts: written once, and recomputed by `verify`."""

    manifest: TournamentManifest
    groups: Sequence[RatedGroup]
    elo: EloDocument
    #: `elo_per_perm.npz` and `pairwise_winrates.csv`.
    archive: bytes
    winrates: str
    ratings: Mapping[str, object]
    choices: Mapping[str, Sequence[ChoiceDocument]]
    diagnostics: DiagnosticsDocument
    costs: CostsDocument
    #: The categories of the prompts.
    categories: Sequence[str]

    @classmethod
    def of(
        cls,
        manifest: TournamentManifest,
        groups: Sequence[RatedGroup],
        gathered: VerdictPass,
        costs: CostsDocument,
        categories: Sequence[str],
    ) -> ComputedFiles:
        judgments, elo_method = gathered.judgments, manifest.elo_method()
        rated_elo = judgments.rate(elo_method)
        elo = elo_document(elo_method, rated_elo, judgments.decisive_counts())
        # For each group, its ratings under every scoring choice.
        settings = manifest.settings()
        choices = {rated.name or "": scoring_choices(rated, settings) for rated in groups}
        # `dimension_ratings.json`: as written by `rate --by`, plus the ratings under other scoring choices.
        document = ratings_document(groups, manifest.settings(), frozenset(manifest.evaluated))
        ratings = document | {"overall_weights": dict(manifest.overall), "choices": choices}
        return cls(
            manifest,
            groups,
            elo,
            elo_archive(rated_elo),
            judgments.winrates(),
            ratings,
            choices,
            gathered.document(),
            costs,
            categories,
        )

    def documents(self) -> Iterator[tuple[str, Mapping[str, object]]]:
        """JSON files by name."""
        yield ELO, self.elo
        yield DIMENSION_RATINGS, self.ratings
        if self.manifest.model is not None:
            # `elo_ratings.json`: the board that the model was placed on, as written by `rate`.
            board = [rated for rated in self.groups if rated.name == OVERALL]
            settings = replace(self.manifest.settings(), by=None)
            yield RATINGS, ratings_document(board, settings, frozenset(self.manifest.evaluated))
        yield DIAGNOSTICS, self.diagnostics
        yield COSTS, self.costs

    def bootstrap(self) -> dict[str, list[Any]]:
        return bootstrap_columns(self.groups)

    def page(self) -> str:
        """The report. Only its last section depends on attempts."""
        manifest = self.manifest
        head = BrowserHead(
            manifest.judges,
            manifest.entrants,
            manifest.dimensions,
            self.categories,
            manifest.report_data.index,
        )
        sections = (
            tournament_lede(
                manifest.judges,
                manifest.quorum,
                manifest.entrants,
                manifest.selected_prompt_count,
                manifest.design,
            ),
            "" if manifest.model is not None else elo_section(self.elo),
            boards_html(self.groups, fold_charts=True, pair_address=self._pair_address),
            charts_note(),
            browser_section(head),
            choices_section(self.choices),
            judges_section(self.diagnostics),
            questions_section(self.diagnostics),
            costs_section(self.costs),
        )
        title = manifest.arena or f"Tournament ({manifest.mode})"
        return offline_page(
            title, "".join(sections), footer=PAGE_FOOTER, head=browser_head(), scripts=browser_scripts()
        )

    def _pair_address(self, group: str | None, model_a: str, model_b: str) -> str:
        """Where the inconsistent matches of a pair can be read: with several judges, among all of the pair."""
        dimension = group if group in self.manifest.rubrics else None
        show = "flips" if len(self.manifest.judges) == 1 else None
        return browser_address(show, dimension=dimension, a=model_a, b=model_b)


class ReportDataWriter:
    """Writes the parts of the report while ``parts`` sees the answers and verdicts of a run."""

    def __init__(self, out: Path, manifest: TournamentManifest, responses: _Responses) -> None:
        self._out = out
        self._names: set[str] = set()
        self.parts = VerdictParts(self._write, manifest.judges, manifest.entrants, responses)

    def finish(self) -> ReportDataEntry:
        """Write the rest, and remove parts that an earlier draft of this run left."""
        charts = charts_available()
        if charts:
            self._write(CHARTS_NAME, charts_script().encode())
        for path in (self._out / REPORT_DATA).glob("*.js"):
            if path.stem not in self._names:
                path.unlink()
        if not self._names:
            (self._out / REPORT_DATA).rmdir()
        return _entry(self.parts, charts=charts)

    def _write(self, name: str, data: bytes) -> None:
        self._names.add(name)
        write_bytes(self._out / report_data_file(name), data)


class ReportDataCheck:
    """Makes the parts again and compares them with the files, if the same versions made them."""

    def __init__(self, folder: Path, manifest: TournamentManifest, responses: _Responses) -> None:
        self._folder = folder
        self._manifest = manifest
        self._problem: str | None = None
        self._count = 0
        self._alike = drawn_with(manifest.platform) == drawn_with(Platform.here())
        self.parts = VerdictParts(self._compare, manifest.judges, manifest.entrants, responses)

    def _compare(self, name: str, data: bytes) -> None:
        if not self._alike or self._problem is not None:
            return
        self._count += 1
        if read_bytes(self._folder / report_data_file(name)) != data:
            self._problem = f"{report_data_file(name)} differs from the answers and verdicts"

    def finish(self) -> RunCheck:
        """The result, after all answers and verdicts were seen."""
        if not self._alike:
            return RunCheck(
                REPORT_DATA,
                passed=True,
                detail="not compared: made with other versions",
                exact=False,
                unchecked=f"the folder {REPORT_DATA}, which was made with other versions",
            )
        written = self._manifest.report_data
        if written.charts:
            self._compare(CHARTS_NAME, charts_script().encode())
        if self._problem is None and written != _entry(self.parts, charts=written.charts):
            self._problem = "the manifest gives another number of files"
        detail = self._problem or f"{self._count} files, made again, equal"
        return RunCheck(REPORT_DATA, self._problem is None, detail)


def _entry(parts: VerdictParts, *, charts: bool) -> ReportDataEntry:
    counts = parts.counts
    return ReportDataEntry(index=counts.index, texts=counts.texts, verdicts=counts.verdicts, charts=charts)
