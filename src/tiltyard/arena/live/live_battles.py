"""The live battles of one arena: from a voter's prompt to two answers that can be voted on.

What is complete is read from the database, by whichever process is asked.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable, Collection, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol
from uuid import UUID

from tiltyard.arena.live.generation import (
    SideCall,
    TurnChecks,
    TurnEntrant,
    TurnGeneration,
    TurnLimits,
)
from tiltyard.arena.live.live_records import (
    BudgetLimits,
    CallEnd,
    CallPlan,
    FrameMark,
    LiveBattle,
    LiveFrame,
    LiveTurn,
    TurnEnd,
    TurnOutcome,
    TurnPlan,
)
from tiltyard.arena.live.live_store import (
    begin_battle,
    begin_turn,
    finish_call,
    finish_turn,
    list_entrants,
    list_open_void_battles,
    number_prompt,
    open_battle_of,
    read_battle,
    read_sides,
    record_turn_vote,
    retry_call,
    void_lost_turns,
)
from tiltyard.arena.live.stream_text import TextMask
from tiltyard.arena.live.turn_notes import TurnNotes, note_turn
from tiltyard.arena.live.turn_slots import TurnSlots
from tiltyard.arena.log.event_log import HUMAN, matchup_not_found_error
from tiltyard.arena.processes.process_leases import ProcessRing
from tiltyard.arena.voting.voter_requests import Voter
from tiltyard.arena.voting.voting_queue import VotingQueue
from tiltyard.errors import (
    BadOption,
    Closed,
    Conflict,
    NotFound,
    OpenBattle,
    ProviderFault,
    StoreFault,
)
from tiltyard.foundation.telemetry import LIVE_TURN_SECONDS, LIVE_TURNS
from tiltyard.judges.providers.provider import ChatRequest, ChatTurn
from tiltyard.postgres.connections import ConnectionPool, connect_from_pool
from tiltyard.postgres.statements import statement
from tiltyard.settings.arena_settings import ArenaSettings

__all__ = ["LiveBattles", "LiveChecks", "LiveEntrants", "LiveProcess"]

_LOG = logging.getLogger(__name__)

#: The longest wait of one request for new text. A reader asks again.
MAX_WAIT_SECONDS = 1.0
#: How long turns may go on when the server stops; then they are void.
_CLOSE_SECONDS = 3.0
#: How long a request to stop waits for the end of the turn.
_STOP_SECONDS = 5.0
_MICRODOLLARS_PER_USD = 1_000_000
_STOPPED_PROBLEM = "the server stopped"


class CheckedText(Protocol):
    """What a check says of a text."""

    @property
    def allowed(self) -> bool: ...
    @property
    def flags(self) -> tuple[str, ...]: ...


class LiveChecks(Protocol):
    """The moderation of an arena's prompts and answers."""

    @property
    def holds_answers(self) -> bool: ...
    async def check_prompt(self, history: Sequence[LiveTurn], text: str) -> CheckedText: ...
    async def check_answers(self, history: Sequence[LiveTurn], a: str, b: str) -> CheckedText: ...


class LiveEntrants(Protocol):
    """The models of a live arena."""

    async def refresh(self) -> None:
        """Read them again if they may have changed."""
        ...

    def of(self, model: int) -> TurnEntrant: ...

    def resting(self) -> Collection[int]:
        """Those that are not served at present."""
        ...

    async def close(self) -> None: ...

    def note_health(self, entrant: TurnEntrant, fault: ProviderFault | None) -> None: ...
    def note_stopped(self, entrant: TurnEntrant) -> None: ...


@dataclass(frozen=True, slots=True, eq=False)
class LiveProcess:
    """What all live arenas of one process share."""

    pool: ConnectionPool
    ring: ProcessRing
    slots: TurnSlots


@dataclass(frozen=True, slots=True, eq=False)
class _RunningTurn:
    session: int
    generation: TurnGeneration
    task: asyncio.Task[None]


