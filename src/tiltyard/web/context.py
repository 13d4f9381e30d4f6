"""What the application of one web process is made of, as one value that every route reaches in the same way."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from fastapi import Request
from starlette.applications import Starlette

if TYPE_CHECKING:
    from tiltyard.arena.registry import ArenaRegistry
    from tiltyard.arena.voting.personal_boards import PersonalBoards
    from tiltyard.arena.voting.response_kinds import ResponseKinds
    from tiltyard.web.access import Access
    from tiltyard.web.metrics import ProcessMetrics
    from tiltyard.web.pages.board_data import BoardPageCache
    from tiltyard.web.pages.layout import PageTemplates
    from tiltyard.web.pages.matchup_view import RenderCache
    from tiltyard.web.pages.model import ModelPageCache
    from tiltyard.web.routes.health import Readiness

__all__ = ["Context", "app_context", "context_of", "put_context"]

#: Files of battles that one process makes at a time.
_CONCURRENT_EXPORT_LIMIT = 2


@dataclass(frozen=True, slots=True)
class Context:
    """Everything that requests share."""

    house: ArenaRegistry
    access: Access
    stage: ResponseKinds
    figures: ProcessMetrics
    readiness: Readiness
    pages: PageTemplates
    board_pages: BoardPageCache
    model_pages: ModelPageCache
    personal_boards: PersonalBoards
    render_cache: RenderCache
    #: Held while a file of battles is made.
    exports: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(_CONCURRENT_EXPORT_LIMIT))


def put_context(app: Starlette, context: Context) -> None:
    """Give an application its context; it is read by `app_context` alone."""
    app.state.context = context


def app_context(app: Starlette) -> Context:
    """The context of an application."""
    context: Context = app.state.context
    return context


def context_of(request: Request) -> Context:
    """The context of the application that a request came to."""
    return app_context(request.app)
