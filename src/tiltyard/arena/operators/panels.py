"""Expert panels: named raters who vote on the same items, so that their agreement can be measured.

A panel has a fixed size. Who is asked about what is decided once, from a seed that the log keeps; each rater has a
link of its own, and votes in one session on whatever device the link is opened.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from tiltyard.arena.accounts import new_session_number, write_audit_entry
from tiltyard.arena.content.answer_rows import validate_name
from tiltyard.arena.content.arenas import Arena, change_arena, connect_to_arena, list_models
from tiltyard.arena.log.buckets import fetch_one, fetch_row, fetch_rows
from tiltyard.arena.log.event_details import PanelDetail
from tiltyard.arena.log.event_log import LogKind, append_batch
from tiltyard.arena.operators.invitations import InvitationTerms, add_invitations
from tiltyard.core.judging.panel_assignment import (
    PANEL_RATER_LIMIT,
    PanelItem,
    PanelTask,
    assign_items,
    list_panel_items,
)
from tiltyard.errors import BadOption, Closed, Conflict, NotFound
from tiltyard.postgres.connections import Connection, ConnectionPool
from tiltyard.postgres.statements import statement

#: A rater's link opens on so many devices, and for so long.
_PANEL_LINK_USE_LIMIT = 100
_PANEL_LINK_DAYS = 365
#: Seeds are whole numbers that every JSON reader keeps exactly.
_SEED_LIMIT = 2**53


@dataclass(frozen=True, slots=True)
class PanelTerms:
    """What a panel is: its raters by name, which prompts, and how many raters vote on each item."""

    name: str
    raters: tuple[str, ...]
    overlap: int = 2
    #: Names of prompts, and of categories; all prompts if both are empty.
    prompts: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    #: ``None`` for all pairs of models.
    pairs_per_prompt: int | None = None
    #: Decides who is asked about what; a random one if not given.
    seed: int | None = None

    def __post_init__(self) -> None:
        validate_name("panel", self.name)
        for rater in self.raters:
            validate_name("rater", rater)
        if not 1 <= len(self.raters) <= PANEL_RATER_LIMIT:
            raise BadOption(f"the panel has {len(self.raters)} raters; expected 1 to {PANEL_RATER_LIMIT}")
        twice = sorted({rater for rater in self.raters if self.raters.count(rater) > 1})
        if twice:
            raise BadOption(f"the rater {twice[0]!r} is named twice; every rater needs a name of its own")
        if self.seed is not None and not 0 <= self.seed < _SEED_LIMIT:
            raise BadOption(f"seed is {self.seed}; expected a whole number from 0 to {_SEED_LIMIT - 1}")


@dataclass(frozen=True, slots=True)
class PanelRater:
    """A rater: the number in the panel, the name, and the session in which the rater votes."""

    rater: int
    name: str
    session: int
    invitation: int


@dataclass(frozen=True, slots=True)
class ExpertPanel:
    panel: int
    arena: int
    name: str
    overlap: int
    pairs_per_prompt: int | None
    seed: int
    opened_at: datetime
    opened: int
    closed_at: datetime | None
    closed: int | None
    items: int
    tasks: int


@dataclass(frozen=True, slots=True)
class OpenedPanel:
    """A new panel, and the code of each rater's link, which cannot be shown again."""

    panel: ExpertPanel
    raters: tuple[PanelRater, ...]
    codes: tuple[str, ...]


