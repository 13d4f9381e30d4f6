"""The files of a tournament's folder: their names, the content of the computed ones, and the data of its report."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tiltyard.core.board import RatedGroup
from tiltyard.report.board_charts import charts_available
from tiltyard.report.board_page import PAGE_FOOTER, boards_html
from tiltyard.report.elo_summary import elo_section
from tiltyard.report.html_parts import charts_note, charts_script, offline_page
from tiltyard.report.judging_sections import (
    choices_section,
    costs_section,
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
from tiltyard.runs.dimension_ratings import scoring_choices
from tiltyard.runs.judged_run import OVERALL
from tiltyard.runs.judgments import elo_archive, elo_document
from tiltyard.runs.manifest import (
    BATTLE_LINES,
    BATTLES,
    BOOTSTRAP,
    DIMENSION_RATINGS,
    RATINGS,
    REPORT,
    WINRATES,
    Platform,
    write_bytes,
)
from tiltyard.runs.rating_documents import bootstrap_columns, ratings_document
from tiltyard.runs.tournament_manifest import ReportDataEntry, TournamentManifest
from tiltyard.runs.verdict_pass import VerdictPass
from tiltyard.runs.verification_checks import RunCheck, drawn_with, read_bytes

CONFIG = "config.yaml"
ANSWERS = "answers.jsonl"
MATCHES = "matches/matches.jsonl"
ATTEMPTS = "attempts.parquet"
COSTS = "costs.json"
ELO = "elo_results.json"
PER_PERM = "elo_per_perm.npz"
DIAGNOSTICS = "diagnostics.json"

_Responses = Mapping[tuple[str, str], str]


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
        choices = {
            rated.name or "": [choice.to_dict() for choice in scoring_choices(rated, settings)]
            for rated in groups
        }
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
                manifest.judges, manifest.quorum, manifest.entrants, manifest.selected_prompt_count
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
