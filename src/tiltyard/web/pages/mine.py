"""The pages on which voters see, download and delete what is held about them. Nothing of them is cached."""

from __future__ import annotations

import json

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, Response

from tiltyard.arena.content.arenas import Arena
from tiltyard.arena.content.prompt_browser import read_prompt_words
from tiltyard.arena.live.live_records import LiveBattle
from tiltyard.arena.live.live_store import list_battles
from tiltyard.arena.operators.voter_data import erase_voter, read_held_data, read_held_summary
from tiltyard.core.board.voter_board import OWN_METHOD
from tiltyard.core.ratings.findings import MIN_BATTLES
from tiltyard.web.access.access import access_of, registry_of
from tiltyard.web.access.cookies import VOTER_COOKIE
from tiltyard.web.access.route_access import ReadableArena, personal_boards_of
from tiltyard.web.pages import paths
from tiltyard.web.pages.layout import redirect_to, render_page

router = APIRouter(include_in_schema=False)

_PRIVATE = {"Cache-Control": "private, no-store", "Vary": "Cookie"}
_DOCUMENT_FORMAT = "tiltyard-voter-data/1"
_REASON = "the voter deleted it"
_ACTOR = "voter"


@router.get("/arenas/{arena}/mine/data")
async def data_page(arena: ReadableArena, request: Request) -> HTMLResponse:
    """What is held about this voter in all arenas, and what it is for."""
    return await _page(request, arena, "mine/data.html")


@router.get("/arenas/{arena}/mine/data.json")
async def data_file(arena: ReadableArena, request: Request) -> Response:
    """Everything that is held about this voter, as a file."""
    pool = registry_of(request).pool
    voters = [
        await read_held_data(pool, session) for session in await access_of(request).sessions_of(request)
    ]
    headers = {**_PRIVATE, "Content-Disposition": f'attachment; filename="my-data-{arena.name}.json"'}
    text = json.dumps({"format": _DOCUMENT_FORMAT, "voters": voters}, ensure_ascii=False, indent=1)
    return Response(text, media_type="application/json", headers=headers)


@router.get("/arenas/{arena}/mine/delete")
async def delete_page(arena: ReadableArena, request: Request) -> HTMLResponse:
    """What is deleted and what stays, and the button."""
    return await _page(request, arena, "mine/delete.html")


@router.post("/arenas/{arena}/mine/delete")
async def delete_form(arena: ReadableArena, request: Request) -> Response:
    """Delete it, and the cookies that say who this voter is."""
    access, pool = access_of(request), registry_of(request).pool
    sessions = await access.sessions_of(request)
    if not sessions:
        return redirect_to(paths.within(arena.name, "mine", "data"))
    await access.limits.admit_deletion(request)
    cookies = [access.cookies.clear_header(name) for name in (VOTER_COOKIE, *access.entry.cookies(request))]
    for session in sessions:
        held = await read_held_summary(pool, session)
        await erase_voter(pool, session, reason=_REASON, actor=_ACTOR)
        cookies += [access.skills.clear_header(one.arena.arena) for one in held.arenas]
    cookies.append(await access.identities.sign_out(request))
    access.forget()
    if arena.settings.public:
        return redirect_to(paths.within(arena.name, "mine", "deleted"), cookies=cookies)
    # No page of this arena is for this browser any more.
    page = await deleted_page(arena, request)
    for cookie in cookies:
        page.headers.append("set-cookie", cookie)
    return page


@router.get("/arenas/{arena}/mine/deleted")
async def deleted_page(arena: ReadableArena, request: Request) -> HTMLResponse:
    """What has been done."""
    return render_page(request, "mine/deleted.html", headers=_PRIVATE, arena=arena, active="mine")


async def _page(request: Request, arena: Arena, template: str) -> HTMLResponse:
    pool = registry_of(request).pool
    sessions = await access_of(request).sessions_of(request)
    held = [await read_held_summary(pool, session) for session in sessions]
    return render_page(request, template, headers=_PRIVATE, arena=arena, active="mine", held=held)


#: Battles of a voter that are listed.
_BATTLE_LIMIT = 50


@router.get("/arenas/{arena}/mine")
async def mine(arena: ReadableArena, request: Request) -> HTMLResponse:
    """The board of this voter's votes; without a session, an explanation."""
    voter = await access_of(request).person(request, arena)
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
        prompt_words={}
        if found is None
        else await read_prompt_words(registry_of(request).pool, arena, [one.prompt for one in found.recent]),
        battles=[battle for battle in battles if battle.turns],
        prior=OWN_METHOD.prior_sd,
        enough=MIN_BATTLES,
    )
