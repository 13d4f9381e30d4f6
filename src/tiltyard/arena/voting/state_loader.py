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


async def load_arena_state(log_connection: LogConnection, settings: ArenaSettings) -> ArenaState:
    """The arena as its log has it now."""
    async with log_connection.connected() as connection:
        saved = await newest_checkpoint(connection, log_connection.arena)
    if saved is None:
        live = await _from_the_start(log_connection, settings)
    else:
        states = await asyncio.to_thread(_restored, saved.state)
        live = ArenaState(settings, states, saved.position)
    await _load_open_matchups(live, log_connection)
    await catch_up(live, log_connection)
    live.settle(*await log_connection.clock())
    return live


async def catch_up(live: ArenaState, log_connection: LogConnection) -> None:
    """Fold what the log has by now."""
    while rows := await log_connection.tail(live.position):
        await fold_rows(live, log_connection, rows)


async def fold_rows(live: ArenaState, log_connection: LogConnection, rows: Iterable[LogRow]) -> None:
    """Fold rows, those of models and responses many at once, asking for names where the arena grew."""
    for roster, run in groupby(rows, lambda row: row.kind in _ROSTER):
        if roster:
            live.fold_roster(list(run))
            continue
        for row in run:
            if row.kind == LogKind.WIDEN:
                await _widen(live, log_connection, row)
            else:
                live.fold(row)


async def _widen(live: ArenaState, log_connection: LogConnection, row: LogRow) -> None:
    known = await log_connection.roster()
    live.widen(known.models[: row.a], known.prompts[: row.prompt])
    live.position = row.position


def _restored(state: bytes) -> list[Standing]:
    return [following.standing for following in ArenaFold.restore_all(state)]


async def _from_the_start(log_connection: LogConnection, settings: ArenaSettings) -> ArenaState:
    first = (await log_connection.tail(0))[:1]
    if not first or first[0].kind != LogKind.POLICY or first[0].detail is None:
        raise StoreFault(
            f"the log of arena {log_connection.arena} does not begin with a policy: it is damaged"
        )
    policy, _ = method_from_dict(first[0].detail)
    return ArenaState(settings, [Standing(policy, (), ()) for _ in SOURCES], first[0].position)


async def _load_open_matchups(live: ArenaState, log_connection: LogConnection) -> None:
    """What a checkpoint does not have: open matchups, responses, and which later votes are excluded."""
    for one in await log_connection.opened(live.position):
        live.hold(one)
    live.dropped = await log_connection.excluded()
    roster = await log_connection.roster()
    cells = await log_connection.responses(roster)
    live.responses = cells[: live.n_models, : live.n_prompts].copy()
