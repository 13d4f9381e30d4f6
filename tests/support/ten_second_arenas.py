"""Five boards for someone who has ten seconds: settled, noise, two tied, a newcomer, and one of some prompts."""

import asyncio

from support.live_arenas import make_arena, voting_queue_of
from support.voted_arenas import cast, close_window, lay_votes, rate
from tiltyard.core.policy.state.policy import Policy
from tiltyard.postgres.connections import connect
from tiltyard.settings.arena_settings import ArenaSettings

NAMES = ("plum-3-large", "northlight-2", "tern-70b", "quartz-mini", "sable-nano")
#: In logits, by model.
_STRENGTHS = {
    "settled": (2.4, 1.2, 0.0, -1.2, -2.4),
    "noise": (0.0, 0.0, 0.0, 0.0, 0.0),
    "tied": (0.8, 0.8, 0.0, 0.0, -5.0),
    "newcomer": (1.6, 0.0, 0.0, -1.6),
}
_TITLES = {
    "settled": "Everyday questions",
    "noise": "Coin flips",
    "tied": "Letters to the council",
    "newcomer": "Summaries",
}
_PROMPTS = 24


def ten_second_arenas(url: str, *names: str, votes: int = 5000, evaluated_every: int | None = None) -> None:
    """Make these arenas, or all of them, with their votes and boards; two thirds of the prompts are about coding."""
    for name in names or _STRENGTHS:
        strengths = _STRENGTHS[name]
        arena = asyncio.run(
            make_arena(
                url,
                len(NAMES),
                _PROMPTS,
                name=name,
                policy=Policy(phase=4, evaluated_every=evaluated_every or votes // 2),
                settings=ArenaSettings(order="bradley-terry" if name == "tied" else "conservative"),
            )
        )
        with connect(url) as connection:
            connection.execute("UPDATE arenas SET title = %s WHERE arena = %s", (_TITLES[name], arena.arena))
            for number, model in enumerate(NAMES):
                connection.execute(
                    "UPDATE models SET name = %s WHERE arena = %s AND model = %s",
                    (model, arena.arena, number),
                )
            connection.execute(
                "UPDATE prompts SET category = CASE WHEN prompt < 16 THEN 'coding' ELSE 'law' END WHERE arena = %s",
                (arena.arena,),
            )
        lay_votes(url, arena.arena, votes, len(strengths), _PROMPTS, sessions=150, strengths=strengths)
        if len(strengths) < len(NAMES):
            asyncio.run(_few_votes(url, arena))
        close_window(url, arena.arena)
    rate(url)


async def _few_votes(url, arena):
    async with voting_queue_of(url, arena) as queue:
        await cast(queue, 12)
