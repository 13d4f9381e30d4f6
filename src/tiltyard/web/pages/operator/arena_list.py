"""The operator's list of arenas, and the form for a new one."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated

from fastapi import Form, Request
from fastapi.responses import HTMLResponse, Response

from tiltyard.arena.boards.snapshots import board_of
from tiltyard.arena.content.answer_import import create_arena
from tiltyard.arena.content.arenas import Arena
from tiltyard.arena.operators.moderation import PendingWork, read_server_overview
from tiltyard.arena.rating.rater_lag import RaterLag
from tiltyard.core.board.settled_order import claims_nothing
from tiltyard.errors import Conflict, InputError, NotFound
from tiltyard.foundation.field_definitions import definitions
from tiltyard.settings.arena_settings import ArenaSettings
from tiltyard.web.access.route_access import boards_of
from tiltyard.web.pages.operator.operator_access import (
    actor_of,
    operator_page,
    operator_router,
    pool_of,
    redirect_with_notice,
)

router = operator_router()

_FORM = {"name": "", "title": "", "visibility": "open", "entry": "open", "timezone": "UTC"}


@dataclass(frozen=True, slots=True)
class ArenaSummary:
    """One arena in the list."""

    name: str
    title: str
    visibility: str
    entry: str
    stage: str
    status: str | None
    #: Whether the board claims no order at all, whatever its status says.
    unordered: bool
    phase: int | None
    votes: int
    models: int
    #: Events that the rater has not folded yet, and whether there is a rater.
    behind: int
    led: bool
    board_at: datetime | None
    complaints: int


@router.get("", response_class=HTMLResponse)
async def house_page(request: Request) -> HTMLResponse:
    """All arenas, with their pending work."""
    return await _page(request, _FORM)


@router.post("/arenas")
async def make_arena(
    request: Request,
    name: Annotated[str, Form()] = "",
    title: Annotated[str, Form()] = "",
    visibility: Annotated[str, Form()] = "open",
    entry: Annotated[str, Form()] = "open",
    timezone: Annotated[str, Form()] = "UTC",
) -> Response:
    """Create an empty arena, a draft, and show its page."""
    chosen = {"visibility": visibility, "entry": entry, "timezone": timezone.strip()}
    given = {"name": name, "title": title, **chosen}
    try:
        settings = ArenaSettings.from_dict({**chosen, "stage": "draft"})
        made = await create_arena(
            pool_of(request),
            name.strip(),
            title=title.strip() or None,
            settings=settings,
            actor=actor_of(request).name,
        )
    except (InputError, Conflict) as error:
        status = 409 if isinstance(error, Conflict) else 422
        return await _page(request, given, trouble=str(error), status=status)
    return redirect_with_notice("created", "arenas", made.name)


async def _page(
    request: Request, form: dict[str, str], *, trouble: str | None = None, status: int = 200
) -> HTMLResponse:
    known = await read_server_overview(pool_of(request))
    lines = [
        await _line(request, arena, known.waiting[arena.name], known.rated[arena.name])
        for arena in known.arenas
        if actor_of(request).may("read", arena.name)
        and arena.name in known.waiting
        and arena.name in known.rated
    ]
    return operator_page(
        request,
        "arenas.html",
        status=status,
        trouble=trouble,
        lines=lines,
        form=form,
        entries=definitions(ArenaSettings)["entry"].choices,
        size=known.size,
        active="arenas",
    )


async def _line(request: Request, arena: Arena, waiting: PendingWork, lag: RaterLag) -> ArenaSummary:
    try:
        newest = await boards_of(request).latest(arena.arena, 0)
        board = board_of(newest)
    except NotFound:
        board = None
    return ArenaSummary(
        name=arena.name,
        title=arena.title,
        visibility=arena.settings.visibility,
        entry=arena.settings.entry,
        stage=arena.settings.stage,
        status=None if board is None else board.status,
        unordered=board is not None and claims_nothing(board.settled),
        phase=None if board is None else board.phase,
        votes=0 if board is None else board.votes,
        models=0 if board is None else sum(row.enabled for row in board.rows),
        behind=max(lag.head - lag.position, 0),
        led=lag.leader is not None,
        board_at=waiting.board_at,
        complaints=waiting.complaints,
    )
