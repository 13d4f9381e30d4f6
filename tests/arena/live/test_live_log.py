"""What is made of a live arena's log: boards, exports, archives, and what is left after an erasure."""

import asyncio
import json
import random
from collections import Counter
from types import SimpleNamespace

import pytest

from support.busy_arenas import rate_all
from support.live_arenas import voting_queue_of
from support.postgres_servers import fresh_database
from support.replayed_logs import replay_log
from support.rewritten_logs import allow_rewriting
from tiltyard.arena.boards.board_cache import BoardCache
from tiltyard.arena.boards.filtered_boards import VoteSubset
from tiltyard.arena.content.blob_store import BlobStore
from tiltyard.arena.content.object_storage import FolderStorage
from tiltyard.arena.live.live_arena import NewEntrant, live_settings, make_live_arena
from tiltyard.arena.live.live_records import BudgetLimits, CallPlan, TurnEnd, TurnPlan
from tiltyard.arena.live.live_store import begin_battle, begin_turn, finish_turn, number_prompt, read_battle
from tiltyard.arena.log.battle_export import export_battles, open_export
from tiltyard.arena.operators.voter_data import erase_session
from tiltyard.arena.secret_keys import SecretKeys
from tiltyard.arena.voting.personal_boards import PersonalBoards
from tiltyard.arena.voting.voter_requests import Voter
from tiltyard.core.battles import Kind
from tiltyard.postgres.connections import connect, open_pool

VOTES, PROMPTS = 36, 12
CALLS = (CallPlan(0, 10, 10), CallPlan(1, 10, 10))


async def vote_live(pool, queue, voter, text, category, kind):
    number = await number_prompt(pool, queue.arena, text)
    matchup = (await queue.begin_live(voter, category, number)).matchup
    await begin_battle(pool, queue.arena, matchup, voter.session, category, number)
    await begin_turn(pool, queue.arena, matchup, TurnPlan(1, text, CALLS, 7), BudgetLimits())
    await finish_turn(pool, queue.arena, matchup, 1, TurnEnd("done", ("left", "right")))
    await queue.vote(voter, matchup, kind, reveal=True)
    return matchup


@pytest.fixture(scope="module")
def prepared(server, template, tmp_path_factory):
    """A database to be copied, and its arena."""
    with fresh_database(server, template) as url:
        arena = voted_on_live(url, tmp_path_factory.mktemp("responses"))
        yield url.rpartition("/")[2], arena


@pytest.fixture
def database(server, prepared):
    with fresh_database(server, prepared[0]) as url:
        yield url


@pytest.fixture
def arena(prepared):
    return prepared[1]


def voted_on_live(database, folder):
    """A live arena of three entrants and two categories, with votes of six people on twelve prompts."""

    async def scene():
        chance = random.Random(5)
        async with open_pool(database, most=4) as pool:
            blobs = BlobStore(pool, FolderStorage(folder))
            entrants = [NewEntrant(name, name, {"model": name}, {}) for name in ("heron", "plover", "wren")]
            made = await make_live_arena(
                pool,
                blobs,
                "live",
                entrants,
                settings=live_settings(entry="open"),
                categories=("code", "poems"),
            )
            async with voting_queue_of(database, made) as queue:
                for k in range(VOTES):
                    text = f"Prompt {k % PROMPTS}?" if k % 2 else f" prompt {k % PROMPTS} "
                    kind = chance.choice([Kind.WIN_A, Kind.WIN_B, Kind.TIE])
                    await vote_live(pool, queue, Voter(1 + k % 6), text, k % 2, kind)
        return made

    made = asyncio.run(scene())
    with connect(database) as connection:
        allow_rewriting(connection)
        connection.execute("UPDATE events SET at = at - interval '1 hour'")
        rate_all(SimpleNamespace(url=database, arena=made.arena), connection)
    return made


def head_of(connection):
    return connection.execute("SELECT max(position) FROM events").fetchone()[0]


def exported(url):
    export = open_export(url, 1)
    return [
        json.loads(line)
        for line in b"".join(export_battles(url, SecretKeys(["k" * 40]), export, "jsonl")).splitlines()
    ]


def test_exported_battles_name_the_prompt_by_number_and_the_category(database, arena):
    battles = exported(database)
    assert len(battles) == VOTES
    assert Counter(battle["question_id"] for battle in battles) == {
        f"live-{k}": 3 for k in range(1, PROMPTS + 1)
    }
    assert {battle["category"] for battle in battles} == {"code", "poems"}
    assert {name for battle in battles for name in (battle["model_a"], battle["model_b"])} == {
        "heron",
        "plover",
        "wren",
    }
    assert all(battle["blind"] for battle in battles)
    assert not any("rompt 3" in json.dumps(battle) for battle in battles)


def test_the_fold_counts_the_prompts_that_were_written(database, arena):
    with connect(database) as connection:
        people = replay_log(connection, arena.arena, head_of(connection), 0)[0].standing
    assert people.policy.free_prompts
    assert set(people.prompts) == {"code", "poems"}
    assert people.prompt_meetings.prompts.sum() > people.meetings.prompts.sum()


async def test_boards_of_a_category_and_of_a_voter_are_clustered_by_free_prompt(database, arena):
    async with open_pool(database, most=4) as pool:
        boards = BoardCache(database, pool)
        await boards.start()
        try:
            board = await boards.filtered(arena, VoteSubset(0, "code"))
            personal = await PersonalBoards(pool, boards).of(arena, Voter(1))
        finally:
            await boards.stop()
    board = json.loads(board.data)
    assert (board["votes"], board["prompts"]) == (VOTES // 2, 1)
    assert board["cross_check"]["n_clusters"] == PROMPTS // 2
    assert personal.totals.votes == VOTES // 6


async def test_an_erased_voter_leaves_numbers_only(database, arena):
    async with open_pool(database, most=4) as pool:
        async with voting_queue_of(database, arena) as queue:
            own = await vote_live(pool, queue, Voter(9), "My secret", 0, Kind.WIN_A)
            await vote_live(pool, queue, Voter(9), "Prompt 1", 0, Kind.WIN_A)
        erased = await erase_session(pool, "live", 9, reason="asked", actor="cli")
        battle = await read_battle(pool, arena.arena, own)
    assert erased.live_turns == 2
    assert [(turn.prompt, turn.a, turn.b) for turn in battle.turns] == [("", "", "")]
    with connect(database) as connection:
        hashes = connection.execute("SELECT number FROM live_prompts WHERE sha256 IS NULL").fetchall()
        assert hashes == [(PROMPTS + 1,)]
        assert connection.execute("SELECT count(*) FROM live_turns WHERE prompt IS NULL").fetchone() == (2,)
        assert connection.execute("SELECT count(*) FROM live_calls WHERE session = 9").fetchone() == (0,)
