"""The live battles of one arena: from a voter's prompt to two answers that can be voted on.

A turn runs in the process that was asked for it. Four times a second that process writes what the turn shows, and others
read it: whichever process is asked answers, streams and stops.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from uuid import UUID

from tiltyard.arena.live.entrant_pool import EntrantPool
from tiltyard.arena.live.generation import SideCall, StreamedTurn, TurnGeneration, TurnLimits, TurnRecorder
from tiltyard.arena.live.live_records import (
    NOTHING_SHOWN,
    BudgetLimits,
    FrameMark,
    LiveBattle,
    LiveFrame,
    LiveTurn,
    ShownText,
    TurnEnd,
    TurnEntrant,
    TurnOutcome,
    TurnPlan,
)
from tiltyard.arena.live.live_store import (
    begin_battle,
    begin_turn,
    finish_turn,
    list_entrants,
    list_open_void_battles,
    number_prompt,
    open_battle_of,
    read_battle,
    read_sides,
    record_turn_vote,
    void_lost_turns,
)
from tiltyard.arena.live.safety import Safety
from tiltyard.arena.live.turn_notes import EntrantNames, NameMask, names_of, note_turn
from tiltyard.arena.live.turn_slots import TurnSlots
from tiltyard.arena.log.buckets import fetch_rows
from tiltyard.arena.log.event_log import HUMAN, matchup_not_found_error
from tiltyard.arena.tasks import cancel_and_wait
from tiltyard.arena.voting.voter_requests import Voter
from tiltyard.arena.voting.voting_queue import VotingQueue
from tiltyard.errors import BadOption, Closed, Conflict, NotFound, OpenBattle, StoreFault, TiltyardError
from tiltyard.foundation.retries import Backoff, Retries
from tiltyard.foundation.telemetry import LIVE_TURN_SECONDS, LIVE_TURNS
from tiltyard.judges.providers.provider import ChatRequest, ChatTurn
from tiltyard.settings.arena_settings import ArenaSettings

_LOG = logging.getLogger(__name__)

#: The longest wait of one request for new text. A reader asks again.
MAX_WAIT_SECONDS = 1.0
#: How long turns may go on when the server stops; then they are void.
_CLOSE_SECONDS = 3.0
#: How often a process writes what its turns show and reads those of others, and how long it reads one that nobody asks for.
EXCHANGE_SECONDS = 0.25
_FOLLOWED_SECONDS = 5.0
#: How often a request to stop looks whether the turn has ended.
_STOP_LOOK_COUNT, _STOP_LOOK_SECONDS = 50, 0.1
_STOPPED_PROBLEM = "the server stopped"


@dataclass(slots=True, eq=False)
class _RunningTurn:
    session: int
    generation: TurnGeneration
    task: asyncio.Task[None]
    #: What others can read.
    written: ShownText = NOTHING_SHOWN


@dataclass(slots=True, eq=False)
class _FollowedTurn:
    """A turn of another process, while somebody reads it here."""

    session: int
    shown: StreamedTurn
    asked_at: float


class LiveBattles:
    """The live battles of one arena in one process."""

    def __init__(
        self,
        arena: int,
        slots: TurnSlots,
        find_queue: Callable[[], Awaitable[VotingQueue]],
        entrants: EntrantPool,
        checks: Safety | None = None,
    ) -> None:
        self.arena = arena
        self._slots = slots
        self._pool = slots.pool
        self._find_queue = find_queue
        self.entrants = entrants
        self._checks = checks
        self._running: dict[UUID, _RunningTurn] = {}
        self._followed: dict[UUID, _FollowedTurn] = {}
        self._exchanging: asyncio.Task[None] | None = None
        self._retries = Retries(_LOG, "passing on what live answers show", Backoff(EXCHANGE_SECONDS))
        self._used_at = time.monotonic()
        self._recovery = asyncio.Lock()
        #: Held while money is reserved or settled. The database locks the arena for that: who waits for it here holds no
        #: connection.
        self._spending = asyncio.Lock()
        self._is_recovered = False
        self._is_closing = False
        self._categories: list[str] = []
        #: The mask of the names of the models, and these.
        self._masked: tuple[list[EntrantNames], NameMask] | None = None

    @property
    def idle_seconds(self) -> float:
        """Seconds since somebody asked for these battles; 0 while a turn runs."""
        return 0.0 if self._running else time.monotonic() - self._used_at

    def note_use(self) -> None:
        """Somebody asks for these battles."""
        self._used_at = time.monotonic()

    async def stop(self, voter: Voter, matchup: UUID) -> LiveBattle:
        """Stop both answers; what is shown counts."""
        await self.interrupt(voter, matchup)
        return await self.battle(voter, matchup)

    async def again(self, voter: Voter, matchup: UUID) -> LiveBattle:
        """A new battle with the first prompt of this one, which ends without a vote unless it has one."""
        battle = await self.battle(voter, matchup)
        if battle.state == "open":
            await self.interrupt(voter, matchup)
            queue = await self._find_queue()
            with contextlib.suppress(Closed):
                await queue.skip(voter, matchup)
        return await self.ask(voter, battle.turns[0].prompt, battle.category)

    async def battle(self, voter: Voter, matchup: UUID) -> LiveBattle:
        """A voter's battle, with what may be shown of a turn that runs."""
        battle = await read_battle(self._pool, self.arena, matchup, session=voter.session)
        if battle is None:
            raise matchup_not_found_error()
        running = self._running.get(matchup)
        if running is None or not battle.turns or not battle.turns[-1].runs:
            return battle
        # Of a turn that runs here, more may be shown than was written.
        shown = running.generation.shown.shown
        last = replace(battle.turns[-1], a=shown.a, b=shown.b)
        return replace(battle, turns=(*battle.turns[:-1], last))

    async def turn_vote(self, voter: Voter, matchup: UUID, turn: int, outcome: TurnOutcome) -> LiveBattle:
        """Record the verdict on one turn, in an arena that asks for it."""
        battle = await self.battle(voter, matchup)
        queue = await self._find_queue()
        if queue.settings.live_votes != "turn":
            raise Conflict("this arena asks for one vote on the whole battle, not for votes on turns")
        if battle.state != "open":
            raise Closed("this battle has ended; its turns can no longer be voted on")
        if not any(one.turn == turn for one in battle.turns):
            raise NotFound(f"this battle has no turn {turn}")
        await record_turn_vote(self._pool, self.arena, matchup, turn, outcome)
        return await self.battle(voter, matchup)

    async def frames(
        self, voter: Voter, matchup: UUID, after: FrameMark, wait_seconds: float = MAX_WAIT_SECONDS
    ) -> LiveFrame:
        """What is new to a reader. Waits for it a moment; without news, a frame without text at the same mark."""
        shown = self._shown_of(voter, matchup)
        if shown is None:
            battle = await self.battle(voter, matchup)
            if not battle.turns:
                raise matchup_not_found_error()
            if not battle.turns[-1].runs:
                turn = battle.turns[-1]
                a, b = (after.shown_a, after.shown_b) if after.turn == turn.turn else (0, 0)
                mark = FrameMark(turn.turn, len(turn.a), len(turn.b))
                return LiveFrame(mark, turn.a[a:], turn.b[b:], turn.state, ended_a=True, ended_b=True)
            # From now on, this process reads what the turn of another one shows.
            last = battle.turns[-1]
            shown = StreamedTurn(last.turn, ShownText(last.a, last.b, last.state))
            self._followed[matchup] = _FollowedTurn(voter.session, shown, time.monotonic())
            self._ensure_exchange()
        return await shown.next_frame(after, min(wait_seconds, MAX_WAIT_SECONDS))

    async def ask(self, voter: Voter, text: str, category: str | None = None) -> LiveBattle:
        """Begin a battle with a voter's prompt. The voter must have ended the last one."""
        if voter.source != HUMAN:
            raise Conflict("live battles are for people; a judge votes on stored responses")
        queue = await self._open_queue()
        text = _checked_prompt(text, queue.settings)
        unbegun = await self._unbegun_battle(voter)
        async with self._slots.taken(self.arena, voter.session):
            # Another request may have begun it meanwhile. Two that begin a battle each are told apart when it is served.
            if unbegun is not None and (unbegun := await self._unbegun_battle(voter)) is not None:
                await self._void(unbegun, "its first turn never began")
            rules = await self._check_prompt((), text)
            async with self._spending:
                number = await number_prompt(self._pool, self.arena, text)
            battle, models = await self._serve(queue, voter, category, number)
            try:
                turn = await self._begin_turn(queue, voter, battle, models, text, rules)
            except Exception:
                await self._void(battle.matchup, "the answers could not be requested")
                raise
        return replace(battle, turns=(turn,))

    async def follow_up(self, voter: Voter, matchup: UUID, text: str) -> LiveBattle:
        """Send a further prompt to the same two models."""
        queue = await self._open_queue()
        text = _checked_prompt(text, queue.settings)
        battle = await self.battle(voter, matchup)
        _check_continuable(battle, queue.settings)
        async with self._slots.taken(self.arena, voter.session):
            rules = await self._check_prompt(battle.turns, text)
            models = await read_sides(self._pool, self.arena, matchup)
            await self._begin_turn(queue, voter, battle, models, text, rules)
        return await self.battle(voter, matchup)

    async def interrupt(self, voter: Voter, matchup: UUID) -> None:
        """Stop the turn that runs, if any, and wait for its end."""
        if not await self._slots.stop(self.arena, voter.session, matchup):
            await self.battle(voter, matchup)
            return
        running = self._running.get(matchup)
        if running is not None:
            running.generation.stop()
        for _ in range(_STOP_LOOK_COUNT):
            if not (await self.battle(voter, matchup)).turns[-1].runs:
                return
            await asyncio.sleep(_STOP_LOOK_SECONDS)

    async def ensure_recovered(self, *, again: bool = False) -> None:
        """End what processes that are gone have left: turns that run nowhere, and matchups of void battles."""
        async with self._recovery:
            if self._is_recovered and not again:
                return
            await void_lost_turns(self._pool, self.arena, self._slots.process)
            for matchup, problem in (await list_open_void_battles(self._pool, self.arena)).items():
                await self._void(matchup, problem)
            self._is_recovered = True

    async def close(self) -> None:
        """Let the turns that run go on for a moment; then they are void."""
        self._is_closing = True
        tasks = [running.task for running in self._running.values()]
        if tasks:
            await asyncio.wait(tasks, timeout=_CLOSE_SECONDS)
            for running in list(self._running.values()):
                running.generation.abandon(_STOPPED_PROBLEM)
            await asyncio.wait(tasks, timeout=_CLOSE_SECONDS)
        await cancel_and_wait(self._exchanging)
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

    def _shown_of(self, voter: Voter, matchup: UUID) -> StreamedTurn | None:
        """What a turn shows that runs here, or is followed here."""
        running, followed = self._running.get(matchup), self._followed.get(matchup)
        if running is not None and running.session == voter.session:
            return running.generation.shown
        if followed is not None and followed.session == voter.session:
            followed.asked_at = time.monotonic()
            return followed.shown
        return None

    def _ensure_exchange(self) -> None:
        if self._exchanging is None or self._exchanging.done():
            self._exchanging = asyncio.create_task(self._keep_exchanging(), name="live texts")

    async def _keep_exchanging(self) -> None:
        """While turns run or are read here: write what they show, read the others, and learn which must stop."""
        while self._running or self._followed:
            try:
                await self._exchange()
            except TiltyardError as error:
                self._retries.report(error)
            await asyncio.sleep(EXCHANGE_SECONDS)

    async def _exchange(self) -> None:
        changed = {
            matchup: (one.written, one.generation.shown.shown)
            for matchup, one in self._running.items()
            if one.written != one.generation.shown.shown
        }
        followed = {matchup: one.shown.shown for matchup, one in self._followed.items()}
        found = await self._slots.exchange(self.arena, changed, followed)
        for matchup, running in self._running.items():
            if matchup in changed:
                running.written = changed[matchup][1]
            if matchup in found and found[matchup].must_stop:
                running.generation.stop()
        late = time.monotonic() - _FOLLOWED_SECONDS
        for matchup, known in followed.items():
            one, news = self._followed[matchup], found.get(matchup)
            has_ended = news is None or news.new is None or news.turn != one.shown.turn
            if has_ended or one.asked_at < late:
                # Whoever asks again finds it in the database.
                del self._followed[matchup]
            if news is None or news.new is None or has_ended:
                one.shown.update(known)
                continue
            shown = news.new._replace(a=known.a + news.new.a, b=known.b + news.new.b)
            if shown != known:
                one.shown.update(shown)

    async def _unbegun_battle(self, voter: Voter) -> UUID | None:
        """An open battle of the voter whose first turn has not begun; raises if one has."""
        opened = await open_battle_of(self._pool, self.arena, voter.session)
        if opened is not None and (await self.battle(voter, opened)).turns:
            raise OpenBattle(
                "you have a battle without a vote; vote on it or skip it before the next prompt",
                matchup=str(opened),
            )
        return opened

    async def _check_prompt(self, history: Sequence[LiveTurn], text: str) -> tuple[str, ...]:
        """The rules that only flag this prompt; raises if it is refused."""
        if self._checks is None:
            return ()
        verdict = await self._checks.check_prompt(history, text)
        if not verdict.allowed:
            raise BadOption("this prompt cannot be used in this arena; change it")
        return verdict.flags

    async def _serve(
        self, queue: VotingQueue, voter: Voter, category: str | None, free_prompt: int
    ) -> tuple[LiveBattle, tuple[int, int]]:
        """Let the arena choose two models that are well; return the battle, which has no turn yet, and the models."""
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
        began_at, models = await begin_battle(
            self._pool, self.arena, offered.matchup, voter.session, number, free_prompt, voter.payers
        )
        return LiveBattle(offered.matchup, queue.name, self._categories[number], "open", (), began_at), models

    async def _category(self, name: str | None) -> int:
        """The number of a category; without a name, that of the first one. Categories are only added."""
        if name is None and self._categories:
            return 0
        if name in self._categories:
            return self._categories.index(name)
        found = await fetch_rows(self._pool, "roster_prompts", {"arena": self.arena})
        names = self._categories = [one for (one,) in found]
        if name is None and names:
            return 0
        if name not in names:
            raise BadOption(f"category: {name!r} is not one of this arena: {', '.join(names)}")
        return names.index(name)

    async def _begin_turn(
        self,
        queue: VotingQueue,
        voter: Voter,
        battle: LiveBattle,
        models: tuple[int, int],
        text: str,
        rules: tuple[str, ...],
    ) -> LiveTurn:
        """Reserve the money, start both calls, and let the turn run, which is returned as it begins."""
        settings, matchup, turns = queue.settings, battle.matchup, battle.turns
        turn = len(turns) + 1
        entrants = [self.entrants.of(model) for model in models]
        requests = [_request(one, side, turns, text, settings) for side, one in enumerate(entrants)]
        left, right = (one.plan(request) for one, request in zip(entrants, requests, strict=True))
        plan = TurnPlan(turn, text, (left, right), self._slots.process)
        limits, mask = BudgetLimits.of(settings), await self._mask(settings)
        async with self._spending:
            numbers = await begin_turn(self._pool, self.arena, matchup, plan, limits)
        a, b = (SideCall(*one) for one in zip(entrants, requests, numbers, strict=True))
        prompt = LiveTurn(turn, text, "", "", "waiting")
        generation = TurnGeneration(
            (*turns, prompt),
            (a, b),
            TurnLimits(
                pace=settings.live_pace,
                first_token_seconds=settings.live_first_token_seconds,
                gap_seconds=settings.live_gap_seconds,
                mask=mask,
            ),
            TurnRecorder(
                self._pool,
                self.arena,
                self._spending,
                self.entrants,
                settings,
                partial(self._finish_noted, matchup, prompt, models, rules),
            ),
            self._checks,
        )
        task = asyncio.create_task(self._run(matchup, generation, models), name="live turn")
        self._running[matchup] = _RunningTurn(voter.session, generation, task)
        self._ensure_exchange()
        return prompt

    async def _mask(self, settings: ArenaSettings) -> NameMask | None:
        """What masks the names of models in answers, if the arena wants it."""
        if settings.live_identity != "mask":
            return None
        names = names_of(self.entrants.stored())
        if self._masked is None or self._masked[0] != names:
            self._masked = names, await asyncio.to_thread(NameMask, names)
        return self._masked[1]

    async def _run(self, matchup: UUID, generation: TurnGeneration, models: tuple[int, int]) -> None:
        began = time.monotonic()
        with contextlib.suppress(StoreFault):
            await self.entrants.note_started(models)
        try:
            end = await generation.run()
            LIVE_TURNS.record(1, end.state)
            LIVE_TURN_SECONDS.record(time.monotonic() - began)
            self._slots.note_duration(time.monotonic() - began)
        except Exception as error:  # noqa: BLE001 - what is not ended here is ended at the next recovery
            _LOG.error("a live turn could not be ended: %s", type(error).__name__)
        finally:
            # The next turn may have begun already.
            if self._running[matchup].generation is generation:
                del self._running[matchup]

    async def _finish_noted(
        self, matchup: UUID, turn: LiveTurn, models: tuple[int, int], rules: tuple[str, ...], end: TurnEnd
    ) -> None:
        """Note the language, identity talk and private data of a turn; store how it ended before any reader is told."""
        if end.state != "void":
            entrants = await list_entrants(self._pool, self.arena)
            noted = await asyncio.to_thread(note_turn, entrants, turn.prompt, end.written, models)
            answered = end.flags.get("rules", ())
            broken = dict.fromkeys((*rules, *(answered if isinstance(answered, list) else ())))
            end = replace(end, flags={**noted, **end.flags, **({"rules": list(broken)} if broken else {})})
        await finish_turn(self._pool, self.arena, matchup, turn.turn, end)
        if end.state == "void":
            _LOG.warning("a live battle of arena %d is void: %s", self.arena, end.problem)
            await self._void(matchup, end.problem or "an answer failed")

    async def _void(self, matchup: UUID, problem: str) -> None:
        """End the matchup of a void battle: nothing of it is rated."""
        queue = await self._find_queue()
        await queue.end_void(matchup, problem)


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
    if not battle.turns or battle.turns[-1].runs:
        raise Closed("the last turn of this battle has not ended; wait for both answers, or stop them")
    if len(battle.turns) >= settings.live_turns:
        raise Closed(f"a battle of this arena has at most {settings.live_turns} turns; vote on it")
    if settings.live_votes == "turn" and battle.turns[-1].outcome is None and battle.turns[-1].a:
        raise Conflict("vote on this turn before the next prompt")


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
