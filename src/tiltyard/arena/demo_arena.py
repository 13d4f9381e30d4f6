"""An arena that is filled before anybody's eyes: invented voters at the real desk, rated as they vote.

They ask for matchups and vote like everybody else; only, they are told which models they see, since
nobody wrote eyes for them.
"""

from __future__ import annotations

import asyncio
import tempfile
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Protocol

import numpy as np

from tiltyard.arena.accounts import Accounts
from tiltyard.arena.content.answer_import import create_arena, import_answers
from tiltyard.arena.content.arenas import find_arena
from tiltyard.arena.log.event_log import HUMAN, JUDGE
from tiltyard.arena.log.rosters import read_roster
from tiltyard.arena.operators.arena_changes import exclude, set_enabled
from tiltyard.arena.operators.exclusions import VoteSelection, list_exclusions
from tiltyard.arena.rating.rater_process import rate_arenas
from tiltyard.arena.registry import ArenaRegistry
from tiltyard.arena.voting.matchup_ids import parse_matchup_id
from tiltyard.arena.voting.response_kinds import ResponseKinds
from tiltyard.arena.voting.voter_requests import Voter
from tiltyard.arena.voting.voting_queue import VotingQueue
from tiltyard.core.battles import Kind
from tiltyard.errors import Conflict, NotFound, TiltyardError
from tiltyard.files.answers import Answer, write_answers
from tiltyard.postgres.connection_pool import connect_from_pool
from tiltyard.settings.arena_settings import ArenaSettings
from tiltyard.wire.vocabulary import Tag

__all__ = ["DemoScript", "VotePreference", "fill_demo_arena"]

#: People who vote at once: the more, the fewer transactions.
_CONCURRENT_VOTER_COUNT = 64
#: Matchups that a person answers on average before going away.
_MEAN_SESSION_MATCHUPS = 25
#: And at most: fewer than the blind votes that one voter has, so that every vote counts.
_MAX_SESSION_MATCHUPS = 100
#: How often people pass a matchup over, take a vote back, or say why.
_SKIP_PROBABILITY, _UNDO_PROBABILITY, _REMARK_PROBABILITY = 0.03, 0.01, 0.015
#: A judge's vote for so many of people's.
_HUMAN_TO_JUDGE_VOTE_RATIO = 6
#: The votes that the newcomer is there for, and those of the voter who is excluded.
_NEWCOMER_VOTES, _RIGGED_VOTES = 200, 30
#: Seconds to wait for the last board, and between looks.
_BOARD_WAIT_SECONDS, _POLL_SECONDS = 120.0, 0.1
_JUDGES = ("owl-judge", "magpie-judge", "rook-judge", "jay-judge")


class VotePreference(Protocol):
    """What a voter thinks of two models on a prompt; ``None``: that it cannot tell."""

    def __call__(self, left: str, right: str, prompt: str, rng: np.random.Generator, /) -> Kind | None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoScript:
    """What happens in the arena, beside votes."""

    arena: str
    title: str
    answers: Sequence[Answer]
    people: VotePreference
    judges: VotePreference
    #: Models that go, come late, and are pushed by a voter who is found out.
    retired: str
    newcomer: str
    pushed: str
    #: What people say of their votes, and one of them of a matchup.
    remarks: Sequence[tuple[Sequence[Tag], str | None]]
    complaint: tuple[str, str]


async def fill_demo_arena(
    house: ArenaRegistry,
    demo_script: DemoScript,
    *,
    votes: int,
    seed: int,
    on_vote: Callable[[int], None] = lambda _done: None,
) -> int:
    """Make the arena if there is none, and let people vote until it has so many votes of theirs.

    An arena that has them already is left as it is: how many were cast now.
    """
    await _made(house, demo_script)
    async with _open(house):
        desk = await house.desk(demo_script.arena)
        play = _DemoRun(house, desk, demo_script, seed, on_vote)
        before = play.people = _counted(desk, HUMAN)
        play.judges = _counted(desk, JUDGE)
        if before < votes:
            on_vote(before)
            with _rated(house.url):
                await play.run(votes)
                await play.published()
        return play.people - before


