"""Model profiles: everything that the votes behind a snapshot say about one model."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

import numpy as np
import numpy.typing as npt

from tiltyard.arena.boards.board_cache import BoardCache
from tiltyard.arena.boards.snapshot_cache import HashedDocument, SnapshotCache
from tiltyard.arena.boards.snapshots import BoardAppearance, Snapshot, board_of, read_history
from tiltyard.arena.content.arenas import Arena, find_model, read_prompt_keys
from tiltyard.arena.content.prompt_browser import read_prompt_words
from tiltyard.arena.log.buckets import fetch_rows
from tiltyard.arena.log.rosters import Roster, read_responses, read_roster
from tiltyard.arena.log.votes import VoteTally, limited_connection, read_tally
from tiltyard.core.board.arena_board import ArenaRow
from tiltyard.core.board.cross_check import CrossCheckRow
from tiltyard.core.board.document import BoardDocument, row_to_dict, to_plain
from tiltyard.core.board.settled_order import claims_nothing, place_of
from tiltyard.core.policy.state.policy import Policy
from tiltyard.core.policy.validity.model_record import (
    Heatmap,
    OpponentRecord,
    VoteColumns,
    VoteRecord,
    build_standing,
    coverage_heatmap,
    opponent_records,
    prompt_records,
    score_of,
)
from tiltyard.core.policy.validity.pair_floors import NeighbourRecord, challenges_of
from tiltyard.core.policy.validity.publication import ConfidencePoint
from tiltyard.errors import NotFound
from tiltyard.foundation.caches import BoundedCache
from tiltyard.postgres.connections import Connection, ConnectionPool


@dataclass(frozen=True, slots=True)
class ResponseHistory:
    """One response that a model has, or had, to a prompt."""

    prompt: str
    category: str | None
    #: Text, image, audio or app; ``None`` where it would reveal which model a response is from.
    kind: str | None
    added_at: datetime
    withdrawn_at: datetime | None
    #: When another response replaced it after it was withdrawn.
    replaced_at: datetime | None


#: Size of the cache, and of one row in any table of a profile; both are rough estimates.
_CACHE_BYTES = 64_000_000
_TABLE_ROW_BYTES = 200
#: Snapshots whose shared data are cached.
_CACHED_SNAPSHOT_LIMIT = 8
#: Time limit of one SQL statement.
_STATEMENT_SECONDS = 20.0


@dataclass(frozen=True, slots=True)
class Opponent:
    """An opponent of the model, with the results between them."""

    name: str
    rank: int | None
    rank_low: int | None
    rank_high: int | None
    enabled: bool
    met: OpponentRecord


@dataclass(frozen=True, slots=True)
class PromptRecord:
    """The model's results on one prompt, which pages call by its first words."""

    prompt: str
    name: str
    category: str | None
    language: str | None
    withdrawn: bool
    record: VoteRecord
    #: Mean result of the rated votes.
    score: float | None


