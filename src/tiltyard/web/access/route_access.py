"""What routes ask of access control: who is signed in, which role a route needs, what readers may see and have cached."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Final, Literal

from fastapi import Depends, Path, Query, Request
from fastapi.responses import Response
from fastapi.security import APIKeyCookie, HTTPBearer

from tiltyard.arena.accounts import SCOPES, SessionOrigin
from tiltyard.arena.boards.arena_lists import ListedArena, ListReader, list_arena_page
from tiltyard.arena.boards.board_cache import BoardCache
from tiltyard.arena.boards.model_profiles import ModelProfiles
from tiltyard.arena.content.arenas import Arena
from tiltyard.arena.log.event_log import SOURCES
from tiltyard.arena.voting.personal_boards import PersonalBoards
from tiltyard.errors import NotAllowed, RoleMissing, SecondFactorMissing
from tiltyard.files.answer_formats.answer_columns import ColumnChoice
from tiltyard.web.access.access import access_of, context_of, registry_of
from tiltyard.web.access.actors import Actor
from tiltyard.web.access.cookies import OPERATOR_COOKIE
from tiltyard.web.access.rate_limits import client_address
from tiltyard.wire.records import OperatorRole, Plain, Scope, SourceName

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
    """A dependency that requires a scope and the role of its route; see `ROUTE_NEEDS`."""

    def __init__(self, scope: Scope) -> None:
        assert scope in SCOPES
        self.scope = scope

    async def __call__(self, request: Request, actor: CurrentActor) -> Actor:
        if actor is None:
            raise NotAllowed(f"sign in as an operator, or send a token with the scope {self.scope}")
        await authorize(request, actor, self.scope, route_need(request.method, request.scope["route"].path))
        return actor


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
    return registry_of(request).boards


def model_profiles_of(request: Request) -> ModelProfiles:
    """The profiles of models in this process."""
    context = context_of(request)
    return context.shared(
        ModelProfiles, lambda: ModelProfiles(context.registry.pool, context.registry.boards)
    )


def personal_boards_of(request: Request) -> PersonalBoards:
    """The boards of voters' own votes in this process."""
    return context_of(request).personal_boards


def source_number(source: SourceName) -> int:
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


async def list_readable(
    request: Request, actor: Actor | None, *, after: str, search: str, limit: int, archived: bool = True
) -> list[ListedArena]:
    """A page of the arenas that the client may read, by name; fewer than ``limit`` at the end of the list."""
    access, full = access_of(request), True
    found: list[ListedArena] = []
    reader = ListReader(
        everything=actor is not None and actor.arena is None and actor.grants.installation is not None,
        names=() if actor is None else tuple({*actor.grants.arenas, *filter(None, [actor.arena])}),
        arenas=access.entry.arenas(request),
        signed_in=await access.entry.person(request) is not None,
    )
    while full and len(found) < limit:
        page = await list_arena_page(
            registry_of(request).pool, reader, after=after, search=search, limit=limit, archived=archived
        )
        found += [one for one in page if await may_read(request, actor, one.arena)]
        full = len(page) == limit
        after = page[-1].arena.name if page else after
    return found[:limit]


async def readable_arena(arena: ArenaName, request: Request, actor: CurrentActor) -> Arena:
    """The arena in the path; `NotFound` or `NotAdmitted` if the client may not read it."""
    found = await boards_of(request).arena(arena)
    if await may_read(request, actor, found):
        return found
    raise await access_of(request).entry.refusal(request, found.name, found.settings)


ReadableArena = Annotated[Arena, Depends(readable_arena)]


#: Of what never changes under its address. An arena may be closed, or votes excluded: shared caches ask again.
SHARED_SECONDS = 600
HASHED_AGE = f"max-age=31536000, immutable, s-maxage={SHARED_SECONDS}"


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
    age = (
        (HASHED_AGE if for_ever else "max-age=5, stale-while-revalidate=60")
        if shared == "public"
        else ("max-age=31536000, immutable" if for_ever else "max-age=5, must-revalidate")
    )
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


RoleScope = Literal["arena", "installation", "anywhere", "own"]


