"""Operators' changes to a running arena. Each change, its events and its audit entry are one transaction."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from typing import Any

from tiltyard.arena.accounts import validate_reason, write_audit_entry
from tiltyard.arena.content.answer_rows import validate_name
from tiltyard.arena.content.arenas import (
    Arena,
    change_arena,
    connect_to_arena,
    find_arena,
    find_model,
    find_prompt,
    lock_arena,
    read_log_head,
    read_policy,
    require_live,
)
from tiltyard.arena.content.blob_store import BlobStore
from tiltyard.arena.content.model_details import write_model_details
from tiltyard.arena.live.live_arena import (
    DEFAULT_CATEGORIES,
    EntrantChanges,
    NewEntrant,
    live_settings,
    make_live_arena,
    sync_entrants,
)
from tiltyard.arena.log.buckets import fetch_row, fetch_rows
from tiltyard.arena.log.event_log import LogBatch, LogKind, append_batch
from tiltyard.arena.operators.invitations import InvitationTerms, invite
from tiltyard.core.policy.state.policy import Policy
from tiltyard.core.policy.state.rating_fold import RaterSettings, method_from_dict
from tiltyard.core.policy.state.standing import Standing
from tiltyard.errors import BadOption, Conflict, NotFound, StoreFault
from tiltyard.foundation.field_definitions import definitions
from tiltyard.postgres.connections import Connection, ConnectionPool
from tiltyard.postgres.statements import statement
from tiltyard.settings.arena_settings import ArenaSettings
from tiltyard.wire.arenas import Withdrawn

_LOG = logging.getLogger(__name__)


async def change_settings(
    pool: ConnectionPool, arena: str, changed: Mapping[str, Any], *, title: str | None = None, actor: str
) -> Arena:
    """Change the given settings, and the title if given; return the arena."""
    async with pool.connection() as connection, connection.transaction():
        found = await lock_arena(connection, arena)
        settings = ArenaSettings.from_dict(found.settings.to_dict() | dict(changed))
        for name, definition in definitions(ArenaSettings).items():
            if definition.fixed and getattr(settings, name) != getattr(found.settings, name):
                raise BadOption(
                    f"{name} is no setting to be edited; it says {definition.meaning}", option=name
                )
        shown = found.title if title is None else validate_name("title", title)
        await change_arena(connection, found.arena, shown, settings)
        before, after = found.settings.to_dict(), settings.to_dict()
        different = {name: [before[name], after[name]] for name in after if before[name] != after[name]}
        if shown != found.title:
            different["title"] = [found.title, shown]
        about = {"title": shown, "settings": after, "changed": different}
        await write_audit_entry(connection, actor, "change settings", about, arena=found.arena)
    return replace(found, title=shown, settings=settings)


async def set_enabled(pool: ConnectionPool, arena: str, model: str, *, enabled: bool, actor: str) -> int:
    """Enable or retire a model; return the position of the event, or 0 if nothing changed.

    A retired model is no longer served. Its open matchups stay valid, and its battles count.
    """
    async with _changing(pool, arena, live=True) as (connection, batch):
        number, now = await find_model(connection, batch.arena, model)
        if now == enabled:
            return 0
        position = batch.add(LogKind.ENABLE if enabled else LogKind.RETIRE, a=number)
        switched = {"arena": batch.arena, "models": [number], "enabled": enabled}
        await connection.execute(statement("live_switch_entrants"), switched)
        action = "enable model" if enabled else "retire model"
        about = {"model": model, "enabled": [now, enabled]}
        await write_audit_entry(connection, actor, action, about, arena=batch.arena)
    return position


async def current_policy(pool: ConnectionPool, arena: str) -> Policy:
    return (await current_method(pool, arena))[0]


async def current_method(pool: ConnectionPool, arena: str) -> tuple[Policy, RaterSettings]:
    """The policy, and how votes are rated, which is decided when an arena is made."""
    async with connect_to_arena(pool, arena) as (connection, found):
        return method_from_dict(await read_policy(connection, found.arena))


async def set_policy(pool: ConnectionPool, arena: str, changed: Mapping[str, Any], *, actor: str) -> Policy:
    """Change fields of the ranking policy; applies from the next event.

    Fields that determine what an arena stores cannot change: `BadOption` names them.
    """
    async with _changing(pool, arena, live=True) as (connection, batch):
        method = await read_policy(connection, batch.arena)
        old, _ = method_from_dict(method)
        new = apply_policy_changes(old, changed)
        Standing(old, (), ()).under(new)
        if new != old:
            batch.add(LogKind.POLICY, detail={**method, "policy": asdict(new)})
            before, after = asdict(old), asdict(new)
            changes = {name: [before[name], after[name]] for name in before if before[name] != after[name]}
            await write_audit_entry(connection, actor, "change policy", changes, arena=batch.arena)
    return new


async def withdraw(
    pool: ConnectionPool,
    blobs: BlobStore,
    arena: str,
    prompt: str,
    model: str | None = None,
    *,
    reason: str,
    actor: str,
) -> Withdrawn:
    """Withdraw a model's response to a prompt; without a model, the prompt and all its responses.

    Their bytes and text are deleted; names, hashes and battles are kept. Open matchups that show them expire at
    once. Bytes that cannot be deleted now are deleted at the next withdrawal, or when this one is repeated.
    """
    validate_reason(reason)
    async with _taking_down(pool, arena, prompt, model) as (connection, batch, number, by, seen):
        taken = await _take_down(connection, batch, number, by, seen)
        if taken is not None:
            responses, ended = taken
            about = {
                "prompt": prompt,
                "model": model,
                "responses": len(responses),
                "reason": reason,
                "withdrawn": [False, True],
            }
            await write_audit_entry(connection, actor, "withdraw", about, arena=batch.arena)
    blobs.forget(() if taken is None else responses)
    try:
        await blobs.sweep()
    except StoreFault as error:
        # The withdrawal remains in effect.
        _LOG.warning("bytes of withdrawn responses were not removed yet; withdraw again to retry: %s", error)
    if taken is None:
        what = f"prompt {prompt!r}" if by is None else f"a live response of {model!r} to {prompt!r}"
        raise Conflict(f"there is no {what}; it was withdrawn already, or never existed")
    return Withdrawn(len(responses), ended, batch.head)


async def hide(
    pool: ConnectionPool, blobs: BlobStore, arena: str, prompt: str, model: str | None = None, *, actor: str
) -> int:
    """Hide a model's response to a prompt, or all responses to it; return how many.

    They are served no more, and open matchups that show them end at once. Their bytes stay: `show_again` undoes it.
    """
    async with _taking_down(pool, arena, prompt, model) as (connection, batch, number, by, seen):
        responses = await _withdraw_responses(connection, batch, number, by, hide=True)
        if not responses:
            raise Conflict(f"there is no response to {prompt!r} that could be hidden")
        await _end_shown(connection, batch, number, responses, seen)
        about = {"prompt": prompt, "model": model, "responses": len(responses), "hidden": [False, True]}
        await write_audit_entry(connection, actor, "hide", about, arena=batch.arena)
    blobs.forget(response for response, _ in responses)
    return len(responses)


async def show_again(
    pool: ConnectionPool, arena: str, prompt: str, model: str | None = None, *, actor: str
) -> int:
    """Serve hidden responses again: one model's, or all to a prompt; return how many."""
    async with _changing(pool, arena) as (connection, batch):
        number, withdrawn = await find_prompt(connection, batch.arena, prompt)
        by = None if model is None else (await find_model(connection, batch.arena, model))[0]
        values = {"arena": batch.arena, "prompt": number, "model": by}
        responses = [] if withdrawn else sorted(await fetch_rows(connection, "takedowns_show", values))
        if not responses:
            raise Conflict(
                f"there is no hidden response to {prompt!r} that could be shown; it may have been replaced"
            )
        for response, whose in responses:
            batch.add(LogKind.RESPOND, a=whose, prompt=number, serial=response)
        about = {"prompt": prompt, "model": model, "responses": len(responses), "hidden": [True, False]}
        await write_audit_entry(connection, actor, "show again", about, arena=batch.arena)
    return len(responses)


