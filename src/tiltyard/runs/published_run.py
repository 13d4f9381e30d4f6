"""Reads a run folder for publication: what a site shows of it, from its own files."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from tiltyard.core.ratings.findings import Finding
from tiltyard.core.ratings.paired_difference import ABDecision, decide
from tiltyard.errors import BrokenArtifact
from tiltyard.files import BattleSource, open_battles
from tiltyard.files.canonical_columns import EXTRA_JSON
from tiltyard.foundation.local_files import read_regular
from tiltyard.report.ab_report import ABReport
from tiltyard.report.site_boards import SiteBoard, SiteRow
from tiltyard.runs.ab_lead import AB_MODE, DEFAULT_MARGIN_POINTS, ab_difference, points, slot_preference
from tiltyard.runs.judged_run import OVERALL
from tiltyard.runs.manifest import (
    BATTLES,
    RATINGS,
    RunManifest,
    manifest_kind,
    read_manifest,
    read_manifest_as,
)
from tiltyard.runs.tournament_manifest import TournamentManifest
from tiltyard.runs.tournament_writer import read_run_documents

#: Fields that say nothing about persons or texts.
_PLAIN_FIELDS = frozenset(
    {"model_a", "model_b", "winner", "label", "both_bad", "source", "dimension", "weight"}
)


@dataclass(frozen=True, slots=True)
class RunFields:
    """What readers of a run can see besides its results."""

    battle_fields: tuple[str, ...]
    #: Whether the folder has every prompt, response and reply of a judge.
    texts: bool


@dataclass(frozen=True, slots=True)
class RunContent:
    """A run, as its files describe it."""

    title: str
    method: str
    boards: tuple[SiteBoard, ...]
    by: str | None
    overall: str | None
    battles: int
    prompts: int | None
    date: str | None
    comparison: ABReport | None
    fields: RunFields


class _RatingEntry(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")
    model: str
    rating: float | None
    ci_low: float | None
    ci_high: float | None
    rank_low: int | None
    rank_high: int | None
    tier: int | None
    group: int | None
    placed: str | None = None


class _IntervalEntry(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")
    level: float
    clusters: str
    n_clusters: int
    scope: str


class _FindingEntry(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")
    name: str
    text: str
    advice: str


class _BoardEntry(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")
    interval: _IntervalEntry | None
    ratings: list[_RatingEntry]
    findings: list[_FindingEntry]

    def board(self, name: str | None) -> SiteBoard:
        return SiteBoard(
            name=name,
            rows=tuple(
                SiteRow(
                    model=one.model,
                    rating=one.rating,
                    low=one.ci_low,
                    high=one.ci_high,
                    rank_low=one.rank_low,
                    rank_high=one.rank_high,
                    tier=one.tier,
                    group=one.group,
                    placed=one.placed,
                )
                for one in self.ratings
            ),
            level=None if self.interval is None else self.interval.level,
            scope=None if self.interval is None else self.interval.scope,
            findings=tuple(Finding(one.name, {}, one.text, one.advice) for one in self.findings),
        )


class _GroupedEntry(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")
    groups: dict[str, _BoardEntry]


def run_files(folder: Path) -> Mapping[str, str]:
    """The hash of every file that the manifest lists, by its path inside the folder."""
    return _manifest(folder).files


def read_run_content(folder: Path) -> RunContent:
    """Read a folder whose hashes were checked; raises `BrokenArtifact` if its ratings cannot be read."""
    manifest = _manifest(folder)
    boards = _boards(folder / RATINGS, grouped=manifest.settings().by is not None)
    source = open_battles(folder / BATTLES)
    fields = tuple(_fields(source))
    battles = source.rows or 0
    if isinstance(manifest, TournamentManifest):
        return RunContent(
            title=_tournament_title(manifest),
            method=manifest.settings().method.name,
            boards=tuple(
                entry.board(name) for name, entry in sorted(boards.items(), key=lambda one: one[0] != OVERALL)
            ),
            by=" and ".join(manifest.settings().groupings),
            overall=OVERALL,
            battles=battles,
            prompts=manifest.selected_prompt_count,
            date=(manifest.finished_at or "")[:10] or None,
            comparison=_comparison(folder, source, manifest),
            fields=RunFields(fields, texts=True),
        )
    return RunContent(
        title=manifest.arena or "Ratings",
        method=manifest.method,
        boards=tuple(entry.board(name) for name, entry in boards.items()),
        by=" and ".join(manifest.settings().groupings) or None,
        overall=None,
        battles=battles,
        prompts=_prompts(boards),
        date=manifest.created_at[:10],
        comparison=None,
        fields=RunFields(fields, texts=False),
    )


def _fields(source: BattleSource) -> Iterator[str]:
    """The fields with a value in any battle that may say something about persons or texts; packed ones by their names."""
    stored = [name for name in source.stored if name not in _PLAIN_FIELDS]
    filled = _filled(source, stored)
    yield from (name for name in stored if name in filled and name != EXTRA_JSON)
    if EXTRA_JSON not in filled:
        return
    packed = (text for batch in source.batches([EXTRA_JSON]) for text in batch.column(0).to_pylist() if text)
    try:
        yield from sorted({name for text in packed for name in json.loads(text)})
    except (ValueError, TypeError, RecursionError):
        yield EXTRA_JSON


def _filled(source: BattleSource, names: Sequence[str]) -> set[str]:
    """The columns that are not empty: a large log is copied with columns that no battle may have."""
    empty = set(names)
    for batch in source.batches(names):
        empty -= {name for name in empty if batch.column(name).null_count < batch.num_rows}
        if not empty:
            break
    return set(names) - empty


def _manifest(folder: Path) -> RunManifest | TournamentManifest:
    if manifest_kind(folder) == "tournament":
        return read_manifest_as(TournamentManifest, folder)
    return read_manifest(folder)


def _boards(path: Path, *, grouped: bool) -> Mapping[str | None, _BoardEntry]:
    try:
        data = read_regular(path)
        if not grouped:
            return {None: _BoardEntry.model_validate_json(data)}
        groups = _GroupedEntry.model_validate_json(data).groups
        return dict[str | None, _BoardEntry](groups.items())
    except (OSError, ValidationError) as error:
        raise BrokenArtifact(f"{path}: cannot be read: {error}") from None


def _prompts(boards: Mapping[str | None, _BoardEntry]) -> int | None:
    """The number of prompts, where the intervals of the only board rest on them."""
    intervals = [entry.interval for entry in boards.values()]
    if len(intervals) != 1 or intervals[0] is None or "prompt" not in intervals[0].clusters:
        return None
    return intervals[0].n_clusters


def _tournament_title(manifest: TournamentManifest) -> str:
    if manifest.arena is not None:
        return manifest.arena
    if _is_comparison(manifest):
        return f"{manifest.entrants[1]} against {manifest.entrants[0]}"
    return f"Tournament ({manifest.mode})"


def _is_comparison(manifest: TournamentManifest) -> bool:
    return manifest.mode == AB_MODE and len(manifest.entrants) == 2


def _comparison(folder: Path, source: BattleSource, manifest: TournamentManifest) -> ABReport | None:
    """The result of `tiltyard ab` at its default margin: the folder does not keep the margin that was used."""
    if not _is_comparison(manifest):
        return None
    name_a, name_b = manifest.entrants
    battles = source.battles() if source.rows else ()
    found = ab_difference(battles, name_b, manifest.bank_size)
    low, high = points(found.low), points(found.high)
    decision, slot = decide(low, high, DEFAULT_MARGIN_POINTS), None
    if decision is ABDecision.SAME:
        diagnostics, _ = read_run_documents(folder)
        slot = slot_preference(Finding.from_dict(one) for one in diagnostics["findings"])
        decision = decision if slot is None else ABDecision.UNDECIDED
    return ABReport(
        name_a=name_a,
        name_b=name_b,
        decision=decision.value,
        basis="judge",
        unit="points",
        difference=points(found.mean),
        low=low,
        high=high,
        level=found.level,
        compared=found.prompts,
        margin=DEFAULT_MARGIN_POINTS,
        reason=slot,
    )
