"""Faults: what an SDK or its HTTP client raised, as `ProviderFault`.

Two questions matter to whoever pays: may asking again help, and may the call have been charged
although its answer never came. Where nobody can know, the call counts as charged.
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
#: Server errors that say "never", not "not now".
_FINAL = frozenset({501, 505, 506, 508, 510, 511})
_NEVER_SENT = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout, httpx2.ProxyError)
_IMPOSSIBLE = (
    httpx2.UnsupportedProtocol,
    httpx2.LocalProtocolError,
    httpx2.InvalidURL,
    httpx2.TooManyRedirects,
)
#: Said by whoever stands between us and the provider, who may have done the work.
_UNANSWERED_STATUSES = frozenset({408, 502, 504, *range(520, 525)})
_MAX_RETRY_AFTER_SECONDS = 86_400.0
_ADVICE = {
    400: "the request is not accepted: check model, form and options",
    401: "the API key is missing or wrong: set the variable that api_key_env names",
    402: "the account has no credit: add some, then run again",
    403: "the API key may not do this: check its permissions and the model's name",
    404: "no such address or model: check base_url and model",
    413: "the request is too large: shorten the responses or lower shard_size",
    422: "the request is not accepted: check form and options",
}


def to_provider_fault(
    error: Exception, where: str, *, billable: bool, creates: bool = False
) -> ProviderFault:
    """The fault behind an exception of an SDK.

    ``billable``: whether this kind of call costs money. ``creates``: whether it makes something
    that goes on costing money, so that no server error proves that there is nothing.
    """
    response = getattr(error, "response", None)
    if isinstance(response, httpx2.Response):
        status = response.status_code
        unsure = status in _UNANSWERED_STATUSES or (creates and status >= 500)
        return _status_fault(response, getattr(error, "body", None), where, billed=billable and unsure)
    cause = error if isinstance(error, httpx2.HTTPError | httpx2.InvalidURL) else error.__cause__
    if isinstance(cause, _IMPOSSIBLE):
        return ProviderFault(f"{where}: cannot be asked ({_text(cause)}); check base_url")
    if isinstance(cause, _NEVER_SENT):
        return ProviderFault(
            f"{where}: no connection ({_text(cause)}); is the address right, and the server up?",
            retryable=True,
        )
    if isinstance(cause, httpx2.TimeoutException):
        problem = "no answer in time; raise timeout_seconds if this is common"
        return ProviderFault(f"{where}: {problem}", retryable=True, billed=billable)
    if isinstance(cause, httpx2.HTTPError):
        problem = f"the connection was lost before the answer was complete ({_text(cause)})"
        return ProviderFault(f"{where}: {problem}", retryable=True, billed=billable)
    return ProviderFault(f"{where}: the call failed ({_text(cause or error)})", billed=billable)


def unreadable_reply(where: str, what: str, *, billable: bool) -> ProviderFault:
    """A reply that came with status 200 and is not what was promised."""
    return ProviderFault(f"{where}: {what}", status=200, retryable=True, billed=billable)


def is_retryable(status: int) -> bool:
    """Whether asking again may help after this status."""
    return status in _THROTTLED or status in _RETRYABLE or (status >= 500 and status not in _FINAL)


def parse_error_document(body: object) -> tuple[str, str]:
    """Kind and message of a provider's own error document, as far as there are any."""
    error = body.get("error", body) if isinstance(body, Mapping) else body
    if not isinstance(error, Mapping):
        return "", _short(error) if isinstance(error, str) else ""
    kind = error.get("code") if isinstance(error.get("code"), str) else error.get("type")
    message = error.get("message")
    return (kind if isinstance(kind, str) else ""), _short(message) if isinstance(message, str) else ""


def retry_after(headers: Mapping[str, str], now: datetime | None = None) -> float | None:
    """Seconds that a reply asks us to wait: ``retry-after-ms``, or ``retry-after`` in seconds or as a date."""
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
    advice = _ADVICE.get(402 if quota else status, "" if retryable else "the server does not serve this")
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
