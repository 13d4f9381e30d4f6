"""Those who vote, as their operator sees them: numbers, and no judgement."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tiltyard.battles.outcome import Kind
from tiltyard.errors import NotFound
from tiltyard.store.arenas import Arena, Pool, connected, read_head
from tiltyard.store.battles import Tally, patiently
from tiltyard.store.rosters import read_roster
from tiltyard.store.snapshots import latest_snapshot
from tiltyard.store.voters import Cast, Counted, list_voters, read_cast, read_session_tally

__all__ = ["Agreement", "Flag", "VoterRecord", "agreement", "flagged", "page_of_voters", "voter_record"]

#: Seconds that counting may take.
_PATIENCE = 20.0

_A_WINS = frozenset({Kind.WIN_A, Kind.LEAN_A})
_B_WINS = frozenset({Kind.WIN_B, Kind.LEAN_B})


@dataclass(frozen=True, slots=True)
class Agreement:
    """How often decisive votes went to the model that the board ranks higher."""

    with_board: int
    decisive: int

    @property
    def share(self) -> float | None:
        return self.with_board / self.decisive if self.decisive else None


@dataclass(frozen=True, slots=True)
class Flag:
    """A session that a test of integrity points at, and why."""

    session: int
    test: str
    told: str


@dataclass(frozen=True, slots=True)
class VoterRecord:
    """One session: what can be counted of it, by source, and a page of its votes, newest first."""

    session: int
    counted: tuple[Counted, ...]
    agreement: Agreement
    votes: tuple[Cast, ...]
    #: The position before which older votes are found; ``None`` on the last page.
    before: int | None

    @property
    def total(self) -> int:
        return sum(one.votes for one in self.counted)

    @property
    def excluded(self) -> int:
        return sum(one.excluded for one in self.counted)

    @property
    def source(self) -> int:
        """The source of most of its votes."""
        return max(self.counted, key=lambda one: one.votes).source


async def page_of_voters(
    pool: Pool, arena: Arena, *, page: int = 0, size: int = 50
) -> tuple[list[Counted], bool]:
    """Sessions by votes, and whether there are more."""
    async with connected(pool) as connection, patiently(connection, _PATIENCE):
        found = await list_voters(
            connection, arena.arena, arena.settings.timezone, limit=size + 1, offset=page * size
        )
    return found[:size], len(found) > size


async def voter_record(
    pool: Pool, arena: Arena, session: int, *, before: int | None = None, size: int = 50
) -> VoterRecord:
    """Everything that is known of a session's votes; `NotFound` if it never voted here."""
    async with connected(pool) as connection, patiently(connection, _PATIENCE):
        counted = await list_voters(connection, arena.arena, arena.settings.timezone, session=session)
        if not counted:
            raise NotFound(f"session {session} has no votes in this arena; look at the list of voters")
        votes = await read_cast(connection, arena.arena, session, before=before, limit=size + 1)
        source = max(counted, key=lambda one: one.votes).source
        upto = await read_head(connection, arena.arena)
        tally = await read_session_tally(connection, arena.arena, source, session, upto=upto, excluded=True)
        roster = await read_roster(connection, arena.arena)
        newest = await latest_snapshot(connection, arena.arena, source)
    rows = [] if newest is None else json.loads(newest.document)["rows"]
    return VoterRecord(
        session=session,
        counted=tuple(counted),
        agreement=agreement(tally, roster.models, _ranks(rows)),
        votes=tuple(votes[:size]),
        before=votes[size - 1].position if len(votes) > size else None,
    )


def agreement(tally: Tally, models: Sequence[str], ranks: Mapping[str, int]) -> Agreement:
    """Decisive votes between two ranked models, and those that went to the higher one."""
    agreed = decisive = 0
    columns = (column.tolist() for column in (tally.a, tally.b, tally.kind, tally.count))
    for a, b, kind, count in zip(*columns, strict=True):
        high, low = ranks.get(models[a]), ranks.get(models[b])
        if high is None or low is None or kind not in _A_WINS | _B_WINS:
            continue
        decisive += count
        agreed += count if (kind in _A_WINS) == (high < low) else 0
    return Agreement(agreed, decisive)


def flagged(_arena: Arena) -> tuple[Flag, ...]:
    """Sessions that tests of integrity point at. There are no such tests yet."""
    return ()


def _ranks(rows: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    return {row["model"]: row["rank"] for row in rows if row["rank"] is not None}
