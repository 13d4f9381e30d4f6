"""Translates error replies and errors of the HTTP client into `ProviderFault`.

A fault says whether a retry may help, and whether the call may have been billed although its reply never
arrived. If that is unknown, the call counts as billed.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

import aiohttp

from tiltyard.errors import ProviderFault
from tiltyard.judges.providers.provider import LONGEST_WAIT_SECONDS, parse_body

_THROTTLED = frozenset({429, 503, 529})
_RETRYABLE = frozenset({408, 409, 425})
#: Server errors that a retry cannot fix.
_FINAL = frozenset({501, 505, 506, 508, 510, 511})
_NEVER_SENT = (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError, aiohttp.ClientHttpProxyError)
_IMPOSSIBLE = (aiohttp.InvalidURL, UnicodeError)
#: Sent by proxies and gateways; the provider may have processed the request.
_UNANSWERED_STATUSES = frozenset({408, 502, 504, *range(520, 525)})
_MAX_RETRY_AFTER_SECONDS = 86_400.0
#: Wrong key, no credit, missing permission, unknown or retired model.
_FATAL_STATUSES = frozenset({401, 402, 403, 404, 410})
#: The same by code or message, for endpoints that answer with another status.
_NO_CREDIT_CODES, _NO_CREDIT_MESSAGE = frozenset({"insufficient_quota"}), "credit balance is too low"
_NO_MODEL_CODES = frozenset({"model_not_found", "model_decommissioned"})
_NO_MODEL = (
    "URL or model not found, or the model was retired: check base_url and model, or choose another model"
)
#: The status of an error that came with the status 200, by its kind.
_STATUS_OF_KIND = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "insufficient_quota": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "rate_limit_exceeded": 429,
    "api_error": 500,
    "server_error": 500,
    "timeout_error": 504,
    "overloaded_error": 529,
}
_ERROR_TEXT_BYTES = 4096
#: The query of a URL in a message: it may contain a key.
_QUERY = re.compile(r"\?\S+")
_ADVICE = {
    400: "the request was rejected: check model, form and options",
    401: "the API key is missing or wrong: set the variable that api_key_env names",
    402: "the account has no credit: add some, then run again",
    403: "the API key lacks permission: check its permissions and the model's name",
    404: _NO_MODEL,
    410: _NO_MODEL,
    413: "the request is too large: shorten the responses or lower shard_size",
    422: "the request was rejected: check form and options",
    **dict.fromkeys((301, 302, 303, 307, 308), "redirected to another address: set base_url to that one"),
}


def to_provider_fault(error: Exception, where: str, *, billable: bool) -> ProviderFault:
    """Translate an exception of the HTTP client. ``billable``: whether this kind of call costs money."""
    if isinstance(error, _IMPOSSIBLE):
        return ProviderFault(f"{where}: invalid request ({_text(error)}); check base_url")
    if isinstance(error, _NEVER_SENT):
        return ProviderFault(
            f"{where}: connection failed ({_text(error)}); check base_url and that the server is running",
            retryable=True,
        )
    if isinstance(error, TimeoutError):
        problem = "timeout; raise timeout_seconds if this happens often"
        return ProviderFault(f"{where}: {problem}", retryable=True, billed=billable)
    if isinstance(error, aiohttp.ClientError | OSError):
        problem = f"the connection was lost before the reply was complete ({_text(error)})"
        return ProviderFault(f"{where}: {problem}", retryable=True, billed=billable)
    return ProviderFault(f"{where}: the call failed ({_text(error)})", billed=billable)


def status_fault(
    status: int, headers: Mapping[str, str], content: bytes, where: str, *, billable: bool, creates: bool
) -> ProviderFault:
    """The fault of a reply whose status is not a success.

    ``billable``: whether this kind of call costs money. ``creates``: whether it creates something
    that costs money later, so that a server error does not prove that nothing was created.
    """
    try:
        document = parse_body(content)
    except ValueError:
        document = content[:_ERROR_TEXT_BYTES].decode(errors="replace")
    kind, message = parse_error_document(document)
    wait, cause = retry_after(headers), status
    # The status that fits: Anthropic says 400 and OpenAI 429 of an account without credit, Groq 400 of a retired model.
    if kind in _NO_CREDIT_CODES or _NO_CREDIT_MESSAGE in message.lower():
        cause = 402
    elif kind in _NO_MODEL_CODES:
        cause = 404
    too_long = is_retryable(cause) and wait is not None and wait > LONGEST_WAIT_SECONDS
    retryable = is_retryable(cause) and not too_long
    advice = _ADVICE.get(cause, "the server does not support this request")
    if too_long and wait is not None:
        advice = f"it asks to wait for {wait / 60:,.0f} minutes: run the command again after that"
    problem = f"{where}: status {status}" + (f", {message or kind}" if message or kind else "")
    return ProviderFault(
        problem if retryable else f"{problem}; {advice}",
        status=status,
        retryable=retryable,
        throttled=cause in _THROTTLED and retryable,
        billed=billable and (status in _UNANSWERED_STATUSES or (creates and status >= 500)),
        fatal=cause in _FATAL_STATUSES or too_long,
        retry_after=wait,
        said=message,
    )


def unreadable_reply(where: str, what: str, *, billable: bool) -> ProviderFault:
    """A reply with status 200 whose content is not as documented."""
    return ProviderFault(f"{where}: {what}", status=200, retryable=True, billed=billable)


def error_in_reply(where: str, error: object) -> ProviderFault:
    """An error in a reply or a stream with status 200, as gateways send when a model fails that they passed it to."""
    kind, message = parse_error_document({"error": error})
    code = error.get("code") if isinstance(error, Mapping) else None
    status = code if isinstance(code, int) else _STATUS_OF_KIND.get(kind, 200)
    final = 400 <= status < 500 and not is_retryable(status)
    return ProviderFault(
        f"{where}: an error instead of a reply: {message or kind or error!r}"[:400],
        status=status,
        retryable=not final,
        throttled=status in _THROTTLED,
        billed=not final,
        fatal=status in _FATAL_STATUSES,
        said=message,
    )


def is_retryable(status: int) -> bool:
    """Whether a retry may help after this status."""
    return status in _THROTTLED or status in _RETRYABLE or (status >= 500 and status not in _FINAL)


def parse_error_document(body: object) -> tuple[str, str]:
    """Kind and message of a provider's error document; empty if absent. Gemini sends a list of one."""
    if isinstance(body, list) and body:
        body = body[0]
    error = body.get("error", body) if isinstance(body, Mapping) else body
    if not isinstance(error, Mapping):
        return "", _short(error) if isinstance(error, str) else ""
    kind = error.get("code") if isinstance(error.get("code"), str) else error.get("type")
    message = error.get("message")
    return (kind if isinstance(kind, str) else ""), _short(message) if isinstance(message, str) else ""


