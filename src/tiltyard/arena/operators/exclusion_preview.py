"""Preview how an exclusion would change the order.

The board's own ratings depend on the order of the votes and take a replay of the log; batch
Bradley–Terry is a function of counts, so it is made twice here, with the votes and without them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from tiltyard.arena.boards.filtered_boards import table_from_tally
from tiltyard.arena.content.arenas import Arena, read_log_head
from tiltyard.arena.log.rosters import Roster, read_roster
from tiltyard.arena.log.votes import VoteTally, limit_statement_time, read_tally
from tiltyard.arena.operators.exclusions import VoteSelection
from tiltyard.arena.operators.voter_queries import read_selected_tally
from tiltyard.core.battles.outcome import KIND_COUNT
from tiltyard.core.board.board_rows import Row, make_board
from tiltyard.core.ratings import BradleyTerry
from tiltyard.errors import NotFound
from tiltyard.postgres.connections import ConnectionPool, connect_from_pool

#: Seconds that a statement may take.
_STATEMENT_SECONDS = 20.0


@dataclass(frozen=True, slots=True)
class ExclusionEffect:
    """One model's rank and rating with and without the votes; ``None`` if undefined."""

    model: str
    rank: int | None
    rank_without: int | None
    rating: float | None
    rating_without: float | None
    #: Whether votes do not connect it to the largest group of models, now or without the votes; it has no rank then.
    apart: bool = False

    @property
    def climbs(self) -> int | None:
        """Ranks that it would gain."""
        if self.rank is None or self.rank_without is None:
            return None
        return self.rank - self.rank_without

    @property
    def gains(self) -> float | None:
        """Points that it would gain."""
        if self.rating is None or self.rating_without is None:
            return None
        return self.rating_without - self.rating

    @property
    def moves(self) -> bool:
        return self.rank != self.rank_without


@dataclass(frozen=True, slots=True)
class ExclusionPreview:
    """What excluding the votes of some sessions, or some votes, would change."""

    selection: VoteSelection
    source: int
    #: Votes that would be excluded, and all votes that count now.
    votes: int
    among: int
    #: The last position of the log that it includes.
    position: int
    method: BradleyTerry
    effects: tuple[ExclusionEffect, ...]

    @property
    def moved(self) -> int:
        """The number of models whose rank would change."""
        return sum(one.moves for one in self.effects)

    @property
    def apart(self) -> int:
        """The number of models that cannot be compared with most others, now or without the votes."""
        return sum(one.apart for one in self.effects)


async def preview_exclusion(
    pool: ConnectionPool, arena: Arena, selection: VoteSelection, source: int
) -> ExclusionPreview:
    """Bradley–Terry on the votes that count now, with and without the selected ones. Nothing changes.

    Votes are selected by sessions and matchups.
    """
    async with connect_from_pool(pool) as connection, limit_statement_time(connection, _STATEMENT_SECONDS):
        upto = await read_log_head(connection, arena.arena)
        whole = await read_tally(connection, arena.arena, source, upto=upto)
        own = await read_selected_tally(connection, arena.arena, source, selection, upto=upto)
        roster = await read_roster(connection, arena.arena)
    if not len(own):
        raise NotFound("the selection has no votes that count; they are already excluded, or there are none")
    found = await asyncio.to_thread(compute_effects, whole, own, roster)
    return ExclusionPreview(
        selection=selection,
        source=source,
        votes=int(own.count.sum()),
        among=int(whole.count.sum()),
        position=upto,
        method=BradleyTerry(),
        effects=found,
    )


def compute_effects(whole: VoteTally, own: VoteTally, roster: Roster) -> tuple[ExclusionEffect, ...]:
    """The effect on every model that is rated with or without the votes, in the order with them."""
    prompts = dict(enumerate(roster.prompts))
    before = _rows(whole, roster.models, prompts)
    after = {row.model: row for row in _rows(subtract_tally(whole, own), roster.models, prompts)}
    found = (_effect(row, after.get(row.model)) for row in before)
    return tuple(one for one in found if one.apart or one.rank is not None or one.rank_without is not None)


def subtract_tally(whole: VoteTally, own: VoteTally) -> VoteTally:
    """Subtract counts from counts that include them."""
    prompts = 1 + int(whole.prompt.max(initial=0))
    models = 1 + max(int(whole.a.max(initial=0)), int(whole.b.max(initial=0)))
    written = 1 + int(whole.free_prompt.max(initial=0))
    keys, taken = (
        (((one.a * models + one.b) * prompts + one.prompt) * written + one.free_prompt) * KIND_COUNT
        + one.kind
        for one in (whole, own)
    )
    left = whole.count.copy()
    left[np.searchsorted(keys, taken)] -= own.count
    return replace(whole, count=left)[left > 0]


def _rows(tally: VoteTally, models: Sequence[str], prompts: Mapping[int, str]) -> tuple[Row, ...]:
    if not len(tally):
        return ()
    return make_board(BradleyTerry()(table_from_tally(tally, models, prompts)), None).rows


def _effect(row: Row, without: Row | None) -> ExclusionEffect:
    """The effect on one model. Only the largest group has ranks and ratings, as groups cannot be compared."""
    now = row if row.group == 0 else None
    then = without if without is not None and without.group == 0 else None
    return ExclusionEffect(
        model=row.model,
        rank=None if now is None else now.rank,
        rank_without=None if then is None else then.rank,
        rating=None if now is None else now.rating,
        rating_without=None if then is None else then.rating,
        apart=any(one is not None and one.group not in (0, None) for one in (row, without)),
    )
