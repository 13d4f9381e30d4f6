"""Fills a demo arena with simulated voters, who use the real voting queue and are rated while they vote.

They request matchups and vote like real voters, except that they know which models they are shown.
"""

from __future__ import annotations

import asyncio
import logging
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import TypeAlias
from uuid import UUID

import numpy as np

from tiltyard.arena.accounts import Accounts, new_session_number
from tiltyard.arena.content.answer_import import create_arena, import_answers
from tiltyard.arena.content.arenas import find_arena
from tiltyard.arena.log.event_log import HUMAN, JUDGE
from tiltyard.arena.log.rosters import read_roster
from tiltyard.arena.operators.arena_changes import set_enabled
from tiltyard.arena.operators.crowd import hold_crowd_change
from tiltyard.arena.operators.exclusions import VoteSelection, exclude, list_exclusions
from tiltyard.arena.rating.rater_process import RaterProcess
from tiltyard.arena.registry import ArenaRegistry
from tiltyard.arena.voting.response_kinds import ResponseKinds
from tiltyard.arena.voting.voter_requests import Voter
from tiltyard.arena.voting.voting_queue import VotingQueue
from tiltyard.core.battles import Kind
from tiltyard.errors import Closed, Conflict, NotFound, TiltyardError
from tiltyard.files.answer import Answer
from tiltyard.files.answers import write_answers
from tiltyard.settings.arena_settings import ArenaSettings
from tiltyard.wire.records import Tag

#: People who vote concurrently. More of them means larger batches and fewer transactions.
_CONCURRENT_VOTER_COUNT = 64
#: Mean number of matchups in a person's session.
_MEAN_SESSION_MATCHUPS = 25
#: Upper limit: fewer than the blind votes that one voter can cast, so that every vote counts.
_MAX_SESSION_MATCHUPS = 100
#: How often people skip a matchup, undo a vote, or add a remark.
_SKIP_PROBABILITY, _UNDO_PROBABILITY, _REMARK_PROBABILITY = 0.03, 0.01, 0.015
#: People's votes for each vote of a judge.
_HUMAN_TO_JUDGE_VOTE_RATIO = 6
#: Votes cast after the newcomer joins, and votes of the voter who is excluded.
_NEWCOMER_VOTES, _RIGGED_VOTES = 200, 30
#: Seconds between two notes about a board that does not come, and between polls.
_TELLING_SECONDS, _POLL_SECONDS = 20.0, 0.1
_LOG = logging.getLogger(__name__)
_JUDGES = ("owl-judge", "magpie-judge", "rook-judge", "jay-judge")