@asynccontextmanager
async def _taking_down(
    pool: ConnectionPool, arena: str, prompt: str, model: str | None
) -> AsyncIterator[tuple[Connection, LogBatch, int, int | None, SeenMatchups]]:
    """A batch under the arena's lock; the numbers of the prompt and of the model; and matchups that were open before.

    Raise `Conflict` for a live arena: its prompts are categories, and its responses stand for models.
    """
    async with connect_to_arena(pool, arena) as (connection, found):
        number, _ = await find_prompt(connection, found.arena, prompt)
        by = None if model is None else (await find_model(connection, found.arena, model))[0]
        if found.settings.is_live:
            raise Conflict(
                f"in the arena {found.name} models answer live: there is no stored response to withdraw or hide; retire"
                " the model, or erase what a voter wrote"
            )
        seen = await find_open_matchups(connection, found.arena, number, by)
        async with append_batch(connection, found.arena) as batch:
            yield connection, batch, number, by, seen


async def _take_down(
    connection: Connection, batch: LogBatch, prompt: int, model: int | None, seen: SeenMatchups
) -> tuple[list[int], int] | None:
    """Withdraw responses and expire the open matchups that show them; ``None`` if there is nothing to withdraw.

    Returns the numbers of the responses, and how many matchups expired.
    """
    responses = await _withdraw_responses(connection, batch, prompt, model)
    values = {"arena": batch.arena, "prompt": prompt, "model": model, "at": batch.now}
    hidden = sorted(response for (response,) in await fetch_rows(connection, "takedowns_hidden", values))
    if model is None:
        # The text goes; name and hash stay.
        if await fetch_row(connection, "takedowns_prompt", values) is None:
            return None
    elif not responses and not hidden:
        return None
    ended = await _end_shown(connection, batch, prompt, responses, seen)
    return [*(response for response, _ in responses), *hidden], ended


