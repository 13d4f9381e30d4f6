"""Portraits of models: every number is what a plain count of the log gives, and nothing is told too early."""

import asyncio
import json
from contextlib import asynccontextmanager
from dataclasses import replace
from itertools import pairwise

import pytest

from support.live_arenas import make_arena, voting_queue_of
from support.postgres_servers import fresh_database
from support.voted_arenas import boards_of, close_window, lay_votes, rate, voted
from tiltyard.arena.boards.model_profiles import ModelProfiles
from tiltyard.arena.content.blob_store import BlobStore
from tiltyard.arena.content.object_storage import FolderStorage
from tiltyard.arena.operators.arena_changes import (
    set_enabled,
    withdraw,
)
from tiltyard.arena.operators.exclusions import VoteSelection, exclude
from tiltyard.arena.voting.voter_requests import Voter
from tiltyard.core.battles import Kind
from tiltyard.core.policy.state.policy import Policy
from tiltyard.errors import Crowded, NotFound
from tiltyard.postgres.connections import connect, open_pool

RESULT = {Kind.WIN_A: "WL", Kind.WIN_B: "LW", Kind.TIE: "TT", Kind.BOTH_BAD: "BB"}


@asynccontextmanager
async def profiles_of(url):
    async with boards_of(url) as (boards, arena):
        yield ModelProfiles(boards._pool, boards), arena


async def profile(url, name="model-2", source=0):
    async with profiles_of(url) as (model_profiles, arena):
        return await model_profiles.of(arena, source, name)


async def laid(url, votes=900, models=5, prompts=12, **options):
    await make_arena(url, models, prompts, **options)
    lay_votes(url, 1, votes, models, prompts, sessions=20)
    rate(url)


@pytest.fixture(scope="module")
def shown(server, template):
    """An arena with a board and three evaluations, for tests that change nothing in the database."""
    with fresh_database(server, template) as url:
        asyncio.run(laid(url))
        yield url


def results_of(url, model, upto):
    """Who it met on what and how that went for it, by plain SQL and a plain loop."""
    with connect(url) as connection:
        rows = connection.execute(
            "SELECT a, b, prompt, outcome FROM battles WHERE source = 0 AND NOT excluded AND position <= %s "
            "ORDER BY position",
            (upto,),
        ).fetchall()
    for a, b, prompt, outcome in rows:
        if model in (a, b):
            yield (b if a == model else a), prompt, RESULT[Kind(outcome)][a != model]


def counted(letters):
    return tuple(letters.count(letter) for letter in "WLTB")


def told(record):
    return (record.wins, record.losses, record.ties, record.both_bad)


async def test_every_record_is_that_of_the_log(database):
    await laid(database)
    async with open_pool(database, most=1) as pool:
        await exclude(pool, "arena", VoteSelection(sessions=[3, 4]), "a bot", actor="cli")
    close_window(database)
    rate(database)
    found = await profile(database)
    results = list(results_of(database, 2, found.snapshot.position))
    assert 0 < len(results) == found.row.votes
    for opponent in found.opponents:
        letters = [letter for other, _, letter in results if other == opponent.met.model]
        assert told(opponent.met.record) == counted(letters)
        rated = [{"W": 1, "L": 0, "T": 0.5}[letter] for letter in letters if letter != "B"]
        assert opponent.met.score == pytest.approx(sum(rated) / len(rated))
    for prompt in found.prompts:
        letters = [letter for _, on, letter in results if found.prompt_words[f"prompt-{on}"] == prompt.name]
        assert told(prompt.record) == counted(letters)
    assert sum(one.record.votes for one in found.prompts) == len(results)
    assert {one.name for one in found.opponents} == {f"model-{k}" for k in (0, 1, 3, 4)}
    votes = [one.met.record.votes for one in found.opponents]
    assert votes == sorted(votes, reverse=True)


async def test_expected_scores_are_elos_curve_on_the_boards_ratings(shown):
    found = await profile(shown)
    rows = {row["model"]: row for row in json.loads(found.snapshot.document)["rows"]}
    for opponent in found.opponents:
        gap = rows[opponent.name]["rating"] - found.row.rating
        assert opponent.met.expected == pytest.approx(1 / (1 + 10 ** (gap / 400)))
        assert opponent.rank == rows[opponent.name]["rank"]