class LiveBattles:
    """The live battles of one arena in one process."""

    def __init__(
        self,
        arena: int,
        shared: LiveProcess,
        find_queue: Callable[[], Awaitable[VotingQueue]],
        entrants: LiveEntrants,
        checks: LiveChecks | None = None,
    ) -> None:
        self.arena = arena
        self._shared = shared
        self._pool = shared.pool
        self._find_queue = find_queue
        self.entrants = entrants
        self._checks = checks
        self._running: dict[UUID, _RunningTurn] = {}
        #: Turns of battles that ended meanwhile: they store their end, and count for nothing else.
        self._dropped: set[asyncio.Task[None]] = set()
        self._used_at = time.monotonic()
        self._recovery = asyncio.Lock()
        #: Held while money is reserved or settled. The database locks the arena for that: who waits for it here holds no
        #: connection.
        self._spending = asyncio.Lock()
        self._is_recovered = False
        self._is_closing = False
        self._categories: list[str] = []

    @property
    def running(self) -> int:
        """Turns that run here."""
        return len(self._running)

    @property
    def idle_seconds(self) -> float:
        """Seconds since somebody asked for these battles; 0 while a turn runs or stores its end."""
        return 0.0 if self._running or self._dropped else time.monotonic() - self._used_at

    def note_use(self) -> None:
        """Somebody asks for these battles."""
        self._used_at = time.monotonic()

    def drop_ended(self, opened: Container[UUID]) -> None:
        """Stop the turns of battles that are no longer open, such as skipped ones. Their places are free at once."""
        for matchup, running in list(self._running.items()):
            if matchup not in opened:
                running.generation.stop()
                self._dropped.add(running.task)
                running.task.add_done_callback(self._dropped.discard)
                self._forget(matchup, running.generation)

    async def ask(self, voter: Voter, text: str, category: str | None = None) -> LiveBattle:
        """Begin a battle with a voter's prompt. The voter must have ended the last one."""
        return await self.battle(voter, await self.begin(voter, text, category))

    async def follow_up(self, voter: Voter, matchup: UUID, text: str) -> LiveBattle:
        """Send a further prompt to the same two models."""
        await self.go_on(voter, matchup, text)
        return await self.battle(voter, matchup)

    async def stop(self, voter: Voter, matchup: UUID) -> LiveBattle:
        """Stop both answers; what is shown counts."""
        await self.interrupt(voter, matchup)
        return await self.battle(voter, matchup)

    async def again(self, voter: Voter, matchup: UUID) -> LiveBattle:
        """A new battle with the first prompt of this one, which ends without a vote unless it has one."""
        battle = await self._mine(voter, matchup)
        if battle.state == "open":
            await self.interrupt(voter, matchup)
            queue = await self._find_queue()
            with contextlib.suppress(Closed):
                await queue.skip(voter, matchup)
        return await self.ask(voter, battle.turns[0].prompt, battle.category)

    async def battle(self, voter: Voter, matchup: UUID) -> LiveBattle:
        """A voter's battle, with what may be shown of a turn that runs."""
        battle = await self._mine(voter, matchup)
        if not battle.turns or not _runs(battle.turns[-1]):
            return battle
        shown = await self.running_turn(voter, matchup)
        if shown is None or shown.turn != battle.turns[-1].turn:
            # It ended meanwhile, or nobody runs it.
            return await self._mine(voter, matchup)
        return replace(battle, turns=(*battle.turns[:-1], shown), can_continue=False)

    async def turn_vote(self, voter: Voter, matchup: UUID, turn: int, outcome: TurnOutcome) -> LiveBattle:
        """Record the verdict on one turn, in an arena that asks for it."""
        battle = await self._mine(voter, matchup)
        queue = await self._find_queue()
        if queue.settings.live_votes != "turn":
            raise Conflict("this arena asks for one vote on the whole battle, not for votes on turns")
        if battle.state != "open":
            raise Closed("this battle has ended; its turns can no longer be voted on")
        if not any(one.turn == turn for one in battle.turns):
            raise NotFound(f"this battle has no turn {turn}")
        await record_turn_vote(self._pool, self.arena, matchup, turn, outcome)
        return await self._mine(voter, matchup)

    async def frames(
        self, voter: Voter, matchup: UUID, after: FrameMark, wait_seconds: float = MAX_WAIT_SECONDS
    ) -> LiveFrame:
        """What is new to a reader. Waits for it a moment; without news, a frame without text at the same mark."""
        return await self.next_frame(voter, matchup, after, min(wait_seconds, MAX_WAIT_SECONDS))

    async def begin(self, voter: Voter, text: str, category: str | None) -> UUID:
        """Begin a battle; return its matchup's id."""
        if voter.source != HUMAN:
            raise Conflict("live battles are for people; a judge votes on stored responses")
        queue = await self._open_queue()
        text = _checked_prompt(text, queue.settings)
        await self._end_unbegun(voter)
        rules = await self._check_prompt((), text)
        with self._slot(voter):
            async with self._spending:
                number = await number_prompt(self._pool, self.arena, text)
            matchup = await self._serve(queue, voter, category, number)
            try:
                await self._begin_turn(queue, voter, matchup, (), text, rules)
            except Exception:
                await self._void(matchup, "the answers could not be requested")
                raise
        return matchup

    async def go_on(self, voter: Voter, matchup: UUID, text: str) -> None:
        """Begin the next turn of a battle."""
        queue = await self._open_queue()
        text = _checked_prompt(text, queue.settings)
        battle = await self._mine(voter, matchup)
        _check_continuable(battle, queue.settings)
        rules = await self._check_prompt(battle.turns, text)
        with self._slot(voter):
            await self._begin_turn(queue, voter, matchup, battle.turns, text, rules)

    async def interrupt(self, voter: Voter, matchup: UUID) -> None:
        """Stop the turn that runs, if any, and wait for its end."""
        running = self._running_of(voter, matchup)
        if running is None:
            await self._mine(voter, matchup)
            return
        running.generation.stop()
        await asyncio.wait([running.task], timeout=_STOP_SECONDS)

    async def running_turn(self, voter: Voter, matchup: UUID) -> LiveTurn | None:
        """The turn that runs, as far as it may be shown."""
        running = self._running_of(voter, matchup)
        if running is None:
            return None
        generation = running.generation
        return LiveTurn(generation.turn, generation.prompt, *generation.texts, generation.state)

    async def next_frame(
        self, voter: Voter, matchup: UUID, after: FrameMark, wait_seconds: float
    ) -> LiveFrame:
        """What is new to a reader; see `frames`."""
        running = self._running_of(voter, matchup)
        if running is not None:
            generation = running.generation
            frame = generation.frame(after)
            if frame is None:
                await generation.changed(wait_seconds)
                frame = generation.frame(after)
            return frame or generation.empty_frame()
        battle = await self._mine(voter, matchup)
        if not battle.turns:
            raise matchup_not_found_error()
        if _runs(battle.turns[-1]):
            # The process that ran it is gone.
            await self.ensure_recovered()
            await asyncio.sleep(wait_seconds)
        return _stored_frame(battle, after)

    async def ensure_recovered(self, *, again: bool = False) -> None:
        """End what processes that are gone have left: turns that run nowhere, and matchups of void battles."""
        async with self._recovery:
            if self._is_recovered and not again:
                return
            await void_lost_turns(self._pool, self.arena, self._shared.ring.own)
            for matchup, problem in (await list_open_void_battles(self._pool, self.arena)).items():
                await self._void(matchup, problem)
            self._is_recovered = True

    async def close(self) -> None:
        """Let the turns that run go on for a moment; then they are void."""
        self._is_closing = True
        tasks = [*(running.task for running in self._running.values()), *self._dropped]
        if tasks:
            await asyncio.wait(tasks, timeout=_CLOSE_SECONDS)
            for running in list(self._running.values()):
                running.generation.abandon(_STOPPED_PROBLEM)
            await asyncio.wait(tasks, timeout=_CLOSE_SECONDS)
        await self.entrants.close()

    async def _open_queue(self) -> VotingQueue:
        if self._is_closing:
            raise StoreFault("the server is stopping; try again in a moment")
        queue = await self._find_queue()
        if not queue.settings.is_live:
            raise NotFound("this arena has no live battles: its prompts are the operator's")
        await self.ensure_recovered()
        await self.entrants.refresh()
        return queue

    async def _mine(self, voter: Voter, matchup: UUID) -> LiveBattle:
        battle = await read_battle(self._pool, self.arena, matchup, session=voter.session)
        if battle is None:
            raise matchup_not_found_error()
        return battle

    def _running_of(self, voter: Voter, matchup: UUID) -> _RunningTurn | None:
        running = self._running.get(matchup)
        return None if running is None or running.session != voter.session else running

    async def _end_unbegun(self, voter: Voter) -> None:
        """Raise if the voter has an open battle. One whose first turn never began is void."""
        opened = await open_battle_of(self._pool, self.arena, voter.session)
        if opened is None:
            return
        battle = await self._mine(voter, opened)
        if battle.turns or opened in self._running:
            raise OpenBattle(
                "you have a battle without a vote; vote on it or skip it before the next prompt",
                matchup=str(opened),
            )
        await self._void(opened, "its first turn never began")

    async def _check_prompt(self, history: Sequence[LiveTurn], text: str) -> tuple[str, ...]:
        """The rules that only flag this prompt; raises if it is refused."""
        if self._checks is None:
            return ()
        verdict = await self._checks.check_prompt(history, text)
        if not verdict.allowed:
            raise BadOption("this prompt cannot be used in this arena; change it")
        return verdict.flags

    @contextlib.contextmanager
    def _slot(self, voter: Voter) -> Iterator[None]:
        """A place for a turn. If the block begins none, the place is free again."""
        key = (self.arena, voter.session)
        self._shared.slots.take(key)
        try:
            yield
        except BaseException:
            self._shared.slots.release(key)
            raise

    async def _serve(self, queue: VotingQueue, voter: Voter, category: str | None, free_prompt: int) -> UUID:
        """Let the arena choose two models that are well; return the matchup's id."""
        number = await self._category(category)
        resting = tuple(self.entrants.resting())
        try:
            offered = await queue.begin_live(voter, number, free_prompt, resting=resting)
        except OpenBattle as refusal:
            # It was served, and the process that served it was lost before it was stored.
            lost = UUID(refusal.matchup)
            if await read_battle(self._pool, self.arena, lost) is not None:
                raise
            await queue.end_void(lost, "its first turn never began")
            offered = await queue.begin_live(voter, number, free_prompt, resting=resting)
        await begin_battle(
            self._pool, self.arena, offered.matchup, voter.session, number, free_prompt, voter.payers
        )
        return offered.matchup

    async def _category(self, name: str | None) -> int:
        """The number of a category; without a name, that of the first one. Categories are only added."""
        if name is None and self._categories:
            return 0
        if name in self._categories:
            return self._categories.index(name)
        async with connect_from_pool(self._pool) as connection:
            found = await connection.execute(statement("roster_prompts"), {"arena": self.arena})
            names = self._categories = [one for (one,) in await found.fetchall()]
        if name is None and names:
            return 0
        if name not in names:
            raise BadOption(f"category: {name!r} is not one of this arena: {', '.join(names)}")
        return names.index(name)

    async def _begin_turn(
        self,
        queue: VotingQueue,
        voter: Voter,
        matchup: UUID,
        turns: Sequence[LiveTurn],
        text: str,
        rules: tuple[str, ...],
    ) -> None:
        """Reserve the money, start both calls, and let the turn run."""
        settings, turn = queue.settings, len(turns) + 1
        models = await read_sides(self._pool, self.arena, matchup)
        entrants = [self.entrants.of(model) for model in models]
        requests = [_request(one, side, turns, text, settings) for side, one in enumerate(entrants)]
        left, right = (one.plan(request) for one, request in zip(entrants, requests, strict=True))
        plan = TurnPlan(turn, text, (left, right), self._shared.ring.own)
        limits = _budget_limits(settings)
        async with self._spending:
            numbers = await begin_turn(self._pool, self.arena, matchup, plan, limits)
        a, b = (SideCall(*one) for one in zip(entrants, requests, numbers, strict=True))
        prompt = LiveTurn(turn, text, "", "", "waiting")
        generation = TurnGeneration(
            turn,
            text,
            (a, b),
            TurnLimits(
                pace=settings.live_pace,
                first_token_seconds=settings.live_first_token_seconds,
                gap_seconds=settings.live_gap_seconds,
                mask=await self._mask(settings),
            ),
            _Recorder(self, limits, partial(self._finish_noted, matchup, prompt, models, rules)),
            None if self._checks is None else _AnswerChecks(self._checks, (*turns, prompt)),
        )
        task = asyncio.create_task(self._run(matchup, generation), name="live turn")
        self._running[matchup] = _RunningTurn(voter.session, generation, task)

    async def _mask(self, settings: ArenaSettings) -> TextMask | None:
        """What masks the names of models in answers, if the arena wants it."""
        if settings.live_identity != "mask":
            return None
        entrants = await list_entrants(self._pool, self.arena)
        return (await asyncio.to_thread(TurnNotes, entrants, "mask")).shown

    async def _run(self, matchup: UUID, generation: TurnGeneration) -> None:
        began = time.monotonic()
        try:
            end = await generation.run()
            LIVE_TURNS.record(1, end.state)
            LIVE_TURN_SECONDS.record(time.monotonic() - began)
        except Exception as error:  # noqa: BLE001 - what is not ended here is ended at the next recovery
            _LOG.error("a live turn could not be ended: %s", type(error).__name__)
        finally:
            self._forget(matchup, generation)

    async def retry_call(self, failed: int, plan: CallPlan, limits: BudgetLimits) -> int:
        """Reserve the money for a further call."""
        async with self._spending:
            return await retry_call(self._pool, self.arena, failed, plan, limits)

    async def finish_call(self, call: int, end: CallEnd) -> None:
        """Settle what a call cost."""
        async with self._spending:
            await finish_call(self._pool, self.arena, call, end)

    async def _finish_noted(
        self, matchup: UUID, turn: LiveTurn, models: tuple[int, int], rules: tuple[str, ...], end: TurnEnd
    ) -> None:
        """Note the language, identity talk and private data of a turn, and store how it ended."""
        if end.state != "void":
            entrants = await list_entrants(self._pool, self.arena)
            noted = await asyncio.to_thread(note_turn, entrants, turn.prompt, end.written, models)
            answered = end.flags.get("rules", ())
            broken = dict.fromkeys((*rules, *(answered if isinstance(answered, list) else ())))
            end = replace(end, flags={**noted, **end.flags, **({"rules": list(broken)} if broken else {})})
        await self._finish_turn(matchup, turn.turn, end)

    async def _finish_turn(self, matchup: UUID, turn: int, end: TurnEnd) -> None:
        """Store how a turn ended, before any reader is told."""
        await finish_turn(self._pool, self.arena, matchup, turn, end)
        if end.state == "void":
            _LOG.warning("a live battle of arena %d is void: %s", self.arena, end.problem)
            await self._void(matchup, end.problem or "an answer failed")
        running = self._running.get(matchup)
        if running is not None:
            self._forget(matchup, running.generation)

    def _forget(self, matchup: UUID, generation: TurnGeneration) -> None:
        """A turn has ended: what it held is free."""
        running = self._running.get(matchup)
        if running is not None and running.generation is generation:
            del self._running[matchup]
            self._shared.slots.release((self.arena, running.session))

    async def _void(self, matchup: UUID, problem: str) -> None:
        """End the matchup of a void battle: nothing of it is rated."""
        queue = await self._find_queue()
        await queue.end_void(matchup, problem)