@dataclass(frozen=True, slots=True)
class RouteNeed:
    """The least role that a route needs, and where.

    In the arena of its path, for the installation, or in any arena. ``own``: it is about the operator itself and needs
    no role.
    """

    role: OperatorRole
    where: RoleScope


def _role_for_routes(
    role: OperatorRole, routes: str, where: RoleScope | None = None
) -> Mapping[str, RouteNeed]:
    """The same role for several paths, one on each line with its methods: in the arena of the path if it has one."""
    found: dict[str, RouteNeed] = {}
    for *methods, path in filter(None, map(str.split, routes.splitlines())):
        need = RouteNeed(role, where or ("arena" if "{arena}" in path else "installation"))
        found |= {f"{method} {path}": need for method in methods}
    return found


#: Which role each route for operators needs: pages and API. A server with a route that is not here does not start. Routes
#: of voters and readers are not here: what they show depends on the arena's settings.
ROUTE_NEEDS: Final[Mapping[str, RouteNeed]] = {
    # Every operator: its own account.
    **_role_for_routes(
        "analyst",
        """
        GET /operator/account
        POST /operator/account/second-factor
        POST /operator/account/second-factor/confirm
        POST /operator/account/second-factor/off
        POST /operator/account/sessions/{session}/end
        POST /operator/account/sessions/end-others
        """,
        "own",
    ),
    # Whoever has a role somewhere: its own tokens, its arenas.
    **_role_for_routes(
        "analyst",
        """
        GET /operator
        GET POST /operator/tokens
        GET POST /operator/tokens/{api_token}/revoke
        """,
        "anywhere",
    ),
    **_role_for_routes(
        "analyst",
        """
        GET /metrics
        GET /operator/arenas/{arena}
        GET /operator/arenas/{arena}/models
        GET /operator/arenas/{arena}/live
        GET /operator/arenas/{arena}/prompts
        GET /operator/arenas/{arena}/prompts/view
        GET /operator/arenas/{arena}/preview
        GET /operator/arenas/{arena}/shadow
        GET /operator/arenas/{arena}/crowd
        GET /operator/arenas/{arena}/exclusions
        GET /operator/arenas/{arena}/exports
        GET /api/v1/arenas/{arena}/models
        GET /api/v1/arenas/{arena}/prompts
        GET /api/v1/arenas/{arena}/responses
        GET /api/v1/arenas/{arena}/exclusions
        GET /api/v1/arenas/{arena}/shadow
        GET /api/v1/arenas/{arena}/past-votes
        """,
    ),
    **_role_for_routes(
        "moderator",
        """
        GET /operator/arenas/{arena}/voters
        GET /operator/arenas/{arena}/voters/{session}
        POST /operator/arenas/{arena}/crowd/{change}/explain
        GET POST /operator/arenas/{arena}/exclude
        GET POST /operator/arenas/{arena}/exclusions/{exclusion}/restore
        GET /operator/arenas/{arena}/remarks
        GET /operator/arenas/{arena}/complaints
        GET /operator/arenas/{arena}/complaints/{complaint}
        POST /operator/arenas/{arena}/complaints/{complaint}/settle
        GET /operator/arenas/{arena}/audit
        POST /api/v1/arenas/{arena}/exclusions
        POST /api/v1/arenas/{arena}/exclusions/{exclusion}/restore
        GET /api/v1/arenas/{arena}/complaints
        POST /api/v1/arenas/{arena}/complaints/{complaint}/settle
        GET /api/v1/arenas/{arena}/audit
        GET /api/v1/arenas/{arena}/battles/exact
        """,
    ),
    **_role_for_routes(
        "operator",
        """
        POST /operator/arenas
        GET /operator/arenas/{arena}/conversations.parquet
        GET /operator/arenas/{arena}/prompts.jsonl
        GET POST /operator/arenas/{arena}/stage
        GET /operator/arenas/{arena}/stage/confirm
        GET /operator/arenas/{arena}/answers
        GET POST /operator/arenas/{arena}/answers/write
        POST /operator/arenas/{arena}/past-votes
        POST /operator/arenas/{arena}/uploads
        GET /operator/arenas/{arena}/uploads/{upload}
        POST /operator/arenas/{arena}/uploads/{upload}/let-in
        POST /operator/arenas/{arena}/uploads/{upload}/discard
        GET POST /operator/arenas/{arena}/models/details
        POST /operator/arenas/{arena}/models/details-file
        GET POST /operator/arenas/{arena}/models/retire
        POST /operator/arenas/{arena}/models/enable
        GET POST /operator/arenas/{arena}/live/model
        POST /operator/arenas/{arena}/live/pause
        POST /operator/arenas/{arena}/prompts/hide
        POST /operator/arenas/{arena}/prompts/show
        GET POST /operator/arenas/{arena}/prompts/withdraw
        GET POST /operator/arenas/{arena}/erase
        GET POST /operator/arenas/{arena}/policy
        GET /operator/arenas/{arena}/policy/review
        GET POST /operator/arenas/{arena}/phase
        GET /operator/arenas/{arena}/phase/confirm
        GET POST /operator/arenas/{arena}/settings
        GET /operator/arenas/{arena}/settings/review
        GET POST /operator/arenas/{arena}/invitations
        POST /operator/arenas/{arena}/invitations/passcode
        POST /operator/arenas/{arena}/invitations/{invitation}/remind
        GET POST /operator/arenas/{arena}/invitations/{invitation}/revoke
        GET POST /operator/arenas/{arena}/panels
        GET /operator/arenas/{arena}/panels/{panel}
        GET /operator/arenas/{arena}/panels/{panel}/table.{form}
        POST /operator/arenas/{arena}/panels/{panel}/adjudicate
        POST /operator/arenas/{arena}/panels/{panel}/close
        GET POST /operator/arenas/{arena}/texts
        POST /api/v1/arenas
        PATCH /api/v1/arenas/{arena}
        POST /api/v1/arenas/{arena}/responses
        POST /api/v1/arenas/{arena}/past-votes
        POST /api/v1/arenas/{arena}/models/{model:path}/enable
        POST /api/v1/arenas/{arena}/models/{model:path}/retire
        POST /api/v1/arenas/{arena}/withdrawals
        PATCH /api/v1/arenas/{arena}/policy
        """,
    ),
    **_role_for_routes(
        "owner",
        """
        GET /operator/audit
        GET POST /operator/operators
        POST /operator/operators/invitations/{link}/revoke
        GET /operator/operators/{operator}
        POST /operator/operators/{operator}/role
        POST /operator/operators/{operator}/sign-out
        GET POST /operator/operators/{operator}/remove
        GET POST /operator/arenas/{arena}/stage/delete
        POST /operator/arenas/{arena}/stage/keep
        GET POST /operator/arenas/{arena}/operators
        POST /operator/arenas/{arena}/operators/invitations/{link}/revoke
        POST /operator/arenas/{arena}/operators/{operator}/role
        """,
    ),
}


