"""The operator's overview of one arena: its progress, serving and rater."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from fastapi import Request
from fastapi.responses import HTMLResponse

from tiltyard.arena.boards.snapshots import board_of
from tiltyard.arena.boards.weekly_reports import FIRST_REPORTED_PHASE
from tiltyard.arena.content.arenas import Arena
from tiltyard.arena.operators.arena_changes import current_policy
from tiltyard.arena.operators.moderation import read_arena_overview
from tiltyard.arena.operators.stages import read_checklist
from tiltyard.core.board.document import BoardDocument
from tiltyard.core.board.settled_order import claims_nothing
from tiltyard.core.policy.state.policy import PHASES
from tiltyard.core.policy.validity.serving_fairness import ServingFairness
from tiltyard.errors import NotFound
from tiltyard.web.access.route_access import boards_of
from tiltyard.web.pages.board_view import digits_to_show
from tiltyard.web.pages.operator.operator_access import arena_of, arena_page, operator_router, pool_of

router = operator_router("/arenas/{arena}")


@dataclass(frozen=True, slots=True)
class LaneRow:
    """One lane: its target, and its share of drawn and of served matchups."""

    name: str
    target: float
    nominal: int
    realised: int
    nominal_share: float | None
    realised_share: float | None


@router.get("", response_class=HTMLResponse)
async def overview(arena: str, request: Request) -> HTMLResponse:
    """The overview of an arena: phase, status, votes by day, lanes, fairness, lag, scheduled jobs."""
    now = datetime.now(UTC)
    found = await arena_of(request, arena)
    known = await read_arena_overview(pool_of(request), found, now)
    policy = await current_policy(pool_of(request), arena)
    board = await _board(request, found)
    serving = None if board is None else board.serving
    return arena_page(
        request,
        found,
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
        reports_from=FIRST_REPORTED_PHASE,
        late=known.late,
        jobs=known.jobs,
        checklist=await read_checklist(pool_of(request), found) if found.settings.stage == "draft" else None,
        seen_digits=digits_to_show,
    )


async def _board(request: Request, arena: Arena) -> BoardDocument | None:
    """The newest board of people's votes, if there is one."""
    try:
        newest = await boards_of(request).latest(arena.arena, 0)
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
