"""The page of a rater in an expert panel: the own list, how much is left and, in the end, the names."""

from __future__ import annotations

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse

from tiltyard.arena.log.event_log import HUMAN
from tiltyard.arena.operators.panel_records import own_list, read_panel
from tiltyard.arena.operators.panels import PanelRater, find_rater_by_session
from tiltyard.arena.voting.voter_requests import Voter
from tiltyard.arena.voting.voting_queue import VotingQueue
from tiltyard.errors import NotFound
from tiltyard.web.access.access import access_of, registry_of
from tiltyard.web.access.route_access import boards_of
from tiltyard.web.pages.layout import render_page
from tiltyard.web.pages.voter_texts import read_voter_texts

router = APIRouter(include_in_schema=False)

_NOT_STORED = {"Cache-Control": "no-store"}


@router.get("/arenas/{arena}/panel", response_class=HTMLResponse)
async def panel_page(request: Request, arena: str) -> HTMLResponse:
    """A rater's own list. Nobody else is shown anything of it."""
    registry = registry_of(request)
    queue = await registry.voting_queue(arena)
    voter = await access_of(request).voter(request, queue)
    found = None if voter is None else await _rater(request, queue, voter)
    if found is None:
        raise NotFound("this browser is in no expert panel of this arena; open the link that you were sent")
    name, rater = found
    record = await read_panel(registry.pool, arena, name)
    shown = own_list(record, rater.rater)
    about = await boards_of(request).arena(arena)
    return render_page(
        request,
        "vote/panel.html",
        headers=_NOT_STORED,
        arena=about,
        texts=await read_voter_texts(request, about),
        active="vote",
        own=shown,
    )


async def is_rater(request: Request, queue: VotingQueue, voter: Voter) -> bool:
    """Whether a voter has a list of its own in this arena."""
    return await _rater(request, queue, voter) is not None


async def _rater(request: Request, queue: VotingQueue, voter: Voter) -> tuple[str, PanelRater] | None:
    if voter.source != HUMAN:
        return None
    return await find_rater_by_session(registry_of(request).pool, queue.arena, voter.session)
