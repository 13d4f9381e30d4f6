"""Health checks and metrics, and who a program is to the server."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from fastapi import APIRouter, Depends, Request
from fastapi.responses import Response

from tiltyard.arena.accounts import SCOPE_ROLES, SCOPES, includes_role
from tiltyard.arena.rating.rater_lag import check_reachable
from tiltyard.arena.voting.voting_queue import VotingQueue
from tiltyard.errors import NotAllowed, StoreFault
from tiltyard.foundation.caches import SingleFlight
from tiltyard.web.access.access import context_of, registry_of
from tiltyard.web.access.route_access import CurrentActor, ScopeCheck
from tiltyard.web.edge.metrics import METRICS_TYPE, metrics_of, metrics_page, record_gauges
from tiltyard.web.edge.problem_details import Documented
from tiltyard.wire.operators import Health, Me, Ready

router = APIRouter(tags=["health"])

_DATABASE_TIMEOUT_SECONDS = 5.0
#: Seconds for which the result of a check is cached.
_READINESS_CACHE_SECONDS = 1.0
_TEXT: Documented = {200: {"content": {"text/plain": {}}, "description": "Prometheus's text format."}}


class Readiness:
    """Checks whether the database is ready, at most once a second."""

    def __init__(self, look: Callable[[], object]) -> None:
        self._look = look
        self._looks = SingleFlight(keep_seconds=_READINESS_CACHE_SECONDS)

    async def check(self) -> None:
        """Raise `StoreFault` unless the database is ready."""
        try:
            async with asyncio.timeout(_DATABASE_TIMEOUT_SECONDS):
                await self._looks("database", lambda: asyncio.to_thread(self._look))
        except TimeoutError:
            raise StoreFault("the database did not answer in time") from None


def count_loaded_arenas(voting_queues: Sequence[VotingQueue]) -> Ready:
    """Count loaded arenas; raise only if none is loaded. One that fails to load does not affect the others."""
    ready = sum(queue.ready for queue in voting_queues)
    if voting_queues and not ready:
        raise StoreFault("no arena is loaded yet")
    return Ready(status="ok", arenas=ready, loading=len(voting_queues) - ready)


@router.get("/api/v1/me")
async def me(actor: CurrentActor) -> Me:
    """The current identity and its scopes."""
    if actor is None:
        raise NotAllowed("not signed in; send a token, or sign in as the operator")
    greatest = actor.grants.greatest
    scopes = [one for one in SCOPES if one in actor.scopes and includes_role(greatest, SCOPE_ROLES[one])]
    return Me(name=actor.name, scopes=tuple(sorted(scopes)), arena=actor.arena)


@router.get("/healthz")
async def healthz() -> Health:
    """The process responds; nothing else is checked."""
    return Health(status="ok")


@router.get("/readyz")
async def readyz(request: Request) -> Ready:
    """The database responds and has this version's schema, and an arena is loaded if any was opened."""
    context = context_of(request)
    readiness = context.shared(Readiness, lambda: Readiness(lambda: check_reachable(context.registry.url)))
    await readiness.check()
    return count_loaded_arenas(registry_of(request).voting_queues)


@router.get(
    "/metrics", response_class=Response, responses=_TEXT, dependencies=[Depends(ScopeCheck("metrics"))]
)
async def metrics(request: Request) -> Response:
    """Requires a token with the scope metrics. The port TILTYARD_METRICS_PORT requires none."""
    context = context_of(request)
    record_gauges(context.registry)
    page = await asyncio.to_thread(metrics_page, metrics_of(context).registry, context.service_status.read)
    return Response(page, headers={"Content-Type": METRICS_TYPE})
