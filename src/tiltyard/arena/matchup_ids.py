"""Ids of matchups: 128 random bits, which say nothing and cannot be guessed."""

from __future__ import annotations

import base64
import binascii
import secrets
from uuid import UUID

from tiltyard.store.log import no_such_matchup

__all__ = ["new_matchup", "parse_matchup", "shown_matchup"]

_LENGTH = 22


def new_matchup() -> UUID:
    return UUID(bytes=secrets.token_bytes(16))


def shown_matchup(matchup: UUID) -> str:
    """22 characters that fit into an address."""
    return base64.urlsafe_b64encode(matchup.bytes).rstrip(b"=").decode("ascii")


def parse_matchup(text: str) -> UUID:
    """The id that this text shows; anything else is a matchup that does not exist."""
    found = _decoded(text) if len(text) == _LENGTH and text.isascii() else None
    if found is None or shown_matchup(found) != text:
        raise no_such_matchup()
    return found


def _decoded(text: str) -> UUID | None:
    try:
        return UUID(bytes=base64.b64decode(f"{text}==", altchars=b"-_", validate=True))
    except binascii.Error:
        return None
