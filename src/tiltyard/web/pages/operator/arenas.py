"""The operator's list of arenas with the form for a new one, and the overview of one arena."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Annotated, Any, NamedTuple
from zoneinfo import ZoneInfo

from fastapi import Form
from fastapi.responses import HTMLResponse, Response
from pydantic import BaseModel

from tiltyard.arena.boards.snapshots import board_of
from tiltyard.arena.content.answer_import import create_arena
from tiltyard.arena.content.arenas import Arena
from tiltyard.arena.operators.arena_changes import current_policy
from tiltyard.arena.operators.invitations import Invitation, list_invitations
from tiltyard.arena.operators.moderation import PendingWork, read_arena_overview, read_server_overview
from tiltyard.arena.operators.stages import read_checklist
from tiltyard.arena.rating.rater_lag import RaterLag
from tiltyard.core.board.document import BoardDocument
from tiltyard.core.board.settled_order import claims_nothing
from tiltyard.core.policy.state.policy import PHASES
from tiltyard.core.policy.state.rating_fold import RaterSettings
from tiltyard.core.policy.state.standing import SMALL_ARENA_PEOPLE_COUNT
from tiltyard.errors import NotFound
from tiltyard.foundation.caches import SingleFlight
from tiltyard.foundation.field_definitions import finite_number
from tiltyard.settings.arena_settings import ArenaSettings
from tiltyard.simulation.settling_gap import settling_forecast
from tiltyard.web.access.route_access import boards_of
from tiltyard.web.pages.board_view import digits_to_show
from tiltyard.web.pages.operator.operator_access import (
    ArenaVisit,
    OnArena,
    OnServer,
    OperatorVisit,
    operator_router,
)
from tiltyard.web.pages.operator.settings import WHO_ENTERS, entry_choice, who_enters

router = operator_router()

#: Arenas are simulated once for all who ask; who asks waits so long, and sees the answer later.
_SIMULATIONS = SingleFlight()
_SIMULATION_WAIT_SECONDS = 2.0


class ArenaForm(BaseModel):
    """What a form says of a new arena."""

    name: str = ""
    title: str = ""
    entry: str = "open"
    timezone: str = "UTC"
    volatility: str = "0.003"


class ArenaLine(NamedTuple):
    """An arena in the list: its newest board, whether that claims no order at all, pending work and rater lag."""

    arena: Arena
    board: BoardDocument | None
    unordered: bool
    waiting: PendingWork
    lag: RaterLag


@router.get("")
async def house_page(visit: OnServer) -> HTMLResponse:
    """All arenas, with their pending work."""
    return await _page(visit, ArenaForm())


@router.post("/arenas")
async def make_arena(visit: OnServer, form: Annotated[ArenaForm, Form()]) -> Response:
    """Create an empty arena, a draft, and show its page."""
    visit.on_refusal(_page, form)
    started = finite_number(form.volatility)
    rater = RaterSettings.with_volatility(form.volatility if started is None else started)
    settings = ArenaSettings.from_dict(
        {**who_enters(form.entry), "timezone": form.timezone.strip(), "stage": "draft"}
    )
    made = await create_arena(
        visit.pool,
        form.name.strip(),
        title=form.title.strip() or None,
        settings=settings,
        rater=rater,
        actor=visit.actor.name,
    )
    return visit.done("created", "arenas", made.name)


async def _page(visit: OperatorVisit, form: ArenaForm, **said: Any) -> HTMLResponse:
    known = await read_server_overview(visit.pool)
    lines = [
        await _line(visit, arena, known.waiting[arena.name], known.rated[arena.name])
        for arena in known.arenas
        if visit.actor.may("read", arena.name) and arena.name in known.waiting and arena.name in known.rated
    ]
    return visit.page(
        "arenas.html",
        lines=lines,
        form=form,
        entries=WHO_ENTERS,
        size=known.size,
        active="arenas",
        **said,
    )


async def _line(visit: OperatorVisit, arena: Arena, waiting: PendingWork, lag: RaterLag) -> ArenaLine:
    board = await _board(visit, arena)
    return ArenaLine(arena, board, board is not None and claims_nothing(board.settled), waiting, lag)


@router.get("/arenas/{arena}")
async def overview(visit: OnArena) -> HTMLResponse:
    """The overview of an arena: phase, status, votes by day, lanes, fairness, lag, scheduled jobs."""
    now = datetime.now(UTC)
    known = await read_arena_overview(visit.pool, visit.arena, now)
    policy = await current_policy(visit.pool, visit.arena.name)
    board = await _board(visit, visit.arena)
    today = now.astimezone(ZoneInfo(visit.arena.settings.timezone)).date()
    invited = await list_invitations(visit.pool, visit.arena.name)
    return visit.page(
        "overview.html",
        "overview",
        phase=PHASES[policy.phase - 1],
        board=board,
        unordered=board is not None and claims_nothing(board.settled),
        serving=None if board is None else board.serving,
        today=next((day.human for day in known["days"] if day.day == today), 0),
        entering=WHO_ENTERS[entry_choice(visit.arena.settings)],
        named=[one for one in invited if one.name and not one.revoked_at],
        most=max((day.human + day.judge for day in known["days"]), default=0),
        reported_at=known["reports"][0].made_at if known["reports"] else None,
        checklist=await read_checklist(visit.pool, visit.arena)
        if visit.arena.settings.stage == "draft"
        else None,
        seen_digits=digits_to_show,
        **known,
        **await _settling(visit, invited),
    )


async def _settling(visit: ArenaVisit, links: Sequence[Invitation]) -> dict[str, Any]:
    """What the arena can settle with the people who are invited, or twelve; what is still simulated is said later."""
    settings = visit.arena.settings
    queue = await visit.registry.voting_queue(visit.arena.name)
    responses = [] if settings.is_live else [n for n in await queue.responses_by_prompt() if n > 1]
    if not responses:
        return {"settling": None, "simulating": False}
    invited = sum(link.uses_allowed or 0 for link in links if link.revoked_at is None)
    told_after = 1 if settings.reveal == "vote" else settings.session_votes
    shape = (max(responses), len(responses), invited or SMALL_ARENA_PEOPLE_COUNT, told_after)
    try:
        async with asyncio.timeout(_SIMULATION_WAIT_SECONDS):
            found = await _SIMULATIONS(shape, partial(asyncio.to_thread, settling_forecast, *shape))
    except TimeoutError:
        return {"settling": None, "simulating": True}
    return {"settling": found, "simulating": False}


async def _board(visit: OperatorVisit, arena: Arena) -> BoardDocument | None:
    """The newest board of people's votes, if there is one."""
    try:
        newest = await boards_of(visit.request).latest(arena.arena, 0)
    except NotFound:
        return None
    return board_of(newest)
