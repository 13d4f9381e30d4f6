"""An attack through the HTTP API of a running server: its accounts and honest people are clients with sessions of their own."""

from __future__ import annotations

import asyncio
import base64
import json
import time
from collections.abc import Awaitable, Collection, Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from uuid import UUID

import numpy as np

from lab.redteam.attack_run import seen_matchup
from lab.redteam.attacks import Attacker
from lab.redteam.demo_content import ArenaContent
from lab.redteam.demo_servers import ARENA
from lab.redteam.honest_voters import HonestVoter, VoterStream
from lab.redteam.integrity_tests import read_flagged_sessions
from lab.redteam.log_board import board_of_log
from tiltyard.arena.accounts import Accounts
from tiltyard.arena.log.crowd_changes import list_changes
from tiltyard.arena.log.event_log import HUMAN
from tiltyard.arena.log.log_columns import read_columns
from tiltyard.arena.log.rosters import read_roster_sync
from tiltyard.arena.operators.crowd import explain_crowd_change
from tiltyard.arena.operators.exclusions import VoteSelection, exclude
from tiltyard.arena.operators.scheduled_jobs import admit_waiting_votes
from tiltyard.arena.operators.voters import FLAGGED_REASON
from tiltyard.arena.rating.log_replay import FoldProgress, active_exclusions
from tiltyard.arena.rating.rater_progress import (
    log_head,
    read_excluded_votes,
    read_exclusion_changes,
    read_rater_progress,
    read_undone_votes,
)
from tiltyard.client import AsyncClient, Client
from tiltyard.core.battles import Kind
from tiltyard.core.board.arena_board import ArenaBoard
from tiltyard.core.policy.state.events import least_look_seconds
from tiltyard.errors import Busy, Crowded, Expired, TiltyardError
from tiltyard.postgres.connections import (
    ConnectionPool,
    connect,
    open_pool,
)
from tiltyard.simulation.demo.demo_roster import demo_prompts

_WINNERS = {Kind.WIN_A: "model_a", Kind.WIN_B: "model_b", Kind.TIE: "tie", Kind.BOTH_BAD: "both_bad"}
#: How much longer than it must a voter looks; and how long a busy server is waited for.
_EXTRA_SECONDS, _BUSY_SECONDS = 0.15, 1.0
_PATIENCE_SECONDS, _SETTLED_SECONDS = 300.0, 400.0
#: Honest people, and accounts of attackers, that vote at the same time.
_CONCURRENT_PEOPLE_COUNT = 16
_CONCURRENT_ACCOUNT_COUNT = 16
_ARENA_CODE = 1
#: A longer attack is cast on so many days: each takes as long as votes need to become final.
_DAYS_LIMIT = 4
_CELLS = b"""
SELECT a.name, b.name, p.name FROM matchups m
JOIN models a ON a.arena = m.arena AND a.model = m.a JOIN models b ON b.arena = m.arena AND b.model = m.b
JOIN prompts p ON p.arena = m.arena AND p.prompt = m.prompt WHERE m.matchup = %(matchup)s
"""
_SHOWN = b"""
SELECT (SELECT coalesce(max(position), 0) FROM snapshots WHERE arena = %(arena)s AND source = 0),
       (SELECT coalesce(max(position), 0) FROM events WHERE arena = %(arena)s AND (source = 0 OR kind IN (10, 11, 26, 27)))
"""
_SERIALS = b"SELECT serial FROM matchups WHERE matchup = ANY(%(matchups)s)"
_VOTES = b"""
SELECT m.matchup, m.session, e.position, coalesce(e.mark, 0), e.blind IS NOT FALSE
FROM matchups m JOIN endings e USING (arena, source, serial)
WHERE m.arena = %(arena)s AND m.source = 0 AND e.kind = 1 AND e.undone IS NULL ORDER BY e.position
"""
_UNEXPLAINED = (
    b"SELECT position FROM crowd_changes WHERE arena = %(arena)s AND explained IS NULL ORDER BY position"
)
_HELD = b"""
SELECT DISTINCT m.session FROM exclusions x JOIN excluded_votes v USING (exclusion)
JOIN matchups m ON (m.arena, m.source, m.serial) = (v.arena, v.source, v.serial)
WHERE x.arena = %(arena)s AND x.reason = %(reason)s
"""
_AGE = b"UPDATE endings SET at = at - interval '25 hours' WHERE mark = 3 AND admitted IS NULL"


