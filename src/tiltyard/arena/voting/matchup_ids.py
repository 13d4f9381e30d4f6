"""Ids of matchups: the number of their arena in 32 bits, and 96 random bits that cannot be guessed."""

from __future__ import annotations

import base64
import binascii
import secrets
from uuid import UUID

from tiltyard.arena.log.event_log import matchup_not_found_error

__all__ = ["format_matchup_id", "matchup_arena_number", "new_matchup_id", "parse_matchup_id"]

_ID_CHARACTERS = 22
_ARENA_BYTES, _RANDOM_BYTES = 4, 12


def new_matchup_id(arena: int) -> UUID:
    """A new id, which contains the arena's number, so that the arena is found without searching all of them."""
    return UUID(bytes=arena.to_bytes(_ARENA_BYTES) + secrets.token_bytes(_RANDOM_BYTES))


def matchup_arena_number(matchup: UUID) -> int:
    """The arena's number in an id; arbitrary if the id was guessed or made by version 0.1."""
    return int.from_bytes(matchup.bytes[:_ARENA_BYTES])


def format_matchup_id(matchup: UUID) -> str:
    """The id as 22 characters that are safe in URLs."""
    return base64.urlsafe_b64encode(matchup.bytes).rstrip(b"=").decode("ascii")


def parse_matchup_id(text: str) -> UUID:
    """Parse an id; raise `NotFound` if the text is not an id."""
    found = _decoded(text) if len(text) == _ID_CHARACTERS and text.isascii() else None
    if found is None or format_matchup_id(found) != text:
        raise matchup_not_found_error()
    return found


def _decoded(text: str) -> UUID | None:
    try:
        return UUID(bytes=base64.b64decode(f"{text}==", altchars=b"-_", validate=True))
    except binascii.Error:
        return None
