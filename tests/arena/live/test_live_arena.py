"""Live arenas made from a file of models, and what a changed file changes."""

from contextlib import asynccontextmanager

import pytest

from support.live_arenas import answers_file, make_arena, voting_queue_of
from tiltyard.arena.content.answer_import import import_answers
from tiltyard.arena.content.arenas import list_models
from tiltyard.arena.content.blob_store import BlobStore
from tiltyard.arena.content.model_details import read_model_details
from tiltyard.arena.content.object_storage import FolderStorage
from tiltyard.arena.live.live_arena import live_settings, make_live_arena, read_entrants, sync_entrants
from tiltyard.arena.live.live_store import list_entrants, number_prompt
from tiltyard.arena.operators.arena_changes import change_settings, current_policy, hide, withdraw
from tiltyard.arena.voting.voter_requests import Voter
from tiltyard.errors import BadConfig, BadOption, Conflict
from tiltyard.postgres.connections import connect, open_pool
from tiltyard.settings.live_models import LiveModels

MODELS = """\
models:
  - name: Heron
    provider: openai
    base_url: http://127.0.0.1:8081/v1
    model: heron
    price: {input: 0.5, output: 2}
    maker: Example Labs
    open_weights: true
  - name: Plover
    provider: openai
    base_url: http://127.0.0.1:8082/v1
    model: plover
    price: {input: 0, output: 0}
    system: Be brief.
"""


def entrants_of(tmp_path, text=MODELS):
    path = tmp_path / "models.yaml"
    path.write_text(text)
    return read_entrants(LiveModels.load(path))


@asynccontextmanager
async def opened(database, tmp_path):
    async with open_pool(database, most=4) as pool:
        yield pool, BlobStore(pool, FolderStorage(tmp_path / "responses"))


async def test_stored_answers_are_refused(database, tmp_path):
    async with opened(database, tmp_path) as (pool, blobs):
        await make_live_arena(pool, blobs, "live", entrants_of(tmp_path))
        with pytest.raises(Conflict, match="models answer live"):
            await import_answers(pool, blobs, "live", answers_file(tmp_path / "answers.jsonl", 2, 2))


async def served(pool, arena):
    async with pool.connection() as connection:
        return {one.name: one.enabled for one in await list_models(connection, arena)}


async def test_categories_cannot_be_withdrawn_or_hidden(database, tmp_path):
    async with opened(database, tmp_path) as (pool, blobs):
        await make_live_arena(pool, blobs, "live", entrants_of(tmp_path))
        with pytest.raises(Conflict, match="withdraw"):
            await withdraw(pool, blobs, "live", "any", reason="a trial", actor="ada")
        with pytest.raises(Conflict, match="withdraw"):
            await hide(pool, blobs, "live", "any", "Heron", actor="ada")


async def test_a_file_of_models_makes_an_arena_in_which_prompts_are_free(database, tmp_path):
    async with opened(database, tmp_path) as (pool, blobs):
        made = await make_live_arena(pool, blobs, "live", entrants_of(tmp_path), categories=("code", "poems"))
        assert (made.settings.kind, made.settings.reveal, made.settings.entry) == (
            "live",
            "vote",
            "invitation",
        )
        assert (await current_policy(pool, "live")).free_prompts
        stored = await list_entrants(pool, made.arena)
        assert [(one.model, one.name, one.enabled) for one in stored] == [
            (0, "Heron", True),
            (1, "Plover", True),
        ]
        assert stored[0].config == {
            "provider": "openai",
            "base_url": "http://127.0.0.1:8081/v1",
            "model": "heron",
            "price": {"input": 0.5, "output": 2.0},
            "maker": "Example Labs",
            "open_weights": True,
        }
        heron = (await read_model_details(pool, made.arena)).of("Heron")
        assert (heron.maker, heron.open_weights, heron.input_usd, heron.output_usd) == (
            "Example Labs",
            True,
            0.5,
            2,
        )
        async with voting_queue_of(database, made) as queue:
            number = await number_prompt(pool, made.arena, "Why?")
            assert (await queue.begin_live(Voter(1), 1, number)).prompt == 1
            await queue.skip(Voter(1), next(iter(queue.state.open)))
    with connect(database) as connection:
        prompts = connection.execute("SELECT name, category FROM prompts ORDER BY prompt").fetchall()
        assert prompts == [("code", "code"), ("poems", "poems")]
        assert connection.execute("SELECT count(*), sum(size) FROM responses").fetchone() == (4, 0)