async def _end_shown(
    connection: Connection,
    batch: LogBatch,
    prompt: int,
    responses: Sequence[tuple[int, int]],
    seen: SeenMatchups,
) -> int:
    """Log that responses are gone, and end the open matchups that show them; return how many these are."""
    numbers = [response for response, _ in responses]
    shown = await open_matchups_with(connection, batch.arena, numbers, seen, batch.now)
    for one in shown:
        kind = LogKind.RELEASED if one.unseen else LogKind.EXPIRE
        batch.end(kind, one.source, one.serial, session=one.session, ballot=one.ballot)
    for _, by in responses:
        batch.add(LogKind.WITHDRAW, a=by, prompt=prompt)
    return len(shown)


@asynccontextmanager
async def _changing(
    pool: ConnectionPool, arena: str, *, live: bool = False
) -> AsyncIterator[tuple[Connection, LogBatch]]:
    """A batch under the arena's lock. With ``live``, not if the arena is archived or going to be deleted."""
    async with connect_to_arena(pool, arena) as (connection, found):
        if live:
            require_live(found)
        async with append_batch(connection, found.arena) as batch:
            yield connection, batch


def apply_policy_changes(old: Policy, changed: Mapping[str, Any]) -> Policy:
    """The policy with changed values, which may come from JSON."""
    known = definitions(Policy)
    if unknown := sorted(changed.keys() - known.keys()):
        raise BadOption(
            f"unknown policy fields: {', '.join(unknown)}; expected some of {', '.join(sorted(known))}"
        )
    given: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in changed.items()
    }
    for name, value in given.items():
        known[name].check(value)
        if known[name].kind is float:
            given[name] = float(value)
    return replace(old, **given)


#: People whom the first link of an arena lets in.
_FIRST_LINK_VOTERS = 100


@dataclass(frozen=True, slots=True)
class LiveArenaRequest:
    name: str
    entrants: Sequence[NewEntrant]
    #: For a new arena. Categories of one that exists do not change.
    categories: Sequence[str] = ()
    #: The most that calls may cost in total, in dollars; ``None`` to leave it as it is.
    budget: float | None = None


@dataclass(frozen=True, slots=True)
class LiveSetup:
    arena: str
    #: What became of the entrants; ``None`` for a new arena.
    changes: EntrantChanges | None
    settings: ArenaSettings
    #: The code of an invitation link, for a new arena; it is not shown again.
    code: str | None = None


