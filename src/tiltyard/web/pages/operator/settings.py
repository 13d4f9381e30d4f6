"""The settings of an arena: how it is run, beside its ranking policy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import TypedDict

from fastapi import Request
from fastapi.responses import HTMLResponse, Response

from tiltyard.arena.content.answer_rows import validate_name
from tiltyard.arena.content.arenas import Arena
from tiltyard.arena.operators.arena_changes import change_settings
from tiltyard.core.policy.validity.vote_forecast import blind_votes_of_one
from tiltyard.errors import BadOption, InputError
from tiltyard.settings.arena_settings import ArenaSettings
from tiltyard.web.access.access import registry_of
from tiltyard.web.access.route_access import boards_of
from tiltyard.web.pages.operator.labels import LABELS, LIVE_SETTINGS, SETTINGS
from tiltyard.web.pages.operator.number_input import finite_number, whole_number
from tiltyard.web.pages.operator.operator_access import (
    actor_of,
    arena_of,
    arena_page,
    operator_router,
    pool_of,
    redirect_with_notice,
)

__all__ = ["SETTING_CHOICES", "SettingField", "read_settings", "router", "settings_of"]

router = operator_router("/arenas/{arena}/settings")

#: The values of settings that are chosen from a list.
SETTING_CHOICES = {
    "visibility": ("open", "closed"),
    "entry": ("open", "invitation", "passcode", "sign-in"),
    "gate": ("auto", "proof", "none"),
    "order": ("conservative", "bradley-terry"),
    "reveal": ("session", "vote", "never"),
    "shown_check": ("public", "always", "never"),
    "releases": ("both", "ordered", "none"),
    "live_pace": ("equal", "as-it-comes", "complete"),
    "live_votes": ("whole", "turn"),
    "erased_votes": ("anonymous", "removed"),
}
_NUMBERS = {"settled_family": "a number of pairs, or nothing", "session_votes": "a number of votes"} | {
    "live_prompt_characters": "a number of characters",
    "live_turns": "a number of turns",
    "live_answer_tokens": "a number of tokens",
    "live_retention_days": "a number of days, or nothing",
    "remark_retention_days": "a number of days, or nothing",
    "session_retention_days": "a number of days, or nothing",
}
#: Settings that may have no value.
_OPTIONAL = frozenset(
    {"settled_family", "embed_sites", "ageing_hours", "minute_limits"}
    | {"live_retention_days", "remark_retention_days", "session_retention_days"}
    | {"live_budget_dollars", "live_day_dollars", "live_voter_day_dollars"}
)


@dataclass(frozen=True, slots=True)
class SettingField:
    """One setting in the form."""

    name: str
    label: str
    meaning: str
    expected: str
    default: str
    choices: tuple[str, ...]
    value: str


@router.get("", response_class=HTMLResponse)
async def settings_page(arena: str, request: Request) -> HTMLResponse:
    """All settings, with their meanings."""
    return await _form(request, await arena_of(request, arena), {})


@router.get("/review", response_class=HTMLResponse)
async def settings_review(arena: str, request: Request) -> HTMLResponse:
    """Review the changes before they are saved."""
    found = await arena_of(request, arena)
    given = dict(request.query_params)
    try:
        title, changed = read_settings(found, given)
    except InputError as error:
        return await _form(request, found, given, trouble=str(error), status=422)
    before = found.settings.to_dict()
    meanings = settings_of(found)
    rows = [(name, meanings[name][0], _text(before[name]), _text(value)) for name, value in changed.items()]
    sent = [(name, _text(value)) for name, value in changed.items()]
    return arena_page(
        request,
        found,
        "settings_review.html",
        "settings",
        rows=rows,
        sent=sent,
        title=title,
        labels=LABELS,
        **await _blind_votes(request, found, ArenaSettings.from_dict(before | changed)),
    )


@router.post("")
async def settings_form(arena: str, request: Request) -> Response:
    """Save the reviewed changes."""
    registry, found = registry_of(request), await arena_of(request, arena)
    given = {name: str(value) for name, value in (await request.form()).items()}
    try:
        title, changed = read_settings(found, given)
        if not changed and title is None:
            return redirect_with_notice("unchanged", "arenas", arena, "settings")
        await change_settings(pool_of(request), arena, changed, title=title, actor=actor_of(request).name)
    except InputError as error:
        return await _form(request, found, given, trouble=str(error), status=422)
    await registry.settings_changed()
    boards_of(request).forget(arena)
    return redirect_with_notice("settings", "arenas", arena, "settings")


def read_settings(arena: Arena, given: Mapping[str, str]) -> tuple[str | None, dict[str, object]]:
    """The title and the settings that a form changes; `InputError` for invalid values."""
    changed: dict[str, object] = {}
    for one in fields(ArenaSettings):
        if one.name in given and one.name in settings_of(arena):
            value = _read(one.name, given[one.name].strip())
            if value != getattr(arena.settings, one.name):
                changed[one.name] = value
    ArenaSettings.from_dict(arena.settings.to_dict() | changed)
    title = given.get("title", arena.title).strip()
    return (None if title == arena.title else validate_name("title", title)), changed


def settings_of(arena: Arena) -> Mapping[str, tuple[str, str]]:
    """Meaning and expected value of the settings that this arena has."""
    return {**SETTINGS, **LIVE_SETTINGS} if arena.settings.is_live else SETTINGS


class _BlindVotes(TypedDict):
    """When names are revealed, and how many blind votes one voter can cast."""

    reveal: str
    session_votes: int
    blind_votes: int | None


async def _blind_votes(request: Request, arena: Arena, settings: ArenaSettings) -> _BlindVotes:
    """Compute how many blind votes one voter can cast with these settings."""
    if settings.is_live:
        return {"reveal": "live", "session_votes": settings.session_votes, "blind_votes": None}
    queue = await registry_of(request).voting_queue(arena.name)
    revealed_after = {"vote": 1, "session": settings.session_votes, "never": None}[settings.reveal]
    blind = blind_votes_of_one(await queue.responses_by_prompt(), revealed_after)
    return {"reveal": settings.reveal, "session_votes": settings.session_votes, "blind_votes": blind}


async def _form(
    request: Request,
    arena: Arena,
    given: Mapping[str, str],
    *,
    trouble: str | None = None,
    status: int = 200,
) -> HTMLResponse:
    defaults = ArenaSettings()
    settings = [
        SettingField(
            name=name,
            label=LABELS[name],
            meaning=meaning,
            expected=expected,
            default=_text(getattr(defaults, name)),
            choices=SETTING_CHOICES.get(name, ()),
            value=given.get(name, _text(getattr(arena.settings, name))),
        )
        for name, (meaning, expected) in settings_of(arena).items()
    ]
    return arena_page(
        request,
        arena,
        "settings.html",
        "settings",
        status=status,
        settings=settings,
        title=given.get("title", arena.title),
        trouble=trouble,
        **await _blind_votes(request, arena, arena.settings),
    )


def _read(name: str, text: str) -> object:
    """Parse the text of an input, in the type of the setting."""
    value: float | None
    if not text and name in _OPTIONAL:
        return None
    if name in _NUMBERS:
        value, expected = whole_number(text), _NUMBERS[name]
    elif name.endswith("_seconds"):
        value, expected = finite_number(text), "seconds"
    elif name.endswith("_hours"):
        value, expected = finite_number(text), "hours, or nothing"
    elif name.endswith("_dollars"):
        value, expected = finite_number(text), "dollars"
    else:
        return text
    if value is None:
        raise BadOption(f"{name} is {text[:100]!r}; expected {expected}")
    return value


def _text(value: object) -> str:
    if value is None:
        return ""
    return f"{value:.12g}" if isinstance(value, float) else str(value)
