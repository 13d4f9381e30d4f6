"""The endpoints that cost money, and errors in the words of the provider whose endpoint was asked."""

from __future__ import annotations

from typing import Any

MESSAGES, COMPLETIONS = "/v1/messages", "/v1/chat/completions"


#: How the providers say of all calls of a model that none will be served: status, kind or code, and message.
_STOPPED = {
    ("retired", COMPLETIONS): (404, "model_not_found", "The model `{model}` does not exist."),
    ("retired", MESSAGES): (404, "not_found_error", "model: {model}"),
    ("gone", COMPLETIONS): (410, "gone", ""),
    ("gone", MESSAGES): (410, "gone", ""),
    ("no credit", COMPLETIONS): (429, "insufficient_quota", "You exceeded your current quota."),
    ("no credit", MESSAGES): (
        400,
        "invalid_request_error",
        "Your credit balance is too low to access the Anthropic API.",
    ),
    ("an hour", COMPLETIONS): (429, "rate_limit_exceeded", "Rate limit reached."),
    ("an hour", MESSAGES): (429, "rate_limit_error", "This request would exceed your rate limit."),
}


def stopped(how: str, path: str, model: str) -> tuple[Refused, str]:
    """The error of a model that is served no more, and headers."""
    status, kind, message = _STOPPED[how, path]
    wait = "retry-after: 3600\r\n" if how == "an hour" else ""
    refused = Refused(status, message.format(model=model), kind)
    refused.code = kind
    return refused, wait


class Refused(Exception):
    """A request that is answered with an error and not billed."""

    def __init__(self, status: int, message: str, kind: str = "invalid_request_error") -> None:
        self.status, self.message, self.kind = status, message, kind
        self.code: str | None = None
        super().__init__(message)


def error_document(path: str, refused: Refused) -> dict[str, Any]:
    """An error in the words of the provider whose endpoint was asked."""
    error = {"type": refused.kind, "message": refused.message}
    if path.startswith(MESSAGES):
        return {"type": "error", "error": error}
    return {"error": error | {"param": None, "code": refused.code}}
