"""What raters of an arena's expert panels are asked about, and what they have answered so far."""

from __future__ import annotations

from typing import NamedTuple

from psycopg import AsyncConnection

from tiltyard.arena.log.buckets import fetch_rows
from tiltyard.core.judging.panel_assignment import PanelItem
from tiltyard.postgres.connections import translate_errors


class ListedTask(NamedTuple):
    """An item in a rater's list, and whether its sides are exchanged."""

    session: int
    item: PanelItem
    exchanged: bool


class RaterAnswer(NamedTuple):
    """A vote (``kind`` 1) or a skip (2) of a rater."""

    session: int
    serial: int
    a: int
    b: int
    prompt: int
    kind: int


class PanelRows(NamedTuple):
    """All raters by session, with whether their panel is open; the tasks of open panels; and all answers to these."""

    raters: dict[int, bool]
    tasks: list[ListedTask]
    answers: list[RaterAnswer]


async def read_panel_rows(connection: AsyncConnection, arena: int) -> PanelRows:
    """Read the panels of an arena; most have none, which costs one statement."""
    values = {"arena": arena}
    with translate_errors("read an arena's expert panels"):
        raters = await fetch_rows(connection, "panel_sessions", values)
        by_session: dict[int, bool] = dict(raters)
        if not any(by_session.values()):
            return PanelRows(by_session, [], [])
        tasks = await fetch_rows(connection, "panel_list_tasks", values)
        listed = [ListedTask(session, PanelItem(*item), exchanged) for session, *item, exchanged in tasks]
        answers = await fetch_rows(connection, "panel_answers", values)
        return PanelRows(by_session, listed, [RaterAnswer(*row) for row in answers])
