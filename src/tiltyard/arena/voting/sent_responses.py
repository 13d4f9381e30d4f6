"""What was sent to voters, so that a vote counts only after a look at both responses.

A page that has the texts of a matchup has a signed receipt for them too, which comes back with the vote. What is fetched
at an address of its own leaves a row. So every process knows it, whichever has sent it. All times are the database's.
"""

from __future__ import annotations

import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from datetime import UTC, datetime, timedelta
from typing import NamedTuple
from uuid import UUID

from tiltyard.arena.log.buckets import fetch_rows
from tiltyard.arena.log.event_details import VoteDetail
from tiltyard.arena.log.event_log import OpenMatchup
from tiltyard.arena.secret_keys import SecretKeys
from tiltyard.core.policy.state.events import Look
from tiltyard.postgres.connections import Connection, ConnectionPool
from tiltyard.postgres.statements import statement

_PURPOSE = "receipt"
_SIGNATURE_BYTES = 18
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
#: Milliseconds, the characters of both sides, and the signature; a side that was not sent has no number.
_RECEIPT = re.compile(r"([0-9]{1,15})\.([0-9]{0,9})\.([0-9]{0,9})\.([A-Za-z0-9_-]{24})")


class SentResponse(NamedTuple):
    """When a response was sent, and how many characters it has."""

    at: datetime
    characters: int


#: Of sides A and B; ``None`` for one that was not sent.
SentSides = tuple[SentResponse | None, SentResponse | None]
NOTHING_SENT: SentSides = (None, None)


class Receipts:
    """Writes and reads receipts for texts that are sent within a page."""

    def __init__(self, keys: SecretKeys) -> None:
        self._keys = keys

    def write(self, session: int, matchup: UUID, at: datetime, a: int | None, b: int | None) -> str:
        """A receipt for the texts of both sides, or of one, with so many characters."""
        milliseconds = (at - _EPOCH) // timedelta(milliseconds=1)
        text = ".".join("" if number is None else str(number) for number in (milliseconds, a, b))
        signature = self._keys.sign(_PURPOSE, _signed(session, matchup, text))[:_SIGNATURE_BYTES]
        return f"{text}.{urlsafe_b64encode(signature).decode()}"

    def read(self, session: int, matchup: UUID, receipt: str) -> SentSides:
        """What a receipt proves to have been sent to this voter: nothing, if it is not valid."""
        found = _RECEIPT.fullmatch(receipt)
        if found is None:
            return NOTHING_SENT
        signed = _signed(session, matchup, receipt.rpartition(".")[0])
        if not self._keys.verify(_PURPOSE, signed, urlsafe_b64decode(found[4]), shortest=_SIGNATURE_BYTES):
            return NOTHING_SENT
        at = _EPOCH + timedelta(milliseconds=int(found[1]))
        a, b = (SentResponse(at, int(text)) if text else None for text in found.group(2, 3))
        return a, b


async def note_sent(pool: ConnectionPool, matchup: UUID, side: int, characters: int) -> None:
    """Note that the bytes of a side (0 or 1) are sent to its voter. The first time counts."""
    values = {"matchup": matchup, "side": side, "characters": characters}
    async with pool.voting_connection() as connection:
        await connection.execute(statement("sent_add"), values)


async def complete_sent(pool: ConnectionPool, matchup: UUID, proved: SentSides) -> SentSides:
    """What was sent of a matchup: by a receipt or, for a side without one, by its own address."""
    if None not in proved:
        return proved
    async with pool.voting_connection() as connection:
        found = await fetch_rows(connection, "sent_find", {"matchup": matchup})
        rows = {side: SentResponse(at, characters) for side, at, characters in found}
    return proved[0] or rows.get(0), proved[1] or rows.get(1)


async def delete_old_sent(connection: Connection) -> None:
    """Delete what is known of matchups that can no longer be open."""
    await connection.execute(statement("sent_delete"))


def look_mark(one: OpenMatchup, sent: SentSides, at: datetime, detail: VoteDetail | None) -> int:
    """The `VoteMark` of a vote that came at this time; 0 if nothing speaks against it.

    The time runs from when the log says that the matchup was shown: a page that is loaded again does not start it again.
    Who never said that a prefetched matchup is shown has it on show since it was sent.
    """
    a, b = sent
    shown = None if detail is None else detail.get("shown")
    reported = None if shown is None else max(shown["a"], shown["b"])
    if a is None or b is None:
        return Look(None, 0, reported).mark()
    since = one.shown_at or max(a.at, b.at)
    return Look((at - since).total_seconds(), a.characters + b.characters, reported).mark()


def _signed(session: int, matchup: UUID, text: str) -> bytes:
    return f"{session} {matchup} {text}".encode()
