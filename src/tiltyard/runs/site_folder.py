"""Reads verified runs, and writes a static site of them: completely or not at all, the same bytes for the same runs."""

from __future__ import annotations

import json
import re
import shutil
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from tiltyard.core.judging.canaries import KEPT_PLANTED_COUNT, judge_proofs
from tiltyard.core.judging.judged_question import JudgedQuestion
from tiltyard.core.ratings.findings import Finding
from tiltyard.core.ratings.paired_difference import ABDecision, decide
from tiltyard.errors import BadOption, BrokenArtifact
from tiltyard.files import BattleSource, open_battles
from tiltyard.files.canonical_columns import EXTRA_JSON
from tiltyard.foundation.local_files import (
    open_regular,
    read_regular,
    refuse_unwritable,
    replace_folder,
)
from tiltyard.report.ab_report import ABReport
from tiltyard.report.site_boards import (
    RunContent,
    SiteBoard,
    SiteRow,
    SiteRun,
    card_png,
    find_series,
    render_badge,
    render_card,
)
from tiltyard.report.site_page import SitePage, render_site_page
from tiltyard.runs.ab_lead import (
    DEFAULT_MARGIN_POINTS,
    RESTS_ON_JUDGE,
    JudgeEvidence,
    ab_comparisons,
    ab_difference,
    ab_level,
    planned_prompts,
    points,
    slot_preference,
)
from tiltyard.runs.manifest import (
    BATTLES,
    DIMENSION_RATINGS,
    MANIFEST,
    MANIFEST_HASH,
    RATINGS,
    ZIP_EPOCH,
    Platform,
    RunManifest,
    file_hash,
    json_bytes,
    locate_run,
    manifest_kind,
    read_lines,
    read_manifest,
    read_manifest_as,
    run_identity,
)
from tiltyard.runs.rating_documents import plain_names
from tiltyard.runs.run_verification import verify_run
from tiltyard.runs.tournament_files import question_file, read_run_documents
from tiltyard.runs.tournament_manifest import OVERALL, TournamentManifest
from tiltyard.runs.tournament_verification import configured_checks
from tiltyard.runs.verification_checks import drawn_with

#: Fields that say nothing about persons or texts.
_PLAIN_FIELDS = frozenset(
    {"model_a", "model_b", "winner", "label", "both_bad", "source", "dimension", "weight"}
)

SITE_INDEX = "site.json"
SITE_PAGE = "index.html"
_BADGES, _CARDS = "badges", "cards"
#: Runs of more battles are published after a check of their hashes; recomputing them takes minutes and gigabytes.
MAX_RECOMPUTED_BATTLES = 1_000_000
_URL = re.compile(r"https?://[A-Za-z0-9][A-Za-z0-9.:-]*(?:/[A-Za-z0-9._~%-]*)*")


@dataclass(frozen=True, slots=True)
class PublishedRun:
    """What was published, from which folder, and what its readers can see."""

    folder: Path
    run: SiteRun
    fields: RunFields
    #: What the verification found, as a sentence.
    verified: str


@dataclass(frozen=True, slots=True)
class PublishedSite:
    """A finished site."""

    runs: tuple[PublishedRun, ...]
    files: int
    size_bytes: int


class SiteEntry(BaseModel):
    """A run of a site: the name of its folder there, and what it should be."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    name: str = Field(pattern=r"^[a-z0-9-]+$")
    title: str
    manifest_sha256: str
    archive_sha256: str
    #: Whether every number was recomputed before it was published.
    recomputed: bool


class SiteIndex(BaseModel):
    """``site.json``: the runs for programs, and every other file with its SHA-256."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)
    schema_: Literal["tiltyard-site/1"] = Field(default="tiltyard-site/1", alias="schema")
    title: str
    url: str | None
    runs: list[SiteEntry] = Field(min_length=1)
    #: The versions of what draws pages, pictures and archives.
    drawn_with: dict[str, str]
    files: dict[str, str]

    @field_validator("runs")
    @classmethod
    def _check_names(cls, runs: list[SiteEntry]) -> list[SiteEntry]:
        names = [run.name for run in runs]
        if len({*names, _BADGES, _CARDS}) < len(names) + 2:
            raise ValueError("each run needs a folder of its own")
        return runs


