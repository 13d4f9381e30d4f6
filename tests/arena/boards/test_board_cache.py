"""Boards in a web process: the newest is at hand soon, and what is counted from it agrees with the log."""

import asyncio
import json
import time
from types import SimpleNamespace

import numpy as np
import pytest

from support.live_arenas import answers_file, made_arena, make_arena, voting_queue_of
from support.postgres_servers import fresh_database
from support.voted_arenas import boards_of, cast, close_window, lay_votes, rate, voted
from tiltyard.arena.boards.board_cache import BoardCache
from tiltyard.arena.boards.filtered_boards import VoteSubset
from tiltyard.arena.boards.model_profiles import ModelProfiles
from tiltyard.arena.content.answer_import import import_answers
from tiltyard.arena.content.arenas import find_arena
from tiltyard.arena.content.blob_store import BlobStore
from tiltyard.arena.content.object_storage import FolderStorage
from tiltyard.arena.log.battle_export import export_battles, open_export
from tiltyard.arena.operators.arena_changes import set_enabled
from tiltyard.arena.operators.exclusions import VoteSelection, exclude
from tiltyard.arena.secret_keys import SecretKeys
from tiltyard.core.battles import Kind
from tiltyard.core.board.document import FILTERED_FORMAT, canonical_json, document_hash
from tiltyard.core.policy.state.policy import Policy
from tiltyard.errors import NotFound, StoreFault
from tiltyard.files.battle_source import open_battles
from tiltyard.postgres.connections import connect, open_pool

KEYS = SecretKeys(["k" * 40])


async def until(told, seconds=60.0):
    end = time.monotonic() + seconds
    while not told():
        assert time.monotonic() < end, "it did not come in time"
        await asyncio.sleep(0.02)


def battles_of(url, path, upto):
    file = path / "battles.jsonl"
    export = open_export(url, 1, source=0, upto=upto)
    file.write_bytes(b"".join(export_battles(url, KEYS, export, "jsonl")))
    return list(open_battles(file).battles())


def categorised(url):
    """Even prompts are maths, odd ones law; the first two are in German."""
    with connect(url) as connection:
        connection.execute(
            "UPDATE prompts SET category = CASE WHEN prompt % 2 = 0 THEN 'maths' ELSE 'law' END"
        )
        connection.execute("UPDATE prompts SET language = 'de' WHERE prompt < 2")


@pytest.fixture(scope="module")
def rated(server, template):
    """A small arena with a board, for tests that change nothing in the database."""
    with fresh_database(server, template) as url:
        voted(url, votes=10)
        categorised(url)
        rate(url)
        yield url


async def test_a_new_board_is_announced_and_handed_on(database):
    await asyncio.to_thread(voted, database, votes=20)
    told = []
    async with boards_of(database, on_snapshot=lambda *news: told.append(news), look=60.0) as (
        boards,
        _,
    ):
        assert await boards.follow(1) == []
        # However many other boards are read.
        boards._followed.limit = boards._newest.limit = 1
        for arena in (1, 2, 3):
            with pytest.raises(NotFound, match="no board"):
                await boards.latest(arena, 0)
        await asyncio.sleep(0.3)
        await asyncio.to_thread(rate, database)
        await until(lambda: {news[:2] for news in told} == {(1, 0), (1, 1)})
        newest = await boards.latest(1, 0)
        assert document_hash(newest.document.encode()) == newest.sha256
        assert json.loads(newest.document)["votes"] == 20
        strengths = next(news[3] for news in told if news[:2] == (1, 0))
        assert len(strengths.rating) == 4
        before = len(told)
        await boards._look()
        assert len(told) == before, "each board is passed on once"
        boards.unfollow(1)
        assert [one.position for one in await boards.follow(1)] == [newest.position] * 2
        assert len(told) == before, "whoever follows has the newest"


async def test_without_announcements_it_looks(database):
    await asyncio.to_thread(voted, database, votes=10)
    async with boards_of(database, look=0.2) as (boards, arena):
        assert await boards.follow(arena.arena) == []
        with connect(database) as connection:
            connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'tiltyard boards'"
            )
        await asyncio.to_thread(rate, database)
        await until(lambda: boards.newest(arena.arena))


async def test_an_older_board_never_takes_the_place_of_a_newer(rated):
    told = []

    async with boards_of(rated, on_snapshot=lambda *news: told.append(news)) as (boards, _):
        newest = await boards.latest(1, 0)
        before = len(told)
        boards._take(newest)
        assert len(told) == before
        assert await boards.latest(1, 0) is newest


