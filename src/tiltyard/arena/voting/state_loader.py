"""An arena in memory, made from the newest checkpoint and what the log has after it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from itertools import groupby

from tiltyard.arena.log.event_log import SOURCES, LogKind, LogRow
from tiltyard.arena.log.log_connection import LogConnection
from tiltyard.arena.rating.checkpoints import newest_checkpoint
from tiltyard.arena.voting.arena_state import ArenaState
from tiltyard.core.policy.state.standing import Standing
from tiltyard.core.policy.validity.arena_fold import ArenaFold
from tiltyard.core.policy.validity.method_document import method_from_dict
from tiltyard.errors import StoreFault
from tiltyard.settings.arena_settings import ArenaSettings

__all__ = ["catch_up", "fold_rows", "load_arena_state"]

_ROSTER = (LogKind.ENABLE, LogKind.RETIRE, LogKind.RESPOND, LogKind.WITHDRAW)


async def load_arena_state(door: LogConnection, settings: ArenaSettings) -> ArenaState:
    """The arena as its log has it now."""
    async with door.connected() as connection:
        saved = await newest_checkpoint(connection, door.arena)
    if saved is None:
        live = await _from_the_start(door, settings)
    else:
        states = await asyncio.to_thread(_restored, saved.state)
        live = ArenaState(settings, states, saved.position)
    await _load_open_matchups(live, door)
    await catch_up(live, door)
    live.settle(*await door.clock())
    return live


async def catch_up(live: ArenaState, door: LogConnection) -> None:
    """Fold what the log has by now."""
    while rows := await door.tail(live.position):
        await fold_rows(live, door, rows)


async def fold_rows(live: ArenaState, door: LogConnection, rows: Iterable[LogRow]) -> None:
    """Fold rows, those of models and responses many at once, asking for names where the arena grew."""
    for roster, run in groupby(rows, lambda row: row.kind in _ROSTER):
        if roster:
            live.fold_roster(list(run))
            continue
        for row in run:
            if row.kind == LogKind.WIDEN:
                await _widen(live, door, row)
            else:
                live.fold(row)


async def _widen(live: ArenaState, door: LogConnection, row: LogRow) -> None:
    known = await door.roster()
    live.widen(known.models[: row.a], known.prompts[: row.prompt])
    live.position = row.position


def _restored(state: bytes) -> list[Standing]:
    return [following.standing for following in ArenaFold.restore_all(state)]


async def _from_the_start(door: LogConnection, settings: ArenaSettings) -> ArenaState:
    first = (await door.tail(0))[:1]
    if not first or first[0].kind != LogKind.POLICY or first[0].detail is None:
        raise StoreFault(f"the log of arena {door.arena} does not begin with a policy: it is damaged")
    policy, _ = method_from_dict(first[0].detail)
    return ArenaState(settings, [Standing(policy, (), ()) for _ in SOURCES], first[0].position)


async def _load_open_matchups(live: ArenaState, door: LogConnection) -> None:
    """What a checkpoint does not have: open matchups, responses, and which later votes are excluded."""
    for one in await door.opened(live.position):
        live.hold(one)
    live.dropped = await door.excluded()
    roster = await door.roster()
    cells = await door.responses(roster)
    live.responses = cells[: live.n_models, : live.n_prompts].copy()
