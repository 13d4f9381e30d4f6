"""The application: routes and middleware."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from fastapi import FastAPI, Request
from fastapi.openapi.utils import get_openapi
from starlette.types import ASGIApp, Receive, Scope, Send

from tiltyard._version import __version__
from tiltyard.arena.accounts import Accounts
from tiltyard.arena.boards.model_profiles import ModelProfiles
from tiltyard.arena.content.catalog import read_arenas
from tiltyard.arena.rating.rater_lag import check_reachable
from tiltyard.arena.secret_keys import SecretKeys
from tiltyard.arena.voting.personal_boards import PersonalBoards
from tiltyard.arena.voting.response_kinds import ResponseKinds
from tiltyard.errors import TiltyardError
from tiltyard.settings.serving_settings import ServingSettings
from tiltyard.web import assets
from tiltyard.web.access import Access
from tiltyard.web.assets import load_assets
from tiltyard.web.context import Context, put_context
from tiltyard.web.cookies import VOTER_COOKIE
from tiltyard.web.fast_routes import FastRouter
from tiltyard.web.logs import log_failure
from tiltyard.web.metrics import ProcessMetrics
from tiltyard.web.middleware import EdgeMiddleware
from tiltyard.web.pages import page_routers
from tiltyard.web.pages.board_data import BoardPageCache
from tiltyard.web.pages.layout import PageTemplates, problem_page
from tiltyard.web.pages.matchup_view import RenderCache
from tiltyard.web.pages.model import ModelPageCache
from tiltyard.web.problem_details import PROBLEM_TYPE, OpenApi, add_problem_handlers
from tiltyard.web.routes import admin, arenas, battles, boards, health, matchups, moderation, operators
from tiltyard.wire.problems import FieldProblem, Problem
from tiltyard.wire.records import reader_of

if TYPE_CHECKING:
    from tiltyard.arena.registry import ArenaRegistry

__all__ = ["ArenasApp", "make_app"]


#: Arenas loaded at startup; others are loaded at their first request.
_PRELOADED_ARENA_LIMIT = 50


class ArenasApp(FastAPI):
    """The FastAPI application, wrapped in `EdgeMiddleware`."""

    _outermost: ASGIApp | None = None

    def wrap_with_middleware(self, settings: ServingSettings, metrics: ProcessMetrics) -> None:
        """Wrap the application in the edge middleware and the fast router for voters' routes."""
        inner = FastRouter(super().__call__, application=self, routes=matchups.router.routes)
        self._outermost = EdgeMiddleware(
            inner,
            settings=settings,
            metrics=metrics,
            dressed=lambda scope, refusal: problem_page(Request({**scope, "app": self}), refusal),
        )

    def openapi(self) -> OpenApi:
        if self.openapi_schema is None:
            self.openapi_schema = _described(self)
        return self.openapi_schema

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._outermost is None or scope["type"] != "http":
            await super().__call__(scope, receive, send)
        else:
            await self._outermost(scope, receive, send)


def make_app(registry: ArenaRegistry, keys: SecretKeys) -> FastAPI:
    """The application. It starts and stops the arenas with the server."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        await registry.start()
        await _load_arenas(registry)
        try:
            yield
        finally:
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
    context = _make_context(registry, keys)
    put_context(app, context)
    for module in (matchups, operators, health, arenas, boards, battles, admin, moderation):
        app.include_router(module.router)
    for router in (assets.router, *page_routers()):
        app.include_router(router)
    add_problem_handlers(app, problem_page)
    app.wrap_with_middleware(registry.settings, context.metrics)
    return app


def _make_context(registry: ArenaRegistry, keys: SecretKeys) -> Context:
    return Context(
        registry=registry,
        access=Access(Accounts(registry.pool), keys, registry.settings),
        response_kinds=ResponseKinds(registry.pool),
        metrics=ProcessMetrics(),
        readiness=health.Readiness(lambda: check_reachable(registry.url)),
        pages=PageTemplates(load_assets()),
        board_pages=BoardPageCache(),
        model_pages=ModelPageCache(ModelProfiles(registry.pool, registry.boards)),
        personal_boards=PersonalBoards(registry.pool, registry.boards),
        render_cache=RenderCache(),
    )


async def _load_arenas(registry: ArenaRegistry) -> None:
    """Load arenas at startup; one that fails is retried at its first request."""
    for arena in (await read_arenas(registry.pool))[:_PRELOADED_ARENA_LIMIT]:
        try:
            await registry.voting_queue(arena.name)
        except TiltyardError as error:
            log_failure("an arena cannot be loaded", error)


def _described(app: FastAPI) -> OpenApi:
    """The OpenAPI description; every operation in it may return a problem document."""
    made = get_openapi(title=app.title, version=app.version, description=app.description, routes=app.routes)
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
            _tell_problems(operation)
            if "voters" in operation["tags"]:
                operation["security"] = [{}, {"session": []}, {"token": []}]
    return made


def _tell_problems(operation: OpenApi) -> None:
    responses = operation["responses"]
    content = {PROBLEM_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}
    if "422" in responses:
        responses["422"]["description"] = "Invalid request"
    for status, response in responses.items():
        if status.startswith(("4", "5")):
            response["content"] = content
    responses["default"] = {"description": "Another problem", "content": content}
