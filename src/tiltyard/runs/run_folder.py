"""Writes a run folder atomically."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import cast

from tiltyard.core.board import RatedGroup
from tiltyard.errors import BadBattle, BadOption
from tiltyard.files import BattleSource
from tiltyard.files.battle_tables import Progress, copy_battles, models_by_group
from tiltyard.files.battle_writer import write_rows
from tiltyard.files.native_columns import ColumnReader
from tiltyard.files.parquet_tables import write_columns
from tiltyard.foundation.local_files import refuse_unwritable, replace_folder
from tiltyard.report.board_page import render_page
from tiltyard.report.methods_text import RunFacts
from tiltyard.runs.battle_rating import RateSettings, baseline_columns, rate_files
from tiltyard.runs.manifest import (
    BATTLE_LINES,
    BATTLES,
    BOOTSTRAP,
    MANIFEST,
    MANIFEST_HASH,
    PAIRS,
    RATINGS,
    REPORT,
    ManifestInput,
    RunManifest,
    file_hash,
    hash_line,
    json_bytes,
    run_identity,
)
from tiltyard.runs.rating_documents import (
    board_documents,
    bootstrap_columns,
    figure_documents,
    ratings_document,
    winrates_csv,
)

#: The largest number of battles that are also written as JSON Lines by default.
MAX_BATTLE_LINES = 1_000_000


@dataclass(frozen=True)
class WrittenRun:
    """The rated groups, the models under test, and why no JSON Lines file was written (empty if it was)."""

    groups: list[RatedGroup]
    evaluated: frozenset[str]
    without_lines: str = ""


def write_run(
    out: Path,
    sources: Sequence[BattleSource],
    settings: RateSettings,
    *,
    lines: bool = False,
    both_bad: str | None = None,
    progress: Progress | None = None,
) -> WrittenRun:
    """Copy the battles to a folder, rate them from there, and write all other files.

    An earlier run in ``out`` is replaced; a folder with any other content is rejected. The
    battles are also written as JSON Lines if they are at most a million or ``lines`` is set.
    ``both_bad`` is the spelling of that outcome, if not as in the sources.
    """
    with refuse_unwritable(out):
        if out.exists() and not out.is_dir():
            raise BadOption(f"--out {out} is a file; name a folder")
        if out.is_dir() and any(out.iterdir()) and not (out / MANIFEST).is_file():
            raise BadOption(f"--out {out} contains other files; name a new folder, or one of an earlier run")
        with replace_folder(out) as draft:
            wanted = dict.fromkeys((*settings.style, *baseline_columns(sources, settings)))
            copied = copy_battles(draft / BATTLES, sources, tuple(wanted), both_bad=both_bad)
            groups = rate_files([copied], settings, checks=True, progress=progress)
            evaluated = evaluated_models(copied, settings)
            document = ratings_document(groups, settings, evaluated)
            (draft / RATINGS).write_bytes(json_bytes(document))
            (draft / PAIRS).write_bytes(winrates_csv(groups).encode())
            if settings.n_bootstraps:
                write_columns(draft / BOOTSTRAP, bootstrap_columns(groups))
            texts = board_documents(groups) | figure_documents(groups)
            for name, text in texts.items():
                (draft / name).parent.mkdir(exist_ok=True)
                (draft / name).write_bytes(text.encode())
            (draft / REPORT).write_bytes(render_report(groups, settings, file_hash(draft / BATTLES)).encode())
            without_lines = _write_lines(draft / BATTLE_LINES, copied, lines)
            inputs = [one for source in sources for one in ManifestInput.of(source)]
            files = {name: file_hash(draft / name) for name in written_files(draft)}
            created = datetime.now(UTC).isoformat(timespec="seconds")
            manifest = RunManifest.of(
                settings, created_at=created, inputs=inputs, evaluated=evaluated, files=files
            )
            (draft / MANIFEST).write_bytes(json_bytes(manifest.model_dump(mode="json")))
            (draft / MANIFEST_HASH).write_bytes(hash_line(draft))
            run = WrittenRun(groups, evaluated, without_lines)
    return run


def _write_lines(path: Path, copied: BattleSource, wanted: bool) -> str:
    """Write the battles as JSON Lines; return the reason if they were not written.

    A column may contain values that JSON cannot represent, such as bytes: this is an error only if
    JSON Lines were requested.
    """
    rows = copied.rows or 0
    if rows > MAX_BATTLE_LINES and not wanted:
        return f"{rows:,} battles are more than {MAX_BATTLE_LINES:,}; --jsonl writes it"
    try:
        # One reader: the file was written a moment ago, by column.
        write_rows(path, cast("ColumnReader", copied.readers[0]).plain_rows())
    except BadBattle as error:
        if wanted:
            raise
        return str(error)
    return ""


def evaluated_models(copied: BattleSource, settings: RateSettings) -> frozenset[str]:
    """The model under test or, if none is set, every model that no person has judged."""
    if settings.model is not None:
        return frozenset({settings.model})
    models = models_by_group([copied], "source")
    by_people = frozenset().union(*(names for source, names in models.items() if source != "llm-judge"))
    return frozenset().union(*models.values()) - by_people


def render_report(groups: Sequence[RatedGroup], settings: RateSettings, battles_sha256: str) -> str:
    """Render the report: a pure function of the rated groups, the settings, and the hash of the file of battles."""
    facts = RunFacts(
        by=" and ".join(settings.groupings) or None,
        overlapping=settings.overlapping,
        style=settings.style,
        where=settings.where,
        battles_sha256=battles_sha256,
        identity=run_identity(settings, battles_sha256),
    )
    return render_page(settings.arena or "Ratings", groups, facts)


def written_files(folder: Path) -> list[str]:
    """The files and links of a folder and of the folders inside it, by their path in it."""
    found = (path for path in folder.rglob("*") if path.is_symlink() or not path.is_dir())
    return sorted(path.relative_to(folder).as_posix() for path in found)
