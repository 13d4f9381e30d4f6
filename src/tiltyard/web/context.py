"""The application context of one web process: the objects that all requests share."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from uuid import UUID

from fastapi import Request
from starlette.applications import Starlette

from tiltyard.web.export_slots import ExportSlots

if TYPE_CHECKING:
    from tiltyard.arena.operators.service_status import ServiceStatusReader
    from tiltyard.arena.registry import ArenaRegistry
    from tiltyard.arena.voting.matchup_ids import MatchupIds
    from tiltyard.arena.voting.personal_boards import PersonalBoards
    from tiltyard.arena.voting.response_kinds import ResponseKinds
    from tiltyard.arena.voting.sent_responses import Receipts
    from tiltyard.web.access import Access
    from tiltyard.web.metrics import ProcessMetrics
    from tiltyard.web.pages.board_data import BoardPageCache
    from tiltyard.web.pages.layout import PageTemplates
    from tiltyard.web.pages.matchup_view import RenderCache
    from tiltyard.web.pages.model import ModelPageCache
    from tiltyard.web.routes.health import Readiness
    from tiltyard.web.sign_in_attempts import SignInAttempts

__all__ = ["Context", "app_context", "context_of", "put_context"]


@dataclass(frozen=True, slots=True)
class Context:
    """The objects that all requests share."""

    registry: ArenaRegistry
    matchup_ids: MatchupIds
    access: Access
    response_kinds: ResponseKinds
    metrics: ProcessMetrics
    service_status: ServiceStatusReader
    readiness: Readiness
    pages: PageTemplates
    board_pages: BoardPageCache
    model_pages: ModelPageCache
    personal_boards: PersonalBoards
    render_cache: RenderCache
    sign_in_attempts: SignInAttempts
    receipts: Receipts
    #: Streams of live battles that are open, by battle.
    live_readers: Counter[UUID] = field(default_factory=Counter)
    #: Held during a battle export.
    exports: ExportSlots = field(default_factory=ExportSlots)


def put_context(app: Starlette, context: Context) -> None:
    """Attach the context to an application; read it with `app_context`."""
    app.state.context = context


def app_context(app: Starlette) -> Context:
    """The context of an application."""
    context: Context = app.state.context
    return context


def context_of(request: Request) -> Context:
    """The context of a request's application."""
    return app_context(request.app)
