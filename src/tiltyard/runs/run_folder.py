"""Writes a run folder atomically."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

from tiltyard.core.board import RatedGroup
from tiltyard.errors import BadBattle, BadOption
from tiltyard.files import BattleSource, write_battles
from tiltyard.files.battle_copy import copy_battles
from tiltyard.files.battle_tables import Progress, models_by_group
from tiltyard.files.column_parquet import write_columns
from tiltyard.report.board_page import render_page
from tiltyard.runs.battle_rating import RateSettings, rate_files
from tiltyard.runs.manifest import MANIFEST, MANIFEST_HASH, ManifestInput, RunManifest, file_hash, hash_line
from tiltyard.runs.rating_documents import bootstrap_columns, ratings_document, winrates_csv

__all__ = [
    "BATTLES",
    "BATTLE_LINES",
    "BOOTSTRAP",
    "MAX_BATTLE_LINES",
    "RATINGS",
    "REPORT",
    "WINRATES",
    "WrittenRun",
    "evaluated_models",
    "render_report",
    "write_run",
]

BATTLES = "battles.parquet"
RATINGS = "elo_ratings.json"
BOOTSTRAP = "bootstrap_ratings.parquet"
WINRATES = "pairwise_winrates.csv"
REPORT = "report.html"
BATTLE_LINES = "battles.jsonl"
#: The largest number of battles that are also written as JSON Lines by default.
MAX_BATTLE_LINES = 1_000_000


@dataclass(frozen=True)
class WrittenRun:
    """The rated groups, and the reason why no JSON Lines file was written (empty if it was)."""

    groups: list[RatedGroup]
    without_lines: str = ""


def write_run(
    out: Path,
    sources: Sequence[BattleSource],
    settings: RateSettings,
    *,
    lines: bool = False,
    progress: Progress | None = None,
) -> WrittenRun:
    """Copy the battles to a folder, rate them from there, and write all other files.

    An earlier run in ``out`` is replaced; a folder with any other content is rejected. The
    battles are also written as JSON Lines if they are at most a million or ``lines`` is set.
    """
    try:
        _refuse_foreign(out)
        place = out.resolve()
        place.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(prefix=f".{place.name}.", dir=place.parent) as workshop:
            draft = Path(workshop) / "new"
            draft.mkdir()
            run = _write_draft(draft, sources, settings, lines, progress)
            _put(draft, place, Path(workshop) / "old")
    except OSError as error:
        raise BadOption(f"cannot write {out}: {error.strerror or error}") from None
    return run


def _write_draft(
    draft: Path,
    sources: Sequence[BattleSource],
    settings: RateSettings,
    lines: bool,
    progress: Progress | None,
) -> WrittenRun:
    copied = copy_battles(draft / BATTLES, sources, settings.style)
    groups = rate_files([copied], settings, checks=True, progress=progress)
    evaluated = evaluated_models(copied, settings)
    _write_documents(draft, groups, settings, evaluated)
    without_lines = _write_lines(draft / BATTLE_LINES, copied, lines)
    _write_manifest(draft, settings, [_input(source) for source in sources], evaluated)
    return WrittenRun(groups, without_lines)


def _write_lines(path: Path, copied: BattleSource, wanted: bool) -> str:
    """Write the battles as JSON Lines; return the reason if they were not written.

    A column may contain values that JSON cannot represent, such as bytes: this is an error only if
    JSON Lines were requested.
    """
    rows = copied.rows or 0
    if rows > MAX_BATTLE_LINES and not wanted:
        return f"{rows:,} battles are more than {MAX_BATTLE_LINES:,}; --jsonl writes it"
    try:
        write_battles(path, copied.battles())
    except BadBattle as error:
        if wanted:
            raise
        return str(error)
    return ""


def _put(draft: Path, place: Path, old: Path) -> None:
    """Move the draft to its place; an earlier run is moved to ``old``, and restored if that fails."""
    earlier = place.exists()
    if earlier:
        place.replace(old)
    try:
        draft.replace(place)
    except BaseException:
        if earlier:
            old.replace(place)
        raise


def _refuse_foreign(out: Path) -> None:
    if out.exists() and not out.is_dir():
        raise BadOption(f"--out {out} is a file; name a folder")
    if out.is_dir() and any(out.iterdir()) and not (out / MANIFEST).is_file():
        raise BadOption(f"--out {out} contains other files; name a new folder, or one of an earlier run")


def evaluated_models(copied: BattleSource, settings: RateSettings) -> frozenset[str]:
    """The model under test or, if none is set, every model that no person has judged."""
    if settings.model is not None:
        return frozenset({settings.model})
    models = models_by_group([copied], "source")
    by_people = frozenset().union(*(names for source, names in models.items() if source != "llm-judge"))
    return frozenset().union(*models.values()) - by_people


def _write_documents(
    folder: Path, groups: Sequence[RatedGroup], settings: RateSettings, evaluated: frozenset[str]
) -> None:
    document = ratings_document(groups, settings, evaluated)
    (folder / RATINGS).write_bytes(_json(document))
    (folder / WINRATES).write_bytes(winrates_csv(groups).encode())
    if settings.n_bootstraps:
        write_columns(folder / BOOTSTRAP, bootstrap_columns(groups))
    (folder / REPORT).write_bytes(render_report(groups, settings).encode())


def render_report(groups: Sequence[RatedGroup], settings: RateSettings) -> str:
    """Render the report: a pure function of the rated groups."""
    title = settings.arena or "Ratings"
    return render_page(title, groups)


def _input(source: BattleSource) -> ManifestInput:
    path = Path(source.path)
    return ManifestInput(
        path=source.path, format=source.format, sha256=file_hash(path) if path.is_file() else None
    )


def _write_manifest(
    folder: Path, settings: RateSettings, inputs: list[ManifestInput], evaluated: frozenset[str]
) -> None:
    files = {path.name: file_hash(path) for path in sorted(folder.iterdir())}
    created = datetime.now(UTC).isoformat(timespec="seconds")
    manifest = RunManifest.of(settings, created_at=created, inputs=inputs, evaluated=evaluated, files=files)
    (folder / MANIFEST).write_bytes(_json(manifest.model_dump(mode="json")))
    (folder / MANIFEST_HASH).write_bytes(hash_line(folder))


def _json(document: dict[str, object]) -> bytes:
    return json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False).encode() + b"\n"
