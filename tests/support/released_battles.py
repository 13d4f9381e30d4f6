"""A live arena with battles in every state, for tests of what may leave it."""

from contextlib import asynccontextmanager
from uuid import UUID

from support.live_arenas import new_voting_queue
from tiltyard.arena.live.live_records import BudgetLimits, CallEnd, CallPlan, TurnEnd, TurnPlan
from tiltyard.arena.live.live_store import begin_battle, begin_turn, finish_call, finish_turn, number_prompt
from tiltyard.arena.voting.voter_requests import Voter
from tiltyard.core.battles import Kind
from tiltyard.core.policy.state.policy import Policy
from tiltyard.postgres.connections import connect, open_pool
from tiltyard.settings.arena_settings import ArenaSettings

CALLS = (CallPlan(0, 100, 50), CallPlan(1, 200, 50))
SETTINGS = ArenaSettings(kind="live", undo_seconds=0.0)


class LiveScene:
    """An open live arena in which battles are fought in one line."""

    def __init__(self, pool, queue, arena):
        self.pool, self.queue, self.arena = pool, queue, arena

    async def battle(
        self,
        session: int,
        *prompts: str,
        flags=None,
        answers=("left", "right"),
        kind=Kind.WIN_A,
        state="done",
    ) -> UUID:
        """A battle with these prompts; without a ``kind`` it is not voted on."""
        number = await number_prompt(self.pool, self.arena, prompts[0])
        offered = await self.queue.begin_live(Voter(session), 1, number)
        matchup = offered.matchup
        await begin_battle(self.pool, self.arena, matchup, session, 1, number)
        for turn, prompt in enumerate(prompts, start=1):
            plan = TurnPlan(turn, prompt, CALLS, 1)
            calls = await begin_turn(self.pool, self.arena, matchup, plan, BudgetLimits())
            for call in calls:
                end = CallEnd("done", 3, 4, 70, first_token_seconds=0.5, seconds=2.0)
                await finish_call(self.pool, self.arena, call, end)
            await finish_turn(
                self.pool,
                self.arena,
                matchup,
                turn,
                TurnEnd(state, answers, flags=flags or {"language": "en"}),
            )
        if kind is not None:
            await self.queue.vote(Voter(session), matchup, kind)
        return matchup


@asynccontextmanager
async def live_scene(database):
    """A live arena in which battles are fought; afterwards all of its votes are final."""
    async with (
        open_pool(database, most=4) as pool,
        new_voting_queue(database, settings=SETTINGS, policy=Policy(free_prompts=True)) as queue,
    ):
        yield LiveScene(pool, queue, queue.arena)
    with connect(database) as connection:
        connection.execute("UPDATE raters SET horizon = (SELECT max(position) FROM events)")


async def in_a_live_arena(database, scene):
    """Run a scene in a live arena."""
    async with live_scene(database) as live:
        await scene(live)