async def open_panel(
    pool: ConnectionPool, arena: str, terms: PanelTerms, *, shard: int, actor: str
) -> OpenedPanel:
    """Open a panel: assign its items, make the links, and let the arena reveal no names while it is open."""
    seed = secrets.randbelow(_SEED_LIMIT) if terms.seed is None else terms.seed
    async with connect_to_arena(pool, arena) as (connection, found):
        _check_entry(found)
        async with append_batch(connection, found.arena) as batch:
            if await _find(connection, found.arena, terms.name) is not None:
                raise Conflict(f"the arena {arena} has a panel {terms.name!r} already; choose another name")
            answered = await _answered_prompts(connection, found, terms)
            items = list_panel_items(answered, terms.pairs_per_prompt, seed)
            tasks = assign_items(items, len(terms.raters), terms.overlap, seed)
            raters, codes = await _make_links(connection, found, terms, shard, actor)
            number = await _store(connection, found, terms, seed, (batch.head + 1, batch.now))
            await _store_assignment(connection, number, raters, items, tasks)
            detail: PanelDetail = {
                "panel": number,
                "seed": seed,
                "overlap": terms.overlap,
                "pairs_per_prompt": terms.pairs_per_prompt,
                "prompts": sorted(answered),
                "models": sorted({model for models in answered.values() for model in models}),
                "sessions": [rater.session for rater in raters],
            }
            batch.add(LogKind.PANEL_OPENED, detail=detail)
            if found.settings.reveal != "never":
                await change_arena(
                    connection, found.arena, found.title, replace(found.settings, reveal="never")
                )
            about = {
                "panel": terms.name,
                "raters": len(raters),
                "items": len(items),
                "overlap": terms.overlap,
                "open": [False, True],
                "reveal": [found.settings.reveal, "never"],
            }
            await write_audit_entry(connection, actor, "open panel", about, arena=found.arena)
        panel = await _find(connection, found.arena, terms.name)
    assert panel is not None
    return OpenedPanel(panel, raters, codes)


async def close_panel(pool: ConnectionPool, arena: str, name: str, *, actor: str) -> ExpertPanel:
    """Close a panel for good: nobody votes in it any more, and its figures are final."""
    async with connect_to_arena(pool, arena) as (connection, found):
        async with append_batch(connection, found.arena) as batch:
            panel = await _require(connection, found, name)
            if panel.closed_at is not None:
                raise Closed(f"the panel {name!r} is closed already")
            values = {"panel": panel.panel, "at": batch.now, "position": batch.head + 1}
            await connection.execute(statement("panels_close"), values)
            batch.add(LogKind.PANEL_CLOSED, detail={"panel": panel.panel})
            about = {"panel": name, "closed_at": [None, batch.now.isoformat(timespec="seconds")]}
            # Names are told as before the panel, unless another one is open.
            row = await fetch_row(connection, "panels_reveal_after", {"panel": panel.panel})
            if row is not None and found.settings.reveal == "never" != row[0]:
                settings = replace(found.settings, reveal=row[0])
                await change_arena(connection, found.arena, found.title, settings)
                about["reveal"] = ["never", row[0]]
            await write_audit_entry(connection, actor, "close panel", about, arena=found.arena)
        return await _require(connection, found, name)


async def list_panels(pool: ConnectionPool, arena: str) -> list[ExpertPanel]:
    """All panels of an arena, oldest first."""
    async with connect_to_arena(pool, arena) as (connection, found):
        rows = await fetch_rows(connection, "panels_list", {"arena": found.arena, "name": None})
        return [ExpertPanel(*row) for row in rows]


async def find_panel(
    connection: Connection, arena: Arena, name: str
) -> tuple[ExpertPanel, tuple[PanelRater, ...]]:
    """A panel by name, and its raters; `NotFound` if the arena has none of this name."""
    panel = await _require(connection, arena, name)
    rows = await fetch_rows(connection, "panels_raters", {"panel": panel.panel})
    return panel, tuple(PanelRater(*row) for row in rows)


async def find_rater_by_invitation(pool: ConnectionPool, invitation: int) -> PanelRater | None:
    """The rater whose link has this number; ``None`` if it is a link of no panel."""
    row = await fetch_row(pool, "panels_rater_by_invitation", {"invitation": invitation})
    return None if row is None else PanelRater(*row)


async def find_rater_by_session(
    pool: ConnectionPool, arena: int, session: int
) -> tuple[str, PanelRater] | None:
    """The name of the panel that this session is a rater of, and the rater; ``None`` for other voters."""
    values = {"arena": arena, "session": session}
    row = await fetch_row(pool, "panels_rater_by_session", values)
    return None if row is None else (row[0], PanelRater(*row[1:]))


