"""Live battles without models: scripted answers that come at a steady pace, on real matchups."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from uuid import UUID

from tiltyard.arena.live.live_records import FrameMark, LiveBattle, LiveFrame, LiveTurn
from tiltyard.errors import Closed, OpenBattle, TiltyardError

__all__ = ["FakeLive", "Script"]

FRAME_SECONDS = 1 / 15


@dataclass
class Script:
    """Both answers to a prompt, and how they come."""

    a: str
    b: str
    characters_per_second: float = 400
    #: Characters after which the turn becomes void.
    void_after: int | None = None


@dataclass
class FakeLive:
    """The battles of one arena. ``answer`` says what is answered to a prompt; ``refuse``: what an ask raises."""

    queue: object
    answer: Callable[[str], Script]
    refuse: TiltyardError | None = None
    battles: dict[UUID, LiveBattle] = field(default_factory=dict)
    owners: dict[UUID, int] = field(default_factory=dict)
    tasks: set = field(default_factory=set)

    async def ask(self, voter, text, category=None):
        if self.refuse is not None:
            raise self.refuse
        for matchup, session in self.owners.items():
            if session == voter.session and (await self.battle(voter, matchup)).state == "open":
                raise OpenBattle("open", matchup=str(matchup))
        offered = await self.queue.next_matchup(voter)
        self.owners[offered.matchup] = voter.session
        self.battles[offered.matchup] = LiveBattle(
            offered.matchup, self.queue.name, category or "any", "open", (), datetime.now(UTC)
        )
        self._begin(offered.matchup, text)
        return self.battles[offered.matchup]

    async def follow_up(self, voter, matchup, text):
        battle = await self.battle(voter, matchup)
        if not battle.can_continue:
            raise Closed("wait")
        self._begin(matchup, text)
        return self.battles[matchup]

    async def stop(self, voter, matchup):
        self._change(matchup, state="stopped")
        return await self.battle(voter, matchup)

    async def again(self, voter, matchup):
        battle = await self.battle(voter, matchup)
        if battle.state == "open":
            await self.queue.skip(voter, matchup)
        return await self.ask(voter, battle.turns[0].prompt, battle.category)

    async def battle(self, voter, matchup):
        battle = self.battles[matchup]
        last = battle.turns[-1]
        seen = await self.queue.review(voter, matchup)
        state = "void" if last.state == "void" else seen.state
        done = last.state in ("done", "stopped")
        return replace(battle, state=state, ballot=seen.ballot, can_continue=state == "open" and done)

    async def turn_vote(self, _voter, matchup, _turn, outcome):
        self._change(matchup, outcome=outcome)

    async def frames(self, _voter, matchup, after, wait_seconds=1.0):
        deadline = asyncio.get_running_loop().time() + wait_seconds
        while True:
            turn = self.battles[matchup].turns[-1]
            mark = FrameMark(turn.turn, len(turn.a), len(turn.b))
            ended = turn.state not in ("waiting", "streaming")
            if mark != after or ended or asyncio.get_running_loop().time() > deadline:
                break
            await asyncio.sleep(FRAME_SECONDS)
        a, b = (after.shown_a, after.shown_b) if after.turn == turn.turn else (0, 0)
        return LiveFrame(mark, turn.a[a:], turn.b[b:], turn.state, ended, ended)

    def _begin(self, matchup, text):
        battle = self.battles[matchup]
        turn = LiveTurn(len(battle.turns) + 1, text, "", "", "waiting")
        self.battles[matchup] = replace(battle, turns=(*battle.turns, turn))
        task = asyncio.create_task(self._stream(matchup, self.answer(text)))
        self.tasks.add(task)

    async def _stream(self, matchup, script):
        shown, step = 0.0, script.characters_per_second * FRAME_SECONDS
        while shown < max(len(script.a), len(script.b)):
            await asyncio.sleep(FRAME_SECONDS)
            if self.battles[matchup].turns[-1].state == "stopped":
                return
            shown += step
            if script.void_after is not None and shown > script.void_after:
                self._change(matchup, state="void")
                return
            self._change(matchup, a=script.a[: int(shown)], b=script.b[: int(shown)], state="streaming")
        self._change(matchup, state="done")

    def _change(self, matchup, **changes):
        battle = self.battles[matchup]
        turn = replace(battle.turns[-1], **changes)
        self.battles[matchup] = replace(battle, turns=(*battle.turns[:-1], turn))
