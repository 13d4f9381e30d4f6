"""The settings of an arena: how it is run, beside its ranking policy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fastapi.responses import HTMLResponse, Response

from tiltyard.arena.content.answer_rows import validate_name
from tiltyard.arena.content.arenas import Arena
from tiltyard.arena.operators.arena_changes import change_settings
from tiltyard.core.policy.validity.rules import blind_votes_of_one
from tiltyard.foundation.field_definitions import FieldDefinition, definitions
from tiltyard.settings.arena_settings import ArenaSettings
from tiltyard.web.pages.operator.operator_access import ArenaVisit, OnArena, operator_router

router = operator_router("/arenas/{arena}/settings")

_CLOSED = "closed"
#: Visibility and entry are one question on the pages.
WHO_ENTERS: Mapping[str, str] = {
    "open": "everybody",
    "invitation": "people with an invitation link",
    "passcode": "people with the passcode",
    "sign-in": "people who sign in through your organisation",
    _CLOSED: "only operators",
}


@router.get("")
async def settings_page(visit: OnArena) -> HTMLResponse:
    """All settings, with their meanings."""
    return await _form(visit, {})


@router.get("/review")
async def settings_review(visit: OnArena) -> HTMLResponse:
    """Review the changes before they are saved."""
    given = dict(visit.request.query_params)
    visit.on_refusal(_form, given)
    title, changed = read_settings(visit.arena, given)
    before, known = visit.arena.settings.to_dict(), editable_settings(visit.arena)
    sent = [(name, known[name].text(value)) for name, value in changed.items()]
    rows = [(known[name], known[name].text(before[name]), text) for name, text in sent]
    return visit.page(
        "settings_review.html",
        "settings",
        rows=rows,
        sent=sent,
        title=title,
        **await _blind_votes(visit, ArenaSettings.from_dict(before | changed)),
    )


@router.post("")
async def settings_form(visit: OnArena) -> Response:
    """Save the reviewed changes."""
    given = {name: str(value) for name, value in (await visit.request.form()).items()}
    visit.on_refusal(_form, given)
    title, changed = read_settings(visit.arena, given)
    if not changed and title is None:
        return visit.done("unchanged", "settings")
    await change_settings(visit.pool, visit.arena.name, changed, title=title, actor=visit.actor.name)
    await visit.apply_settings()
    return visit.done("settings", "settings")


def read_settings(arena: Arena, given: Mapping[str, str]) -> tuple[str | None, dict[str, object]]:
    """The title and the settings that a form changes; `InputError` for invalid values."""
    changed: dict[str, object] = {}
    if "entry" in given:
        answered = who_enters(given["entry"])
        given = {name: text for name, text in given.items() if name != "entry"} | answered
    for name, definition in editable_settings(arena).items():
        if name in given:
            value = definition.read(given[name].strip())
            if value != getattr(arena.settings, name):
                changed[name] = value
    ArenaSettings.from_dict(arena.settings.to_dict() | changed)
    title = given.get("title", arena.title).strip()
    return (None if title == arena.title else validate_name("title", title)), changed


def who_enters(choice: str) -> dict[str, str]:
    """The settings that an answer to the question who can enter means."""
    return {"visibility": _CLOSED} if choice == _CLOSED else {"visibility": "open", "entry": choice}


def entry_choice(settings: ArenaSettings) -> str:
    """The answer to that question now."""
    return _CLOSED if settings.visibility == _CLOSED else settings.entry


def editable_settings(arena: Arena) -> Mapping[str, FieldDefinition]:
    """The settings of this arena that a form can change."""
    return {
        name: one
        for name, one in definitions(ArenaSettings).items()
        if not one.fixed and (one.group != "live" or arena.settings.is_live)
    }


async def _blind_votes(visit: ArenaVisit, settings: ArenaSettings) -> dict[str, Any]:
    """Compute how many blind votes one voter can cast with these settings."""
    if settings.is_live:
        return {"reveal": "live", "session_votes": settings.session_votes, "blind_votes": None}
    queue = await visit.registry.voting_queue(visit.arena.name)
    revealed_after = {"vote": 1, "session": settings.session_votes, "never": None}[settings.reveal]
    blind = blind_votes_of_one(await queue.responses_by_prompt(), revealed_after)
    return {"reveal": settings.reveal, "session_votes": settings.session_votes, "blind_votes": blind}


async def _form(visit: ArenaVisit, given: Mapping[str, str], **said: Any) -> HTMLResponse:
    given = {"entry": entry_choice(visit.arena.settings), **given}
    settings = [
        (one, given.get(name, one.text(getattr(visit.arena.settings, name))))
        for name, one in editable_settings(visit.arena).items()
    ]
    return visit.page(
        "settings.html",
        "settings",
        settings=settings,
        entries=WHO_ENTERS,
        title=given.get("title", visit.arena.title),
        **await _blind_votes(visit, visit.arena.settings),
        **said,
    )
