"""Live arenas from a file of models: categories instead of prompts, and an empty response of each model in each.

What a model answers is generated for every battle; the empty responses are there so that the ranking policy can choose
a pair as in every other arena. They are shown nowhere.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from psycopg.types.json import Jsonb

from tiltyard.arena.accounts import write_audit_entry
from tiltyard.arena.content.answer_import import create_arena
from tiltyard.arena.content.answer_rows import validate_name
from tiltyard.arena.content.arenas import (
    Arena,
    NewResponse,
    PromptKey,
    add_models,
    add_prompts,
    add_responses,
    find_arena,
    find_model,
    list_models,
    list_prompts,
    read_size,
    require_live,
)
from tiltyard.arena.content.blob_store import BlobStore
from tiltyard.arena.content.model_details import write_model_details
from tiltyard.arena.live.live_records import ADDED_MARK, StoredEntrant
from tiltyard.arena.log.buckets import fetch_rows
from tiltyard.arena.log.event_log import LogBatch, LogKind, append_batch
from tiltyard.core.policy.state.policy import Policy
from tiltyard.errors import BadConfig, Conflict
from tiltyard.postgres.connections import Connection, ConnectionPool
from tiltyard.postgres.statements import statement
from tiltyard.settings.arena_settings import ArenaSettings
from tiltyard.settings.config_section import validate_section
from tiltyard.settings.live_models import LiveEntrant, LiveModel, LiveModels
from tiltyard.settings.yaml_file import YamlFile

#: The categories of an arena whose operator names none.
DEFAULT_CATEGORIES = ("any",)
_CATEGORY_LIMIT = 100
#: Picodollars for a token, per dollar for a million tokens.
_TOKEN_PICODOLLARS_RATIO = 1_000_000


@dataclass(frozen=True, slots=True)
class NewEntrant:
    """A model of the models file, as it is stored."""

    name: str
    version: str
    #: Its section of the file, without its name; it contains no keys.
    config: Mapping[str, Any]
    #: What is said about it beside its ratings.
    details: Mapping[str, str]
    priced: bool = True


@dataclass(frozen=True, slots=True)
class EntrantChanges:
    """What became of the entrants of an arena: names of models."""

    added: tuple[str, ...] = ()
    #: New models of entrants that were there in another version.
    changed: tuple[str, ...] = ()
    retired: tuple[str, ...] = ()
    #: Models that were retired and are served again.
    enabled: tuple[str, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether nothing changed."""
        return not (self.added or self.changed or self.retired or self.enabled)


def read_entrants(models: LiveModels) -> list[NewEntrant]:
    """The models of a file; `BadConfig` for what a model is known not to accept."""
    entrants = models.entrants()
    return [_new_entrant(models, number, one) for number, one in enumerate(entrants)]


def describe_entrant(section: Mapping[str, Any]) -> NewEntrant:
    """A model as an operator describes it in a form; `BadConfig` for what cannot be."""
    validate_section(LiveModel, YamlFile("form", dict(section), {(): 1}), {})
    new = read_entrants(LiveModels.of_one(section))[0]
    return replace(new, config={**new.config, ADDED_MARK: True})


def live_settings(**stated: Any) -> ArenaSettings:
    """Settings of a live arena: by invitation, with names after each vote, unless something else is stated."""
    return ArenaSettings.from_dict({"kind": "live", "reveal": "vote", "entry": "invitation", **stated})


async def make_live_arena(
    pool: ConnectionPool,
    blobs: BlobStore,
    name: str,
    entrants: Sequence[NewEntrant],
    *,
    settings: ArenaSettings | None = None,
    categories: Sequence[str] = DEFAULT_CATEGORIES,
    actor: str = "cli",
) -> Arena:
    """A new live arena with these categories and entrants."""
    settings = replace(settings or live_settings(), kind="live")
    for one in categories:
        validate_name("category", one)
    if not 1 <= len(categories) <= _CATEGORY_LIMIT or len(set(categories)) < len(categories):
        raise BadConfig(f"a live arena needs 1 to {_CATEGORY_LIMIT} categories, each named once")
    _check_prices(entrants, settings)
    made = await create_arena(pool, name, settings=settings, policy=Policy(free_prompts=True), actor=actor)
    async with pool.connection() as connection, append_batch(connection, made.arena) as batch:
        prompts = [
            PromptKey(number, one, hashlib.sha256(one.encode()).digest(), one, None, text=one)
            for number, one in enumerate(categories)
        ]
        await add_prompts(connection, made.arena, prompts)
        batch.add(LogKind.WIDEN, a=0, prompt=len(prompts))
    await sync_entrants(pool, blobs, name, entrants, actor=actor)
    return made


