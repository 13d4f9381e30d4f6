"""Errors as RFC 9457 problem documents."""

from __future__ import annotations

import json
import math
import secrets
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from pydantic import ValidationError
from starlette.exceptions import HTTPException

from tiltyard.errors import (
    Busy,
    Closed,
    Conflict,
    Crowded,
    Expired,
    InputError,
    NoMatchup,
    NotAdmitted,
    NotAllowed,
    NotFound,
    OpenBattle,
    OutOfBudget,
    Paused,
    ProofNeeded,
    RoleMissing,
    StoreFault,
    TiltyardError,
    UnclearColumns,
)
from tiltyard.web.edge.logs import log_failure
from tiltyard.wire.records import FieldProblem, Problem, body_of

PROBLEM_TYPE = "application/problem+json"
#: Renders a problem document for the client.
ProblemFormatter = Callable[[Request, Response], Response]
#: Key in a request's scope: an unexpected error was already answered and logged.
ANSWERED_KEY = "tiltyard.answered"

#: A part of the OpenAPI description; and a route's ``responses``.
OpenApi = dict[str, Any]
Documented = dict[int | str, OpenApi]

_PREFIX = "urn:tiltyard:problem:"
#: Replacements of validation messages that mention Python, by error type.
_REPLACED_MESSAGES = {
    "unexpected_keyword_argument": "Extra inputs are not permitted",
    "dataclass_type": "Input should be an object",
}


def _(text: str) -> str:
    """Mark a title for translation; the page of a problem translates it."""
    return text


#: Default name and title by status.
PROBLEM_TITLES = {
    400: ("malformed", _("Bad request")),
    401: ("not-allowed", _("Not signed in")),
    403: ("forbidden", _("This is not allowed")),
    404: ("not-found", _("Page not found")),
    405: ("method-not-allowed", _("Method not allowed")),
    409: ("conflict", _("Conflict with existing data")),
    410: ("expired", _("The matchup has expired")),
    413: ("too-large", _("The request is too large")),
    415: ("unsupported-media-type", _("Unsupported media type")),
    422: ("invalid", _("Invalid request")),
    429: ("too-many", _("Too many requests")),
    500: ("internal", _("Internal server error")),
    503: ("unavailable", _("The service is temporarily unavailable")),
}
#: Our own errors: status, and name and title if the defaults do not fit.
PROBLEM_ERRORS: tuple[tuple[type[TiltyardError], int, str | None, str | None], ...] = (
    (ProofNeeded, 403, "proof-needed", _("A proof is needed")),
    (RoleMissing, 403, "role-needed", _("Your role does not allow this")),
    (NotAllowed, 401, None, None),
    (NotFound, 404, None, None),
    (Closed, 409, "closed", _("No longer open")),
    (Expired, 410, None, None),
    (Paused, 409, "paused", _("Voting is paused")),
    (OpenBattle, 409, "open-battle", _("A battle is still open")),
    (OutOfBudget, 409, "out-of-budget", _("The budget is spent")),
    (Conflict, 409, None, None),
    (Busy, 429, None, None),
    (Crowded, 503, "crowded", _("Server too busy")),
    (NoMatchup, 409, "no-matchup", _("There is nothing to vote on")),
    (UnclearColumns, 422, "unclear-columns", _("It is not clear what the columns hold")),
    (InputError, 422, None, None),
)