class _Recorder:
    """Stores what happens in one turn."""

    def __init__(
        self, battles: LiveBattles, limits: BudgetLimits, finish: Callable[[TurnEnd], Awaitable[None]]
    ) -> None:
        self._battles = battles
        self._limits = limits
        self.finish_turn = finish

    async def retry_call(self, failed: int, plan: CallPlan) -> int:
        return await self._battles.retry_call(failed, plan, self._limits)

    async def finish_call(self, call: int, end: CallEnd) -> None:
        await self._battles.finish_call(call, end)

    def note_health(self, entrant: TurnEntrant, fault: ProviderFault | None) -> None:
        self._battles.entrants.note_health(entrant, fault)

    def note_stopped(self, entrant: TurnEntrant) -> None:
        self._battles.entrants.note_stopped(entrant)


class _AnswerChecks(TurnChecks):
    """The moderation of one turn's answers, with the conversation before them."""

    def __init__(self, checks: LiveChecks, turns: Sequence[LiveTurn]) -> None:
        self._checks = checks
        self._turns = turns

    @property
    def holds_answers(self) -> bool:
        return self._checks.holds_answers

    async def check(self, a: str, b: str) -> Mapping[str, object] | None:
        verdict = await self._checks.check_answers(self._turns, a, b)
        if not verdict.allowed:
            return None
        return {"rules": list(verdict.flags)} if verdict.flags else {}