@dataclass(frozen=True, slots=True, eq=False)
class ModelProfile:
    """One model as of a snapshot. What the arena's phase does not show is ``None``, or empty."""

    name: str
    snapshot: Snapshot
    board: BoardDocument
    #: The model's row on the board; ``None`` if it was added after the snapshot.
    row: ArenaRow | None
    policy: Policy
    models: tuple[str, ...]
    #: The first words of prompts by name, ordered by number.
    prompt_words: Mapping[str, str]
    opponents: tuple[Opponent, ...]
    prompts: tuple[PromptRecord, ...]
    heatmap: Heatmap | None
    #: The record against the neighbours above and below in rank.
    challenges: tuple[NeighbourRecord | None, NeighbourRecord | None]
    #: Rating and RD at past evaluations, oldest first.
    history: tuple[ConfidencePoint, ...]
    responses: tuple[ResponseHistory, ...]

    @property
    def shown_policy(self) -> bool:
        """Whether the arena shows the results of its policy, which it does not in phase 1."""
        return self.board.phase > 1

    @property
    def unordered(self) -> bool:
        """Whether the board claims no order at all, whatever badges say."""
        return claims_nothing(self.board.settled)

    @property
    def is_placed(self) -> bool:
        """Whether anything is settled about the model."""
        ranked = sum(row.rank_low is not None for row in self.board.rows)
        low, high = (None, None) if self.row is None else (self.row.rank_low, self.row.rank_high)
        return low is not None and high is not None and place_of(low, high, ranked) != "unplaced"

    @property
    def cross(self) -> CrossCheckRow | None:
        """Its Bradley–Terry rating with the interval, if it has one."""
        rows = () if self.board.cross_check is None else self.board.cross_check.rows
        return next((row for row in rows if row.model == self.name), None)

    def document(self) -> HashedDocument:
        """The profile for programs: its row and its neighbours, whom it met, where it won, and how it came here."""
        names = [row.model for row in self.board.rows if row.rank is not None]
        rows = {row.model: row_to_dict(row) for row in self.board.rows}
        place = names.index(self.name) if self.name in names else None
        met = [(one, one.met.record) for one in self.opponents if one.met.record.votes]
        return HashedDocument.of(
            {
                "arena": self.board.arena,
                "source": self.board.source,
                "snapshot": self.snapshot.sha256,
                "position": self.board.position,
                "generation": self.board.generation,
                "model": self.name,
                "row": rows.get(self.name),
                "above": rows[names[place - 1]] if place else None,
                "below": rows[names[place + 1]] if place is not None and place + 1 < len(names) else None,
                "head_to_head": [
                    {"opponent": one.name, **to_plain(record), "votes": record.votes, "score": one.met.score}
                    for one, record in met
                ],
                "prompts": [
                    {
                        "prompt": one.prompt,
                        "category": one.category,
                        "language": one.language,
                        **to_plain(one.record),
                        "votes": one.record.votes,
                        "score": one.score,
                    }
                    for one in self.prompts
                ],
                "history": [to_plain(one) for one in self.history],
            }
        )

    @property
    def size(self) -> int:
        """Approximate size in bytes. The board's document is shared by many profiles and counted in each."""
        cells = 0 if self.heatmap is None else len(self.heatmap.prompts) * len(self.heatmap.opponents)
        lines = sum(map(len, (self.opponents, self.prompts, self.history, self.responses)))
        return len(self.snapshot.document) + _TABLE_ROW_BYTES * lines + 16 * cells


@dataclass(frozen=True, slots=True, eq=False)
class _SnapshotData:
    snapshot: Snapshot
    board: BoardDocument
    rows: dict[str, ArenaRow]
    roster: Roster
    #: By prompt: category, language, and whether it is withdrawn.
    about: tuple[tuple[str | None, str | None, bool], ...]
    words: Mapping[str, str]
    answered: npt.NDArray[np.bool_]
    policy: Policy


