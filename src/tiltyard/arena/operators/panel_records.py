"""What an expert panel has said: progress, agreement, disagreements, adjudications, the board and one table of everything.

All of it follows from the panel's assignment and the votes of its raters as they stand; nothing is kept.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from tiltyard.arena.accounts import validate_reason, write_audit_entry
from tiltyard.arena.content.arenas import find_arena
from tiltyard.arena.log.buckets import fetch_rows
from tiltyard.arena.log.event_log import LogKind
from tiltyard.arena.operators.panels import ExpertPanel, PanelRater, find_panel
from tiltyard.core.battles import Battle, Kind, Outcome, Table
from tiltyard.core.board.board_rows import Board
from tiltyard.core.judging.diagnostics.rater_agreement import (
    AgreementScale,
    RaterAgreement,
    RaterValue,
    RaterVotes,
    rater_agreement,
)
from tiltyard.core.judging.panel_assignment import PanelTask
from tiltyard.errors import Closed, NotFound
from tiltyard.files.parquet_tables import write_row_table
from tiltyard.postgres.connections import ConnectionPool
from tiltyard.postgres.statements import statement
from tiltyard.report.escapes import csv_text
from tiltyard.runs.battle_rating import RateSettings, rate_table

#: Columns of the table of everything, with their types.
PANEL_COLUMNS: Mapping[str, type] = {
    "item": int,
    "prompt": str,
    "category": str,
    "model_a": str,
    "model_b": str,
    "rater": str,
    "state": str,
    "vote": str,
    "left": str,
    "time": str,
    "blind": str,
    "tags": str,
    "remark": str,
    "adjudication": str,
    "adjudication_note": str,
    "adjudicated_by": str,
}
#: How files and commands spell what is said of an item.
VALUE_WORDS = {
    RaterValue.FIRST: "model_a",
    RaterValue.TIE: "tie",
    RaterValue.SECOND: "model_b",
    RaterValue.BOTH_BAD: "both_bad",
}


@dataclass(frozen=True, slots=True)
class Adjudication:
    """What a senior rater said of an item: a record beside the votes."""

    verdict: RaterValue
    note: str
    actor: str
    made_at: datetime


@dataclass(frozen=True, slots=True)
class PanelItemRecord:
    """An item by name. ``model_a`` is the model with the lower number, whatever side it was on."""

    item: int
    prompt_number: int
    prompt: str
    category: str | None
    model_a: str
    model_b: str
    adjudication: Adjudication | None


@dataclass(frozen=True, slots=True)
class PanelVote:
    """What a rater said of an item; ``value`` is ``None`` for a skip."""

    item: int
    rater: int
    value: RaterValue | None
    at: datetime
    blind: bool
    tags: tuple[str, ...]
    comment: str | None


@dataclass(frozen=True, slots=True)
class PanelRecord:
    panel: ExpertPanel
    raters: tuple[PanelRater, ...]
    items: tuple[PanelItemRecord, ...]
    tasks: tuple[PanelTask, ...]
    #: The last word of each rater on each item.
    votes: Mapping[tuple[int, int], PanelVote]

    def cast(self) -> Iterator[PanelVote]:
        """The votes, without skips, in the order of items and raters."""
        for task in self.tasks:
            vote = self.votes.get((task.item, task.rater))
            if vote is not None and vote.value is not None:
                yield vote


@dataclass(frozen=True, slots=True)
class PanelProgress:
    """How far a rater is."""

    rater: PanelRater
    tasks: int
    voted: int
    skipped: int
    last_at: datetime | None

    @property
    def left(self) -> int:
        return self.tasks - self.voted - self.skipped


@dataclass(frozen=True, slots=True)
class OwnTask:
    """An item in a rater's own list. ``names`` are those of both models, once they may be told."""

    number: int
    prompt: str
    state: str
    value: RaterValue | None
    names: tuple[str, str] | None


@dataclass(frozen=True, slots=True)
class OwnList:
    """What a rater sees of a panel."""

    panel: ExpertPanel
    progress: PanelProgress
    tasks: tuple[OwnTask, ...]
    agreement: RaterAgreement | None


class AgreementRow(NamedTuple):
    """Agreement of a part of the panel: of ``all``, or by ``rater``, ``category`` or ``model``."""

    scope: str
    name: str
    found: RaterAgreement


