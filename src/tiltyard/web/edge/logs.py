"""Logs: one JSON object per line on standard error, without private data.

No text of prompts, responses or messages, no addresses, keys, tokens, matchup ids, query strings or
passwords. Our own lines have fixed messages; messages of libraries are redacted.
"""

from __future__ import annotations

import json
import logging
import re
import secrets
import sys
import traceback
from contextvars import ContextVar, Token
from datetime import UTC, datetime
from typing import TextIO

_LOG = logging.getLogger("tiltyard.web")
_FACTS = "facts"

#: Patterns that are redacted in messages of libraries, with their replacements.
_REDACTIONS = (
    (re.compile(r"(?<![a-z0-9+.-])[a-z0-9+.-]*+://\S+", re.IGNORECASE), "<url>"),
    (
        re.compile(r"(?i)\b(password|passwd|secret|token|authorization|cookie|key)\b\s*[=:]\s*\S+"),
        r"\1=<hidden>",
    ),
    (re.compile(r"\?\S+"), "?<query>"),
    (re.compile(r"\"[^\"]*\"|'[^']*'|«[^»]*+(?:»|\Z)|`[^`]*`|\([^()]*\)=\([^()]*\)"), "<quoted>"),
    (re.compile(r"\b\d{1,3}(?:\.\d{1,3}){3}\b(?::\d+)?"), "<address>"),
    (re.compile(r"(?<![\w:.])(?:[0-9a-f]{0,4}:){2,7}[0-9a-f]{0,4}(?![\w:.])", re.IGNORECASE), "<address>"),
    (re.compile(r"/m/\S+|/matchups/\S+"), "/<matchup>"),
    (re.compile(r"\b[\w-]{20,}\b"), "<long>"),
)


class JsonLogFormatter(logging.Formatter):
    """Formats a record as one line of JSON."""

    def format(self, record: logging.LogRecord) -> str:
        own = record.name == _LOG.name
        line: dict[str, object] = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "from": record.name,
            "event": record.getMessage() if own else redact(record.getMessage()),
            **getattr(record, _FACTS, {}),
        }
        if (request := current_request_id()) is not None:
            line["request"] = request
        if record.exc_info and record.exc_info[1] is not None and "error" not in line:
            line.update(_error_facts(record.exc_info[1]))
        return json.dumps(line, ensure_ascii=True, default=str)


def configure_logging(stream: TextIO | None = None, *, level: int = logging.INFO) -> None:
    """Send all logs of this process to standard error, as JSON."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonLogFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    logging.getLogger("tiltyard").setLevel(level)
    for name in ("uvicorn", "uvicorn.error", "uvicorn.access"):
        library = logging.getLogger(name)
        library.handlers[:] = []
        library.propagate = True
    logging.getLogger("uvicorn.access").disabled = True
    # Whoever sends what is malformed would fill the log.
    logging.getLogger("uvicorn.error").setLevel(logging.ERROR)
    logging.captureWarnings(capture=True)


def log_event(event: str, **facts: str | float | None) -> None:
    """Log an event. Fields are our own numbers and names, never user input."""
    _LOG.info(event, extra={_FACTS: facts})


def log_failure(event: str, error: BaseException, instance: str | None = None) -> None:
    """Log a failure: the type of the error and where it was raised, not its message."""
    facts = {} if instance is None else {"instance": instance}
    _LOG.error(event, extra={_FACTS: {**facts, **_error_facts(error)}})


def redact(message: str) -> str:
    """A library's message on one line, without private data."""
    for pattern, instead in _REDACTIONS:
        message = pattern.sub(instead, message)
    return " ".join(message.split())[:500]


def _error_facts(error: BaseException) -> dict[str, object]:
    """Types of an error and its causes, and where it was raised."""
    chain: list[str] = []
    seen: BaseException | None = error
    while seen is not None and len(chain) < 5:
        state = getattr(seen, "sqlstate", None)
        chain.append(type(seen).__name__ + (f" {state}" if state else ""))
        seen = seen.__cause__ or seen.__context__
    places = [
        f"{frame.filename.rsplit('site-packages/', 1)[-1].rsplit('/src/', 1)[-1]}:{frame.lineno} {frame.name}"
        for frame in traceback.extract_tb(error.__traceback__)
    ]
    return {"error": chain, "where": places[-8:]}


_WELL_FORMED = re.compile(r"[A-Za-z0-9._-]{1,64}")


class _AnsweredRequest:
    """A request that is being answered; its id is ``None`` afterwards, also for tasks that outlive it."""

    __slots__ = ("id",)

    def __init__(self, id: str) -> None:
        self.id: str | None = id


_current: ContextVar[_AnsweredRequest | None] = ContextVar("tiltyard_request", default=None)


def make_request_id(stated: str | None) -> str:
    """The id that a client or proxy stated if it is well formed, or a new one."""
    if stated is not None and _WELL_FORMED.fullmatch(stated):
        return stated
    return secrets.token_hex(8)


def current_request_id() -> str | None:
    """The id of the request that is being answered here, if any."""
    request = _current.get()
    return None if request is None else request.id


class RequestScope:
    """A block in which the request with this id is answered. No generator, which would cost more on the way of every vote."""

    __slots__ = ("_request", "_token")

    def __init__(self, id: str) -> None:
        self._request = _AnsweredRequest(id)
        self._token: Token[_AnsweredRequest | None]

    def __enter__(self) -> None:
        self._token = _current.set(self._request)

    def __exit__(self, *_: object) -> None:
        self._request.id = None
        _current.reset(self._token)
