"""Live battles as the server runs them: what is noted about a turn, and what moderation refuses."""

import asyncio

import pytest

from support.live_worlds import ScriptedModels, live_registries, make_live_arena, read_frames
from support.scripted_streams import steady
from tiltyard.arena.live.safety import RuleMatcher, Safety
from tiltyard.arena.voting.voter_requests import Voter
from tiltyard.errors import TiltyardError
from tiltyard.postgres.connections import connect
from tiltyard.settings.live_models import ModerationRule, ModerationRules, ModerationSection

ANN = Voter(1)
SAID = "SELECT t.state, t.flags, b.language, b.identity_talk, b.void FROM live_turns t JOIN live_battles b USING (matchup)"


def fought(database, prompt, *, refused=(), texts="answers", action="refuse"):
    """A battle with one turn, under a rule that refuses some words; and what is stored of it."""

    async def run():
        await make_live_arena(database, live_pace="as-it-comes")
        async with live_registries(database, ScriptedModels()) as (registry,):
            if refused:
                rule = ModerationRule(name="words", phrases=refused, texts=texts, action=action)
                registry.live_checks = Safety(
                    ModerationSection(), RuleMatcher(ModerationRules(rules=(rule,)))
                )
            battles = await registry.live_battles("arena")
            battle = await battles.ask(ANN, prompt)
            await read_frames(battles, ANN, battle.matchup)

    asyncio.run(run())
    with connect(database) as connection:
        return connection.execute(SAID).fetchall()


def test_language_and_identity_talk_are_noted_with_the_turn_and_the_battle(database):
    ((state, flags, language, identity, void),) = fought(database, "Wer bist du, und was ist das?")
    assert (state, language, identity, void) == ("done", "de", True, None)
    assert flags == {"language": "de", "identity": ["prompt"]}


def test_a_refused_answer_makes_the_battle_void(database):
    ((state, _, _, _, void),) = fought(database, "hello there", refused=("hello",))
    assert state == "void"
    assert "moderation" in void


def test_rules_that_only_flag_are_kept_once_with_the_turn(database):
    ((state, flags, *_),) = fought(database, "hello there", refused=("hello",), texts="all", action="flag")
    assert (state, flags["rules"]) == ("done", ["words"])


def test_a_refused_prompt_is_not_sent(database):
    with pytest.raises(TiltyardError):
        fought(database, "a bomb", refused=("bomb",), texts="prompts")
    with connect(database) as connection:
        assert connection.execute("SELECT count(*) FROM live_calls").fetchone() == (0,)


async def test_names_are_masked_in_what_is_shown_and_stored_and_still_noted(database):
    models = ScriptedModels()
    models.script(steady("I am model-0, or model-1, or model-2, or model-3. Ask on.", rate=900))

    await make_live_arena(database, live_pace="as-it-comes", live_identity="mask")
    async with live_registries(database, models) as (registry,):
        battles = await registry.live_battles("arena")
        battle = await battles.ask(ANN, "Who are you?")
        frames = await read_frames(battles, ANN, battle.matchup)
    with connect(database) as connection:
        ((a, b, flags),) = connection.execute("SELECT answer_a, answer_b, flags FROM live_turns").fetchall()
    assert "model-" not in a + b + str(frames)
    assert a.endswith("Ask on.")
    assert flags["identity"] == ["prompt", "a", "b"]