async def set_up_live_arena(
    pool: ConnectionPool, blobs: BlobStore, asked: LiveArenaRequest, *, shard: int, actor: str = "cli"
) -> LiveSetup:
    """Make a live arena and an invitation link; or, if it exists, make its entrants and its budget those asked for."""
    try:
        found = await find_arena(pool, asked.name)
    except NotFound:
        settings = (
            live_settings() if asked.budget is None else live_settings(live_budget_dollars=asked.budget)
        )
        categories = asked.categories or DEFAULT_CATEGORIES
        await make_live_arena(
            pool, blobs, asked.name, asked.entrants, settings=settings, categories=categories, actor=actor
        )
        terms = InvitationTerms("first link", _FIRST_LINK_VOTERS)
        code, _ = await invite(pool, asked.name, terms, shard=shard, actor=actor)
        return LiveSetup(asked.name, None, settings, code)
    if asked.categories:
        raise BadOption(f"the arena {asked.name} exists; its categories were named when it was made")
    changes = await sync_entrants(pool, blobs, asked.name, asked.entrants, actor=actor)
    if asked.budget is not None and asked.budget != found.settings.live_budget_dollars:
        await change_settings(pool, asked.name, {"live_budget_dollars": asked.budget}, actor=actor)
    return LiveSetup(asked.name, changes, found.settings)


async def describe_models(
    pool: ConnectionPool, arena: str, texts: Mapping[str, Mapping[str, str]], *, actor: str
) -> int:
    """Change what is said about models, all or none; return how many changed.

    ``texts`` has the fields to change by model. Models are locked in the order of their names, so that two operators
    who import at once do not wait for each other in a circle.
    """
    changes = 0
    async with pool.connection() as connection, connection.transaction():
        found = await find_arena(connection, arena)
        for model in sorted(texts):
            changed = await write_model_details(connection, found.arena, model, texts[model])
            if changed:
                changes += 1
                about = {"model": model, "changed": changed}
                await write_audit_entry(connection, actor, "describe model", about, arena=found.arena)
    return changes


@dataclass(frozen=True, slots=True)
class ShownMatchup:
    """An open matchup that shows a response."""

    source: int
    serial: int
    session: int
    a: int
    b: int
    prompt: int
    ballot: int
    #: Whether it was prefetched and has not been shown.
    unseen: bool


@dataclass(frozen=True, slots=True)
class SeenMatchups:
    """Matchups, by source and serial, that were open at a position of the log."""

    upto: int
    matchups: tuple[tuple[int, int], ...]


async def _withdraw_responses(
    connection: Connection, batch: LogBatch, prompt: int, model: int | None, *, hide: bool = False
) -> list[tuple[int, int]]:
    """Withdraw the responses to a prompt, all or one model's; return their numbers and models.

    Those that are only hidden keep their bytes and can be shown again.
    """
    values = {"arena": batch.arena, "prompt": prompt, "model": model, "at": batch.now, "hide": hide}
    return sorted(await fetch_rows(connection, "takedowns_responses", values))


async def find_open_matchups(
    connection: Connection, arena: int, prompt: int, model: int | None
) -> SeenMatchups:
    """Open matchups on a prompt, all or one model's, found without the arena's lock."""
    upto = await read_log_head(connection, arena)
    values = {"arena": arena, "prompt": prompt, "model": model, "upto": upto}
    found = await fetch_rows(connection, "takedowns_open", values)
    return SeenMatchups(upto, tuple((int(source), int(serial)) for source, serial in found))


async def open_matchups_with(
    connection: Connection, arena: int, responses: Sequence[int], seen: SeenMatchups, now: datetime
) -> list[ShownMatchup]:
    """Open matchups that show any of these responses: of those in ``seen``, and those served since.

    Call it under the arena's lock.
    """
    values = {
        "arena": arena,
        "responses": list(responses),
        "sources": [source for source, _ in seen.matchups],
        "serials": [serial for _, serial in seen.matchups],
        "after": seen.upto,
        "now": now,
    }
    found = await fetch_rows(connection, "takedowns_shown", values)
    return [ShownMatchup(*each) for each in found]
