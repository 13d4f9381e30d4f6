"""The board cache of one web process: the newest board of each arena, and documents computed from it on demand."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from tiltyard.arena.boards.battle_effects import StyledRatings, battle_effects, read_traits, styled_ratings
from tiltyard.arena.boards.filtered_boards import (
    BoardOrigin,
    FilterRoster,
    VoteSubset,
    filtered_board,
    pair_results,
)
from tiltyard.arena.boards.snapshot_cache import HashedDocument, SnapshotCache
from tiltyard.arena.boards.snapshots import (
    Snapshot,
    SnapshotNotifications,
    board_of,
    find_snapshot,
    latest_snapshot,
    parsed_board,
    read_newest_positions,
    read_scores,
)
from tiltyard.arena.content.arenas import (
    Arena,
    find_arena,
    list_prompt_names,
    read_prompt_filters,
)
from tiltyard.arena.content.response_details import read_styles
from tiltyard.arena.log.event_log import HUMAN, SOURCES
from tiltyard.arena.log.rosters import read_answered, read_roster
from tiltyard.arena.log.votes import (
    ChosenVotes,
    UnratedVotes,
    count_excluded,
    count_unrated,
    limited_connection,
    read_arrivals,
    read_ballots,
    read_pairs,
)
from tiltyard.arena.tasks import cancel_and_wait
from tiltyard.core.board.settled_order import claims_nothing
from tiltyard.core.policy.state.policy import Lane
from tiltyard.core.policy.state.strengths import Strengths
from tiltyard.errors import NotFound
from tiltyard.foundation.caches import BoundedCache
from tiltyard.foundation.retries import Backoff, Retries
from tiltyard.postgres.connections import Connection, ConnectionPool
from tiltyard.report.arena_charts import ChartContent

_LOG = logging.getLogger(__name__)

#: Called for every new snapshot: arena, source, generation, strengths.
OnSnapshot = Callable[[int, int, int, Strengths], None]

#: Time limit of one SQL statement.
_STATEMENT_SECONDS = 20.0
#: Seconds for which an arena's settings are cached.
_SETTINGS_CACHE_SECONDS = 2.0
#: So long a new language of prompts may be unknown.
_LANGUAGES_CACHE_SECONDS = 30.0
_CACHED_ARENA_LIMIT = 10_000
#: Arenas whose new boards are fetched when they appear; those of others when they are asked for.
_FOLLOWED_ARENA_LIMIT = 1_000
#: Size of the documents of the newest boards that are kept.
_CACHED_BOARD_BYTES = 64_000_000
_CACHED_DOCUMENT_LIMIT = 200
#: Seconds before the first retry after a fault.
_RETRY_SECONDS = 1.0


class BoardCache:
    """The newest snapshots of the arenas that were asked for lately, updated by notifications and by polling."""

    def __init__(
        self, url: str, pool: ConnectionPool, on_snapshot: OnSnapshot | None = None, *, look: float = 5.0
    ) -> None:
        self._pool = pool
        self._tell = on_snapshot
        self._news = SnapshotNotifications(url, look=look)
        #: By arena and source.
        self._newest: BoundedCache[tuple[int, int], Snapshot] = BoundedCache(_CACHED_BOARD_BYTES)
        #: Arenas whose new boards are fetched when they appear: those that readers asked for lately, and those in which
        #: this process serves voters, with the generation and position of what was passed on. Readers displace no voters.
        self._followed: BoundedCache[int, bool] = BoundedCache(_FOLLOWED_ARENA_LIMIT)
        self._passed_on: dict[int, dict[int, tuple[int, int]]] = {}
        self._arenas: BoundedCache[str, Arena] = BoundedCache(
            _CACHED_ARENA_LIMIT, seconds=_SETTINGS_CACHE_SECONDS
        )
        self._languages: BoundedCache[int, list[str]] = BoundedCache(
            _CACHED_ARENA_LIMIT, seconds=_LANGUAGES_CACHE_SECONDS
        )
        self._documents = SnapshotCache(_CACHED_DOCUMENT_LIMIT, at_once=2, what="a board to be counted")
        self._retries = Retries(_LOG, "looking for new boards", Backoff(_RETRY_SECONDS))
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Start to listen for new boards."""
        self._task = asyncio.create_task(self._follow(), name="boards")

    async def stop(self) -> None:
        await cancel_and_wait(self._task)
        self._task = None
        await self._documents.stop()
        await self._news.close()

    async def arena(self, name: str) -> Arena:
        """An arena by name, cached briefly; `NotFound` if there is none."""
        known = self._arenas.get(name)
        if known is not None:
            return known
        async with self._pool.connection() as connection:
            return self._arenas.put(name, await find_arena(connection, name))

    async def languages(self, name: str) -> list[str]:
        """The languages of an arena's prompts; new ones are among them a little later."""
        arena = await self.arena(name)
        known = self._languages.get(arena.arena)
        if known is None:
            _, found = await read_prompt_filters(self._pool, arena)
            known = self._languages.put(arena.arena, found)
        return known

    def newest(self, arena: int) -> list[Snapshot]:
        """The newest cached snapshot of each source of an arena."""
        cached = (self._newest.get((arena, source)) for source in range(len(SOURCES)))
        return [snapshot for snapshot in cached if snapshot is not None]

    async def follow(self, arena: int) -> list[Snapshot]:
        """The newest snapshot of each source of an arena; new ones are passed on until `unfollow`."""
        places = self._passed_on.setdefault(arena, {})
        found = [await latest_snapshot(self._pool, arena, source) for source in range(len(SOURCES))]
        newest = [one for one in found if one is not None]
        places.update({one.source: (one.generation, one.position) for one in newest})
        return newest

    def unfollow(self, arena: int) -> None:
        """Pass on no more snapshots of an arena."""
        self._passed_on.pop(arena, None)

    def forget(self, name: str) -> None:
        """Read an arena and its boards anew, because they were changed."""
        known = self._arenas.pop(name)
        if known is not None:
            self._followed.pop(known.arena)

    async def latest(self, arena: int, source: int) -> Snapshot:
        """The newest board of a source; `NotFound` before there is any."""
        self._begin_following(arena)
        found = self._newest.get((arena, source))
        if found is None:
            found = await latest_snapshot(self._pool, arena, source)
            if found is None:
                raise NotFound(
                    "there is no board yet; the first one is published a few seconds after the arena opens"
                )
            self._take(found)
        return found

    async def published(self, arena: int, sha256: str) -> Snapshot:
        """A board by the hash of its document; `NotFound` if there is none."""
        for newest in self.newest(arena):
            if newest.sha256 == sha256:
                return newest
        found = await find_snapshot(self._pool, arena, sha256)
        if found is None:
            raise NotFound("no such board; see the list of snapshots")
        return found

    async def filtered(
        self, arena: Arena, part: VoteSubset, snapshot: Snapshot | None = None
    ) -> HashedDocument:
        """The board of some of the votes behind a snapshot; without one, behind the newest or one shortly before."""
        of = await self.latest(arena.arena, part.source) if snapshot is None else snapshot
        return await self._documents(
            (arena.arena, "board", part),
            of,
            lambda: self._filter(arena, of, part),
            exact=snapshot is not None,
        )

    async def pairs(
        self, arena: Arena, part: VoteSubset, top: int, snapshot: Snapshot | None = None
    ) -> ChartContent:
        """Results between a snapshot's top models; without a snapshot, of the newest one or one shortly before."""
        of = await self.latest(arena.arena, part.source) if snapshot is None else snapshot
        key = (arena.arena, "pairs", part, top)
        return await self._documents(
            key, of, lambda: self._pair(arena, of, part, _first(of, top)), exact=snapshot is not None
        )

    async def history(
        self, arena: Arena, source: int, top: int, snapshot: Snapshot | None = None
    ) -> ChartContent:
        """The ratings of a snapshot's top models on it and on boards before it; without a snapshot, of the newest one or one shortly before."""
        of = await self.latest(arena.arena, source) if snapshot is None else snapshot
        key = (arena.arena, source, "history", top)
        return await self._documents(
            key, of, lambda: self._recall(of, _first(of, top)), exact=snapshot is not None
        )

    async def styled(self, arena: Arena, source: int) -> StyledRatings:
        """Ratings at equal style beside those without, as of the newest snapshot or one shortly before."""
        newest = await self.latest(arena.arena, source)
        return await self._documents(
            (arena.arena, source, "styled"), newest, lambda: self._style(arena, newest)
        )

    async def effects(self, arena: Arena) -> HashedDocument:
        """The effects of length and waiting in a live arena, as of the newest snapshot or one shortly before."""
        if not arena.settings.is_live:
            raise NotFound(
                "this arena has no live battles, so nobody waited for answers; see its page of styles"
            )
        newest = await self.latest(arena.arena, HUMAN)
        return await self._documents((arena.arena, "effects"), newest, lambda: self._effects(arena, newest))

    async def excluded(self, snapshot: Snapshot) -> int:
        """The number of votes that are excluded from a snapshot."""
        if snapshot.generation == 0:
            return 0
        async with limited_connection(self._pool, _STATEMENT_SECONDS) as connection:
            return await count_excluded(connection, snapshot.arena, snapshot.source, upto=snapshot.position)

    async def unrated(self, snapshot: Snapshot) -> UnratedVotes:
        """The numbers of votes up to a snapshot that are not rated, and therefore not in it."""
        async with limited_connection(self._pool, _STATEMENT_SECONDS) as connection:
            return await count_unrated(connection, snapshot.arena, snapshot.source, upto=snapshot.position)

    def _begin_following(self, arena: int) -> None:
        """Follow an arena. What is cached of one that was not followed may be old."""
        if self._followed.get(arena) is None:
            for source in range(len(SOURCES)):
                self._newest.pop((arena, source))
            self._followed.put(arena, True)

    async def _follow(self) -> None:
        while True:
            announced = await self._news.next()
            try:
                await self._look(announced)
            except Exception as error:  # noqa: BLE001 - retried at the next poll
                await asyncio.sleep(self._retries.failed(error))
            else:
                self._retries.succeeded()

    async def _look(self, announced: Collection[tuple[int, int]] | None = None) -> None:
        """Fetch new boards of the followed arenas: those announced; with ``None``, look for all."""
        arenas = set(self._followed.keys()) | self._passed_on.keys()
        if announced is not None:
            arenas &= {arena for arena, _ in announced}
        if not arenas:
            return
        async with self._pool.connection() as connection:
            places = await read_newest_positions(connection, arenas)
            for (arena, source), place in places.items():
                known, passed_on = self._newest.get((arena, source)), self._passed_on.get(arena)
                is_old = known is not None and (known.generation, known.position) != place
                if is_old or (passed_on is not None and passed_on.get(source) != place):
                    found = await latest_snapshot(connection, arena, source)
                    if found is not None:
                        self._take(found)

    def _take(self, snapshot: Snapshot) -> None:
        key, place = (snapshot.arena, snapshot.source), (snapshot.generation, snapshot.position)
        known = self._newest.get(key)
        if known is None or (known.generation, known.position) < place:
            self._newest.put(key, snapshot, len(snapshot.document))
        passed_on = self._passed_on.get(snapshot.arena)
        if passed_on is not None and passed_on.get(snapshot.source, (-1, -1)) < place:
            passed_on[snapshot.source] = place
            if self._tell is not None:
                self._tell(snapshot.arena, snapshot.source, snapshot.generation, snapshot.strengths)

    async def _filter(self, arena: Arena, newest: Snapshot, part: VoteSubset) -> HashedDocument:
        async with limited_connection(self._pool, _STATEMENT_SECONDS) as connection:
            prompts = await _read_prompts(connection, arena, part)
            if not prompts:
                known = "this arena has no prompts of this category and language"
                if part.category is None and part.language is None:
                    known = (
                        "this arena has no prompts yet, so there are no votes to filter; see its whole board"
                    )
                raise NotFound(known)
            roster = await read_roster(connection, arena.arena)
            published = board_of(newest)
            arrivals = await read_arrivals(connection, arena.arena, upto=newest.position)
            answered = await read_answered(connection, arena.arena, list(prompts), published.at)
            # An import that began before the last event, and ended after it, adds models that the board does not know.
            answered = answered[answered[:, 0] < len(published.rows)]
            ballots = await read_ballots(
                connection,
                arena.arena,
                newest.source,
                upto=newest.position,
                chosen=_chosen(arena, part, list(prompts)),
            )
        board = await asyncio.to_thread(
            filtered_board,
            ballots,
            FilterRoster(roster.models[: len(published.rows)], prompts, arrivals, answered),
            published=published,
            about=_about(arena, newest),
            part=part,
        )
        return HashedDocument.of(board.to_dict())

    async def _pair(
        self, arena: Arena, of: Snapshot, part: VoteSubset, models: Sequence[str]
    ) -> ChartContent:
        async with limited_connection(self._pool, _STATEMENT_SECONDS) as connection:
            prompts = None
            if part.some_prompts:
                prompts = list(await _read_prompts(connection, arena, part))
            names = (await read_roster(connection, arena.arena)).models
            number = {name: k for k, name in enumerate(names)}
            shown = [number[name] for name in models]
            tally = await read_pairs(
                connection,
                arena.arena,
                of.source,
                upto=of.position,
                models=shown,
                chosen=_chosen(arena, part, prompts),
            )
        pairs = pair_results(tally, names, shown)
        return ChartContent(models=models, pairs=pairs, snapshot=of.sha256)

    async def _style(self, arena: Arena, newest: Snapshot) -> StyledRatings:
        async with limited_connection(self._pool, _STATEMENT_SECONDS) as connection:
            names = (await read_roster(connection, arena.arena)).models[: len(board_of(newest).rows)]
            styles = await read_styles(connection, arena.arena)
            ballots = await read_ballots(connection, arena.arena, newest.source, upto=newest.position)
        voters = newest.source == HUMAN
        return await asyncio.to_thread(
            styled_ratings, ballots, names, styles, snapshot=newest.sha256, voters=voters
        )

    async def _effects(self, arena: Arena, newest: Snapshot) -> HashedDocument:
        async with limited_connection(self._pool, _STATEMENT_SECONDS) as connection:
            names = (await read_roster(connection, arena.arena)).models[: len(board_of(newest).rows)]
            ballots = await read_ballots(connection, arena.arena, newest.source, upto=newest.position)
            traits = await read_traits(connection, arena.arena, newest.source, upto=newest.position)
        document = await asyncio.to_thread(battle_effects, ballots, names, traits, _about(arena, newest))
        return HashedDocument.of(document)

    async def _recall(self, of: Snapshot, models: Sequence[str]) -> ChartContent:
        async with limited_connection(self._pool, _STATEMENT_SECONDS) as connection:
            points = await read_scores(connection, of, models)
        return ChartContent(models=models, points=points, snapshot=of.sha256)


