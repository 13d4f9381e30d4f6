"""Boards of a live arena by language, and with and without talk about who answers."""

import asyncio
import json

from released_battles import in_a_live_arena
from tiltyard.arena.boards.board_cache import BoardCache
from tiltyard.arena.boards.filtered_boards import VoteSubset
from tiltyard.arena.content.catalog import read_arena, read_prompt_filters
from tiltyard.postgres.connections import open_pool
from voted_arenas import rate


async def _fight(live):
    for number in range(12):
        flags = {"language": ("en", "de", "unknown")[number % 3]}
        if number % 4 == 0:
            flags["identity"] = ["prompt"]
        await live.battle(number + 1, f"prompt {number}", flags=flags)


def test_votes_are_filtered_by_language_and_identity_talk(database):
    asyncio.run(in_a_live_arena(database, _fight))
    rate(database)

    async def scene():
        async with open_pool(database, most=2) as pool:
            arena = await read_arena(pool, "arena")
            assert (await read_prompt_filters(pool, arena))[1] == ["de", "en"]
            boards = BoardCache(database, pool)
            await boards.start()
            try:
                counted = {}
                for language in (None, "en", "de", "unknown", "fr"):
                    for identity in ("with", "without"):
                        if language is None and identity == "with":
                            continue
                        made = await boards.filtered(arena, 0, None, language, identity=identity)
                        board = json.loads(made.data)
                        assert board["filter"] == {
                            "category": None,
                            "language": language,
                            "identity": identity,
                        }
                        counted[language, identity] = board["votes"]
                part = VoteSubset(0, language="en", identity="without")
                pairs = json.loads((await boards.pairs(arena, part, 4)).data)["pairs"]
                return counted, sum(pair["battles"] for pair in pairs)
            finally:
                await boards.stop()

    counted, paired = asyncio.run(scene())
    assert counted == {
        (None, "without"): 9,
        ("en", "with"): 4,
        ("en", "without"): 3,
        ("de", "with"): 4,
        ("de", "without"): 3,
        ("unknown", "with"): 4,
        ("unknown", "without"): 3,
        ("fr", "with"): 0,
        ("fr", "without"): 0,
    }
    assert paired == 3