async def sync_entrants(
    pool: ConnectionPool,
    blobs: BlobStore,
    arena: str,
    entrants: Sequence[NewEntrant],
    *,
    keep: bool = False,
    actor: str = "cli",
) -> EntrantChanges:
    """Make the entrants of a live arena those of a file; once only, however often it is repeated.

    An entrant that is new, or that changed, is a new model; the model of its former version is retired. With ``keep``
    others stay; else models that the file does not name are retired, except those that were added in a browser. All of
    it is one transaction.
    """
    (empty,) = await blobs.put_many([b""])
    async with pool.connection() as connection:
        found = await find_arena(connection, arena)
        if not found.settings.is_live:
            raise Conflict(f"the arena {arena} compares stored responses; a live arena needs another name")
        require_live(found)
        _check_prices(entrants, found.settings)
        await blobs.hold(connection)
        async with append_batch(connection, found.arena) as batch:
            await blobs.check(connection, {empty})
            sync = await _plan_sync(connection, found.arena, entrants, keep=keep)
            await sync.write(batch, empty)
            changes = sync.changes
            if not changes.is_empty:
                about = {
                    "models": [len(sync.names), len(sync.names) + len(sync.new)],
                    "added": list(changes.added),
                    "new versions": list(changes.changed),
                    "retired": list(changes.retired),
                    "enabled": list(changes.enabled),
                }
                await write_audit_entry(connection, actor, "change entrants", about, arena=found.arena)
    return changes


async def pause_entrant(pool: ConnectionPool, arena: str, model: str, *, paused: bool, actor: str) -> bool:
    """Do not ask a model, or ask it again; the board does not change. Return whether it was otherwise before."""
    async with pool.connection() as connection, connection.transaction():
        found = await find_arena(connection, arena)
        require_live(found)
        number, _ = await find_model(connection, found.arena, model)
        values = {"arena": found.arena, "model": number, "paused": paused}
        changed = bool(await fetch_rows(connection, "live_pause_entrant", values))
        if changed:
            action = "pause model" if paused else "resume model"
            about = {"model": model, "paused": [not paused, paused]}
            await write_audit_entry(connection, actor, action, about, arena=found.arena)
    return changed


@dataclass(frozen=True, slots=True)
class _EntrantSync:
    """What has to be done so that the entrants are those of a file."""

    connection: Connection
    arena: int
    #: Names of models that an arena has, by number.
    names: tuple[str, ...]
    #: Categories that were not withdrawn, and how many there ever were.
    categories: tuple[int, ...]
    n_prompts: int
    #: New versions, with the names of their models; these are numbered from the end of `names`.
    new: tuple[tuple[NewEntrant, str], ...]
    #: Models that stay, with what the file says of them now.
    kept: tuple[tuple[StoredEntrant, NewEntrant], ...]
    retired: tuple[StoredEntrant, ...]

    @property
    def changes(self) -> EntrantChanges:
        """What an operator is told."""
        known = {one.name for one in (*self.retired, *(stored for stored, _ in self.kept))}
        return EntrantChanges(
            added=tuple(name for one, name in self.new if one.name not in known),
            changed=tuple(name for one, name in self.new if one.name in known),
            retired=tuple(self.names[one.model] for one in self.retired),
            enabled=tuple(self.names[one.model] for one, _ in self.kept if not one.enabled),
        )

    async def write(self, batch: LogBatch, empty: bytes) -> None:
        numbers = await self._add_models(batch, empty)
        for stored, stated in self.kept:
            await self._execute(
                "live_describe_entrant", model=stored.model, config=Jsonb(dict(stated.config))
            )
            await write_model_details(
                self.connection, self.arena, self.names[stored.model], dict(stated.details)
            )
        enabled = [stored.model for stored, _ in self.kept if not stored.enabled]
        await self._switch(batch, LogKind.ENABLE, [*numbers, *enabled])
        await self._switch(batch, LogKind.RETIRE, [stored.model for stored in self.retired])

    async def _add_models(self, batch: LogBatch, empty: bytes) -> list[int]:
        if not self.new:
            return []
        first = len(self.names)
        numbers = list(range(first, first + len(self.new)))
        await add_models(self.connection, self.arena, first, [name for _, name in self.new])
        batch.add(LogKind.WIDEN, a=first + len(self.new), prompt=self.n_prompts)
        cells = [
            NewResponse(model, category, "text", "text/plain; charset=utf-8", empty, 0)
            for model in numbers
            for category in self.categories
        ]
        for response, model, category in await add_responses(self.connection, self.arena, cells):
            batch.add(LogKind.RESPOND, a=model, prompt=category, serial=response)
        await self._execute(
            "live_add_entrants",
            model=numbers,
            name=[one.name for one, _ in self.new],
            version=[one.version for one, _ in self.new],
            config=[Jsonb(dict(one.config)) for one, _ in self.new],
        )
        for one, name in self.new:
            await write_model_details(self.connection, self.arena, name, dict(one.details))
        return numbers

    async def _switch(self, batch: LogBatch, kind: LogKind, models: list[int]) -> None:
        for model in models:
            batch.add(kind, a=model)
        if models:
            await self._execute("live_switch_entrants", models=models, enabled=kind == LogKind.ENABLE)

    async def _execute(self, named: str, /, **values: object) -> None:
        await self.connection.execute(statement(named), {"arena": self.arena, **values})