async def read_panel(pool: ConnectionPool, arena: str, name: str) -> PanelRecord:
    """Read a panel and everything that its raters said."""
    async with pool.connection() as connection:
        panel, raters = await find_panel(connection, await find_arena(connection, arena), name)
        values = {"arena": panel.arena, "panel": panel.panel}
        items = await fetch_rows(connection, "panels_items", values)
        tasks = await fetch_rows(connection, "panels_tasks", values)
        rows = await fetch_rows(connection, "panels_votes", values)
    votes: dict[tuple[int, int], PanelVote] = {}
    for item, rater, kind, straight, outcome, at, blind, tags, comment in rows:
        value = _value_of(Kind(outcome), straight=straight) if kind == LogKind.VOTE else None
        votes[item, rater] = PanelVote(item, rater, value, at, blind, tuple(tags), comment)
    return PanelRecord(
        panel,
        raters,
        tuple(_item_record(*row) for row in items),
        tuple(PanelTask(*row) for row in tasks),
        votes,
    )


def _item_record(*row: Any) -> PanelItemRecord:
    item, prompt_number, prompt, category, model_a, model_b, verdict, *said = row
    adjudication = None if verdict is None else Adjudication(RaterValue(verdict), *said)
    return PanelItemRecord(item, prompt_number, prompt, category, model_a, model_b, adjudication)


def _value_of(kind: Kind, *, straight: bool) -> RaterValue:
    if kind is Kind.TIE:
        return RaterValue.TIE
    if kind is Kind.BOTH_BAD:
        return RaterValue.BOTH_BAD
    return RaterValue.FIRST if (kind is Kind.WIN_A) == straight else RaterValue.SECOND


def panel_progress(record: PanelRecord) -> list[PanelProgress]:
    """How far each rater is."""
    tasks = Counter(task.rater for task in record.tasks)
    own: dict[int, list[PanelVote]] = {}
    for vote in record.votes.values():
        own.setdefault(vote.rater, []).append(vote)
    return [
        PanelProgress(
            rater,
            tasks[rater.rater],
            sum(vote.value is not None for vote in own.get(rater.rater, ())),
            sum(vote.value is None for vote in own.get(rater.rater, ())),
            max((vote.at for vote in own.get(rater.rater, ())), default=None),
        )
        for rater in record.raters
    ]


def agreement_rows(record: PanelRecord, scale: AgreementScale = AgreementScale.NOMINAL) -> list[AgreementRow]:
    """Agreement of all raters on all items, then by rater, category and model; of blind votes, as in ratings."""
    items = {one.item: one for one in record.items}
    cast = [vote for vote in record.cast() if vote.blind]
    said = [(vote.item, items[vote.item].prompt_number, vote.rater, vote.value) for vote in cast]
    votes = RaterVotes(*np.array(said, dtype=np.int64).reshape(-1, 4).T)
    rows = [AgreementRow("all", "", rater_agreement(votes, scale=scale))]
    rows += [
        AgreementRow("rater", rater.name, rater_agreement(votes, rater=rater.rater, scale=scale))
        for rater in record.raters
    ]
    categories = sorted({one.category for one in record.items if one.category is not None})
    models = sorted({name for one in record.items for name in (one.model_a, one.model_b)})
    parts = [("category", name) for name in categories] + [("model", name) for name in models]
    for scope, name in parts:
        own = (items[vote.item] for vote in cast)
        found = [
            name == one.category if scope == "category" else name in (one.model_a, one.model_b) for one in own
        ]
        mask = np.array(found, dtype=bool)
        rows.append(AgreementRow(scope, name, rater_agreement(votes.where(mask), scale=scale)))
    return rows


def find_disagreements(record: PanelRecord) -> list[tuple[PanelItemRecord, list[PanelVote]]]:
    """Items on which raters said different things, with their votes; those without an adjudication first."""
    votes: dict[int, list[PanelVote]] = {}
    for vote in record.cast():
        votes.setdefault(vote.item, []).append(vote)
    split = [
        (item, votes[item.item])
        for item in record.items
        if len({vote.value for vote in votes.get(item.item, ())}) > 1
    ]
    return sorted(split, key=lambda pair: (pair[0].adjudication is not None, pair[0].item))


def panel_board(record: PanelRecord) -> Board | None:
    """The board of a closed panel: its size was fixed beforehand, so that the ranges of fixed samples hold.

    ``None`` while it is open, because whoever may stop when the board pleases needs wider ranges; and without a vote
    that rates skill. Votes that are not blind are in no rating.
    """
    items, battles = {one.item: one for one in record.items}, []
    for vote in record.cast() if record.panel.closed_at is not None else ():
        item = items[vote.item]
        assert vote.value is not None
        if vote.blind:
            battle = Battle(
                model_a=item.model_a,
                model_b=item.model_b,
                winner=Outcome(VALUE_WORDS[vote.value]),
                question_id=item.prompt,
                category=item.category,
                voter=f"rater {vote.rater}",
            )
            battles.append(battle)
    if all(battle.winner is Outcome.BOTH_BAD for battle in battles):
        return None
    return rate_table(Table.from_battles(battles), RateSettings()).board


