"""What routes ask of access control: who is signed in, whether they may, and what readers may see and have cached."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from fastapi import Depends, Path, Query, Request
from fastapi.responses import Response
from fastapi.security import APIKeyCookie, HTTPBearer

from tiltyard.arena.accounts import SCOPES, SessionOrigin
from tiltyard.arena.boards.board_cache import BoardCache
from tiltyard.arena.content.arenas import Arena
from tiltyard.arena.log.event_log import SOURCES
from tiltyard.arena.voting.personal_boards import PersonalBoards
from tiltyard.errors import NotAllowed, NotFound, RoleMissing, SecondFactorMissing
from tiltyard.web.access.actors import Actor
from tiltyard.web.access.context import access_of, context_of, registry_of
from tiltyard.web.access.cookies import OPERATOR_COOKIE
from tiltyard.web.access.rate_limits import client_address
from tiltyard.web.access.route_roles import RouteNeed, route_need
from tiltyard.wire.vocabulary import Scope, SourceName

if TYPE_CHECKING:
    from collections.abc import Mapping

_BEARER = HTTPBearer(auto_error=False, scheme_name="token", description="An API token: tyt_…")
_COOKIE = APIKeyCookie(
    name=OPERATOR_COOKIE, auto_error=False, scheme_name="operator", description="The operator, signed in."
)


async def current_actor(
    request: Request,
    _bearer: Annotated[object, Depends(_BEARER)],
    _cookie: Annotated[object, Depends(_COOKIE)],
) -> Actor | None:
    """The signed-in identity, if any."""
    return await access_of(request).actors.find(request)


#: For public routes whose answer depends on who is signed in.
CurrentActor = Annotated[Actor | None, Depends(current_actor)]


class ScopeCheck:
    """A dependency that requires a scope and the role of its route; see `tiltyard.web.access.route_roles`."""

    def __init__(self, scope: Scope) -> None:
        assert scope in SCOPES
        self._scope = scope

    async def __call__(self, request: Request, actor: CurrentActor) -> Actor:
        if actor is None:
            raise NotAllowed(f"sign in as an operator, or send a token with the scope {self._scope}")
        await authorize(request, actor, self._scope, route_need(request.method, request.scope["route"].path))
        return actor


def require_scope(scope: Scope) -> ScopeCheck:
    """A dependency that requires this scope, and the role that the table of routes names."""
    return ScopeCheck(scope)


async def authorize(request: Request, actor: Actor, scope: Scope, need: RouteNeed) -> None:
    """Raise unless the actor has the scope and the role that a route needs; the message names who can grant it."""
    if need.where == "own":
        return
    arena = request.path_params.get("arena") if need.where == "arena" else None
    if access_of(request).actors.lacks_second_factor(actor):
        raise SecondFactorMissing(
            "your role needs a second factor; set it up at /operator/account, and then try again"
        )
    try:
        if need.where == "anywhere":
            actor.require_somewhere(scope, need.role)
        else:
            actor.require(scope, arena, need.role)
    except RoleMissing as error:
        owners = ", ".join(await access_of(request).accounts.list_owners(arena))
        raise RoleMissing(f"{error}. An owner can grant it: {owners or 'there is none'}") from None


def origin_of(request: Request) -> SessionOrigin:
    """Where a request comes from, as the list of an operator's sessions shows it."""
    return SessionOrigin(client_address(request), request.headers.get("user-agent", ""))


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