class ModelProfiles:
    """Computes and caches profiles in one web process, one at a time and once for each snapshot."""

    def __init__(self, pool: ConnectionPool, boards: BoardCache) -> None:
        self._pool = pool
        self._boards = boards
        self._made = SnapshotCache(
            _CACHE_BYTES, at_once=1, what="the page of a model", weigh=lambda profile: profile.size
        )
        self._snapshot_cache: BoundedCache[tuple[int, int], _SnapshotData] = BoundedCache(
            _CACHED_SNAPSHOT_LIMIT
        )

    async def of(self, arena: Arena, source: int, name: str) -> ModelProfile:
        """The profile of a model as of the newest board, or one shortly before; `NotFound` if either is missing."""
        newest = await self._boards.latest(arena.arena, source)
        key = (arena.arena, source, name)
        return await self._made(key, newest, lambda: self._make(arena, newest, name))

    async def _make(self, arena: Arena, newest: Snapshot, name: str) -> ModelProfile:
        async with limited_connection(self._pool, _STATEMENT_SECONDS) as connection:
            number, _ = await find_model(connection, arena.arena, name)
            ground = await self._snapshot_data_of(connection, arena, newest)
            if number >= len(ground.roster.models):
                raise NotFound(f"the model {name!r} was added just now; try again in a moment")
            history = await read_history(connection, arena.arena, newest.source, name)
            tally = await read_tally(
                connection, arena.arena, newest.source, upto=newest.position, model=number
            )
            values = {"arena": arena.arena, "model": number}
            found = await fetch_rows(connection, "histories_responses", values)
            responses = [ResponseHistory(*row) for row in found]
        return await asyncio.to_thread(_profile, ground, number, tally, history, responses)

    async def _snapshot_data_of(
        self, connection: Connection, arena: Arena, newest: Snapshot
    ) -> _SnapshotData:
        key = (newest.arena, newest.source)
        known = self._snapshot_cache.get(key)
        if known is None or known.snapshot.sha256 != newest.sha256:
            roster = await read_roster(connection, newest.arena)
            keys = await read_prompt_keys(connection, newest.arena)
            cells = await read_responses(connection, newest.arena, roster)
            about = tuple((each.category, each.language, each.withdrawn) for each in keys)
            found = await read_prompt_words(connection, arena, roster.prompts)
            words = {name: found[name] for name in roster.prompts}
            board = await asyncio.to_thread(board_of, newest)
            rows = {row.model: row for row in board.rows}
            policy = board.method.policy
            known = _SnapshotData(newest, board, rows, roster, about, words, cells > 0, policy)
            self._snapshot_cache.put(key, known)
        return known


def _profile(
    ground: _SnapshotData,
    number: int,
    tally: VoteTally,
    history: Sequence[BoardAppearance],
    responses: Sequence[ResponseHistory],
) -> ModelProfile:
    models, prompts = ground.roster.models, ground.roster.prompts
    rows = [ground.rows.get(name) for name in models]
    row = rows[number]
    standing = build_standing(
        ground.policy,
        models,
        prompts,
        answered=ground.answered,
        enabled=np.array([each is not None and each.enabled for each in rows]),
        votes=_votes(tally),
        strengths=ground.snapshot.strengths.widened(len(models)),
    )
    seen = ground.policy.phase > 1 and row is not None
    records = tuple(
        PromptRecord(prompts[k], ground.words[prompts[k]], *ground.about[k], record, score_of(record))
        for k, record in prompt_records(standing, number)
    )
    return ModelProfile(
        name=models[number],
        snapshot=ground.snapshot,
        board=ground.board,
        row=row,
        policy=ground.policy,
        models=models,
        prompt_words=ground.words,
        opponents=tuple(_opponent(models, rows, met) for met in opponent_records(standing, number)),
        prompts=records,
        heatmap=coverage_heatmap(standing, number) if seen and standing.enabled[number] else None,
        challenges=challenges_of(standing, number) if seen else (None, None),
        history=_moments(history),
        responses=tuple(responses),
    )


def _opponent(models: Sequence[str], rows: Sequence[ArenaRow | None], met: OpponentRecord) -> Opponent:
    row = rows[met.model]
    ranks = (None, None, None) if row is None else (row.rank, row.rank_low, row.rank_high)
    return Opponent(models[met.model], *ranks, row is not None and row.enabled, met)


def _votes(tally: VoteTally) -> VoteColumns:
    row = np.repeat(np.arange(len(tally)), tally.count)
    return VoteColumns(tally.a[row], tally.b[row], tally.prompt[row], tally.kind[row], tally.free_prompt[row])


def _moments(history: Sequence[BoardAppearance]) -> tuple[ConfidencePoint, ...]:
    """Points oldest first; of several boards with the same number of votes, that of the last generation."""
    by_votes: dict[int, ConfidencePoint] = {}
    for once in sorted(history, key=lambda each: (each.generation, each.position)):
        rating, rd = once.row["rating"], once.row["rd"]
        if rating is not None and rd is not None:
            at = int(once.made_at.timestamp())
            by_votes[once.votes] = ConfidencePoint(
                once.votes, at, rating, rd, once.row["conservative"], once.row.get("volatility")
            )
    return tuple(by_votes[votes] for votes in sorted(by_votes))
