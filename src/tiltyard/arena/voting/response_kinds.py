"""The kinds of responses, and voters' complaints about matchups."""

from __future__ import annotations

from uuid import UUID

from tiltyard.arena.log.buckets import fetch_rows
from tiltyard.arena.log.event_log import find_matchup, matchup_not_found_error
from tiltyard.errors import NotFound
from tiltyard.foundation.caches import BoundedCache
from tiltyard.postgres.connections import ConnectionPool
from tiltyard.postgres.statements import statement

_CACHED_KIND_LIMIT = 500_000
#: Responses are imported in thousands and read at random, so each read fetches a block of neighbours.
_READ_AHEAD_ROWS = 2_000


class ResponseKinds:
    """Caches the kinds of responses, which never change, and saves complaints."""

    def __init__(self, pool: ConnectionPool) -> None:
        self._pool = pool
        self._kinds: BoundedCache[int, str] = BoundedCache(_CACHED_KIND_LIMIT)

    async def kinds(self, *responses: int) -> list[str]:
        """The kind of each response: text, image, audio or app."""
        kinds = self._known_kinds(responses)
        if len(kinds) < len(responses):
            first = sorted({response // _READ_AHEAD_ROWS * _READ_AHEAD_ROWS for response in responses})
            values = {"first": first, "size": _READ_AHEAD_ROWS}
            rows = await fetch_rows(self._pool, "stage_kinds", values)
            for response, kind in rows:
                self._kinds.put(int(response), str(kind))
            kinds = self._known_kinds(responses)
        if len(kinds) < len(responses):
            raise NotFound("this matchup was withdrawn; request another one")
        return kinds

    async def complain(
        self, arena: int, matchup: UUID, source: int, session: int, reason: str, note: str | None
    ) -> None:
        """Save a voter's complaint about one of their own matchups, open or ended."""
        async with self._pool.connection() as connection:
            found = await find_matchup(connection, arena, matchup)
            if found is None or (found.source, found.session) != (source, session):
                raise matchup_not_found_error()
            values = {
                "arena": arena,
                "source": source,
                "serial": found.serial,
                "session": session,
                "reason": reason,
                "note": note,
            }
            await connection.execute(statement("stage_complain"), values)

    def _known_kinds(self, responses: tuple[int, ...]) -> list[str]:
        found = (self._kinds.get(response) for response in responses)
        return [kind for kind in found if kind is not None]