async def test_a_changed_entrant_is_a_new_model_and_the_old_one_is_retired(database, tmp_path):
    changed = MODELS.replace("Be brief.", "Be long.")
    alone = MODELS.partition("  - name: Plover")[0] + MODELS.partition("models:\n")[2].replace(
        "Heron", "Wren"
    )
    async with opened(database, tmp_path) as (pool, blobs):
        made = await make_live_arena(pool, blobs, "live", entrants_of(tmp_path))
        same = await sync_entrants(pool, blobs, "live", entrants_of(tmp_path))
        assert same.is_empty
        first = await sync_entrants(pool, blobs, "live", entrants_of(tmp_path, changed))
        assert (first.added, first.changed, first.retired) == ((), ("Plover (2)",), ("Plover",))
        assert await served(pool, made.arena) == {"Heron": True, "Plover": False, "Plover (2)": True}
        back = await sync_entrants(pool, blobs, "live", entrants_of(tmp_path))
        assert (back.enabled, back.retired) == (("Plover",), ("Plover (2)",))
        assert await served(pool, made.arena) == {"Heron": True, "Plover": True, "Plover (2)": False}
        other = await sync_entrants(
            pool, blobs, "live", entrants_of(tmp_path, alone.replace("Plover", "Teal"))
        )
        assert (other.added, other.changed, other.retired) == (("Wren", "Teal"), (), ("Plover",))
        assert [one.enabled for one in await list_entrants(pool, made.arena)] == [
            True,
            False,
            False,
            True,
            True,
        ]
    with connect(database) as connection:
        actions = connection.execute("SELECT action FROM audit ORDER BY entry").fetchall()
        assert actions == [("create arena",), *[("change entrants",)] * 4]


async def test_a_price_may_change_without_a_new_version(database, tmp_path):
    async with opened(database, tmp_path) as (pool, blobs):
        made = await make_live_arena(pool, blobs, "live", entrants_of(tmp_path))
        dearer = entrants_of(tmp_path, MODELS.replace("output: 2", "output: 3"))
        assert (await sync_entrants(pool, blobs, "live", dearer)).is_empty
        assert (await list_entrants(pool, made.arena))[0].config["price"]["output"] == 3.0
        assert (await read_model_details(pool, made.arena)).of("Heron").output_usd == 3


async def test_a_budget_needs_prices_and_an_arena_keeps_its_kind(database, tmp_path):
    async with opened(database, tmp_path) as (pool, blobs):
        unpriced = entrants_of(tmp_path, MODELS.replace("    price: {input: 0, output: 0}\n", ""))
        with pytest.raises(BadConfig, match="Plover"):
            await make_live_arena(pool, blobs, "live", unpriced)
        unlimited = live_settings(live_day_dollars=None, live_voter_day_dollars=None)
        await make_live_arena(pool, blobs, "free", unpriced, settings=unlimited)
        await make_live_arena(pool, blobs, "live", entrants_of(tmp_path))
        with pytest.raises(BadOption, match="decided when"):
            await change_settings(pool, "live", {"kind": "cached"}, actor="x")
        await make_arena(database, name="cached")
        with pytest.raises(Conflict, match="stored responses"):
            await sync_entrants(pool, blobs, "cached", entrants_of(tmp_path))
        with pytest.raises(BadConfig, match="categories"):
            await make_live_arena(pool, blobs, "twice", entrants_of(tmp_path), categories=("a", "a"))
