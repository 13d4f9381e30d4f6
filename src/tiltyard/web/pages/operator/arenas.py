"""The operator's list of arenas with the form for a new one, and the overview of one arena."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any

from fastapi import Form
from fastapi.responses import HTMLResponse, Response

from tiltyard.arena.boards.snapshots import board_of
from tiltyard.arena.content.answer_import import create_arena
from tiltyard.arena.content.arenas import Arena
from tiltyard.arena.operators.arena_changes import current_policy
from tiltyard.arena.operators.moderation import PendingWork, read_arena_overview, read_server_overview
from tiltyard.arena.operators.stages import read_checklist
from tiltyard.arena.rating.rater_lag import RaterLag
from tiltyard.core.board.document import BoardDocument
from tiltyard.core.board.settled_order import claims_nothing
from tiltyard.core.policy.state.policy import PHASES
from tiltyard.core.policy.state.rating_fold import RaterSettings
from tiltyard.core.policy.validity.serving_fairness import ServingFairness
from tiltyard.errors import Conflict, InputError, NotFound
from tiltyard.foundation.field_definitions import definitions, finite_number
from tiltyard.settings.arena_settings import ArenaSettings
from tiltyard.web.access.route_access import boards_of
from tiltyard.web.pages.board_view import digits_to_show
from tiltyard.web.pages.operator.operator_access import (
    OnArena,
    OnServer,
    OperatorVisit,
    operator_router,
    redirect_with_notice,
)

router = operator_router()

_FORM = {
    "name": "",
    "title": "",
    "visibility": "open",
    "entry": "open",
    "timezone": "UTC",
    "volatility": "0.003",
}


@dataclass(frozen=True, slots=True)
class ArenaSummary:
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
async def house_page(visit: OnServer) -> HTMLResponse:
    """All arenas, with their pending work."""
    return await _page(visit, _FORM)


@router.post("/arenas")
async def make_arena(
    visit: OnServer,
    name: Annotated[str, Form()] = "",
    title: Annotated[str, Form()] = "",
    visibility: Annotated[str, Form()] = "open",
    entry: Annotated[str, Form()] = "open",
    timezone: Annotated[str, Form()] = "UTC",
    volatility: Annotated[str, Form()] = _FORM["volatility"],
) -> Response:
    """Create an empty arena, a draft, and show its page."""
    chosen = {"visibility": visibility, "entry": entry, "timezone": timezone.strip()}
    given = {"name": name, "title": title, "volatility": volatility, **chosen}
    try:
        started = finite_number(volatility)
        rater = RaterSettings.with_volatility(volatility if started is None else started)
        settings = ArenaSettings.from_dict({**chosen, "stage": "draft"})
        made = await create_arena(
            visit.pool,
            name.strip(),
            title=title.strip() or None,
            settings=settings,
            rater=rater,
            actor=visit.actor.name,
        )
    except (InputError, Conflict) as error:
        status = 409 if isinstance(error, Conflict) else 422
        return await _page(visit, given, trouble=str(error), status=status)
    return redirect_with_notice("created", "arenas", made.name)


async def _page(visit: OperatorVisit, form: dict[str, str], **said: Any) -> HTMLResponse:
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
        entries=definitions(ArenaSettings)["entry"].choices,
        size=known.size,
        active="arenas",
        **said,
    )


async def _line(visit: OperatorVisit, arena: Arena, waiting: PendingWork, lag: RaterLag) -> ArenaSummary:
    board = await _board(visit, arena)
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


@dataclass(frozen=True, slots=True)
class LaneRow:
    """One lane: its target, and its share of drawn and of served matchups."""

    name: str
    target: float
    nominal: int
    realised: int
    nominal_share: float | None
    realised_share: float | None


@router.get("/arenas/{arena}", response_class=HTMLResponse)
async def overview(visit: OnArena) -> HTMLResponse:
    """The overview of an arena: phase, status, votes by day, lanes, fairness, lag, scheduled jobs."""
    now = datetime.now(UTC)
    known = await read_arena_overview(visit.pool, visit.arena, now)
    policy = await current_policy(visit.pool, visit.arena.name)
    board = await _board(visit, visit.arena)
    serving = None if board is None else board.serving
    return visit.page(
        "overview.html",
        "overview",
        phase=PHASES[policy.phase - 1],
        board=board,
        unordered=board is not None and claims_nothing(board.settled),
        serving=serving,
        lanes=lane_rows(serving),
        days=known.days,
        most=max((day.human + day.judge for day in known.days), default=0),
        opened=known.opened,
        lag=known.lag,
        waiting=known.waiting,
        reported_at=known.reports[0].made_at if known.reports else None,
        late=known.late,
        jobs=known.jobs,
        checklist=await read_checklist(visit.pool, visit.arena)
        if visit.arena.settings.stage == "draft"
        else None,
        seen_digits=digits_to_show,
    )


async def _board(visit: OperatorVisit, arena: Arena) -> BoardDocument | None:
    """The newest board of people's votes, if there is one."""
    try:
        newest = await boards_of(visit.request).latest(arena.arena, 0)
    except NotFound:
        return None
    return board_of(newest)


def lane_rows(serving: ServingFairness | None) -> list[LaneRow]:
    """The mix of lanes and its targets."""
    if serving is None:
        return []
    total = serving.lanes.matchups
    return [
        LaneRow(
            name=lane.lane.capitalize(),
            target=lane.target,
            nominal=lane.nominal,
            realised=lane.realised,
            nominal_share=lane.nominal / total if total else None,
            realised_share=lane.realised / total if total else None,
        )
        for lane in serving.lanes.lanes
    ]