#: A voter's choice between two models on a prompt; ``None`` to skip the matchup.
VotePreference: TypeAlias = Callable[[str, str, str, np.random.Generator], Kind | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoScript:
    """The contents of the demo arena, and the events in it besides votes."""

    arena: str
    title: str
    answers: Sequence[Answer]
    people: VotePreference
    judges: VotePreference
    #: A model that is retired, one that joins late, and one that a dishonest voter always votes for.
    retired: str
    newcomer: str
    pushed: str
    #: Remarks on votes, and a complaint about a matchup.
    remarks: Sequence[tuple[Sequence[Tag], str | None]]
    complaint: tuple[str, str]


async def fill_demo_arena(
    registry: ArenaRegistry,
    demo_script: DemoScript,
    *,
    votes: int,
    seed: int,
    on_vote: Callable[[int], None] = lambda _done: None,
) -> int:
    """Create the arena if needed, and let people vote until it has ``votes`` votes of people.

    Return the number of votes that were cast now; 0 if the arena had enough.
    """
    await _ensure_made(registry, demo_script)
    await registry.start()
    try:
        queue = await registry.voting_queue(demo_script.arena)
        play = _DemoRun(registry, queue, demo_script, seed, on_vote)
        before = play.people = _counted(queue, HUMAN)
        play.judges = _counted(queue, JUDGE)
        if before < votes:
            on_vote(before)
            with _rated(registry.url) as rater:
                await play.run(votes)
                await play.published(rater)
        return play.people - before
    finally:
        await registry.stop()


class _DemoRun:
    def __init__(
        self,
        registry: ArenaRegistry,
        queue: VotingQueue,
        demo_script: DemoScript,
        seed: int,
        on_vote: Callable[[int], None],
    ) -> None:
        self._registry = registry
        self._voting_queue = queue
        self._demo_script = demo_script
        self._seed = seed
        self._on_vote = on_vote
        self._accounts = Accounts(registry.pool)
        #: Votes so far.
        self.people = self.judges = 0

    async def run(self, votes: int) -> None:
        """Run the whole script. Steps that an earlier run completed are not repeated."""
        pool, script = self._registry.pool, self._demo_script
        await self._voting(votes * 3 // 5)
        await set_enabled(pool, script.arena, script.retired, enabled=False, actor="cli")
        await self._push(min(_RIGGED_VOTES, votes // 20))
        await self._voting(votes - min(_NEWCOMER_VOTES, votes // 10))
        await _import(self._registry, script, newcomer=True)
        await self._voting(votes)

    async def published(self, rater: threading.Thread) -> None:
        """Wait for the last boards as long as the rater works, and say from time to time how far it is."""
        wanted = {HUMAN: self.people, JUDGE: self.judges}
        rated, told = dict.fromkeys(wanted, 0), time.monotonic()
        while any(rated[source] < votes for source, votes in wanted.items()):
            await asyncio.sleep(_POLL_SECONDS)
            rated |= {one.source: one.votes for one in self._registry.boards.newest(self._voting_queue.arena)}
            how_far = f"{sum(rated.values()):,} of {sum(wanted.values()):,} votes are on a board"
            if not rater.is_alive():
                raise TiltyardError(f"the rater has ended: {how_far}; the log above says why")
            if time.monotonic() - told > _TELLING_SECONDS:
                told = time.monotonic()
                _LOG.warning("still rating, because this machine is slow or busy: %s", how_far)

    async def _voting(self, upto: int) -> None:
        """Let people and judges vote concurrently until people have cast ``upto`` votes."""
        left = iter(range(max(upto - self.people, 0)))
        round_ = self.people
        people = (
            self._person(np.random.default_rng([self._seed, round_, k]), left)
            for k in range(_CONCURRENT_VOTER_COUNT)
        )
        judges = (self._judge(name, upto // _HUMAN_TO_JUDGE_VOTE_RATIO) for name in _JUDGES)
        await asyncio.gather(*people, *judges)

    async def _person(self, rng: np.random.Generator, left: Iterator[int]) -> None:
        """Simulate people one after another, each with a session of their own, until no votes are left."""
        while True:
            voter = Voter(new_session_number())
            for _ in range(min(int(rng.geometric(1.0 / _MEAN_SESSION_MATCHUPS)), _MAX_SESSION_MATCHUPS)):
                if next(left, None) is None:
                    await self._voting_queue.finish(voter)
                    return
                while not await self._answered(voter, self._demo_script.people, rng):
                    pass
            await self._voting_queue.finish(voter)

    async def _answered(self, voter: Voter, decide: VotePreference, rng: np.random.Generator) -> bool:
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
        first = (Kind.WIN_B if kind is Kind.WIN_A else Kind.WIN_A) if undoes else kind
        ended = await self._voting_queue.vote(voter, matchup, first)
        # The last vote of a session reveals the names, and is final.
        if undoes and not ended.revealed:
            with suppress(Closed):  # the time to undo it may be over
                ballot = (await self._voting_queue.undo(voter, matchup)).ballot
                ended = await self._voting_queue.vote(voter, matchup, kind, ballot=ballot)
        if remarks and not ended.revealed:
            tags, comment = said[int(rng.integers(len(said)))]
            await self._voting_queue.remark(voter, matchup, tags, comment)
        self.people += 1
        self._on_vote(self.people)
        return True

    async def _judge(self, name: str, upto: int) -> None:
        """Simulate a judge; it skips a matchup if it has no preference."""
        if self.judges >= upto:
            return
        # Its token is not kept, so that no one else can vote with it.
        known = [one for one in await self._accounts.list_tokens() if one.name == name]
        if not known:
            _, made = await self._accounts.make_token("cli", name, ["judge"], arena=self._demo_script.arena)
            known = [made]
        voter = Voter(await self._accounts.judge_session(known[0]), JUDGE)
        rng = np.random.default_rng([self._seed, voter.session, self.judges])
        while self.judges < upto:
            matchup, kind = await self._asked(voter, self._demo_script.judges, rng)
            if kind is None:
                await self._voting_queue.skip(voter, matchup)
            else:
                self.judges += 1
                await self._voting_queue.vote(voter, matchup, kind, detail={"judge_model": name})

    async def _push(self, votes: int) -> None:
        """Simulate a voter who always votes for one model, files a complaint, and is excluded."""
        script = self._demo_script
        async with self._registry.pool.connection() as connection:
            arena = await find_arena(connection, script.arena)
            if await list_exclusions(connection, arena.arena):
                return

        def decide(left: str, right: str, _prompt: str, _rng: np.random.Generator, /) -> Kind:
            return Kind.WIN_A if left == script.pushed else Kind.WIN_B if right == script.pushed else Kind.TIE

        pool, queue, complaints = self._registry.pool, self._voting_queue, ResponseKinds(self._registry.pool)
        voter, rng = Voter(new_session_number()), np.random.default_rng([self._seed, self.people])
        for k in count():
            matchup, kind = await self._asked(voter, decide, rng)
            if k == 0:
                await complaints.complain(queue.arena, matchup, HUMAN, voter.session, *script.complaint)
            if k >= votes:
                await queue.skip(voter, matchup)
                break
            await queue.vote(voter, matchup, kind or Kind.TIE)
        if votes:
            reason = f"{votes} votes in a row, every one for {script.pushed} where it was shown"
            await exclude(pool, script.arena, VoteSelection(sessions=[voter.session]), reason, actor="cli")

    async def _asked(
        self, voter: Voter, decide: VotePreference, rng: np.random.Generator
    ) -> tuple[UUID, Kind | None]:
        offered = await self._voting_queue.next_matchup(voter)
        state = self._voting_queue.state
        one = None if state is None else state.open.get(offered.matchup)
        if state is None or one is None:
            raise TiltyardError(
                f"arena {self._demo_script.arena} was changed by another process; start again"
            )
        names = state.standings[voter.source]
        kind = decide(names.models[one.a], names.models[one.b], names.prompts[one.prompt], rng)
        return offered.matchup, kind


def _counted(queue: VotingQueue, source: int) -> int:
    assert queue.state is not None
    fresh = sum(key[0] == source for key in queue.state.fresh)
    return int(queue.state.standings[source].record.sum()) // 2 + fresh


async def _ensure_made(registry: ArenaRegistry, demo_script: DemoScript) -> None:
    """Create the arena with all models but the newcomer; raise `Conflict` if the name is taken by another arena."""
    ours = {one.model for one in demo_script.answers} - {demo_script.newcomer}
    try:
        async with registry.pool.connection() as connection:
            found = await find_arena(connection, demo_script.arena)
            there = set((await read_roster(connection, found.arena)).models)
    except NotFound:
        settings = ArenaSettings(snapshot_seconds=2.0)
        await create_arena(registry.pool, demo_script.arena, title=demo_script.title, settings=settings)
        there = set()
    if there and not ours <= there:
        raise Conflict(
            f"the arena {demo_script.arena} exists already and does not have the demo's models; "
            "it was left unchanged: choose another --home"
        )
    if not there:
        await _import(registry, demo_script, newcomer=False)


async def _import(registry: ArenaRegistry, demo_script: DemoScript, *, newcomer: bool) -> None:
    chosen = [one for one in demo_script.answers if newcomer == (one.model == demo_script.newcomer)]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "answers.jsonl"
        await asyncio.to_thread(write_answers, path, chosen)
        await import_answers(registry.pool, registry.blobs, demo_script.arena, path)


@contextmanager
def _rated(url: str) -> Iterator[threading.Thread]:
    """Run a rater in a thread, because its ratings decide which models are matched."""
    stop = threading.Event()
    rater = RaterProcess(url, hold_change=hold_crowd_change)
    thread = threading.Thread(target=rater.run, args=(stop,), name="rater", daemon=True)
    thread.start()
    try:
        yield thread
    finally:
        stop.set()
        thread.join()
