"""What the operator tells voters: announcement, instructions, consent, thanks, and the words for a pause."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fastapi.responses import HTMLResponse, Response

from tiltyard.arena.content.arena_texts import (
    MAX_TEXT_CHARACTERS,
    TEXT_NAMES,
    TextName,
    change_texts,
    read_texts,
)
from tiltyard.web.pages.operator.operator_access import ArenaVisit, OnArena, operator_router
from tiltyard.web.pages.voter_texts import render_texts

#: What an operator can tell voters: its name, and where it is shown.
TEXTS: Mapping[TextName, tuple[str, str]] = {
    "announcement": ("Announcement", "Shown at the top of the page before the first vote."),
    "instructions": (
        "Instructions",
        (
            "What voters should look at when they compare responses. Shown before the first vote, and with the key i "
            "while they vote."
        ),
    ),
    "consent": (
        "Consent",
        (
            "Voters must agree to it before their first vote, and again if you change it. Who agreed to which version "
            "is stored. Programs that vote through the API are not asked."
        ),
    ),
    "thanks": ("Thanks", "Shown with the names, when a voter has finished a session."),
    "pause": ("During a pause", "Shown instead of matchups while the arena is paused."),
}

router = operator_router("/arenas/{arena}/texts")


@router.get("")
async def texts_page(visit: OnArena) -> HTMLResponse:
    """The texts as they are."""
    texts = await read_texts(visit.pool, visit.arena)
    return await _page(visit, {name: one.content for name, one in texts.items()})


@router.post("")
async def texts_form(visit: OnArena) -> Response:
    """Save the texts, or show how they look without saving them."""
    form = await visit.request.form()
    # A browser sends the line ends of the network, whatever was typed.
    given = {name: str(form.get(name, "")).replace("\r\n", "\n").strip() for name in TEXT_NAMES}
    if form.get("act") == "preview":
        return await _page(visit, given, shown=True)
    visit.on_refusal(_page, given)
    changed = await change_texts(visit.pool, visit.arena.name, given, actor=visit.actor.name)
    return visit.done("texts" if changed else "unchanged", "texts")


async def _page(
    visit: ArenaVisit, given: Mapping[TextName, str], *, shown: bool = False, **said: Any
) -> HTMLResponse:
    return visit.page(
        "texts.html",
        "texts",
        given=given,
        texts=TEXTS,
        most=MAX_TEXT_CHARACTERS,
        looks=await render_texts(visit.request, given) if shown else None,
        **said,
    )