async def _plan_sync(
    connection: Connection, arena: int, entrants: Sequence[NewEntrant], *, keep: bool
) -> _EntrantSync:
    found = await fetch_rows(connection, "live_entrants", {"arena": arena})
    stored = [StoredEntrant(*row) for row in found]
    models = await list_models(connection, arena)
    served = {one.model: one.enabled for one in models}
    # What counts is the log: an operator may have retired a model by hand.
    stored = [replace(one, enabled=served[one.model]) for one in stored]
    _, n_categories = await read_size(connection, arena)
    prompts = await list_prompts(connection, arena, limit=n_categories)
    by_version = {(one.name, one.version): one for one in stored}
    names = [one.name for one in models]
    new, kept = [], []
    for one in entrants:
        known = by_version.get((one.name, one.version))
        if known is None:
            new.append((one, _free_name(one.name, names)))
            names.append(new[-1][1])
        else:
            kept.append((known, one))
    staying, stated = {known.model for known, _ in kept}, {one.name for one in entrants}
    return _EntrantSync(
        connection,
        arena,
        tuple(one.name for one in models),
        tuple(one.number for one in prompts if one.withdrawn_at is None),
        n_categories,
        tuple(new),
        tuple(kept),
        tuple(
            one
            for one in stored
            if one.enabled
            and one.model not in staying
            and (one.name in stated or not (keep or ADDED_MARK in one.config))
        ),
    )


def _free_name(name: str, taken: Iterable[str]) -> str:
    """The name of a new model: that of its entrant, with a number behind it if there was another version."""
    known, number, free = set(taken), 1, name
    while free in known:
        number += 1
        free = f"{name} ({number})"
    return free


def _new_entrant(models: LiveModels, number: int, entrant: LiveEntrant) -> NewEntrant:
    section = models.models[number]
    config = section.model_dump(mode="json", exclude_unset=True, exclude={"name"})
    price = entrant.price
    if price is not None and section.price is None and models.prices is not None:
        # A price list of the file's own is not read again by the processes that ask the models.
        config["price"] = {"input": _dollars(price.input), "output": _dollars(price.output)}
    details = {
        name: str(value)
        for name in ("maker", "family", "licence", "link")
        if (value := getattr(entrant, name)) is not None
    }
    if entrant.open_weights is not None:
        details["open_weights"] = "yes" if entrant.open_weights else "no"
    if price is not None:
        details |= {"input_usd": f"{_dollars(price.input):g}", "output_usd": f"{_dollars(price.output):g}"}
    return NewEntrant(
        validate_name("name", entrant.name), entrant.version, config, details, priced=price is not None
    )


def _dollars(picodollars: int) -> float:
    """The price of a million tokens."""
    return picodollars / _TOKEN_PICODOLLARS_RATIO


def _check_prices(entrants: Sequence[NewEntrant], settings: ArenaSettings) -> None:
    unpriced = [one.name for one in entrants if not one.priced]
    if unpriced and settings.has_live_budget:
        raise BadConfig(
            f"the price of {', '.join(unpriced)} is unknown, and the arena has a budget; add to the models file: "
            "price: {input: …, output: …}"
        )
