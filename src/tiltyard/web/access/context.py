"""The application context of one web process: the objects that all requests share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar, cast
from uuid import UUID

from fastapi import Request
from starlette.applications import Starlette

if TYPE_CHECKING:
    from tiltyard.arena.operators.service_status import ServiceStatusReader
    from tiltyard.arena.registry import ArenaRegistry
    from tiltyard.arena.secret_keys import SecretKeys
    from tiltyard.arena.voting.matchup_ids import MatchupIds
    from tiltyard.arena.voting.personal_boards import PersonalBoards
    from tiltyard.arena.voting.response_kinds import ResponseKinds
    from tiltyard.web.access.access import Access

Shared = TypeVar("Shared")


@dataclass(frozen=True, slots=True)
class Context:
    """The objects that all requests share. What only some pages share is made by them: see `shared`."""

    registry: ArenaRegistry
    matchup_ids: MatchupIds
    access: Access
    response_kinds: ResponseKinds
    service_status: ServiceStatusReader
    personal_boards: PersonalBoards
    #: Streams of live battles that are open, by battle.
    live_readers: Counter[UUID] = field(default_factory=Counter)
    _shared: dict[type[object], object] = field(default_factory=dict)

    def shared(self, kind: type[Shared], make: Callable[[], Shared]) -> Shared:
        """The one object of a class in this process, made when it is first asked for."""
        if kind not in self._shared:
            self._shared[kind] = make()
        return cast("Shared", self._shared[kind])


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


def registry_of(request: Request) -> ArenaRegistry:
    """The arenas of this process."""
    return context_of(request).registry


def access_of(request: Request) -> Access:
    """The access control of this process."""
    return context_of(request).access


def keys_of(request: Request) -> SecretKeys:
    """The secret keys of this server."""
    return access_of(request).keys
