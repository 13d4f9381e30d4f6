"""The page with the board of a voter's own votes, which is private and not cached."""

from __future__ import annotations

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse

from tiltyard.arena.live.live_records import LiveBattle
from tiltyard.arena.live.live_store import list_battles
from tiltyard.core.board.voter_board import OWN_METHOD
from tiltyard.core.ratings.findings import MIN_BATTLES
from tiltyard.web.access.access import access_of, registry_of
from tiltyard.web.access.route_access import ReadableArena, personal_boards_of
from tiltyard.web.pages.layout import render_page

router = APIRouter(include_in_schema=False)

#: Battles of a voter that are listed.
_BATTLE_LIMIT = 50
_PRIVATE = {"Cache-Control": "private, no-store", "Vary": "Cookie"}


@router.get("/arenas/{arena}/mine", response_class=HTMLResponse)
async def mine(arena: ReadableArena, request: Request) -> HTMLResponse:
    """The board of this voter's votes; without a session, an explanation."""
    voter = await access_of(request).voter(request, entry=arena.settings.entry)
    found = None if voter is None else await personal_boards_of(request).of(arena, voter)
    battles: list[LiveBattle] = []
    if arena.settings.is_live and voter is not None:
        battles = await list_battles(registry_of(request).pool, arena.arena, voter.session, _BATTLE_LIMIT)
    return render_page(
        request,
        "mine/mine.html",
        headers=_PRIVATE,
        arena=arena,
        active="mine",
        personal=found,
        battles=[battle for battle in battles if battle.turns],
        prior=OWN_METHOD.prior_sd,
        enough=MIN_BATTLES,
    )