def publish_site(
    folders: Sequence[Path],
    out: Path,
    *,
    title: str | None = None,
    url: str | None = None,
    add: bool = False,
    watch: Callable[[PublishedRun], None] = lambda _run: None,
) -> PublishedSite:
    """Verify runs, and write a site of them to ``out``. ``watch`` is called with each run that was verified.

    An earlier site in ``out`` is replaced; with ``add``, its runs, title and address are kept. A folder with any
    other content is rejected.
    """
    address = None if url is None else _checked_url(url)
    sources = [_run_folder(folder) for folder in folders]
    earlier = _earlier_site(out / SITE_INDEX) if add else None
    if earlier is not None:
        title, address = title or earlier.title, address or earlier.url
        kept = {run.manifest_sha256 for run in earlier.runs}
        sources = [
            *((run.name, out / run.name) for run in earlier.runs),
            *((named, folder) for named, folder in sources if file_hash(folder / MANIFEST) not in kept),
        ]
    names = plain_names([named for named, _folder in sources], otherwise="run", taken=(_BADGES, _CARDS))
    with refuse_unwritable(out):
        _refuse_foreign(out, [folder for _named, folder in sources])
        with replace_folder(out) as draft:
            runs = []
            for (_named, folder), name in zip(sources, names, strict=True):
                runs.append(_publish_run(folder, draft, name))
                watch(runs[-1])
            _write_pages(draft, [one.run for one in runs], title, address)
            files = sorted(path for path in draft.rglob("*") if path.is_file())
            return PublishedSite(tuple(runs), len(files), sum(path.stat().st_size for path in files))


def _checked_url(url: str) -> str:
    if _URL.fullmatch(url) is None:
        raise BadOption(
            f"--url is {url!r}; expected an address such as https://example.org/board, without a query"
        )
    return url.rstrip("/")


def _run_folder(folder: Path) -> tuple[str, Path]:
    place = folder.resolve()
    return place.name, locate_run(place)


def _refuse_foreign(out: Path, folders: Sequence[Path]) -> None:
    """Reject a place that holds anything but an earlier site, or that lies inside a run."""
    for folder in folders:
        if out.resolve().is_relative_to(folder):
            raise BadOption(
                f"{out} is inside the run {folder}, which would not verify any more; name another folder"
            )
    if out.exists() and not out.is_dir():
        raise BadOption(f"{out} is a file; name a folder")
    if not out.is_dir() or not any(out.iterdir()):
        return
    earlier = _earlier_site(out / SITE_INDEX)
    known = None if earlier is None else {*earlier.files, SITE_INDEX}
    present = {path.relative_to(out).as_posix() for path in out.rglob("*") if not path.is_dir()}
    foreign = sorted(present if known is None else present - known)
    if foreign:
        raise BadOption(
            f"{out} contains files that `tiltyard publish` did not write, such as {foreign[0]}; "
            "move them, or name a new folder"
        )


def _earlier_site(path: Path) -> SiteIndex | None:
    try:
        return SiteIndex.model_validate_json(read_regular(path))
    except (OSError, ValidationError):
        return None


def _publish_run(folder: Path, draft: Path, name: str) -> PublishedRun:
    """Copy a run, and verify the copy: what is published is what was checked."""
    _refuse_failed(folder, folder, recompute=False)
    _copy_run(folder, draft / name)
    recompute = is_recomputed(draft / name)
    verified = _refuse_failed(draft / name, folder, recompute=recompute)
    run, shown = _describe_run(draft, name)
    return PublishedRun(folder, run, shown, verified)


def redraw_site(site: Path, index: SiteIndex, draft: Path) -> None:
    """Write a site again, from its own runs."""
    for entry in index.runs:
        _copy_run(site / entry.name, draft / entry.name)
    runs = [_describe_run(draft, entry.name)[0] for entry in index.runs]
    _write_pages(draft, runs, index.title, index.url)


def _copy_run(folder: Path, copy: Path) -> None:
    """Copy the files that the manifest lists."""
    for file in _listed(folder):
        target = copy / file
        target.parent.mkdir(parents=True, exist_ok=True)
        with open_regular(folder / file) as source, target.open("xb") as written:
            shutil.copyfileobj(source, written)


def is_recomputed(run: Path) -> bool:
    """Whether every number of a run is recomputed before it is published."""
    return (open_battles(run / BATTLES).rows or 0) <= MAX_RECOMPUTED_BATTLES