@dataclass(frozen=True, slots=True)
class ToldChange:
    """A change of the crowd: the model, the position of its event, and the sessions that it names."""

    model: str
    position: int
    sessions: tuple[int, ...]


class LoggedVote(NamedTuple):
    """A vote of a person in the log."""

    matchup: UUID
    session: int
    position: int
    mark: int
    blind: bool


@dataclass(slots=True, eq=False)
class ServedArena:
    """The demo arena on a server at ``address``, over ``database``."""

    address: str
    database: str
    content: ArenaContent
    #: A token that reads the board, where not everybody may.
    token: str | None = None
    #: Matchups of attackers that ended with a vote.
    rigged: list[UUID] = field(default_factory=list)
    won: list[UUID] = field(default_factory=list)

    # Voters

    def attack(self, attacker: Attacker, accounts: int, people: VoterStream, honest: int) -> None:
        """Cast all votes of an attack, among so many votes of honest people."""
        asyncio.run(self._attack(attacker, min(accounts, attacker.votes), people, honest))

    async def _attack(self, attacker: Attacker, accounts: int, people: VoterStream, honest: int) -> None:
        days = min(attacker.plan.days, _DAYS_LIMIT)
        async with AsyncExitStack() as stack:
            cells = MatchupCells(
                await stack.enter_async_context(open_pool(self.database, most=4)), self.content
            )
            clients = [
                await stack.enter_async_context(AsyncClient(self.address, patience=_PATIENCE_SECONDS))
                for _ in range(accounts)
            ]
            for day in range(days):
                votes = iter(range(attacker.votes * day // days, attacker.votes * (day + 1) // days))
                persons = iter(range(honest * day // days, honest * (day + 1) // days))
                await asyncio.gather(
                    *(self._account(client, attacker, cells, votes) for client in clients),
                    *(self._people(people, cells, persons) for _ in range(_CONCURRENT_PEOPLE_COUNT)),
                )
                if day < days - 1:
                    await asyncio.to_thread(self.settle)
                    await asyncio.to_thread(self.pass_a_day)

    async def _account(
        self, client: AsyncClient, attacker: Attacker, cells: MatchupCells, votes: Iterator[int]
    ) -> None:
        """One account: votes until none is left for it."""
        while next(votes, None) is not None:
            done = False
            while not done:
                async with cells.turns:
                    done = await self.attempt(self.rig(client, attacker, cells))

    async def rig(self, client: AsyncClient, attacker: Attacker, cells: MatchupCells) -> bool:
        offered = (await client.next_matchup(ARENA)).matchup
        if not attacker.plan.hasty:
            await asyncio.gather(client.response(offered, "a"), client.response(offered, "b"))
        matchup = await cells.of(offered)
        kind = attacker.decide(seen_matchup(self.content, matchup))
        if kind is None:
            await client.skip(offered)
            return False
        if not attacker.plan.hasty:
            await asyncio.sleep(self._look_seconds(matchup))
        await client.vote(offered, _WINNERS[kind])
        self.rigged.append(stored_id(offered))
        if kind < 2 and matchup[kind] == attacker.target:
            self.won.append(stored_id(offered))
        if attacker.is_learning:
            for told in await client.finish(ARENA):
                prompt = self.content.prompts.index(told.prompt)
                names = [self.content.models.index(name) for name in (told.model_a, told.model_b)]
                attacker.learn({self.content.responses[model, prompt]: model for model in names})
        return True

    async def _people(self, people: VoterStream, cells: MatchupCells, votes: Iterator[int]) -> None:
        """People, one after another, until no vote is left."""
        while True:
            person = people.arrive()
            async with AsyncClient(self.address, patience=_PATIENCE_SECONDS) as client:
                for _ in range(person.votes_left):
                    if next(votes, None) is None:
                        return
                    while not await self.attempt(self._vote(client, person, people.random, cells)):
                        pass

    async def _vote(
        self, client: AsyncClient, person: HonestVoter, random: np.random.Generator, cells: MatchupCells
    ) -> bool:
        offered = (await client.next_matchup(ARENA)).matchup
        await asyncio.gather(client.response(offered, "a"), client.response(offered, "b"))
        matchup = await cells.of(offered)
        kind, seconds = person.decide(self.content, matchup, random)
        # People are patient; who is fast is as fast here.
        await asyncio.sleep(min(seconds, self._look_seconds(matchup)))
        if kind is None:
            await client.skip(offered)
            return False
        await client.vote(offered, _WINNERS[kind])
        return True

    def _look_seconds(self, matchup: tuple[int, int, int]) -> float:
        a, b, prompt = matchup
        return (
            least_look_seconds(self.content.characters(a, prompt) + self.content.characters(b, prompt))
            + _EXTRA_SECONDS
        )

    @staticmethod
    async def attempt(doing: Awaitable[bool]) -> bool:
        """Do something once; whether it was done."""
        try:
            return await doing
        except Busy as error:
            await asyncio.sleep(error.retry_after or _BUSY_SECONDS)
        except (Crowded, Expired):
            await asyncio.sleep(_BUSY_SECONDS)
        return False

    def enter(self, content: ArenaContent) -> None:
        """An operator's submitter enters more models."""

        async def make_token() -> str:
            async with open_pool(self.database, most=1) as pool:
                token, _ = await Accounts(pool).make_token("cli", "submitter", ["import"], arena=ARENA)
                return token

        before, self.content = len(self.content.models), content
        texts = {prompt.name: prompt.text for prompt in demo_prompts()}
        rows = [
            {
                "prompt_id": name,
                "prompt": texts[name],
                "model": content.models[model],
                "response": content.responses[model, prompt],
            }
            for model in range(before, len(content.models))
            for prompt, name in enumerate(content.prompts)
            if (model, prompt) in content.responses
        ]
        lines = "".join(json.dumps(row) + "\n" for row in rows)
        with Client(self.address, token=asyncio.run(make_token())) as client:
            client.import_answers(ARENA, lines.encode())

    # What the arena says

    def settle(self) -> dict[str, Any]:
        """Wait until everything is rated and on the people's board; the board."""
        end = time.monotonic() + _SETTLED_SECONDS
        with connect(self.database) as connection:
            while time.monotonic() < end:
                head, rated = log_head(connection, _ARENA_CODE), read_rater_progress(connection, _ARENA_CODE)
                shown = connection.execute(_SHOWN, {"arena": _ARENA_CODE}).fetchone() or (0, 0)
                connection.rollback()
                if rated.position == head and shown[0] >= shown[1]:
                    with Client(self.address, token=self.token) as client:
                        return client.board(ARENA).value
                time.sleep(0.5)
        raise TiltyardError(f"the rater did not reach the end of the log within {_SETTLED_SECONDS:g} seconds")

    def ranks(self, models: Collection[str]) -> dict[str, int]:
        """Ranks of some models among each other, on the board that people see."""
        rows = self.settle()["rows"]
        ranked = [row["model"] for row in rows if row["rank"] is not None and row["model"] in models]
        return {model: place for place, model in enumerate(ranked, 1)}

    def honest_board(self) -> ArenaBoard:
        """The board of the same log without the attack's votes."""
        with connect(self.database) as connection:
            changes = read_exclusion_changes(connection, _ARENA_CODE)
            # What the operator excludes now is about the attack; the demo's own exclusion comes first.
            dropped = read_excluded_votes(connection, _ARENA_CODE, active_exclusions(changes, 1))
            serials = connection.execute(_SERIALS, {"matchups": self.rigged}).fetchall()
            dropped[HUMAN].update(serial for (serial,) in serials)
            head = log_head(connection, _ARENA_CODE)
            columns = read_columns(connection, _ARENA_CODE, 0, head)
            undone = read_undone_votes(connection, _ARENA_CODE, 0, head)
            roster = read_roster_sync(connection, _ARENA_CODE)
        return board_of_log(FoldProgress(), columns.without(undone), dropped, lambda: roster)

    def votes(self) -> list[LoggedVote]:
        """The votes of people that were not undone, in the order of the log."""
        with connect(self.database) as connection:
            rows = connection.execute(_VOTES, {"arena": _ARENA_CODE}).fetchall()
        return [LoggedVote(*row) for row in rows]

    def flagged_sessions(self) -> set[int]:
        """Sessions that the operator's page lists as unlike the others."""

        async def read() -> set[int]:
            async with open_pool(self.database, most=1) as pool:
                return await read_flagged_sessions(pool, ARENA)

        return asyncio.run(read())

    def held_sessions(self) -> set[int]:
        """Sessions that the scheduled jobs have held, which the page of exclusions names."""
        with connect(self.database) as connection:
            values = {"arena": _ARENA_CODE, "reason": FLAGGED_REASON}
            return {session for (session,) in connection.execute(_HELD, values)}

    # The operator and the clock

    def changes(self) -> list[ToldChange]:
        """The changes of the crowd that were told, oldest first."""

        async def read() -> list[ToldChange]:
            async with open_pool(self.database, most=1) as pool:
                found = await list_changes(pool, _ARENA_CODE)
                return [ToldChange(one.name, one.position, tuple(one.detail["sessions"])) for one in found][
                    ::-1
                ]

        return asyncio.run(read())

    def exclude_offered(self, sessions: Collection[int]) -> None:
        """Exclude sessions, and say of every change what it was."""

        async def decide() -> None:
            async with open_pool(self.database, most=1) as pool:
                if sessions:
                    selection = VoteSelection(sessions=sorted(sessions))
                    await exclude(pool, ARENA, selection, "a red-team attack", actor="red team")
                for change in self.changes_to_explain:
                    await explain_crowd_change(pool, ARENA, change, "a red-team attack", actor="red team")

        asyncio.run(decide())

    @property
    def changes_to_explain(self) -> list[int]:
        with connect(self.database) as connection:
            rows = connection.execute(_UNEXPLAINED, {"arena": _ARENA_CODE}).fetchall()
        return [position for (position,) in rows]

    def pass_a_day(self) -> int:
        """A day passes: the dates of waiting votes move back, and the scheduled job admits what is due; returns how many."""
        with connect(self.database) as connection:
            connection.execute(_AGE)
        return admit_waiting_votes(self.database)


class MatchupCells:
    """The numbers of models and prompts of matchups, as the content has them."""

    def __init__(self, pool: ConnectionPool, content: ArenaContent) -> None:
        self._pool, self._content = pool, content
        #: An account that computes a proof or looks has one of these.
        self.turns = asyncio.Semaphore(_CONCURRENT_ACCOUNT_COUNT)

    async def of(self, matchup: str) -> tuple[int, int, int]:
        async with self._pool.connection() as connection:
            found = await connection.execute(_CELLS, {"matchup": stored_id(matchup)})
            row = await found.fetchone()
        assert row is not None
        a, b = (self._content.models.index(name) for name in row[:2])
        return a, b, self._content.prompts.index(row[2])


def stored_id(text: str) -> UUID:
    """The id of a matchup in the tables; its signature is not checked."""
    shard, _, rest = text.partition("-")
    return UUID(bytes=int(shard).to_bytes(2, "big") + base64.urlsafe_b64decode(rest)[:14])