async def test_a_filtered_board_is_made_of_the_battles_there(database, tmp_path):
    await arena_of(database, votes=1500)
    categorised(database)
    await excluding(database)
    close_window(database)
    rate(database)
    async with boards_of(database) as (boards, arena):
        position = (await boards.latest(1, 0)).position
        maths = await boards.filtered(arena, VoteSubset(0, "maths"))
        both = await boards.filtered(arena, VoteSubset(0, "maths", "de"))
        with pytest.raises(NotFound, match="no prompt"):
            await boards.filtered(arena, VoteSubset(0, "art"))
        assert await boards.filtered(arena, VoteSubset(0, "maths")) is maths
    battles = battles_of(database, tmp_path, position)
    assert len(battles) < 1500
    for document, wanted in ((maths, {"maths"}), (both, {"maths-de"})):
        board = json.loads(document.data)
        chosen = [b for b in battles if {b.category} == wanted or {f"{b.category}-{b.language}"} == wanted]
        assert document.sha256 == document_hash(canonical_json(board))
        assert board["format"] == FILTERED_FORMAT
        assert board["votes"] == len(chosen)
        assert board["findings"][0]["name"] == "filtered-board"
        check_ratings(board, chosen)


def check_ratings(board, battles):
    """An independent fit: the scores that the ratings expect are those that were had."""
    rating = {row["model"]: row["bradley_terry"] for row in board["rows"]}
    had, expected = dict.fromkeys(rating, 0.0), dict.fromkeys(rating, 0.0)
    for battle in battles:
        if battle.kind == Kind.BOTH_BAD:
            continue
        score = {Kind.WIN_A: 1.0, Kind.WIN_B: 0.0, Kind.TIE: 0.5}[battle.kind]
        chance = 1 / (1 + 10 ** ((rating[battle.model_b] - rating[battle.model_a]) / 400))
        had[battle.model_a] += score
        had[battle.model_b] += 1 - score
        expected[battle.model_a] += chance
        expected[battle.model_b] += 1 - chance
    np.testing.assert_allclose([had[m] for m in rating], [expected[m] for m in rating], atol=1e-5)


@pytest.mark.slow(but="0-4")
@pytest.mark.parametrize("phase", [2, 4])
@pytest.mark.parametrize("source", [0, 1])
async def test_a_filter_that_leaves_every_vote_makes_the_board_that_was_published(database, source, phase):
    """The same method: ratings, intervals clustered by prompt and voter, and every claim."""
    # Few evaluations: a rater makes boards only as often as a share of its time allows.
    await make_arena(database, 5, 12, policy=Policy(phase=phase, evaluated_every=500))
    lay_votes(database, 1, 2500, 5, 12, sessions=60, strengths=[0.0, 0.1, 0.9, 1.0, -1.0])
    with connect(database) as connection:
        connection.execute("UPDATE prompts SET category = 'all'")
    if source:
        await judged(database)
    await retiring(database, "model-3")
    close_window(database)
    rate(database)
    async with boards_of(database) as (boards, arena):
        newest = await boards.latest(1, source)
        whole, filtered = (
            json.loads(newest.document),
            json.loads((await boards.filtered(arena, VoteSubset(source, "all"))).data),
        )
    assert (filtered["votes"], filtered["prompts"]) == (whole["votes"], 12)
    assert filtered["settled"] == whole["settled"]
    assert (source == 1) is (filtered["settled"]["values"]["case"] == "nothing")
    own = {"badge", "waiting", "official", "delta"}
    for row, there in zip(filtered["rows"], whole["rows"], strict=True):
        assert {name: row[name] for name in row if name not in own} == {
            name: there[name] for name in there if name not in own
        }
        assert (row["badge"], row["official"]) == (None, False)
    assert filtered["cross_check"]["rows"] == whole["cross_check"]["rows"]
    assert filtered["method"] == whole["method"]


async def judged(url):
    async with open_pool(url, most=2) as pool, voting_queue_of(url, await arena_named(pool)) as queue:
        await cast(queue, 60, source=1)


async def arena_named(pool):
    async with pool.connection() as connection:
        return await find_arena(connection, "arena")


async def retiring(url, model):
    async with open_pool(url, most=1) as pool:
        await set_enabled(pool, "arena", model, enabled=False, actor="cli")