def _describe_run(draft: Path, name: str) -> tuple[SiteRun, RunFields]:
    """Write the archive of a copied run, and read what its pages show."""
    copy = draft / name
    # The folder as a zip archive without times, so that equal runs make equal bytes.
    with zipfile.ZipFile(draft / f"{name}.zip", "x", zipfile.ZIP_DEFLATED) as archive:
        for file in _listed(copy):
            entry = zipfile.ZipInfo(f"{name}/{file}", ZIP_EPOCH)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = 0o100644 << 16
            entry.file_size = (copy / file).stat().st_size
            with (copy / file).open("rb") as source, archive.open(entry, "w") as written:
                shutil.copyfileobj(source, written)
    content, shown = read_run_content(copy)
    run = SiteRun(
        **{one.name: getattr(content, one.name) for one in fields(content)},
        name=name,
        models=len({row.model for board in content.boards for row in board.rows}),
        manifest_sha256=file_hash(copy / MANIFEST),
        archive_bytes=(draft / f"{name}.zip").stat().st_size,
        recomputed=is_recomputed(copy),
    )
    return run, shown


def _refuse_failed(folder: Path, named: Path, *, recompute: bool) -> str:
    """What was verified, as a sentence; raises `BrokenArtifact` with the first check that failed."""
    result = verify_run(folder, recompute=recompute)
    failed = next((check for check in result.checks if not check.passed), None)
    if failed is not None:
        raise BrokenArtifact(
            f"{named} is not published: {failed.name}: {failed.detail}. "
            f"`tiltyard verify` shows every check; publish the folder as it was written, or write it again"
        )
    if recompute:
        return result.summary
    return (
        f"Only hashes were checked: more than {MAX_RECOMPUTED_BATTLES:,} battles. "
        "`tiltyard verify` recomputes every number."
    )


def _listed(folder: Path) -> Iterator[str]:
    # The hash of every file that the manifest lists, by its path inside the folder.
    yield from sorted(_manifest(folder).files)
    yield from (MANIFEST, MANIFEST_HASH)


def _write_pages(draft: Path, runs: Sequence[SiteRun], title: str | None, url: str | None) -> None:
    (draft / _BADGES).mkdir()
    (draft / _CARDS).mkdir()
    card = None
    series = find_series(runs)
    for run in runs:
        (draft / _BADGES / f"{run.name}.svg").write_bytes(render_badge(run).encode())
        svg = render_card(run)
        (draft / _CARDS / f"{run.name}.svg").write_bytes(svg.encode())
        png = None if url is None else card_png(svg)
        if png is not None:
            (draft / _CARDS / f"{run.name}.png").write_bytes(png)
            card = f"{_CARDS}/{run.name}.png" if run is series[0][0] else card
    shown = title or (runs[0].title if len(series) == 1 else "Boards")
    page = render_site_page(SitePage(shown, url, card), runs)
    (draft / SITE_PAGE).write_bytes(page.encode())
    written = sorted(path for path in draft.rglob("*") if path.is_file())
    hashes = {path.relative_to(draft).as_posix(): file_hash(path) for path in written}
    entries = [
        SiteEntry(
            name=run.name,
            title=run.title,
            manifest_sha256=run.manifest_sha256,
            archive_sha256=hashes[f"{run.name}.zip"],
            recomputed=run.recomputed,
        )
        for run in runs
    ]
    index = SiteIndex(title=shown, url=url, runs=entries, drawn_with=drawing_versions(), files=hashes)
    (draft / SITE_INDEX).write_bytes(json_bytes(index.model_dump(by_alias=True)))


def drawing_versions() -> dict[str, str]:
    """The versions here of what draws pages, pictures and archives."""
    return {**drawn_with(Platform.here()), "zlib": zlib.ZLIB_RUNTIME_VERSION}


@dataclass(frozen=True, slots=True)
class RunFields:
    """What readers of a run can see besides its results."""

    battle_fields: tuple[str, ...]
    #: Whether the folder has every prompt, response and reply of a judge.
    texts: bool


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
    ratings: list[SiteRow]
    findings: list[_FindingEntry]

    def board(self, name: str | None) -> SiteBoard:
        return SiteBoard(
            name=name,
            rows=tuple(self.ratings),
            level=None if self.interval is None else self.interval.level,
            scope=None if self.interval is None else self.interval.scope,
            findings=tuple(Finding(one.name, {}, one.text, one.advice) for one in self.findings),
        )


