"""The endpoints that cost money, and errors in the words of the provider whose endpoint was asked."""

from __future__ import annotations

from typing import Any

MESSAGES, COMPLETIONS = "/v1/messages", "/v1/chat/completions"


class Refused(Exception):
    """A request that is answered with an error and not billed."""

    def __init__(self, status: int, message: str, kind: str = "invalid_request_error") -> None:
        self.status, self.message, self.kind = status, message, kind
        super().__init__(message)


def error_document(path: str, refused: Refused) -> dict[str, Any]:
    """An error in the words of the provider whose endpoint was asked."""
    error = {"type": refused.kind, "message": refused.message}
    if path.startswith(MESSAGES):
        return {"type": "error", "error": error}
    return {"error": error | {"param": None, "code": None}}
