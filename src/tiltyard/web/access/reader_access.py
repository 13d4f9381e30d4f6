"""Read access: only to arenas that the client may see, and 304 Not Modified for what the client has cached."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from fastapi import Depends, Path, Query, Request
from fastapi.responses import Response

from tiltyard.arena.boards.board_cache import BoardCache
from tiltyard.arena.content.arenas import Arena
from tiltyard.arena.log.event_log import SOURCES
from tiltyard.arena.voting.personal_boards import PersonalBoards
from tiltyard.errors import NotFound
from tiltyard.web.access.access import Actor, CurrentActor, access_of, registry_of
from tiltyard.web.access.context import context_of
from tiltyard.wire.vocabulary import SourceName

if TYPE_CHECKING:
    from collections.abc import Mapping

ArenaName = Annotated[str, Path(description="The arena's name.", examples=["main"])]
ModelName = Annotated[
    str, Path(description="The model's name; slashes stay as they are.", examples=["org/m-1"])
]
Source = Annotated[SourceName, Query(description="Whose votes: people's, or judges'.")]


def boards_of(request: Request) -> BoardCache:
    """The boards of this process."""
    return registry_of(request).boards


def personal_boards_of(request: Request) -> PersonalBoards:
    """The boards of voters' own votes in this process."""
    return context_of(request).personal_boards


def source_number(source: SourceName) -> int:
    """The number of a source."""
    return SOURCES.index(source)


async def may_read(request: Request, actor: Actor | None, arena: Arena) -> bool:
    """Anyone may read an open arena. A closed one requires the scope read or judge; a private one that or entry."""
    if arena.settings.public:
        return True
    if actor is not None and (actor.may("read", arena.name) or actor.may("judge", arena.name)):
        return True
    if arena.settings.hidden:
        return False
    return await access_of(request).entry.admit(request, arena.arena, arena.settings)


async def readable_arena(arena: ArenaName, request: Request, actor: CurrentActor) -> Arena:
    """The arena in the path; `NotFound` or `NotAdmitted` if the client may not read it."""
    found = await boards_of(request).arena(arena)
    if await may_read(request, actor, found):
        return found
    if found.settings.hidden:
        raise NotFound("no such arena; see the list of arenas")
    raise await access_of(request).entry.refusal(request, found.name, found.settings)


ReadableArena = Annotated[Arena, Depends(readable_arena)]


def send_cacheable(
    request: Request,
    arena: Arena,
    data: bytes,
    etag: str,
    *,
    for_ever: bool = False,
    headers: Mapping[str, str] | None = None,
    media_type: str = "application/json",
) -> Response:
    """A response with a strong ETag, or 304 if the client has it. Shared caches may store it if the arena is open."""
    shared = "public" if arena.settings.public else "private"
    age = "max-age=31536000, immutable" if for_ever else "max-age=5, must-revalidate"
    sent = {"ETag": f'"{etag}"', "Cache-Control": f"{shared}, {age}", **(headers or {})}
    if shared == "private":
        sent["Vary"] = ", ".join(filter(None, (sent.get("Vary"), "Authorization, Cookie")))
    if _has(request.headers.get("if-none-match"), f'"{etag}"'):
        return Response(status_code=304, headers=sent)
    return Response(data, headers=sent, media_type=media_type)


def _has(stated: str | None, etag: str) -> bool:
    """Whether ``If-None-Match`` includes this tag: a list of weak or strong tags, or a star."""
    tags = [tag.strip().removeprefix("W/") for tag in (stated or "").split(",")]
    return "*" in tags or etag in tags
