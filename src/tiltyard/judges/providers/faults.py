"""Translates errors of the SDKs and their HTTP client into `ProviderFault`.

A fault says whether a retry may help, and whether the call may have been billed although its reply never
arrived. If that is unknown, the call counts as billed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

import httpx2

from tiltyard.errors import ProviderFault

__all__ = ["is_retryable", "parse_error_document", "retry_after", "to_provider_fault", "unreadable_reply"]

_THROTTLED = frozenset({429, 503, 529})
_RETRYABLE = frozenset({408, 409, 425})
#: Server errors that a retry cannot fix.
_FINAL = frozenset({501, 505, 506, 508, 510, 511})
_NEVER_SENT = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout, httpx2.ProxyError)
_IMPOSSIBLE = (
    httpx2.UnsupportedProtocol,
    httpx2.LocalProtocolError,
    httpx2.InvalidURL,
    httpx2.TooManyRedirects,
)
#: Sent by proxies and gateways; the provider may have processed the request.
_UNANSWERED_STATUSES = frozenset({408, 502, 504, *range(520, 525)})
_MAX_RETRY_AFTER_SECONDS = 86_400.0
_ADVICE = {
    400: "the request was rejected: check model, form and options",
    401: "the API key is missing or wrong: set the variable that api_key_env names",
    402: "the account has no credit: add some, then run again",
    403: "the API key lacks permission: check its permissions and the model's name",
    404: "URL or model not found: check base_url and model",
    413: "the request is too large: shorten the responses or lower shard_size",
    422: "the request was rejected: check form and options",
}


def to_provider_fault(
    error: Exception, where: str, *, billable: bool, creates: bool = False
) -> ProviderFault:
    """Translate an exception of an SDK.

    ``billable``: whether this kind of call costs money. ``creates``: whether it creates something
    that costs money later, so that a server error does not prove that nothing was created.
    """
    response = getattr(error, "response", None)
    if isinstance(response, httpx2.Response):
        status = response.status_code
        unsure = status in _UNANSWERED_STATUSES or (creates and status >= 500)
        return _status_fault(response, getattr(error, "body", None), where, billed=billable and unsure)
    cause = error if isinstance(error, httpx2.HTTPError | httpx2.InvalidURL) else error.__cause__
    if isinstance(cause, _IMPOSSIBLE):
        return ProviderFault(f"{where}: invalid request ({_text(cause)}); check base_url")
    if isinstance(cause, _NEVER_SENT):
        return ProviderFault(
            f"{where}: connection failed ({_text(cause)}); check base_url and that the server is running",
            retryable=True,
        )
    if isinstance(cause, httpx2.TimeoutException):
        problem = "timeout; raise timeout_seconds if this happens often"
        return ProviderFault(f"{where}: {problem}", retryable=True, billed=billable)
    if isinstance(cause, httpx2.HTTPError):
        problem = f"the connection was lost before the reply was complete ({_text(cause)})"
        return ProviderFault(f"{where}: {problem}", retryable=True, billed=billable)
    return ProviderFault(f"{where}: the call failed ({_text(cause or error)})", billed=billable)


def unreadable_reply(where: str, what: str, *, billable: bool) -> ProviderFault:
    """A reply with status 200 whose content is not as documented."""
    return ProviderFault(f"{where}: {what}", status=200, retryable=True, billed=billable)


def is_retryable(status: int) -> bool:
    """Whether a retry may help after this status."""
    return status in _THROTTLED or status in _RETRYABLE or (status >= 500 and status not in _FINAL)


def parse_error_document(body: object) -> tuple[str, str]:
    """Kind and message of a provider's error document; empty if absent."""
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


def _status_fault(response: httpx2.Response, body: object, where: str, *, billed: bool) -> ProviderFault:
    status = response.status_code
    kind, message = parse_error_document(body)
    quota = kind == "insufficient_quota"
    retryable = is_retryable(status) and not quota
    advice = _ADVICE.get(
        402 if quota else status, "" if retryable else "the server does not support this request"
    )
    problem = f"{where}: status {status}" + (f", {message or kind}" if message or kind else "")
    return ProviderFault(
        problem if retryable else f"{problem}; {advice}",
        status=status,
        retryable=retryable,
        throttled=status in _THROTTLED and not quota,
        billed=billed,
        retry_after=retry_after(response.headers),
        said=message,
    )


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
    return _short(str(error)) or type(error).__name__


def _short(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= 300 else f"{flat[:299]}…"
