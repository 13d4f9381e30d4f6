"""The files of a tournament's folder, and the content of the computed ones."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tiltyard.core.board import RatedGroup
from tiltyard.report.board_page import PAGE_FOOTER, boards_html
from tiltyard.report.costs_section import costs_section
from tiltyard.report.judging_sections import (
    choices_section,
    judges_section,
    questions_section,
    tournament_lede,
)
from tiltyard.report.page_shell import charts_note, offline_page
from tiltyard.report.run_documents import ChoiceDocument, CostsDocument, DiagnosticsDocument
from tiltyard.report.verdict_browser import (
    CHARTS_NAME,
    REPORT_DATA,
    BrowserHead,
    browser_address,
    browser_head,
    browser_scripts,
    browser_section,
)
from tiltyard.report.verdict_parts import PART_KINDS, part_name
from tiltyard.runs.dimension_ratings import EloRatings, elo_ratings
from tiltyard.runs.manifest import BATTLE_LINES, BATTLES, BOOTSTRAP, RATINGS, REPORT, WINRATES
from tiltyard.runs.rating_documents import bootstrap_columns
from tiltyard.runs.tournament_documents import (
    dimension_winrates,
    elo_archive,
    elo_document,
    group_choices,
    tournament_ratings,
)
from tiltyard.runs.tournament_manifest import ReportDataEntry, TournamentManifest

CONFIG = "config.yaml"
ANSWERS = "answers.jsonl"
MATCHES = "matches/matches.jsonl"
ATTEMPTS = "attempts.parquet"
COSTS = "costs.json"
ELO = "elo_results.json"
PER_PERM = "elo_per_perm.npz"
DIAGNOSTICS = "diagnostics.json"


def rubric_file(dimension: str) -> str:
    return f"rubrics/{dimension}.txt"


def verdict_file(dimension: str) -> str:
    return f"verdicts/{dimension}.jsonl"


def report_data_file(part: str) -> str:
    return f"{REPORT_DATA}/{part}.js"


def expected_files(manifest: TournamentManifest) -> Iterator[str]:
    """Every file of the folder except the manifest and its hash, by relative path."""
    yield from (CONFIG, ANSWERS)
    yield from map(rubric_file, manifest.dimensions)
    yield MATCHES
    yield from map(verdict_file, manifest.dimensions)
    yield from (ATTEMPTS, COSTS, BATTLE_LINES, BATTLES, ELO, PER_PERM, RATINGS)
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
    elos: Sequence[EloRatings]
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
        diagnostics: DiagnosticsDocument,
        costs: CostsDocument,
        categories: Sequence[str],
    ) -> ComputedFiles:
        elos = [elo_ratings(rated, manifest.elo_method(), manifest.k_sweep) for rated in groups]
        choices = group_choices(groups, manifest)
        ratings = tournament_ratings(groups, manifest, choices)
        return cls(manifest, groups, elos, ratings, choices, diagnostics, costs, categories)

    def documents(self) -> Iterator[tuple[str, Mapping[str, object]]]:
        """JSON files by name."""
        yield ELO, elo_document(self.elos, self.manifest)
        yield RATINGS, self.ratings
        yield DIAGNOSTICS, self.diagnostics
        yield COSTS, self.costs

    def archive(self) -> bytes:
        return elo_archive(self.elos)

    def bootstrap(self) -> dict[str, list[Any]]:
        return bootstrap_columns(self.groups)

    def winrates(self) -> str:
        return dimension_winrates(self.groups)

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
