"""Fast routes for voters: documented like all others, but called more directly.

FastAPI's routing, dependency resolution and response validation cost more than processing a vote. A route
of this class takes path parameters as text, at most one body and the request, and returns a finished
response; `FastRouter` finds it without searching all routes.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable
from dataclasses import dataclass, is_dataclass
from inspect import signature
from typing import Any, get_type_hints

from fastapi import FastAPI, Request
from fastapi.responses import Response
from fastapi.routing import APIRoute
from pydantic import TypeAdapter, ValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.routing import BaseRoute
from starlette.types import ASGIApp, Receive, Scope, Send

from tiltyard.errors import TiltyardError
from tiltyard.web.edge.problem_details import (
    problem,
    problem_for_error,
    problem_from_http,
    problem_from_validation,
)
from tiltyard.wire.records import json_bytes, reader_of

Handler = Callable[[Request], Coroutine[Any, Any, Response]]


class FastRoute(APIRoute):
    """Calls its function with the path parameters and the body, and sends the response that it returns."""

    def get_route_handler(self) -> Handler:
        endpoint = self.endpoint
        body: str | None = None
        reader: TypeAdapter[Any] | None = None
        for name, hint in get_type_hints(endpoint).items():
            if name != "return" and isinstance(hint, type) and is_dataclass(hint):
                body, reader = name, reader_of(hint)
        path = [name for name in signature(endpoint).parameters if name not in {"request", body}]

        async def handle(request: Request) -> Response:
            values: dict[str, object] = {name: request.path_params[name] for name in path}
            if body is not None and reader is not None:
                read = await _read(request, reader)
                if isinstance(read, Response):
                    return read
                values[body] = read
            answer: Response = await endpoint(request=request, **values)
            return answer

        return handle


@dataclass(frozen=True, slots=True)
class _PathPattern:
    """A path with one parameter, split at the parameter."""

    before: str
    name: str
    after: str
    handler: Handler
    endpoint: Callable[..., Any]


class FastRouter:
    """Handles fast routes, and passes all other requests to the application."""

    def __init__(self, app: ASGIApp, *, application: FastAPI, routes: Iterable[BaseRoute]) -> None:
        self._app = app
        self._application = application
        #: By method and last part of the path.
        self._ways: dict[tuple[str, str], _PathPattern] = {}
        for route in routes:
            if not isinstance(route, FastRoute):
                continue
            before, _, rest = route.path.partition("{")
            name, _, after = rest.partition("}")
            way = _PathPattern(before, name, after, route.get_route_handler(), route.endpoint)
            for method in route.methods or ():
                known = self._ways.setdefault((method, after.rpartition("/")[2]), way)
                assert known is way, (
                    f"{route.path} cannot be distinguished from {known.before}{{}}{known.after}"
                )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            path: str = scope["path"]
            way = self._ways.get((scope["method"], path.rpartition("/")[2]))
            if way is not None and path.startswith(way.before) and path.endswith(way.after):
                value = path[len(way.before) : len(path) - len(way.after)]
                if value and "/" not in value:
                    scope["path_params"] = {way.name: value}
                    await self._answer(way, scope, receive, send)
                    return
        await self._app(scope, receive, send)

    async def _answer(self, way: _PathPattern, scope: Scope, receive: Receive, send: Send) -> None:
        scope["app"] = self._application
        scope["endpoint"] = way.endpoint
        try:
            answer = await way.handler(Request(scope, receive, send))
        except TiltyardError as error:
            answer = problem_for_error(error)
        except HTTPException as error:
            answer = problem_from_http(error)
        except ClientDisconnect:
            return
        await answer(scope, receive, send)


async def _read(request: Request, reader: TypeAdapter[object]) -> object:
    """Parse the body, or return a response that says what is wrong. A missing body counts as ``{}``."""
    data = await request.body()
    if data:
        kind = request.headers.get("content-type", "")
        if kind != "application/json" and kind.partition(";")[0].strip().lower() != "application/json":
            return problem(415, "The Content-Type of the body must be application/json.")
    try:
        return reader.validate_json(data or b"{}")
    except ValidationError as error:
        return problem_from_validation(error)


def json_response(record: object, status: int = 200) -> Response:
    """A JSON response from a record of the API, without validation."""
    return Response(json_bytes(record), status, media_type="application/json")