def test_a_filtered_board_of_a_snapshot_stays_as_it_was(database, tmp_path):
    """Votes, models, prompts, exclusions and retirements that come later change nothing."""
    asyncio.run(arena_of(database, votes=300))
    categorised(database)
    close_window(database)
    rate(database)

    async def look(sha256=None):
        async with boards_of(database) as (boards, arena):
            once = await (boards.latest(1, 0) if sha256 is None else boards.published(1, sha256))
            return once.sha256, (await boards.filtered(arena, VoteSubset(0, "maths"), once)).data

    async def later():
        # The times of laid votes reach 600 ms into the future.
        await asyncio.sleep(1.0)
        async with open_pool(database, most=2) as pool:
            path = answers_file(tmp_path / "more.jsonl", 7, 14)
            rows = [json.loads(line) for line in path.read_text().splitlines()]
            new = [row for row in rows if row["prompt_id"] in ("prompt-12", "prompt-13")]
            for row in new:
                row["category"] = "maths"
            path.write_text("".join(json.dumps(row) + "\n" for row in rows))
            assert len(new) == 14
            await import_answers(pool, BlobStore(pool, FolderStorage(tmp_path)), "arena", path)
            async with voting_queue_of(database, await arena_named(pool)) as queue:
                await cast(queue, 40)
            await exclude(pool, "arena", VoteSelection(sessions=[3]), "a bot", actor="cli")
            await set_enabled(pool, "arena", "model-1", enabled=False, actor="cli")

    sha256, before = asyncio.run(look())
    asyncio.run(later())
    close_window(database)
    rate(database)
    newest, after = asyncio.run(look())
    assert (newest != sha256, after != before) == (True, True)
    assert asyncio.run(look(sha256)) == (sha256, before)


def test_models_imported_while_a_board_was_made_are_not_on_its_filtered_boards(database, tmp_path):
    """Their responses bear the time at which the import began, which may be before the last event of the board."""
    asyncio.run(arena_of(database, votes=60))
    categorised(database)
    close_window(database)
    rate(database)

    async def scene():
        async with open_pool(database, most=2) as pool:
            path = answers_file(tmp_path / "more.jsonl", 7, 12)
            await import_answers(pool, BlobStore(pool, FolderStorage(tmp_path)), "arena", path)
        with connect(database) as connection:
            connection.execute("UPDATE responses SET added_at = (SELECT min(at) FROM events)")
        async with boards_of(database) as (boards, arena):
            return json.loads((await boards.filtered(arena, VoteSubset(0, "maths"))).data)

    assert len(asyncio.run(scene())["rows"]) == 5


async def arena_of(url, votes):
    await make_arena(url, 5, 12)
    lay_votes(url, 1, votes, 5, 12, sessions=20)


async def excluding(url):
    async with open_pool(url, most=1) as pool:
        await exclude(pool, "arena", VoteSelection(sessions=[3]), "a bot", actor="cli")


async def test_a_category_without_votes_has_a_board_that_claims_nothing(database, tmp_path):
    await asyncio.to_thread(voted, database, votes=10)
    async with open_pool(database, most=2) as pool:
        path = answers_file(tmp_path / "more.jsonl", 2, 1)
        text = path.read_text().replace("prompt-0", "new").replace('"model":', '"category": "art", "model":')
        path.write_text(text)
        await import_answers(pool, BlobStore(pool, FolderStorage(tmp_path)), "arena", path)
    close_window(database)
    rate(database)
    async with boards_of(database) as (boards, arena):
        board = json.loads((await boards.filtered(arena, VoteSubset(0, "art"))).data)
    assert (board["votes"], board["prompts"]) == (0, 1)
    assert board["settled"]["values"]["case"] == "nothing"
    assert {row["bradley_terry"] for row in board["rows"]} == {None}


async def test_the_page_of_a_model_counts_what_the_battles_say(database, tmp_path):
    await arena_of(database, votes=400)
    categorised(database)
    rate(database)
    async with boards_of(database) as (boards, arena):
        newest = await boards.latest(1, 0)
        profiles = ModelProfiles(boards._pool, boards)
        page = json.loads((await profiles.of(arena, 0, "model-2")).document().data)
        with pytest.raises(NotFound):
            await profiles.of(arena, 0, "nobody")
    battles = [
        b for b in battles_of(database, tmp_path, newest.position) if "model-2" in (b.model_a, b.model_b)
    ]
    rows = json.loads(newest.document)["rows"]
    place = [row["model"] for row in rows].index("model-2")
    assert page["row"] == rows[place]
    assert page["above"] == (rows[place - 1] if place else None)
    assert page["below"] == (rows[place + 1] if place + 1 < len(rows) else None)
    assert page["snapshot"] == newest.sha256
    for part, name in (("head_to_head", "opponent"), ("prompts", "prompt")):
        assert sum(row["votes"] for row in page[part]) == len(battles)
        for row in page[part]:
            met = [b for b in battles if row[name] in {b.model_a, b.model_b, b.question_id}]
            wins = sum(
                (b.kind == Kind.WIN_A and b.model_a == "model-2")
                or (b.kind == Kind.WIN_B and b.model_b == "model-2")
                for b in met
            )
            ties = sum(b.kind == Kind.TIE for b in met)
            assert (row["wins"], row["ties"], row["votes"]) == (wins, ties, len(met))
    assert {row["category"] for row in page["prompts"]} == {"maths", "law"}
    assert page["history"]
    assert [once["votes"] for once in page["history"]] == sorted({once["votes"] for once in page["history"]})