def panel_table(record: PanelRecord) -> list[dict[str, object]]:
    """One row for each task: who was asked about what, and what was said, with the adjudication of the item."""
    items = {one.item: one for one in record.items}
    names = {one.rater: one.name for one in record.raters}
    return [
        _row(items[task.item], task, names[task.rater], record.votes.get((task.item, task.rater)))
        for task in record.tasks
    ]


def _row(item: PanelItemRecord, task: PanelTask, rater: str, vote: PanelVote | None) -> dict[str, object]:
    said = item.adjudication
    state = "open" if vote is None else "skipped" if vote.value is None else "voted"
    return {
        "item": item.item,
        "prompt": item.prompt,
        "category": item.category,
        "model_a": item.model_a,
        "model_b": item.model_b,
        "rater": rater,
        "state": state,
        "vote": None if vote is None or vote.value is None else VALUE_WORDS[vote.value],
        "left": "model_b" if task.exchanged else "model_a",
        "time": None if vote is None else vote.at.isoformat(timespec="milliseconds"),
        "blind": None if vote is None or vote.value is None else "yes" if vote.blind else "no",
        "tags": None if vote is None or not vote.tags else " ".join(vote.tags),
        "remark": None if vote is None else vote.comment,
        "adjudication": None if said is None else VALUE_WORDS[said.verdict],
        "adjudication_note": None if said is None else said.note,
        "adjudicated_by": None if said is None else said.actor,
    }


def own_list(record: PanelRecord, rater: int) -> OwnList:
    """What one rater may see: the own list and progress; names and the own agreement when the panel is closed."""
    items = {one.item: one for one in record.items}
    told = record.panel.closed_at is not None
    tasks = []
    for task in sorted((one for one in record.tasks if one.rater == rater), key=lambda one: one.place):
        item, vote = items[task.item], record.votes.get((task.item, rater))
        names = (item.model_a, item.model_b) if told else None
        said = vote is not None and vote.value is not None
        state = "open" if vote is None else "voted" if said else "skipped"
        tasks.append(OwnTask(task.place + 1, item.prompt, state, vote.value if vote else None, names))
    progress = next(one for one in panel_progress(record) if one.rater.rater == rater)
    own = next(row.found for row in agreement_rows(record)[1:] if row.name == progress.rater.name)
    return OwnList(record.panel, progress, tuple(tasks), own if told else None)


async def adjudicate(
    pool: ConnectionPool, arena: str, name: str, item: int, verdict: RaterValue, note: str, *, actor: str
) -> None:
    """Record what a senior rater says of an item on which raters disagree. No vote and no rating changes."""
    validate_reason(note)
    record = await read_panel(pool, arena, name)
    if item not in {one.item for one in record.items}:
        raise NotFound(f"the panel {name!r} has no item {item}; the list of disagreements has their numbers")
    if item not in {one.item for one, _ in find_disagreements(record)}:
        raise Closed(f"raters do not disagree on item {item}; only disagreements are adjudicated")
    async with pool.connection() as connection, connection.transaction():
        values = {
            "panel": record.panel.panel,
            "item": item,
            "verdict": int(verdict),
            "note": note,
            "actor": actor,
        }
        await connection.execute(statement("panels_adjudicate"), values)
        before = next(one.adjudication for one in record.items if one.item == item)
        about = {
            "panel": name,
            "item": item,
            "verdict": [None if before is None else VALUE_WORDS[before.verdict], VALUE_WORDS[verdict]],
        }
        await write_audit_entry(connection, actor, "adjudicate", about, arena=record.panel.arena)


PanelFormat = Literal["csv", "parquet"]


def panel_file(record: PanelRecord, form: PanelFormat) -> bytes:
    """The bytes of the file. Names of raters are in it: it is for the operator."""
    rows = panel_table(record)
    if form == "parquet":
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "panel.parquet"
            write_row_table(path, PANEL_COLUMNS, rows)
            return path.read_bytes()
    return csv_text(PANEL_COLUMNS, ([row[name] for name in PANEL_COLUMNS] for row in rows)).encode()
