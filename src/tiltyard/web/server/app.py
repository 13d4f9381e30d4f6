"""The application: routes and middleware."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from fastapi import APIRouter, FastAPI, Request
from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from tiltyard._version import __version__
from tiltyard.arena.accounts import Accounts
from tiltyard.arena.operators.invitations import LiveInvitations
from tiltyard.arena.operators.people import People
from tiltyard.arena.operators.service_status import ServiceStatusReader
from tiltyard.arena.processes.shared_limits import SharedLimits
from tiltyard.arena.registry import ArenaRegistry
from tiltyard.arena.secret_keys import SecretKeys
from tiltyard.arena.voting.matchup_ids import MatchupIds
from tiltyard.arena.voting.personal_boards import PersonalBoards
from tiltyard.arena.voting.response_kinds import ResponseKinds
from tiltyard.arena.voting.sent_responses import Receipts
from tiltyard.foundation.telemetry import recording
from tiltyard.settings.serving_settings import ServingSettings, SignInSettings
from tiltyard.web import assets
from tiltyard.web.access.access import Access, Context, put_context
from tiltyard.web.access.cookies import VOTER_COOKIE, Cookies
from tiltyard.web.access.identities import Identities, PeerAddressMiddleware
from tiltyard.web.access.rate_limits import VoterLimits
from tiltyard.web.access.route_access import ScopeCheck, check_route_table
from tiltyard.web.edge.fast_routes import FastRouter
from tiltyard.web.edge.metrics import ProcessMetrics, metrics_of
from tiltyard.web.edge.middleware import EdgeMiddleware
from tiltyard.web.edge.problem_details import PROBLEM_TYPE, OpenApi, add_problem_handlers
from tiltyard.web.pages import page_routers
from tiltyard.web.pages.layout import problem_page
from tiltyard.web.pages.operator.operator_access import OperatorRoute
from tiltyard.web.routes import arenas, battles, boards, health, live, matchups, moderation
from tiltyard.wire.records import FieldProblem, Problem, reader_of


class ArenasApp(FastAPI):
    """The FastAPI application, wrapped in `EdgeMiddleware`."""

    _outermost: ASGIApp | None = None

    def wrap_with_middleware(self, settings: ServingSettings, metrics: ProcessMetrics) -> None:
        """Wrap the application in the edge middleware and the fast router for voters' routes."""
        inner = FastRouter(super().__call__, application=self, routes=matchups.router.routes)
        outer: Any = EdgeMiddleware(
            inner,
            settings=settings,
            metrics=metrics,
            dressed=lambda scope, refusal: problem_page(Request({**scope, "app": self}), refusal),
        )
        if settings.has_proxy:
            outer = ProxyHeadersMiddleware(outer, trusted_hosts=list(settings.trusted_proxies))
        self._outermost = PeerAddressMiddleware(outer)

    def openapi(self) -> OpenApi:
        if self.openapi_schema is None:
            made = get_openapi(
                title=self.title, version=self.version, description=self.description, routes=self.routes
            )
            schemas = made.setdefault("components", {}).setdefault("schemas", {})
            for name in ("HTTPValidationError", "ValidationError"):
                schemas.pop(name, None)
            reference = "#/components/schemas/{model}"
            for model in (Problem, FieldProblem):
                schema = reader_of(model).json_schema(ref_template=reference)
                schema.pop("$defs", None)
                schemas[model.__name__] = schema
            schemes = made["components"].setdefault("securitySchemes", {})
            schemes["session"] = {"type": "apiKey", "in": "cookie", "name": VOTER_COOKIE}
            for operations in made["paths"].values():
                for operation in operations.values():
                    content = {PROBLEM_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}
                    operation["responses"].pop("422", None)
                    operation["responses"]["default"] = {"description": "A problem", "content": content}
                    if "voters" in operation["tags"]:
                        operation["security"] = [{}, {"session": []}, {"token": []}]
            self.openapi_schema = made
        return self.openapi_schema

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._outermost is None or scope["type"] != "http":
            await super().__call__(scope, receive, send)
        else:
            await self._outermost(scope, receive, send)


def make_app(
    registry: ArenaRegistry,
    keys: SecretKeys,
    *,
    home: Path | None = None,
    sign_in: SignInSettings | None = None,
) -> FastAPI:
    """The application. It starts and stops the arenas with the server. ``home`` is the data folder."""

    limits = SharedLimits(registry.pool, keys)
    context = _make_context(registry, keys, home, sign_in or SignInSettings(), limits)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        with recording(metrics_of(context)):
            await registry.start()
            try:
                yield
            finally:
                await limits.stop()
                await registry.stop()

    app = ArenasApp(
        title="Tiltyard",
        version=__version__,
        description="Arenas in which people and LLM judges vote on blind matchups.",
        openapi_url="/api/v1/openapi.json",
        docs_url=None,
        redoc_url=None,
        swagger_ui_oauth2_redirect_url=None,
        lifespan=lifespan,
        redirect_slashes=False,
        generate_unique_id_function=lambda route: route.name,
    )
    put_context(app, context)
    for router in all_routers():
        app.include_router(router)
    check_route_table(_guarded_routes(all_routers()))
    add_problem_handlers(app, problem_page)
    app.wrap_with_middleware(registry.settings, metrics_of(context))
    return app


def _make_context(
    registry: ArenaRegistry,
    keys: SecretKeys,
    home: Path | None,
    sign_in: SignInSettings,
    limits: SharedLimits,
) -> Context:
    settings, cookies = registry.settings, Cookies(keys, secure=registry.settings.secure)
    identities = Identities(People(registry.pool, keys), keys, cookies, sign_in, settings.shard)
    return Context(
        registry=registry,
        matchup_ids=MatchupIds(keys, registry.settings.shard),
        access=Access(
            Accounts(registry.pool),
            LiveInvitations(registry.pool),
            keys,
            settings,
            identities=identities,
            limits=VoterLimits(limits, settings),
        ),
        response_kinds=ResponseKinds(registry.pool),
        service_status=ServiceStatusReader(registry.url, home),
        personal_boards=PersonalBoards(registry.pool, registry.boards),
        receipts=Receipts(keys),
    )


def all_routers() -> tuple[APIRouter, ...]:
    """The routes of the API, then those of the pages."""
    modules = (matchups, live, health, boards, battles, arenas, moderation)
    own = (*(module.router for module in modules), arenas.readers, live.stream_router, assets.router)
    return (*own, *page_routers())


def _guarded_routes(routers: Iterable[APIRouter]) -> Iterator[str]:
    """Routes for operators: their pages, and those of the API that require a scope."""
    for route in (route for router in routers for route in router.routes):
        if isinstance(route, APIRoute):
            checked = any(isinstance(one.call, ScopeCheck) for one in route.dependant.dependencies)
            if checked or isinstance(route, OperatorRoute):
                for method in route.methods or ():
                    yield f"{method} {route.path}"