class Clock:
    """Time passes when the test says so."""

    now = 0.0

    def monotonic(self):
        return self.now


async def test_what_took_long_is_not_made_again_at_once(rated, monkeypatch):
    made, clock = [], Clock()
    monkeypatch.setattr("tiltyard.arena.boards.snapshot_cache.time", clock)
    async with boards_of(rated) as (boards, _):
        newest = await boards.latest(1, 0)

        async def slow(k):
            await asyncio.sleep(0)
            clock.now += 0.05
            made.append(k)
            return k

        class Newer:
            sha256 = "another"

        async def ask(snapshot, k):
            return await boards._documents(("key",), snapshot, lambda: slow(k))

        assert await asyncio.gather(*(ask(newest, 1) for _ in range(5))) == [1] * 5
        assert await ask(Newer, 2) == 1
        clock.now += 0.4
        assert await ask(Newer, 2) == 1
        clock.now += 0.2
        assert await ask(newest, 3) == 1
        assert await ask(Newer, 4) == 4
    assert made == [1, 4]


async def test_only_so_many_wait_for_a_board_to_be_counted(rated):
    async with boards_of(rated) as (boards, _):
        newest = await boards.latest(1, 0)
        may_end = asyncio.Event()

        async def slow(k):
            await may_end.wait()
            return k

        asked = [asyncio.create_task(boards._documents((k,), newest, lambda k=k: slow(k))) for k in range(10)]
        await asyncio.sleep(0.01)
        with pytest.raises(StoreFault, match="try again"):
            await boards._documents((99,), newest, lambda: slow(99))
        asked[4].cancel()
        await asyncio.sleep(0.01)
        asked[4] = asyncio.create_task(boards._documents((4,), newest, lambda: slow(4)))
        may_end.set()
        assert await asyncio.gather(*asked) == list(range(10))
        assert await boards._documents((99,), newest, lambda: slow(99)) == 99


async def test_a_count_that_takes_too_long_is_ended(rated, monkeypatch):
    monkeypatch.setattr("tiltyard.arena.boards.board_cache._STATEMENT_SECONDS", 0.1)
    async with boards_of(rated) as (boards, arena):
        with connect(rated) as blocker, blocker.transaction():
            blocker.execute("LOCK TABLE endings IN ACCESS EXCLUSIVE MODE")
            async with asyncio.timeout(60):
                for count in (
                    boards.filtered(arena, VoteSubset(0, "maths")),
                    boards.pairs(arena, VoteSubset(0), 4),
                ):
                    with pytest.raises(StoreFault, match="timeout"):
                        await count
        monkeypatch.undo()
        assert (await boards.pairs(arena, VoteSubset(0), 4)).pairs
        async with boards._pool.connection() as connection:
            row = await (await connection.execute("SHOW statement_timeout")).fetchone()
        assert row == ("0",)


def test_settings_are_believed_for_two_seconds_or_until_an_arena_is_changed(database, monkeypatch):
    """An arena that another process has closed is closed here as soon as that."""
    made_arena(database)
    now = 1_000_000.0

    async def scene():
        nonlocal now
        async with open_pool(database, most=2) as pool:
            boards = BoardCache(database, pool)
            monkeypatch.setattr("tiltyard.foundation.caches.time", SimpleNamespace(monotonic=lambda: now))
            assert (await boards.arena("arena")).settings.visibility == "open"
            with connect(database) as connection:
                connection.execute("""UPDATE arenas SET settings = settings || '{"visibility": "closed"}'""")
            now += 1.9
            assert (await boards.arena("arena")).settings.visibility == "open"
            now += 0.1
            assert (await boards.arena("arena")).settings.visibility == "closed"
            with connect(database) as connection:
                connection.execute("UPDATE arenas SET title = 'Another'")
            assert (await boards.arena("arena")).title != "Another"
            boards.forget("arena")
            assert (await boards.arena("arena")).title == "Another"
            async with pool.connection() as connection:
                assert await find_arena(connection, "arena") == await boards.arena("arena")
            for name in ("nowhere", "a\0b", "\ud800", ""):
                with pytest.raises(NotFound):
                    await boards.arena(name)

    asyncio.run(scene())