async def _read_prompts(connection: Connection, arena: Arena, part: VoteSubset) -> dict[int, str]:
    """Names of the prompts of a filter by number. In a live arena they are categories, and have no language."""
    language = None if arena.settings.is_live else part.language
    return await list_prompt_names(connection, arena.arena, part.category, language)


def _chosen(arena: Arena, part: VoteSubset, prompts: Sequence[int] | None) -> ChosenVotes:
    language = part.language if arena.settings.is_live else None
    lane = None if part.lane == "all" else Lane.EXPLORATION
    return ChosenVotes(prompts, part.counted, part.unrated, language, lane)


def _first(of: Snapshot, top: int) -> list[str]:
    return list(board_of(of).ranks)[:top]


def _about(arena: Arena, newest: Snapshot) -> BoardOrigin:
    return {
        "arena": arena.name,
        "source": SOURCES[newest.source],
        "snapshot": newest.sha256,
        "position": newest.position,
        "generation": newest.generation,
    }


@dataclass(frozen=True, slots=True)
class ModelRank:
    """One model's ranks and score; values that the votes do not support are ``None``."""

    #: The place in the order of the board, which claims nothing; and the ranks that are not ruled out.
    rank: int | None
    rank_low: int | None
    rank_high: int | None
    #: The score by which the board is ordered.
    score: float | None
    badge: str | None
    votes: int
    #: Whether the board claims no order at all, whatever the badge says.
    unordered: bool


@lru_cache(maxsize=32)
def ranks_on_board(document: str) -> Mapping[str, ModelRank]:
    """The rank of every model on a board, from the document of its snapshot."""
    board = parsed_board(document)
    unordered = claims_nothing(board.settled)
    return {
        row.model: ModelRank(
            rank=row.rank,
            rank_low=row.rank_low,
            rank_high=row.rank_high,
            score=row.score(board.order),
            badge=None if row.badge is None else row.badge.value,
            votes=row.votes,
            unordered=unordered,
        )
        for row in board.rows
    }


async def newest_ranks(boards: BoardCache, arena: int, source: int) -> Mapping[str, ModelRank] | None:
    """The rank of every model on the newest board of a source; ``None`` if there is no board yet."""
    try:
        newest = await boards.latest(arena, source)
    except NotFound:
        return None
    return ranks_on_board(newest.document)