def problem(
    status: int,
    detail: str,
    *,
    name: str | None = None,
    title: str | None = None,
    headers: Mapping[str, str] | None = None,
    errors: Sequence[FieldProblem] | None = None,
    about: Mapping[str, Any] | None = None,
) -> Response:
    """A problem document as a response."""
    usual = PROBLEM_TITLES.get(status, ("other", _("The request was refused")))
    document = Problem(
        type=_PREFIX + (name or usual[0]),
        title=title or usual[1],
        status=status,
        detail=detail,
        instance=f"urn:tiltyard:occurrence:{secrets.token_hex(8)}",
        errors=errors,
        **(about or {}),
    )
    body = json.dumps(body_of(document), ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
    return Response(body, status, {"Cache-Control": "no-store", **(headers or {})}, PROBLEM_TYPE)


def problem_for_error(error: TiltyardError) -> Response:
    """The response for one of our own errors."""
    if isinstance(error, StoreFault) and not isinstance(error, Crowded):
        response = problem(
            503, "The database is not available. Try again in a moment.", headers={"Retry-After": "1"}
        )
        log_failure("unavailable", error, _instance(response))
        return response
    if isinstance(error, NotAdmitted):
        private = {} if error.arena is None else {"arena": error.arena}
        return problem(
            403, str(error), name=f"{error.entry}-required", title="This arena is private", about=private
        )
    found = next((row for row in PROBLEM_ERRORS if isinstance(error, row[0])), None)
    if found is None:
        return problem_for_unexpected(error)
    _, status, name, title = found
    if isinstance(error, NotAllowed) and error.known:
        status = 403
    about: dict[str, Any] | None = {"matchup": error.matchup} if isinstance(error, OpenBattle) else None
    if isinstance(error, UnclearColumns):
        about = {"columns": error.columns, "parameter": "columns" if error.columns else "only_model"}
    if isinstance(error, ProofNeeded) and error.arena is not None:
        about = {"gate": error.arena}
    return problem(status, str(error), name=name, title=title, headers=_headers(error, status), about=about)


def _headers(error: TiltyardError, status: int) -> dict[str, str] | None:
    if isinstance(error, Busy):
        return {"Retry-After": str(max(1, math.ceil(error.retry_after)))}
    if isinstance(error, Crowded):
        return {"Retry-After": "1"}
    return {"WWW-Authenticate": 'Bearer realm="tiltyard"'} if status == 401 else None


def problem_for_unexpected(error: BaseException) -> Response:
    """The response for an unexpected error: no details, and a reference that is also logged."""
    response = problem(500, "This is a bug in the server. Its log has details under this instance.")
    log_failure("unexpected", error, _instance(response))
    return response


def problem_from_http(error: HTTPException) -> Response:
    """The response for an HTTP error raised by the framework."""
    return problem(error.status_code, error.detail or "The request was refused.", headers=error.headers)


def problem_from_validation(error: RequestValidationError | ValidationError) -> Response:
    """The response for invalid input: names the fields, but not their values."""
    found = error.errors()
    if any(one["type"] == "json_invalid" for one in found):
        return problem(400, "The body is not JSON.")
    errors = [
        FieldProblem(
            ".".join(str(part) for part in one["loc"]), _REPLACED_MESSAGES.get(one["type"], str(one["msg"]))
        )
        for one in found
    ]
    detail = "; ".join(f"{one.field}: {one.problem}" for one in errors[:3])
    return problem(422, detail, errors=errors[:20])


def add_problem_handlers(app: FastAPI, dressed: ProblemFormatter = lambda _, response: response) -> None:
    """Send every error of this app as a problem document, formatted by ``dressed``."""

    async def ours(request: Request, error: Exception) -> Response:
        assert isinstance(error, TiltyardError)
        return dressed(request, problem_for_error(error))

    async def invalid(request: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError | ValidationError)
        return dressed(request, problem_from_validation(error))

    async def http(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        return dressed(request, problem_from_http(error))

    async def other(request: Request, error: Exception) -> Response:
        request.scope[ANSWERED_KEY] = True
        return dressed(request, problem_for_unexpected(error))

    app.add_exception_handler(Exception, other)
    app.add_exception_handler(TiltyardError, ours)
    app.add_exception_handler(RequestValidationError, invalid)
    app.add_exception_handler(HTTPException, http)


def _instance(response: Response) -> str:
    return str(json.loads(bytes(response.body))["instance"])
