"""Boards of a live arena by language."""

import asyncio
import json

from support.released_battles import in_a_live_arena
from support.voted_arenas import rate
from tiltyard.arena.boards import battle_effects
from tiltyard.arena.boards.board_cache import BoardCache
from tiltyard.arena.boards.filtered_boards import VoteSubset, table_from_tally
from tiltyard.arena.boards.model_profiles import ModelProfiles
from tiltyard.arena.content.arenas import find_arena, read_prompt_filters
from tiltyard.arena.log.rosters import read_roster
from tiltyard.arena.log.votes import read_tally
from tiltyard.arena.operators.exclusions import (
    VoteSelection,
    preview_exclusion,
    read_selected_tally,
    subtract_tally,
)
from tiltyard.core.battles import Kind
from tiltyard.postgres.connections import connect, open_pool


async def _fight(live):
    for number in range(12):
        flags = {"language": ("en", "de", "unknown")[number % 3]}
        await live.battle(number + 1, f"prompt {number}", flags=flags)


def test_votes_are_filtered_by_language(database):
    asyncio.run(in_a_live_arena(database, _fight))
    rate(database)

    async def scene():
        async with open_pool(database, most=2) as pool:
            arena = await find_arena(pool, "arena")
            assert (await read_prompt_filters(pool, arena))[1] == ["de", "en"]
            boards = BoardCache(database, pool)
            await boards.start()
            try:
                counted = {}
                for language in ("en", "de", "unknown", "fr"):
                    made = await boards.filtered(arena, VoteSubset(0, language=language))
                    board = json.loads(made.data)
                    assert board["filter"] == {"category": None, "language": language, "lane": "all"}
                    counted[language] = board["votes"]
                part = VoteSubset(0, language="en")
                pairs = (await boards.pairs(arena, part, 4)).pairs
                return counted, sum(pair["battles"] for pair in pairs)
            finally:
                await boards.stop()

    counted, paired = asyncio.run(scene())
    assert counted == {"en": 4, "de": 4, "unknown": 4, "fr": 0}
    assert paired == 4


async def _fight_at_length(live):
    """Sixteen people, who prefer what is longer, on as many prompts."""
    for number in range(48):
        long, short = "word " * (3 + number % 7), "word " * (1 + number % 3)
        left = number % 2 == 0
        await live.battle(
            1 + number % 16,
            f"prompt {number % 24}",
            answers=(long, short) if left else (short, long),
            kind=Kind.WIN_A if left == (number % 5 > 0) else Kind.WIN_B,
        )


def test_effects_of_length_and_waiting_are_read_from_the_battles(database, monkeypatch):
    """Lengths stay when texts are deleted; what waited for nothing says nothing of waiting."""
    monkeypatch.setattr(battle_effects, "EFFECT_VOTES", 40)
    asyncio.run(in_a_live_arena(database, _fight_at_length))
    rate(database)
    with connect(database) as connection:
        connection.execute("UPDATE live_turns SET prompt = NULL, answer_a = NULL, answer_b = NULL")
        connection.execute(
            "UPDATE live_calls SET first_token_seconds = 0.2 + random() * 3 WHERE matchup IN"
            " (SELECT matchup FROM live_battles WHERE session < 16)"
        )
        connection.execute(
            "UPDATE live_calls SET first_token_seconds = NULL WHERE matchup IN"
            " (SELECT matchup FROM live_battles WHERE session = 16)"
        )

    async def scene():
        async with open_pool(database, most=2) as pool:
            arena = await find_arena(pool, "arena")
            boards = BoardCache(database, pool)
            await boards.start()
            try:
                made = await boards.effects(arena)
                assert (await boards.effects(arena)).sha256 == made.sha256
                return json.loads(made.data)
            finally:
                await boards.stop()

    said = asyncio.run(scene())
    assert (said["votes"], said["left_out"], said["voters"], said["prompts"]) == (45, 3, 15, 24)
    length = next(one for one in said["effects"] if one["trait"] == "length")
    assert length["points"] > 0
    assert {one["name"] for one in said["findings"]} <= {"length-effect", "waiting-effect", "effects-unknown"}
    assert said["source"] == "human"


async def test_votes_of_a_live_arena_are_clustered_by_the_prompts_that_were_written(database):
    await in_a_live_arena(database, _fight)
    rate(database)
    async with open_pool(database, most=2) as pool:
        arena = await find_arena(pool, "arena")
        async with pool.connection() as connection:
            whole = await read_tally(connection, arena.arena, 0, upto=10**6)
            own = await read_selected_tally(
                connection, arena.arena, 0, VoteSelection(sessions=(1, 2)), upto=10**6
            )
            roster = await read_roster(connection, arena.arena)
        preview = await preview_exclusion(pool, arena, VoteSelection(sessions=(1,)), 0)
        boards = BoardCache(database, pool)
        await boards.start()
        try:
            profile = await ModelProfiles(pool, boards).of(arena, 0, roster.models[0])
        finally:
            await boards.stop()
    assert sorted(whole.free_prompt.tolist()) == list(range(1, 13))
    left = subtract_tally(whole, own)
    assert sorted(left.free_prompt.tolist()) == list(range(3, 13))
    table = table_from_tally(whole, roster.models, dict(enumerate(roster.prompts)))
    assert len(set(table.log().prompt.tolist())) == 12
    assert preview.votes == 1
    assert sum(one.met.record.votes for one in profile.opponents) > 0