class _DemoRun:
    """One filling of an arena: how far it is, and what comes next."""

    def __init__(
        self,
        house: ArenaRegistry,
        desk: VotingQueue,
        demo_script: DemoScript,
        seed: int,
        on_vote: Callable[[int], None],
    ) -> None:
        self._registry = house
        self._voting_queue = desk
        self._demo_script = demo_script
        self._seed = seed
        self._on_vote = on_vote
        self._accounts = Accounts(house.pool)
        #: Votes so far.
        self.people = self.judges = 0

    async def run(self, votes: int) -> None:
        """From first to last. What a former run has done already is not done again."""
        pool, told = self._registry.pool, self._demo_script
        await self._voting(votes * 3 // 5)
        await set_enabled(pool, told.arena, told.retired, enabled=False, actor="cli")
        await self._push(min(_RIGGED_VOTES, votes // 20))
        await self._voting(votes - min(_NEWCOMER_VOTES, votes // 10))
        await _import(self._registry, told, newcomer=True)
        await self._voting(votes)

    async def published(self) -> None:
        """Wait until the newest boards have every vote."""
        wanted = {HUMAN: self.people, JUDGE: self.judges}
        end = time.monotonic() + _BOARD_WAIT_SECONDS
        while any(wanted.values()):
            await asyncio.sleep(_POLL_SECONDS)
            for one in self._registry.boards.newest(self._voting_queue.arena):
                if one.votes >= wanted[one.source]:
                    wanted[one.source] = 0
            if time.monotonic() > end:
                raise TiltyardError(
                    f"arena {self._demo_script.arena} was filled, and no board came of it within {_BOARD_WAIT_SECONDS:g} seconds; "
                    "the lines above say why"
                )

    async def _voting(self, upto: int) -> None:
        """People and judges side by side, until people have cast so many votes."""
        left = iter(range(max(upto - self.people, 0)))
        round_ = self.people
        people = (
            self._person(np.random.default_rng([self._seed, round_, k]), left)
            for k in range(_CONCURRENT_VOTER_COUNT)
        )
        judges = (self._judge(name, upto // _HUMAN_TO_JUDGE_VOTE_RATIO) for name in _JUDGES)
        await asyncio.gather(*people, *judges)

    async def _person(self, rng: np.random.Generator, left: Iterator[int]) -> None:
        """One after another at the same desk: each stays for a while, and finishes a session of its own."""
        while True:
            _, session = await self._accounts.make_session()
            voter = Voter(session.session)
            for _ in range(min(int(rng.geometric(1.0 / _MEAN_SESSION_MATCHUPS)), _MAX_SESSION_MATCHUPS)):
                if next(left, None) is None:
                    await self._voting_queue.finish(voter)
                    return
                while not await self._answered(voter, self._demo_script.people, rng):
                    pass
            await self._voting_queue.finish(voter)

    async def _answered(self, voter: Voter, decide: VotePreference, rng: np.random.Generator) -> bool:
        """One matchup; whether it ended in a vote that stands."""
        matchup, kind = await self._asked(voter, decide, rng)
        mood = rng.random()
        if kind is None or mood < _SKIP_PROBABILITY:
            await self._voting_queue.skip(voter, matchup)
            return False
        said = self._demo_script.remarks
        undoes, remarks = (
            mood > 1.0 - _UNDO_PROBABILITY,
            said and mood < _SKIP_PROBABILITY + _REMARK_PROBABILITY,
        )
        ballot = 0
        if undoes:
            await self._voting_queue.vote(voter, matchup, Kind.WIN_B if kind is Kind.WIN_A else Kind.WIN_A)
            ballot = (await self._voting_queue.undo(voter, matchup)).ballot
        ended = await self._voting_queue.vote(voter, matchup, kind, ballot=ballot)
        if remarks and not ended.revealed:
            tags, comment = said[int(rng.integers(len(said)))]
            await self._voting_queue.remark(voter, matchup, tags, comment)
        self.people += 1
        self._on_vote(self.people)
        return True

    async def _judge(self, name: str, upto: int) -> None:
        """A judge with a token; what it cannot read, it skips."""
        if self.judges >= upto:
            return
        voter = Voter(await self._open_judge_session(name), JUDGE)
        rng = np.random.default_rng([self._seed, voter.session, self.judges])
        while self.judges < upto:
            matchup, kind = await self._asked(voter, self._demo_script.judges, rng)
            if kind is None:
                await self._voting_queue.skip(voter, matchup)
            else:
                self.judges += 1
                await self._voting_queue.vote(voter, matchup, kind, detail={"judge_model": name})

    async def _open_judge_session(self, name: str) -> int:
        """The session of a judge; its token is thrown away, since nobody else shall vote with it."""
        known = [one for one in await self._accounts.list_tokens() if one.name == name]
        if not known:
            _, made = await self._accounts.make_token("cli", name, ["judge"], arena=self._demo_script.arena)
            known = [made]
        return (await self._accounts.judge_session(known[0])).session

    async def _push(self, votes: int) -> None:
        """Somebody who votes for one model whatever it says, complains, and is excluded."""
        told = self._demo_script
        async with connect_from_pool(self._registry.pool) as connection:
            arena = await find_arena(connection, told.arena)
            if await list_exclusions(connection, arena.arena):
                return
        _, session = await self._accounts.make_session()
        voter, rng = Voter(session.session), np.random.default_rng([self._seed, self.people])
        for k in count():
            matchup, kind = await self._asked(voter, _pushing(told.pushed), rng)
            if k == 0:
                await ResponseKinds(self._registry.pool).complain(
                    self._voting_queue.arena,
                    parse_matchup_id(matchup),
                    HUMAN,
                    session.session,
                    *told.complaint,
                )
            if k >= votes:
                await self._voting_queue.skip(voter, matchup)
                break
            await self._voting_queue.vote(voter, matchup, kind or Kind.TIE)
        if votes:
            reason = f"{votes} votes in a row, every one for {told.pushed} where it was shown"
            await exclude(
                self._registry.pool,
                told.arena,
                VoteSelection(sessions=[session.session]),
                reason,
                actor="cli",
            )

    async def _asked(
        self, voter: Voter, decide: VotePreference, rng: np.random.Generator
    ) -> tuple[str, Kind | None]:
        """A matchup, and what this voter makes of it."""
        offered = await self._voting_queue.next_matchup(voter)
        live = self._voting_queue.live
        one = None if live is None else live.open.get(parse_matchup_id(offered.matchup))
        if live is None or one is None:
            raise TiltyardError(f"arena {self._demo_script.arena} was changed by somebody else; begin again")
        names = live.standings[voter.source]
        kind = decide(names.models[one.a], names.models[one.b], names.prompts[one.prompt], rng)
        return offered.matchup, kind


def _pushing(model: str) -> VotePreference:
    def decide(left: str, right: str, _prompt: str, _rng: np.random.Generator, /) -> Kind:
        return Kind.WIN_A if left == model else Kind.WIN_B if right == model else Kind.TIE

    return decide


def _counted(desk: VotingQueue, source: int) -> int:
    """Votes of a source that stand, those that were cast just now among them."""
    assert desk.live is not None
    fresh = sum(key[0] == source for key in desk.live.fresh)
    return int(desk.live.standings[source].record.sum()) // 2 + fresh


async def _made(house: ArenaRegistry, demo_script: DemoScript) -> None:
    """The arena, with everybody in it but the newcomer. One that somebody else made is left alone."""
    ours = {one.model for one in demo_script.answers} - {demo_script.newcomer}
    try:
        async with connect_from_pool(house.pool) as connection:
            found = await find_arena(connection, demo_script.arena)
            there = set((await read_roster(connection, found.arena)).models)
    except NotFound:
        lively = ArenaSettings(snapshot_seconds=2.0)
        await create_arena(house.pool, demo_script.arena, title=demo_script.title, settings=lively)
        there = set()
    if there and not ours <= there:
        raise Conflict(
            f"there is an arena {demo_script.arena} already, without the demo's models; "
            "nobody votes in it: choose another --home"
        )
    if not there:
        await _import(house, demo_script, newcomer=False)


async def _import(house: ArenaRegistry, demo_script: DemoScript, *, newcomer: bool) -> None:
    chosen = [one for one in demo_script.answers if newcomer == (one.model == demo_script.newcomer)]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "answers.jsonl"
        await asyncio.to_thread(write_answers, path, chosen)
        await import_answers(house.pool, house.contents, demo_script.arena, path)


@asynccontextmanager
async def _open(house: ArenaRegistry) -> AsyncIterator[None]:
    await house.start()
    try:
        yield
    finally:
        await house.stop()


@contextmanager
def _rated(url: str) -> Iterator[None]:
    """A rater beside the desk: whom it ranks decides who meets."""
    stop = threading.Event()
    thread = threading.Thread(target=rate_arenas, args=(url, stop), name="rater", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
