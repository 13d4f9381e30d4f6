"""Access to operators' pages: only for operators who are signed in with a browser, each by its role."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Mapping
from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request
from fastapi.responses import HTMLResponse, Response
from fastapi.routing import APIRoute

from tiltyard.arena.accounts import OperatorSession
from tiltyard.arena.content.arenas import Arena, find_arena
from tiltyard.errors import (
    BadOption,
    CannotRate,
    Closed,
    CodeNeeded,
    Conflict,
    InputError,
    NotAllowed,
    NotFound,
    OutOfBudget,
    SecondFactorMissing,
    TiltyardError,
)
from tiltyard.foundation.field_definitions import whole_number
from tiltyard.postgres.connections import ConnectionPool
from tiltyard.web.access.access import access_of, registry_of
from tiltyard.web.access.actors import Actor
from tiltyard.web.access.route_access import authorize, boards_of, route_need
from tiltyard.web.pages import paths
from tiltyard.web.pages.layout import redirect_to, render_page

SIGN_IN = "/operator/sign-in"
ACCOUNT = "/operator/account"
#: What a page says after a form was obeyed.
NOTICES: Mapping[str, str] = {
    "created": "The arena is created, as a draft. The list shows what it needs until the first vote.",
    "enabled": "The model is enabled and may be served.",
    "retired": "The model is retired. Its battles still count.",
    "model-added": "The model is added. It answers from the next battle.",
    "paused": "The model is paused. It is not asked, and stays on the board.",
    "resumed": "The model answers again.",
    "unchanged": "Nothing to change.",
    "described": "The details are saved.",
    "imported": "The answers are imported.",
    "votes-imported": "The past votes are imported. The next board counts them.",
    "discarded": "The file is discarded; nothing was imported.",
    "withdrawn": "Withdrawn. Names, hashes and battles are kept.",
    "policy": "The policy is changed. Applies from the next vote.",
    "phase": "The phase is changed. Applies from the next vote.",
    "settings": "The settings are saved.",
    "explained": "The change is explained.",
    "excluded": "The votes are excluded. The next board will not count them.",
    "restored": "The votes are restored. The next board will count them.",
    "settled": "The complaint is settled.",
    "revoked": "The token is revoked.",
    "hidden": "Hidden: it is served no more. You can show it again.",
    "shown": "It is served again.",
    "texts": "The texts are saved.",
    "stage-open": "The arena is open. From now on votes count.",
    "stage-clear": "The test votes are cleared.",
    "stage-pause": "The arena is paused. Voters see it within five seconds.",
    "stage-resume": "The arena is open again.",
    "stage-archive": "The arena is archived.",
    "stage-reopen": "The arena is open again.",
    "stage-delete": "The arena is hidden and will be deleted. Until then you can restore it on its page Stage.",
    "stage-keep": "The arena is restored.",
    "panel-closed": "The panel is closed. Its figures are final.",
    "adjudicated": "The adjudication is recorded. The votes stay as they are.",
    "uninvited": "The invitation is revoked. Whoever came in by it is out within seconds.",
    "operator-uninvited": "The invitation is revoked. Its link does not work any more.",
    "role": "The role is changed. Applies from the next click.",
    "operator-removed": "The operator is removed. Its sessions and tokens have ended.",
    "signed-out": "Signed out.",
    "factor-off": "The second factor is turned off.",
    "factor-needed": "Your role needs a second factor. Set it up to go on.",
}


#: Shows the page of a form again, with ``trouble`` and ``status``.
FormAgain = Callable[..., Awaitable[Response]]


class OperatorRoute(APIRoute):
    """Checks access before the request is parsed, and shows the form again if it is refused."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def guarded(request: Request) -> Response:
            actor = await access_of(request).actors.find(request)
            if actor is None:
                return redirect_to(_sign_in(request))
            if actor.session is None:
                raise NotAllowed(
                    "these pages are for operators, signed in with a browser; programs use the API",
                    known=True,
                )
            try:
                await authorize(request, actor, "admin", route_need(request.method, self.path))
            except SecondFactorMissing:
                return redirect_to(f"{ACCOUNT}?said=factor-needed")
            await access_of(request).accounts.note_session(actor.session.session)
            request.state.actor, request.state.form_again = actor, None
            try:
                return await handle(request)
            except (InputError, CannotRate, NotFound, Conflict, Closed, CodeNeeded, OutOfBudget) as error:
                if request.state.form_again is None:
                    raise
                form_again: FormAgain = request.state.form_again
                return await form_again(trouble=str(error), status=_status_of(error))

        return guarded