def _check_entry(arena: Arena) -> None:
    settings = arena.settings
    if settings.visibility == "closed" or settings.entry not in {"open", "invitation"}:
        raise Conflict(
            f"raters come in by their links, and the arena {arena.name} lets nobody in by a link; make it so:"
            f" tiltyard arena entry {arena.name} invitation"
        )


async def _answered_prompts(
    connection: Connection, arena: Arena, terms: PanelTerms
) -> dict[int, frozenset[int]]:
    values = {"arena": arena.arena}
    prompts = await fetch_rows(connection, "panels_prompts", values)
    cells = await fetch_rows(connection, "panels_cells", values)
    _check_known("prompt", terms.prompts, {name for _, name, _ in prompts})
    _check_known("category", terms.categories, {category for _, _, category in prompts})
    enabled = {model.model for model in await list_models(connection, arena.arena) if model.enabled}
    everything = not terms.prompts and not terms.categories
    answered = {}
    for number, name, category in prompts:
        if everything or name in terms.prompts or category in terms.categories:
            models = frozenset(model for model, prompt in cells if prompt == number and model in enabled)
            if len(models) > 1:
                answered[number] = models
    return answered


def _check_known(what: str, names: Sequence[str], known: set[str | None]) -> None:
    for name in names:
        if name not in known:
            raise NotFound(f"the arena has no {what} {name!r}; it must be spelled as on the page of prompts")


async def _make_links(
    connection: Connection, arena: Arena, terms: PanelTerms, shard: int, actor: str
) -> tuple[tuple[PanelRater, ...], tuple[str, ...]]:
    life = timedelta(days=_PANEL_LINK_DAYS)
    wanted = [InvitationTerms(terms.name, _PANEL_LINK_USE_LIMIT, life, rater) for rater in terms.raters]
    added = await add_invitations(connection, arena, wanted, shard=shard, actor=actor)
    raters = tuple(
        PanelRater(number, name, new_session_number(), made.invitation)
        for number, (name, (_, made)) in enumerate(zip(terms.raters, added, strict=True))
    )
    return raters, tuple(code for code, _ in added)


async def _store(
    connection: Connection, arena: Arena, terms: PanelTerms, seed: int, opened: tuple[int, datetime]
) -> int:
    values = {
        "arena": arena.arena,
        "reveal": arena.settings.reveal,
        "name": terms.name,
        "overlap": terms.overlap,
        "pairs": terms.pairs_per_prompt,
        "seed": seed,
        "position": opened[0],
        "at": opened[1],
    }
    row = await fetch_one(connection, "panels_add", values)
    return int(row[0])


async def _store_assignment(
    connection: Connection,
    panel: int,
    raters: Sequence[PanelRater],
    items: Sequence[PanelItem],
    tasks: Sequence[PanelTask],
) -> None:
    parts: tuple[tuple[str, Sequence[object], tuple[str, ...]], ...] = (
        ("panels_add_raters", raters, ("rater", "name", "session", "invitation")),
        ("panels_add_items", items, ("prompt", "one", "other")),
        ("panels_add_tasks", tasks, ("item", "rater", "place", "exchanged")),
    )
    for name, rows, columns in parts:
        values = {column: [getattr(one, column) for one in rows] for column in columns}
        await connection.execute(statement(name), {"panel": panel, **values})


async def _find(connection: Connection, arena: int, name: str) -> ExpertPanel | None:
    row = await fetch_row(connection, "panels_list", {"arena": arena, "name": name})
    return None if row is None else ExpertPanel(*row)


async def _require(connection: Connection, arena: Arena, name: str) -> ExpertPanel:
    panel = await _find(connection, arena.arena, name)
    if panel is None:
        raise NotFound(
            f"the arena {arena.name} has no panel {name!r}; list them: tiltyard arena panel list {arena.name}"
        )
    return panel