def route_need(method: str, path: str) -> RouteNeed:
    """What a route needs; ``path`` has its parameters in braces."""
    return ROUTE_NEEDS[f"{method} {path}"]


def check_route_table(guarded: Iterable[str], table: Collection[str] = ROUTE_NEEDS.keys()) -> None:
    """Raise unless the routes that are guarded, such as ``GET /operator``, are those of the table."""
    known = set(guarded)
    missing, unknown = sorted(known - set(table)), sorted(set(table) - known)
    if missing:
        raise RuntimeError(
            f"no role is named for {', '.join(missing)}; add it to tiltyard/web/access/route_access.py, with the least role"
        )
    if unknown:
        raise RuntimeError(
            f"tiltyard/web/access/route_access.py names routes that do not exist: {', '.join(unknown)}"
        )


def _chosen_columns(
    columns: Annotated[
        list[str] | None,
        Query(
            description="What a column of a table holds, as `model=llm`; repeated. Needed where headers are not documented."
        ),
    ] = None,
    only_model: Annotated[
        Plain | None, Query(description="The model of all answers, where no column names it.")
    ] = None,
) -> ColumnChoice | None:
    return ColumnChoice.parsed(columns or (), only_model)


ChosenColumns = Annotated[ColumnChoice | None, Depends(_chosen_columns)]
