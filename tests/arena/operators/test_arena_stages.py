"""The stages of an arena: test votes never rate, a pause loses nothing, and a deletion can be undone until it is due."""

from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from support.live_arenas import answers_file, make_arena, voting_queue_of
from support.voted_arenas import cast, rate
from tiltyard.arena.content.answer_import import import_answers
from tiltyard.arena.content.arenas import find_arena, list_arenas
from tiltyard.arena.content.blob_store import BlobStore
from tiltyard.arena.content.object_storage import FolderStorage
from tiltyard.arena.operators.arena_changes import (
    change_settings,
    set_enabled,
    set_policy,
)
from tiltyard.arena.operators.exclusions import restore
from tiltyard.arena.operators.stages import (
    DELETION_GRACE_DAYS,
    clear_test_votes,
    count_test_votes,
    delete_due_arenas,
    keep_arena,
    open_draft,
    read_deletions,
    request_deletion,
    set_stage,
)
from tiltyard.arena.voting.voter_requests import Voter
from tiltyard.core.battles import Kind
from tiltyard.errors import BadOption, Closed, Conflict, Expired, NotFound, Paused
from tiltyard.postgres.connections import connect, open_pool
from tiltyard.settings.arena_settings import ArenaSettings

ANN, BOB = Voter(1), Voter(2)
ADA = {"actor": "operator:Ada"}


@asynccontextmanager
async def arena_at(url, stage="open", **options):
    arena = await make_arena(url, 4, 3, settings=ArenaSettings(stage=stage, undo_seconds=60.0), **options)
    async with open_pool(url, most=3) as pool, voting_queue_of(url, arena) as queue:
        yield pool, queue


async def follow(pool, queue):
    queue.change((await find_arena(pool, queue.name)).settings)


def rows(url, text):
    with connect(url) as connection:
        return connection.execute(text).fetchall()


def battles(url):
    return rows(url, "SELECT count(*) FROM battles WHERE NOT excluded")[0][0]


def actions(url):
    return [action for (action,) in rows(url, "SELECT action FROM audit ORDER BY entry")]


async def test_test_votes_never_rate_however_they_are_on_their_way(database):
    async with arena_at(database, "draft", reveal="session") as (pool, queue):
        await cast(queue, 8, reveal=False)
        undone = await queue.next_matchup(ANN)
        await queue.vote(ANN, undone.matchup, Kind.WIN_A)
        waiting = await queue.next_matchup(BOB)
        arena = await find_arena(pool, "arena")
        assert await count_test_votes(pool, arena) == 9
        done = await open_draft(pool, "arena", **ADA)
        assert (done.stage, done.test_votes) == ("open", 9)
        assert done.ended >= 1
        with pytest.raises((Closed, Expired)):
            await queue.vote(BOB, waiting.matchup, Kind.WIN_A)
        # A test vote that is undone and cast anew is still a vote on a test matchup.
        again = await queue.undo(ANN, undone.matchup)
        await queue.vote(ANN, undone.matchup, Kind.WIN_B, ballot=again.ballot)
        assert battles(database) == 0
        await follow(pool, queue)
        real = await queue.next_matchup(BOB)
        await queue.vote(BOB, real.matchup, Kind.WIN_A)
        assert battles(database) == 1
        (exclusion,) = rows(database, "SELECT exclusion FROM exclusions")[0]
        with pytest.raises(Conflict, match="never rated"):
            await restore(pool, "arena", exclusion, **ADA)
        for again in (open_draft, clear_test_votes):
            with pytest.raises(Conflict, match="not a draft"):
                await again(pool, "arena", **ADA)
    rate(database)
    assert actions(database)[-1] == "open arena"


async def test_test_votes_are_cleared_before_opening(database):
    async with arena_at(database, "draft") as (pool, queue):
        await cast(queue, 3)
        assert (await clear_test_votes(pool, "arena", **ADA)).test_votes == 3
        arena = await find_arena(pool, "arena")
        assert (arena.settings.stage, await count_test_votes(pool, arena)) == ("draft", 0)
        await cast(queue, 2, seed=1, voters=2)
        assert await count_test_votes(pool, arena) == 2
        # The votes that were cleared before are excluded twice; both for good.
        assert (await open_draft(pool, "arena", **ADA)).test_votes == 5
    assert battles(database) == 0
    assert rows(database, "SELECT DISTINCT final FROM exclusions") == [(True,)]


async def test_an_unvoted_draft_opens_without_an_exclusion(database):
    async with arena_at(database, "draft") as (pool, _):
        assert (await open_draft(pool, "arena", **ADA)).test_votes == 0
    assert rows(database, "SELECT * FROM exclusions") == []


