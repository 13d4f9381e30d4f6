"""Loads an arena's state from the newest checkpoint and the events after it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from itertools import groupby

from tiltyard.arena.log.event_details import erased_serials
from tiltyard.arena.log.event_log import SOURCES, LogKind, LogRow, read_tail
from tiltyard.arena.log.log_connection import LogConnection, read_panel_rows
from tiltyard.arena.log.rosters import read_excluded, read_responses, read_roster
from tiltyard.arena.rating.checkpoints import newest_checkpoint
from tiltyard.arena.voting.arena_state import ArenaState, RaterLists
from tiltyard.core.policy.state.rating_fold import method_from_dict
from tiltyard.core.policy.state.standing import Standing
from tiltyard.core.policy.validity.arena_fold import ArenaFold
from tiltyard.errors import StoreFault
from tiltyard.settings.arena_settings import ArenaSettings

_PANELS = (LogKind.PANEL_OPENED, LogKind.PANEL_CLOSED)
_ROSTER = (LogKind.ENABLE, LogKind.RETIRE, LogKind.RESPOND, LogKind.WITHDRAW)


async def load_arena_state(log: LogConnection, settings: ArenaSettings) -> ArenaState:
    """Load the state of an arena, up to the end of its log."""
    async with log.connection() as connection:
        saved = await newest_checkpoint(connection, log.arena)
    if saved is None:
        first = (await read_tail(log, log.arena, 0))[:1]
        if not first or first[0].kind != LogKind.POLICY or first[0].detail is None:
            raise StoreFault(f"the log of arena {log.arena} does not start with a policy: it is damaged")
        policy, _ = method_from_dict(first[0].detail)
        standings = [Standing(policy, (), ()) for _ in SOURCES]
        for standing in standings:
            standing.forget_votes()
        state = ArenaState(settings, standings, first[0].position)
    else:
        states = await asyncio.to_thread(_restored, saved.state)
        state = ArenaState(settings, states, saved.position)
    state.next_serial = await log.serials(state.position)
    opened = await log.opened(state.position)
    for one in sorted(opened, key=lambda one: one.expires_at):
        state.hold(one)
    state.dropped = await read_excluded(log, log.arena)
    state.raters = RaterLists(await read_panel_rows(log, log.arena))
    roster = await read_roster(log, log.arena)
    cells = await read_responses(log, log.arena, roster)
    state.responses = cells[: state.n_models, : state.n_prompts].copy()
    await catch_up(state, log)
    state.settle(*await log.clock())
    return state


async def catch_up(state: ArenaState, log: LogConnection) -> None:
    """Fold the events that were added to the log since."""
    while rows := await read_tail(log, log.arena, state.position):
        await fold_rows(state, log, rows)


async def fold_rows(state: ArenaState, log: LogConnection, rows: Iterable[LogRow]) -> None:
    """Fold rows; runs of model and response events at once. Reads the names of new models and prompts, and panels."""
    for roster, run in groupby(rows, lambda row: row.kind in _ROSTER):
        if roster:
            state.fold_roster(list(run))
            continue
        for row in run:
            if row.kind == LogKind.WIDEN:
                known = await read_roster(log, log.arena)
                state.widen(known.models[: row.a], known.prompts[: row.prompt])
                state.position = row.position
            elif row.kind in _PANELS:
                state.raters = RaterLists(await read_panel_rows(log, log.arena))
                state.position = row.position
            else:
                state.fold(row)
                if row.kind == LogKind.EXCLUDE and erased_serials(row.detail) is not None:
                    # The erased voter may have been a rater of a panel, under a number that nobody has now.
                    state.raters = RaterLists(await read_panel_rows(log, log.arena))


def _restored(state: bytes) -> list[Standing]:
    standings = [following.standing for following in ArenaFold.restore_all(state)]
    for standing in standings:
        standing.forget_votes()
    return standings
