"""An arena in which named people label the drawn matches of a tournament: one panel, and one prompt for each match."""

from __future__ import annotations

import asyncio
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tiltyard.arena.content.answer_import import create_arena, import_answers
from tiltyard.arena.content.blob_store import BlobStore
from tiltyard.arena.operators.panel_records import read_panel
from tiltyard.arena.operators.panels import OpenedPanel, PanelTerms, open_panel
from tiltyard.core.judging.diagnostics.rater_agreement import RaterValue
from tiltyard.errors import BadOption
from tiltyard.files.answers import write_answers
from tiltyard.postgres.connections import ConnectionPool
from tiltyard.runs.judge_labels import LabelSheet, NamedLabel
from tiltyard.settings.arena_settings import ArenaSettings

LABEL_PANEL = "labels"


@dataclass(frozen=True, slots=True)
class LabelRaters:
    """Who labels, and how many of them each match."""

    names: tuple[str, ...]
    overlap: int


async def open_label_panel(
    pool: ConnectionPool, blobs: BlobStore, arena: str, sheet: LabelSheet, raters: LabelRaters, *, shard: int
) -> OpenedPanel:
    """Make an arena that serves exactly the drawn matches, and the links of its raters.

    Every match is a prompt of its own, so that its two models are the only pair there.
    """
    dimensions = sheet.run.manifest.dimensions
    if len(dimensions) > 1:
        raise BadOption(
            f"the run has {len(dimensions)} dimensions ({', '.join(dimensions)}), and an arena asks one question; let people "
            "fill in a sheet, which names the dimension of each match"
        )
    if not 1 <= raters.overlap <= (most := len(raters.names)):
        raise BadOption(f"--overlap is {raters.overlap}; expected 1 to {most}, the number of raters")
    terms = PanelTerms(LABEL_PANEL, raters.names, raters.overlap, seed=sheet.seed)
    title = f"Labels of {sheet.run.manifest.run_id}"
    await create_arena(pool, arena, title=title, settings=ArenaSettings(entry="invitation"))
    with tempfile.TemporaryDirectory() as folder:
        answers = Path(folder) / "answers.jsonl"
        await asyncio.to_thread(write_answers, answers, sheet.answers())
        await import_answers(pool, blobs, arena, answers)
    return await open_panel(pool, arena, terms, shard=shard, actor="cli")


async def read_label_panel(pool: ConnectionPool, arena: str) -> list[NamedLabel]:
    """What the raters of such an arena have said so far."""
    record = await read_panel(pool, arena, LABEL_PANEL)
    names = {rater.rater: rater.name for rater in record.raters}
    items = {item.item: item for item in record.items}
    labels = []
    for vote in record.cast():
        item = items[vote.item]
        better = {RaterValue.FIRST: item.model_a, RaterValue.SECOND: item.model_b}
        chosen = None if vote.value is None else better.get(vote.value)
        labels.append(NamedLabel(item.prompt, names[vote.rater], chosen))
    return labels