def operator_router(prefix: str = "") -> APIRouter:
    """A router for pages that only operators may see, each with the role that `tiltyard.web.access.route_access` names."""
    return APIRouter(prefix=f"/operator{prefix}", include_in_schema=False, route_class=OperatorRoute)


class OperatorVisit:
    """A request of an operator who is signed in."""

    #: The arena that the path names, if it names one.
    place: Arena | None = None

    def __init__(self, request: Request) -> None:
        self.request = request
        self.registry = registry_of(request)
        self.pool: ConnectionPool = self.registry.pool
        self.actor: Actor = request.state.actor

    @property
    def session(self) -> OperatorSession:
        session = self.actor.session
        assert session is not None
        return session

    def on_refusal(self, page: FormAgain, *values: Any, **said: Any) -> None:
        """Answer with this page, and with the reason, if what the form asks for is refused from here on."""
        self.request.state.form_again = partial(page, self, *values, **said)

    def page(self, template: str, active: str | None = None, **values: Any) -> HTMLResponse:
        """Render a page, with a notice of what was just done after a form.

        ``active``: its entry in the navigation; ``status``: the status of the answer, 200 unless it is given;
        ``trouble``: why a form was not obeyed.
        """
        arena = self.place
        given: dict[str, Any] = {
            "me": self.session.name,
            "may": partial(_may, self.actor, arena),
            # Whether the contents of the arena can be changed.
            "changeable": arena is None or arena.settings.accepts_votes,
            "said": NOTICES.get(self.request.query_params.get("said", "")),
            "trouble": None,
            "arena": arena,
            "active": active,
        }
        return render_page(self.request, f"operator/{template}", **(given | values))

    def done(self, said: str, *parts: str | int, query: Mapping[str, str | None] | None = None) -> Response:
        """Redirect to a page, of the arena if there is one, with a notice that the form was processed."""
        within = () if self.place is None else ("arenas", self.place.name)
        return redirect_with_notice(said, *within, *parts, query=query)


class ArenaVisit(OperatorVisit):
    """The same, about the arena that the path names."""

    def __init__(self, request: Request, arena: Arena) -> None:
        super().__init__(request)
        self.arena = self.place = arena

    async def apply_settings(self) -> None:
        """Let what this process remembers of the arena follow a change of its settings."""
        await self.registry.settings_changed()
        boards_of(self.request).forget(self.arena.name)


async def _visit_arena(request: Request, arena: str) -> ArenaVisit:
    return ArenaVisit(request, await find_arena(registry_of(request).pool, arena))


async def _visit_either(request: Request) -> OperatorVisit:
    arena = request.path_params.get("arena")
    return OperatorVisit(request) if arena is None else await _visit_arena(request, arena)


OnServer = Annotated[OperatorVisit, Depends(OperatorVisit)]
OnArena = Annotated[ArenaVisit, Depends(_visit_arena)]
#: For pages that the installation has, and each arena.
OnEither = Annotated[OperatorVisit, Depends(_visit_either)]


def _may(actor: Actor, arena: Arena | None, path: str, method: str = "GET", name: str | None = None) -> bool:
    """Whether an operator may use a page, such as ``/arenas/{arena}/models``; ``name``: in another arena."""
    need = route_need(method, f"/operator{path}")
    if need.where == "own":
        return True
    if need.where == "anywhere":
        return actor.may_somewhere("admin", need.role)
    named = name or (None if arena is None else arena.name)
    return actor.may("admin", named if need.where == "arena" else None, need.role)


def redirect_with_notice(
    said: str, *parts: str | int, query: Mapping[str, str | None] | None = None
) -> Response:
    """Redirect to a page with a notice that the form was processed."""
    assert said in NOTICES, said
    return redirect_to(paths.asked(paths.operator(*parts), {"said": said, **(query or {})}))


def _status_of(error: TiltyardError) -> int:
    return 404 if isinstance(error, NotFound) else 409 if isinstance(error, Conflict) else 422


def typed_number(name: str, text: str, least: int = 1, most: int = 10**9) -> int:
    """The whole number that was typed into a field; `BadOption` if it is none of these."""
    value = whole_number(text.strip())
    if value is None or not least <= value <= most:
        raise BadOption(f"{name} is {text[:100]!r}; expected a number from {least} to {most:,}")
    return value


def _sign_in(request: Request) -> str:
    """The path of the sign-in page, which returns to the requested page, unless that was a form submission."""
    if request.method != "GET":
        return SIGN_IN
    query = request.url.query
    wanted = request.url.path + (f"?{query}" if query else "")
    return paths.asked(SIGN_IN, {"next": paths.local(wanted, "/operator")})
