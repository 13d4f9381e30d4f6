"""The files of a tournament's folder: their names, the content of the computed ones, and the data of its report."""

from __future__ import annotations

import csv
import io
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from tiltyard.core.battles import Kind
from tiltyard.core.board import RatedGroup
from tiltyard.core.board.win_rates import scoring_of
from tiltyard.core.ratings import Ratings
from tiltyard.report.board_charts import charts_available
from tiltyard.report.board_page import PAGE_FOOTER, boards_html
from tiltyard.report.html_parts import charts_note, charts_script, offline_page
from tiltyard.report.judging_sections import (
    choices_section,
    costs_section,
    judges_section,
    questions_section,
    tournament_lede,
)
from tiltyard.report.run_documents import ChoiceDocument, CostsDocument, DiagnosticsDocument
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
from tiltyard.runs.dimension_ratings import EloRatings, elo_ratings, scoring_choices
from tiltyard.runs.judged_run import OVERALL
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
from tiltyard.runs.rating_documents import bootstrap_columns, finite, ratings_document
from tiltyard.runs.tournament_manifest import ReportDataEntry, TournamentManifest
from tiltyard.runs.verification_checks import RunCheck, drawn_alike, read_bytes

CONFIG = "config.yaml"
ANSWERS = "answers.jsonl"
MATCHES = "matches/matches.jsonl"
ATTEMPTS = "attempts.parquet"
COSTS = "costs.json"
ELO = "elo_results.json"
PER_PERM = "elo_per_perm.npz"
DIAGNOSTICS = "diagnostics.json"

PAIR_COLUMNS = (
    *("dimension", "entrant_a", "entrant_b", "a_wins", "b_wins", "ties", "inconsistent"),
    *("both_bad", "a_leans", "b_leans"),
)
#: The earliest date of a zip entry. All entries have it, so that equal numbers make equal bytes.
ZIP_EPOCH = (1980, 1, 1, 0, 0, 0)
#: The column that each kind adds to, if model a sorts first by name; otherwise the sides are swapped.
_ADDS = {
    Kind.WIN_A: ("a_wins",),
    Kind.WIN_B: ("b_wins",),
    Kind.LEAN_A: ("a_wins", "a_leans"),
    Kind.LEAN_B: ("b_wins", "b_leans"),
    Kind.TIE: ("ties",),
    Kind.INCONSISTENT: ("inconsistent",),
    Kind.BOTH_BAD: ("both_bad",),
}
_EXCHANGED = {"a_wins": "b_wins", "b_wins": "a_wins", "a_leans": "b_leans", "b_leans": "a_leans"}
_Responses = Mapping[tuple[str, str], str]


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
        # For each group, its ratings under every scoring choice.
        settings = manifest.settings()
        choices = {
            rated.name or "": [choice.to_dict() for choice in scoring_choices(rated, settings)]
            for rated in groups
        }
        # `dimension_ratings.json`: as written by `rate --by`, plus the ratings under other scoring choices.
        document = ratings_document(groups, manifest.settings(), frozenset(manifest.evaluated))
        ratings = document | {"overall_weights": dict(manifest.overall), "choices": choices}
        return cls(manifest, groups, elos, ratings, choices, diagnostics, costs, categories)

    def documents(self) -> Iterator[tuple[str, Mapping[str, object]]]:
        """JSON files by name."""
        # `elo_results.json`: means over orders, order noise and intervals, for each K.
        yield (
            ELO,
            {
                "schema": 1,
                "default_k": self.manifest.elo_method().k,
                "primary": {elo.name: _entrants(elo.primary) for elo in self.elos},
                "k_sensitivity": {
                    elo.name: {f"{k:g}": _entrants(ratings) for k, ratings in elo.sweep.items()}
                    for elo in self.elos
                },
                "n_decisive_matches": {elo.name: elo.n_decisive for elo in self.elos},
            },
        )
        yield DIMENSION_RATINGS, self.ratings
        if self.manifest.model is not None:
            # `elo_ratings.json`: the board that the model was placed on, as written by `rate`.
            board = [rated for rated in self.groups if rated.name == OVERALL]
            settings = replace(self.manifest.settings(), by=None)
            yield RATINGS, ratings_document(board, settings, frozenset(self.manifest.evaluated))
        yield DIAGNOSTICS, self.diagnostics
        yield COSTS, self.costs

    def archive(self) -> bytes:
        # `elo_per_perm.npz`: one row per order and one column per entrant; equal numbers make equal bytes.
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w") as archive:
            for elo in self.elos:
                runs = elo.primary.extras.get("per_permutation")
                if runs is not None:
                    _put(archive, f"{elo.name}__data", np.asarray(runs, dtype=np.float64))
                    _put(archive, f"{elo.name}__entrants", np.array(elo.primary.models, dtype=np.str_))
        return buffer.getvalue()

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


def _entrants(ratings: Ratings) -> dict[str, dict[str, object]]:
    nothing = np.full(len(ratings.models), np.nan)
    noise = ratings.extras.get("order_noise", nothing)
    low, high = (
        (nothing, nothing) if ratings.interval is None else (ratings.interval.low, ratings.interval.high)
    )
    columns = zip(ratings.models, ratings.rating, noise, low, high, strict=True)
    return {
        name: {
            "entrant_id": name,
            "mean": finite(mean),
            "sem": finite(sem),
            "ci95_low": finite(lower),
            "ci95_high": finite(upper),
        }
        for name, mean, sem, lower, upper in columns
    }


def _put(archive: zipfile.ZipFile, name: str, values: np.ndarray[Any, Any]) -> None:
    entry = io.BytesIO()
    np.lib.format.write_array(entry, np.ascontiguousarray(values), version=(1, 0), allow_pickle=False)
    archive.writestr(zipfile.ZipInfo(f"{name}.npy", ZIP_EPOCH), entry.getvalue())


def dimension_winrates(groups: Sequence[RatedGroup]) -> str:
    """`pairwise_winrates.csv` of a tournament: every pair that met in each dimension."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(PAIR_COLUMNS)
    for rated in groups:
        for (a, b), cell in sorted(_pairs(rated).items()):
            writer.writerow([rated.name, a, b, *(cell[name] for name in PAIR_COLUMNS[3:])])
    return text.getvalue()


def _pairs(rated: RatedGroup) -> dict[tuple[str, str], dict[str, int]]:
    table, kinds = rated.table, scoring_of(rated.ratings.method).counted_kinds()
    counts, found = table.counts, dict[tuple[str, str], dict[str, int]]()
    cells = (counts.a.tolist(), counts.b.tolist(), counts.kind.tolist(), counts.n.tolist())
    for a, b, kind, n in zip(*cells, strict=True):
        if a == b:
            continue
        pair = (table.models[min(a, b)], table.models[max(a, b)])
        cell = found.setdefault(pair, dict.fromkeys(PAIR_COLUMNS[3:], 0))
        for name in _ADDS[kinds[kind].plain]:
            cell[name if a < b else _EXCHANGED.get(name, name)] += n
        if kinds[kind].flagged:
            cell["both_bad"] += n
    return found


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
        self._alike = drawn_alike(manifest.platform, Platform.here())
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