async def test_a_paused_arena_serves_nothing_new_and_takes_what_is_open(database):
    async with arena_at(database) as (pool, queue):
        mine = await queue.next_matchup(ANN)
        await set_stage(pool, "arena", "paused", **ADA)
        await follow(pool, queue)
        assert (await queue.next_matchup(ANN)).matchup == mine.matchup
        with pytest.raises(Paused, match="no new matchups"):
            await queue.next_matchup(BOB)
        assert (await queue.vote(ANN, mine.matchup, Kind.WIN_A)).outcome == Kind.WIN_A
        with pytest.raises(Paused):
            await queue.next_matchup(ANN)
        await set_stage(pool, "arena", "open", **ADA)
        await follow(pool, queue)
        await queue.next_matchup(BOB)
    assert battles(database) == 1


async def test_an_archived_arena_takes_no_votes_and_no_changes(database, tmp_path):
    async with arena_at(database) as (pool, queue):
        mine = await queue.next_matchup(ANN)
        assert (await set_stage(pool, "arena", "archived", **ADA)).ended == 1
        with pytest.raises((Closed, Expired)):
            await queue.vote(ANN, mine.matchup, Kind.WIN_A)
        await follow(pool, queue)
        with pytest.raises(Closed, match="has ended"):
            await queue.vote(ANN, mine.matchup, Kind.WIN_A)
        with pytest.raises(Paused):
            await queue.next_matchup(BOB)
        blobs = BlobStore(pool, FolderStorage(tmp_path))
        more = answers_file(tmp_path / "more.jsonl", 5, 3)
        for refused in (
            set_enabled(pool, "arena", "model-1", enabled=False, **ADA),
            set_policy(pool, "arena", {"contenders": 5}, **ADA),
            import_answers(pool, blobs, "arena", more),
        ):
            with pytest.raises(Conflict, match="reopen it first"):
                await refused
        with pytest.raises(Conflict, match="cannot become paused"):
            await set_stage(pool, "arena", "paused", **ADA)
        await set_stage(pool, "arena", "open", **ADA)
        await import_answers(pool, blobs, "arena", more)


async def test_a_stage_is_no_setting_to_be_edited(database):
    async with arena_at(database, "draft") as (pool, _):
        with pytest.raises(BadOption, match="page Stage"):
            await change_settings(pool, "arena", {"stage": "open"}, **ADA)
        changed = await change_settings(pool, "arena", {"stage": "draft", "undo_seconds": 5.0}, **ADA)
        assert changed.settings == replace(changed.settings, stage="draft", undo_seconds=5.0)


@pytest.mark.parametrize(
    ("before", "back"), [("draft", "draft"), ("open", "archived"), ("paused", "archived")]
)
async def test_a_deletion_is_undone_until_it_is_due(database, tmp_path, before, back):
    async with arena_at(database, before) as (pool, _):
        due = await request_deletion(pool, "arena", **ADA)
        assert due - datetime.now(UTC) > timedelta(days=DELETION_GRACE_DAYS - 1)
        assert await read_deletions(pool) == {1: due}
        arena = await find_arena(pool, "arena")
        assert (arena.settings.stage, arena.settings.hidden) == ("deleting", True)
        with pytest.raises(Conflict, match="already"):
            await request_deletion(pool, "arena", **ADA)
        with pytest.raises(Conflict, match="cannot become open"):
            await set_stage(pool, "arena", "open", **ADA)
        blobs = BlobStore(pool, FolderStorage(tmp_path))
        assert await delete_due_arenas(pool, blobs, datetime.now(UTC)) == []
        assert (await keep_arena(pool, "arena", **ADA)).stage == back
        assert (await find_arena(pool, "arena")).settings.stage == back
        with pytest.raises(Conflict, match="nothing to restore"):
            await keep_arena(pool, "arena", **ADA)


async def test_what_a_deletion_deletes_and_what_stays(database, tmp_path):
    async with arena_at(database) as (pool, queue):
        (matchup, *_) = await cast(queue, 3, reveal=False)
        await queue.remark(ANN, matchup, [], "I am Ann")
        events = battles(database)
        due = await request_deletion(pool, "arena", **ADA)
        blobs = BlobStore(pool, FolderStorage(tmp_path))
        assert await delete_due_arenas(pool, blobs, due) == ["arena"]
        assert await delete_due_arenas(pool, blobs, due) == []
        assert battles(database) == events == 3
        assert await list_arenas(pool) == []
        for refused in (find_arena(pool, "arena"), keep_arena(pool, "arena", **ADA)):
            with pytest.raises(NotFound):
                await refused
        with pytest.raises(Conflict, match="exists already"):
            await make_arena(database, 2, 2)
    assert rows(database, "SELECT * FROM remarks") == []
    assert rows(database, "SELECT * FROM contents") == []
    assert rows(database, "SELECT DISTINCT text FROM prompts") == [(None,)]
    assert rows(database, "SELECT count(*) FROM models") == [(4,)]
    assert actions(database)[-1] == "delete arena"