async def test_the_coverage_heatmap_counts_votes_of_pair_and_prompt(shown):
    found = await profile(shown)
    results = list(results_of(shown, 2, found.snapshot.position))
    heat = found.heatmap
    assert len(heat.prompts) == 12
    assert len(heat.opponents) == 4
    for row, prompt in enumerate(heat.prompts):
        decisive = sum(on == prompt and letter in "WL" for _, on, letter in results)
        votes = sum(on == prompt for _, on, _ in results)
        floor = found.policy.top_prompt_floor
        lacking = 0.0 if votes >= found.policy.patience * floor else max(floor - decisive, 0) / floor
        assert heat.prompt_deficit[row] == pytest.approx(lacking)
        for column, other in enumerate(heat.opponents):
            met = sum((one, on) == (other, prompt) for one, on, _ in results)
            assert heat.votes[row][column] == met
            mean = (heat.prompt_deficit[row] + heat.opponent_deficit[column]) / 2
            assert heat.deficit[row][column] == pytest.approx(mean)
    assert all(high >= low for high, low in pairwise(heat.prompt_deficit))


async def test_neighbours_are_those_of_the_board(shown):
    ranked = [row["model"] for row in json.loads((await profile(shown)).snapshot.document)["rows"]]
    for place, name in enumerate(ranked):
        found = await profile(shown, name)
        results = list(results_of(shown, int(name[-1]), found.snapshot.position))
        for challenge, at in zip(found.challenges, (place - 1, place + 1), strict=True):
            if not 0 <= at < len(ranked):
                assert challenge is None
                continue
            assert found.models[challenge.other] == ranked[at]
            letters = [letter for other, _, letter in results if other == challenge.other]
            assert told(challenge) == counted(letters)


async def test_the_history_is_that_of_the_boards_with_an_evaluation(shown):
    found = await profile(shown)
    assert [moment.votes for moment in found.history] == [144 * number for number in range(1, 7)]
    with connect(shown) as connection:
        documents = connection.execute(
            "SELECT document FROM snapshots WHERE source = 0 AND evaluated ORDER BY position"
        ).fetchall()
    for moment, (document,) in zip(found.history, documents, strict=True):
        row = next(row for row in json.loads(document)["rows"] if row["model"] == "model-2")
        assert (moment.rating, moment.rd, moment.conservative) == (
            row["rating"],
            row["rd"],
            row["conservative"],
        )


async def test_responses_are_told_by_date_and_never_by_content(database, tmp_path):
    await laid(database, votes=40)
    async with open_pool(database, most=2) as pool:
        contents = BlobStore(pool, FolderStorage(tmp_path))
        await withdraw(pool, contents, "arena", "prompt-3", "model-2", reason="broken", actor="cli")
    with connect(database) as connection:
        connection.execute(
            "INSERT INTO responses (arena, model, prompt, kind, media_type, sha256, size) "
            "SELECT arena, model, prompt, 'image', 'image/png', sha256, size FROM responses "
            "WHERE model = 2 AND prompt = 3"
        )
    found = await profile(database)
    assert len(found.responses) == 13
    (gone,) = [one for one in found.responses if one.withdrawn_at is not None]
    new = next(one for one in found.responses if one.prompt == "prompt-3" and one.withdrawn_at is None)
    assert gone.replaced_at == new.added_at
    assert (new.kind, gone.kind, gone.prompt) == (None, "text", "prompt-3")
    assert {one.kind for one in found.responses if one.prompt != "prompt-3"} == {"text"}
    others = (await profile(database, "model-1")).responses
    assert [one.kind for one in others if one.prompt == "prompt-3"] == [None]
    assert new.replaced_at is None
    assert not {"sha256", "size", "response", "text"} & set(type(gone).__slots__)


async def test_a_retired_model_keeps_its_page_and_is_sought_no_more(database):
    await laid(database)
    async with open_pool(database, most=2) as pool:
        await set_enabled(pool, "arena", "model-2", enabled=False, actor="cli")
    close_window(database)
    rate(database)
    found = await profile(database)
    assert found.row.enabled is False
    assert found.heatmap is None
    assert found.challenges == (None, None)
    assert sum(one.met.record.votes for one in found.opponents) == found.row.votes > 0
    other = await profile(database, "model-1")
    gone = next(one for one in other.opponents if one.name == "model-2")
    assert (gone.enabled, gone.rank, gone.met.deficit) == (False, None, None)