def _checked_prompt(text: str, settings: ArenaSettings) -> str:
    if not any(character.isprintable() and not character.isspace() for character in text):
        raise BadOption("the prompt is empty; write something")
    if len(text) > settings.live_prompt_characters:
        raise BadOption(
            f"the prompt has {len(text):,} characters; this arena takes at most {settings.live_prompt_characters:,}"
        )
    if "\0" in text:
        raise BadOption("the prompt has a character that no text has; delete it")
    return text


def _check_continuable(battle: LiveBattle, settings: ArenaSettings) -> None:
    if battle.state != "open":
        raise Closed("this battle has ended; begin a new one")
    if not battle.turns or _runs(battle.turns[-1]):
        raise Closed("the last turn of this battle has not ended; wait for both answers, or stop them")
    if len(battle.turns) >= settings.live_turns:
        raise Closed(f"a battle of this arena has at most {settings.live_turns} turns; vote on it")
    if settings.live_votes == "turn" and battle.turns[-1].outcome is None and battle.turns[-1].a:
        raise Conflict("vote on this turn before the next prompt")


def _runs(turn: LiveTurn) -> bool:
    return turn.state in {"waiting", "streaming"}


def _request(
    entrant: TurnEntrant, side: int, turns: Sequence[LiveTurn], text: str, settings: ArenaSettings
) -> ChatRequest:
    """The conversation as one model knows it: with its own answers. A turn that it did not answer is left out."""
    said: list[ChatTurn] = []
    for turn in turns:
        answer = (turn.a, turn.b)[side]
        if answer:
            said += [ChatTurn("user", turn.prompt), ChatTurn("assistant", answer)]
    limit = min(entrant.max_tokens, settings.live_answer_tokens)
    return ChatRequest((*said, ChatTurn("user", text)), entrant.system, limit)


def _stored_frame(battle: LiveBattle, after: FrameMark) -> LiveFrame:
    """The last turn of a battle as one frame."""
    turn = battle.turns[-1]
    if _runs(turn):
        # What may be shown of it is not known here: a reader stays where it is.
        return LiveFrame(after if after.turn == turn.turn else FrameMark(turn.turn), "", "", turn.state)
    a, b = (after.shown_a, after.shown_b) if after.turn == turn.turn else (0, 0)
    return LiveFrame(
        mark=FrameMark(turn.turn, len(turn.a), len(turn.b)),
        a=turn.a[a:],
        b=turn.b[b:],
        state=turn.state,
        ended_a=True,
        ended_b=True,
    )


def _budget_limits(settings: ArenaSettings) -> BudgetLimits:
    dollars = (settings.live_budget_dollars, settings.live_day_dollars, settings.live_voter_day_dollars)
    return BudgetLimits(*(None if one is None else int(one * _MICRODOLLARS_PER_USD) for one in dollars))