class _GroupedEntry(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")
    groups: dict[str, _BoardEntry]


def read_run_content(folder: Path) -> tuple[RunContent, RunFields]:
    """Read a folder whose hashes were checked; raises `BrokenArtifact` if its ratings cannot be read."""
    manifest = _manifest(folder)
    settings = manifest.settings()
    tournament = manifest if isinstance(manifest, TournamentManifest) else None
    ratings = DIMENSION_RATINGS if tournament else RATINGS
    boards = _boards(folder / ratings, grouped=settings.by is not None)
    source = open_battles(folder / BATTLES)
    stated = tuple(_fields(source))
    if tournament:
        boards = dict(sorted(boards.items(), key=lambda one: one[0] != OVERALL))
    written = manifest.finished_at if isinstance(manifest, TournamentManifest) else manifest.created_at
    content = RunContent(
        title=_tournament_title(tournament) if tournament else manifest.arena or "Ratings",
        method=settings.method.name,
        boards=tuple(entry.board(name) for name, entry in boards.items()),
        by=" and ".join(settings.groupings) or None,
        overall=OVERALL if tournament else next(iter(boards), None),
        battles=source.rows or 0,
        prompts=tournament.selected_prompt_count if tournament else _prompts(boards),
        date=(written or "")[:10] or None,
        series=None if manifest.arena is None else run_identity(settings, ""),
        comparison=_comparison(folder, source, tournament) if tournament else None,
    )
    return content, RunFields(stated, texts=tournament is not None)


def _fields(source: BattleSource) -> Iterator[str]:
    """The fields with a value in any battle that may say something about persons or texts; packed ones by their names."""
    stored = [name for name in source.stored if name not in _PLAIN_FIELDS]
    # The columns that are not empty: a large log is copied with columns that no battle may have.
    empty = set(stored)
    for batch in source.batches(stored):
        empty -= {name for name in empty if batch.column(name).null_count < batch.num_rows}
        if not empty:
            break
    filled = set(stored) - empty
    yield from (name for name in stored if name in filled and name != EXTRA_JSON)
    if EXTRA_JSON not in filled:
        return
    packed = (text for batch in source.batches([EXTRA_JSON]) for text in batch.column(0).to_pylist() if text)
    try:
        yield from sorted({name for text in packed for name in json.loads(text)})
    except (ValueError, TypeError, RecursionError):
        yield EXTRA_JSON


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
    return ab_comparisons(manifest.mode) is not None and len(manifest.entrants) == 2


def _comparison(folder: Path, source: BattleSource, manifest: TournamentManifest) -> ABReport | None:
    """The result of `tiltyard ab` at its default margin: the folder does not keep the margin that was used."""
    comparisons = ab_comparisons(manifest.mode)
    if comparisons is None or not _is_comparison(manifest):
        return None
    name_a, name_b = manifest.entrants
    battles = list(source.battles() if source.rows else ())
    clustered = getattr(manifest.settings().method, "clusters", None) == "category"
    clusters = {one.question_id or "": one.category or "" for one in battles} if clustered else None
    planned, level = planned_prompts(manifest.bank_size), ab_level(comparisons)
    found = ab_difference(battles, name_b, planned, clusters=clusters, level=level)
    low, high = points(found.low), points(found.high)
    decision, doubt, evidence = decide(low, high, DEFAULT_MARGIN_POINTS), None, None
    if decision in RESTS_ON_JUDGE:
        diagnostics, _ = read_run_documents(folder)
        rows = [row for name in manifest.dimensions for row in _judged(folder, name)]
        kept = configured_checks(manifest).planted == KEPT_PLANTED_COUNT
        evidence = JudgeEvidence.of(judge_proofs(rows, kept=kept), rows, battles)
        doubt = slot_preference(Finding.from_dict(one) for one in diagnostics["findings"]) or evidence.doubt()
        decision = decision if doubt is None else ABDecision.CANNOT_TELL
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
        reason=doubt,
        evidence=None if evidence is None else str(evidence),
    )


def _judged(folder: Path, dimension: str) -> Iterator[JudgedQuestion]:
    for where, row in read_lines(folder / question_file(dimension)):
        yield JudgedQuestion.from_dict(row, where)