def retry_after(headers: Mapping[str, str], now: datetime | None = None) -> float | None:
    """Seconds to wait by the headers of a reply: ``retry-after-ms``, or ``retry-after`` in seconds or as a date."""
    millis = _seconds(headers.get("retry-after-ms"))
    if millis is not None:
        return min(millis / 1000, _MAX_RETRY_AFTER_SECONDS)
    stated = headers.get("retry-after")
    seconds = _seconds(stated)
    if seconds is None and stated is not None:
        seconds = _until(stated, now or datetime.now(UTC))
    return None if seconds is None else min(seconds, _MAX_RETRY_AFTER_SECONDS)


def _seconds(text: str | None) -> float | None:
    try:
        value = float(text) if text is not None else math.nan
    except ValueError:
        return None
    return max(value, 0.0) if math.isfinite(value) else None


def _until(text: str, now: datetime) -> float | None:
    try:
        moment = parsedate_to_datetime(text)
    except (ValueError, TypeError, OverflowError, IndexError):
        return None
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return max((moment - now).total_seconds(), 0.0)


def _text(error: BaseException) -> str:
    said = error.message if isinstance(error, aiohttp.ClientResponseError) else str(error)
    return _short(_QUERY.sub("?…", said)) or type(error).__name__


def _short(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= 300 else f"{flat[:299]}…"