async def test_phase_one_shows_nothing_of_the_policy(database):
    await laid(database, votes=100, policy=Policy(phase=1))
    found = await profile(database)
    assert not found.shown_policy
    assert found.heatmap is None
    assert found.challenges == (None, None)
    assert found.history == ()
    assert found.row.rating is None
    assert found.row.votes == sum(one.record.votes for one in found.prompts)


async def test_votes_of_people_and_of_judges_are_told_apart(shown):
    judged = await profile(shown, source=1)
    assert judged.row.votes == 0
    assert judged.prompts == ()
    assert all(one.met.record.votes == 0 and one.met.score is None for one in judged.opponents)


async def test_a_vote_that_can_be_undone_is_in_no_profile(database):
    arena = await asyncio.to_thread(voted, database, votes=12)
    async with voting_queue_of(database, arena) as queue:
        voter = Voter(77)
        offered = await queue.next_matchup(voter)
        await queue.vote(voter, offered.matchup, Kind.WIN_A)
        await queue.next_matchup(voter)
    rate(database)
    votes = [(await profile(database, f"model-{k}")).row.votes for k in range(4)]
    assert sum(votes) == 2 * 12
    found = await profile(database, "model-0")
    assert sum(map(sum, found.heatmap.votes)) == found.row.votes


async def test_a_profile_is_made_once_for_a_snapshot(shown, monkeypatch):
    monkeypatch.setattr("tiltyard.arena.boards.snapshot_cache._REST_RATIO", 0.0)
    async with profiles_of(shown) as (model_profiles, arena):
        one, *others = await asyncio.gather(*(model_profiles.of(arena, 0, "model-1") for _ in range(4)))
        assert all(other is one for other in others)
        assert await model_profiles.of(arena, 0, "model-2") is not one
        newest = replace(one.snapshot, sha256="f" * 64)
        model_profiles._boards._newest.put((1, 0), newest)
        again = await model_profiles.of(arena, 0, "model-1")
        assert again is not one
        assert again.snapshot is newest
        with pytest.raises(NotFound):
            await model_profiles.of(arena, 0, "nobody")


async def test_only_so_many_profiles_are_kept(shown, monkeypatch):
    monkeypatch.setattr("tiltyard.arena.boards.model_profiles._CACHE_BYTES", 1)
    monkeypatch.setattr("tiltyard.arena.boards.model_profiles._CACHED_SNAPSHOT_LIMIT", 1)
    async with profiles_of(shown) as (model_profiles, arena):
        one = await model_profiles.of(arena, 0, "model-1")
        other = await model_profiles.of(arena, 1, "model-1")
        assert len(model_profiles._made._made) == len(model_profiles._snapshot_cache) == 1
        assert model_profiles._made._made.weight == other.size > len(other.snapshot.document)
        again = await model_profiles.of(arena, 0, "model-1")
        assert again is not one
        assert again.opponents == one.opponents


async def test_a_profile_that_took_long_is_not_made_again_at_once(shown, monkeypatch):
    monkeypatch.setattr("tiltyard.arena.boards.snapshot_cache._REST_RATIO", 1e9)
    async with profiles_of(shown) as (model_profiles, arena):
        one = await model_profiles.of(arena, 0, "model-1")
        model_profiles._boards._newest.put((1, 0), replace(one.snapshot, sha256="f" * 64))
        assert await model_profiles.of(arena, 0, "model-1") is one
        assert (await model_profiles.of(arena, 0, "model-2")).snapshot.sha256 == "f" * 64


async def test_only_so_many_wait_for_a_profile(shown, monkeypatch):
    monkeypatch.setattr("tiltyard.arena.boards.snapshot_cache._WAITING_REQUEST_LIMIT", 2)
    async with profiles_of(shown) as (model_profiles, arena):
        turns = model_profiles._made._turns
        async with turns.acquire_slot():
            asked = ("model-0", "model-1", "model-1")
            waiting = [asyncio.create_task(model_profiles.of(arena, 0, name)) for name in asked]
            while turns._waiting < 2:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            with pytest.raises(Crowded, match="2 others wait"):
                await model_profiles.of(arena, 0, "model-2")
        _, one, same = await asyncio.gather(*waiting)
        assert one is same
        assert (await model_profiles.of(arena, 0, "model-2")).name == "model-2"
