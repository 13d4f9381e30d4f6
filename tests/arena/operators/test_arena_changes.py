"""Changes by an operator: each is whole, is in the log and the audit, and ends what it makes void."""

import asyncio
import json
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

import pytest

from support.live_arenas import answers_file, make_arena, voting_queue_of
from support.postgres_servers import until_someone_waits
from support.voted_arenas import cast, close_window
from tiltyard.arena.content.answer_import import import_answers
from tiltyard.arena.content.arenas import find_arena
from tiltyard.arena.content.blob_store import BlobStore
from tiltyard.arena.content.object_storage import FolderStorage
from tiltyard.arena.log.event_log import LogKind, append_batch
from tiltyard.arena.operators.arena_changes import (
    change_settings,
    current_policy,
    set_enabled,
    set_policy,
    withdraw,
)
from tiltyard.arena.operators.exclusions import (
    VoteSelection,
    draft_exclusion,
    exclude,
    find_sessions_by_pseudonym,
    list_exclusions,
    restore,
    settle_exclusion,
)
from tiltyard.arena.operators.moderation import read_audit_entries
from tiltyard.arena.secret_keys import SecretKeys
from tiltyard.arena.voting.voter_requests import Voter
from tiltyard.core.battles import Kind
from tiltyard.core.policy.state.policy import Policy
from tiltyard.errors import BadOption, Closed, Conflict, Expired, InputError, NotFound, StoreFault
from tiltyard.postgres.connections import connect, open_pool

ANN, BOB = Voter(1), Voter(2)


@asynccontextmanager
async def open_arena(url, tmp_path, models=4, prompts=3):
    arena = await make_arena(url, models, prompts)
    async with open_pool(url, most=3) as pool, voting_queue_of(url, arena) as queue:
        yield pool, BlobStore(pool, FolderStorage(tmp_path)), queue


def kinds(url, after=0):
    with connect(url) as connection:
        rows = connection.execute(
            "SELECT kind FROM events WHERE position > %s ORDER BY position", (after,)
        ).fetchall()
    return [LogKind(kind) for (kind,) in rows]


def head(url):
    with connect(url) as connection:
        return connection.execute("SELECT max(position) FROM events").fetchone()[0]


def counted(url, table):
    with connect(url) as connection:
        return connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0]


async def actions(pool):
    return [
        entry.action
        for entry in await read_audit_entries(pool, await find_arena(pool, "arena"), before=None, limit=100)
    ]


async def test_a_retired_model_is_served_no_more_and_open_matchups_stay_valid(database, tmp_path):
    async with open_arena(database, tmp_path, models=3) as (pool, _, queue):
        offered = await queue.next_matchup(ANN)
        start = head(database)
        for model in ("model-0", "model-1"):
            assert await set_enabled(pool, "arena", model, enabled=False, actor="operator:Ada")
        assert await set_enabled(pool, "arena", "model-0", enabled=False, actor="operator:Ada") == 0
        assert kinds(database, start) == [LogKind.RETIRE, LogKind.RETIRE]
        assert (await queue.vote(ANN, offered.matchup, Kind.WIN_A)).kind == LogKind.VOTE
        await set_enabled(pool, "arena", "model-1", enabled=True, actor="operator:Ada")
        for voter in range(10, 20):
            one = await queue.next_matchup(Voter(voter))
            with connect(database) as connection:
                pair = connection.execute(
                    "SELECT a, b FROM matchups WHERE matchup = %s", (one.matchup,)
                ).fetchone()
            assert set(pair) == {1, 2}
        assert (await actions(pool))[:3] == ["enable model", "retire model", "retire model"]
        with pytest.raises(NotFound, match="no model 'nobody'"):
            await set_enabled(pool, "arena", "nobody", enabled=True, actor="cli")
        with pytest.raises(NotFound, match="no such arena"):
            await set_enabled(pool, "nowhere", "model-1", enabled=True, actor="cli")


async def test_the_policy_changes_where_memory_allows_and_nowhere_else(database, tmp_path):
    async with open_arena(database, tmp_path) as (pool, _, queue):
        start = head(database)
        changed = await set_policy(
            pool, "arena", {"phase": 2, "lane_weights": [0.1, 0.2, 0.3, 0.4], "tolerance": 1}, actor="cli"
        )
        assert changed == await current_policy(pool, "arena")
        assert changed == Policy(phase=2, lane_weights=(0.1, 0.2, 0.3, 0.4), tolerance=1.0)
        assert await set_policy(pool, "arena", {"phase": 2}, actor="cli") == changed
        assert kinds(database, start) == [LogKind.POLICY]
        await queue.next_matchup(ANN)
        assert queue.state.standings[0].policy == changed
        with connect(database) as connection:
            detail = connection.execute(
                "SELECT detail FROM events WHERE kind = 12 ORDER BY position DESC"
            ).fetchone()[0]
        assert detail["rater"]["elo_k"] == 16.0
        for wrong, told in (
            ({"window": 5}, "window cannot change"),
            ({"phase": 5}, "phase is 5"),
            ({"phase": True}, "phase is True"),
            ({"phase": "2"}, "phase is '2'"),
            ({"phase": 2.5}, "phase is 2.5"),
            ({"fairness": "other"}, "fairness is 'other'"),
            ({"fairness": None}, "fairness is None"),
            ({"lane_weights": [1, 0]}, "lane_weights"),
            ({"lane_weights": ["a", 0, 0, 0]}, "lane_weights"),
            ({"tolerance": float("inf")}, "tolerance is inf"),
            ({"tolerance": float("nan")}, "tolerance is nan"),
            ({"tolerance": 10**400}, "tolerance is 1"),
            ({"colour": 1}, "unknown policy fields: colour"),
        ):
            with pytest.raises(BadOption, match=told):
                await set_policy(pool, "arena", wrong, actor="cli")
        assert await current_policy(pool, "arena") == changed


async def test_settings_change_by_name_and_the_rest_stays(database, tmp_path):
    async with open_arena(database, tmp_path) as (pool, _, _voting_queue):
        made = await change_settings(
            pool, "arena", {"visibility": "closed"}, title="Hidden", actor="token:ci"
        )
        assert (made.title, made.settings.visibility, made.settings.undo_seconds) == (
            "Hidden",
            "closed",
            10.0,
        )
        made = await change_settings(pool, "arena", {"undo_seconds": 5}, actor="token:ci")
        assert (made.title, made.settings.visibility, made.settings.undo_seconds) == (
            "Hidden",
            "closed",
            5,
        )
        for wrong in (
            {"visibility": "secret"},
            {"colour": 1},
            {"undo_seconds": -1},
            {"timezone": "Mars"},
        ):
            with pytest.raises(BadOption):
                await change_settings(pool, "arena", wrong, actor="token:ci")
        with pytest.raises(InputError, match="title"):
            await change_settings(pool, "arena", {}, title="two\nlines", actor="token:ci")
        entries = await read_audit_entries(pool, await find_arena(pool, "arena"), before=None, limit=100)
        assert [entry.actor for entry in entries[:2]] == ["token:ci", "token:ci"]
        assert entries[0].detail["settings"]["undo_seconds"] == 5


async def test_votes_are_excluded_by_whatever_is_said_of_them(database, tmp_path):
    async with open_arena(database, tmp_path) as (pool, _, queue):
        matchups = await cast(queue, 20, voters=4)
        middle = datetime.now(tz=UTC)
        await cast(queue, 8, voters=4, seed=1)
        for k in range(3):
            offered = await queue.next_matchup(Voter(7, 1))
            await queue.vote(Voter(7, 1), offered.matchup, Kind(k), reveal=True)
        undone = await queue.next_matchup(ANN)
        await queue.vote(ANN, undone.matchup, Kind.TIE)
        await queue.undo(ANN, undone.matchup)
        for selection, votes in (
            (VoteSelection(sessions=[1]), 7),
            (VoteSelection(sessions=[1, 2, 99]), 14),
            (VoteSelection(matchups=matchups[:3]), 3),
            (VoteSelection(since=middle), 8 + 3),
            (VoteSelection(until=middle), 20),
            (VoteSelection(since=middle, sessions=[3]), 2),
            (VoteSelection(since=middle, source=0), 8),
            (VoteSelection(source=1), 3),
        ):
            made = await exclude(pool, "arena", selection, "a test", actor="cli")
            assert made.votes == votes, selection
            assert made.position == head(database)
            await restore(pool, "arena", made.exclusion, actor="cli")
        async with pool.connection() as connection:
            listed = await list_exclusions(connection, 1)
        assert [one.votes for one in listed] == [3, 8, 2, 20, 11, 3, 14, 7]
        assert all(one.restored == one.excluded + 1 for one in listed)
        before = head(database), counted(database, "exclusions"), counted(database, "audit")
        for selection in (
            VoteSelection(sessions=[99]),
            VoteSelection(matchups=[undone.matchup]),
            VoteSelection(since=datetime.now(tz=UTC) + timedelta(days=1)),
            VoteSelection(until=datetime(1990, 1, 1, tzinfo=UTC)),
        ):
            with pytest.raises(NotFound, match="no vote matches"):
                await exclude(pool, "arena", selection, "a test", actor="cli")
        with pytest.raises(InputError, match="exclude were selected"):
            await exclude(pool, "arena", VoteSelection(), "a test", actor="cli")
        with pytest.raises(InputError, match="reason"):
            await exclude(pool, "arena", VoteSelection(sessions=[1]), "  ", actor="cli")
        with pytest.raises(NotFound, match="no exclusion 999"):
            await restore(pool, "arena", 999, actor="cli")
        with pytest.raises(Conflict, match="already been restored"):
            await restore(pool, "arena", listed[0].exclusion, actor="cli")
        assert before == (head(database), counted(database, "exclusions"), counted(database, "audit"))


async def test_voting_goes_on_while_votes_are_chosen_and_what_comes_meanwhile_counts(database, tmp_path):
    async with open_arena(database, tmp_path) as (pool, _, queue):
        await cast(queue, 12, voters=4)
        taken_back = await queue.next_matchup(ANN)
        await queue.vote(ANN, taken_back.matchup, Kind.TIE)
        with connect(database) as blocker:
            blocker.execute("BEGIN")
            blocker.execute("LOCK TABLE excluded_votes IN SHARE MODE")
            choosing = asyncio.create_task(
                exclude(pool, "arena", VoteSelection(source=0), "a test", actor="cli")
            )
            await until_someone_waits(database)
            async with asyncio.timeout(30):
                await cast(queue, 5, voters=4, seed=1)
                await queue.undo(ANN, taken_back.matchup)
                briefly = await queue.next_matchup(BOB)
                await queue.vote(BOB, briefly.matchup, Kind.TIE)
                await queue.undo(BOB, briefly.matchup)
                recast = await queue.next_matchup(ANN)
                assert recast.matchup == taken_back.matchup
                await queue.vote(ANN, recast.matchup, Kind.WIN_A, ballot=1)
            assert not choosing.done()
            blocker.execute("ROLLBACK")
            made = await choosing
        assert (made.votes, made.position) == (18, head(database))
        async with pool.connection() as connection:
            assert [one.votes for one in await list_exclusions(connection, 1)] == [18]
    with connect(database) as connection:
        wrong = connection.execute(
            "SELECT count(*) FROM excluded_votes JOIN endings USING (arena, source, serial) WHERE undone IS NOT NULL"
        ).fetchone()
        assert wrong == (0,)
        assert connection.execute("SELECT count(*) FROM battles WHERE NOT excluded").fetchone() == (0,)


async def test_what_comes_between_the_choice_and_the_lock_is_followed(database, tmp_path):
    async with open_arena(database, tmp_path) as (pool, _, queue):
        await cast(queue, 12, voters=4)
        taken_back = await queue.next_matchup(ANN)
        await queue.vote(ANN, taken_back.matchup, Kind.TIE)
        async with pool.connection() as connection:
            draft = await draft_exclusion(connection, 1, VoteSelection(sessions=[1, 2]), "a test")
            assert draft.votes == 7
            assert counted(database, "exclusions") == 0
            await cast(queue, 4, voters=4, seed=1)
            await queue.undo(ANN, taken_back.matchup)
            undone = await queue.next_matchup(BOB)
            await queue.vote(BOB, undone.matchup, Kind.TIE)
            await queue.undo(BOB, undone.matchup)
            async with append_batch(connection, 1) as batch:
                assert await settle_exclusion(connection, draft, batch.head + 1, batch.now) == 8
                batch.add(LogKind.EXCLUDE, detail={"exclusion": draft.exclusion})
            listed = await list_exclusions(connection, 1)
        assert [(one.votes, one.excluded) for one in listed] == [(8, head(database))]


async def test_a_vote_recast_while_votes_are_chosen_is_chosen_once(database, tmp_path):
    """It was chosen, is undone, and is there again: in the stretch that is followed stand both events."""

    async with open_arena(database, tmp_path) as (pool, _, queue):
        await cast(queue, 4, voters=2)
        chosen, young = await queue.next_matchup(ANN), await queue.next_matchup(BOB)
        await queue.vote(ANN, chosen.matchup, Kind.TIE)
        async with pool.connection() as connection:
            draft = await draft_exclusion(connection, 1, VoteSelection(sessions=[1, 2]), "a test")
            assert draft.votes == 5
            await queue.undo(ANN, chosen.matchup)
            await queue.vote(ANN, chosen.matchup, Kind.WIN_A, ballot=1)
            await queue.vote(BOB, young.matchup, Kind.TIE)
            await queue.undo(BOB, young.matchup)
            await queue.vote(BOB, young.matchup, Kind.WIN_B, ballot=1)
            async with append_batch(connection, 1) as batch:
                assert await settle_exclusion(connection, draft, batch.head + 1, batch.now) == 6
                batch.add(LogKind.EXCLUDE, detail={"exclusion": draft.exclusion})
    assert counted(database, "excluded_votes") == 6


def test_voting_goes_on_while_an_import_waits_for_a_sweep(database, tmp_path):
    with connect(database) as sweeper:

        class Swept(BlobStore):
            async def put_many(self, many):
                hashes = await super().put_many(many)
                sweeper.execute("SELECT pg_advisory_lock(7206, 0)")
                return hashes

        async def scene():
            async with open_arena(database, tmp_path) as (pool, _, queue):
                path = answers_file(tmp_path / "more.jsonl", 5, 3)
                entering = asyncio.create_task(
                    import_answers(pool, Swept(pool, FolderStorage(tmp_path)), "arena", path)
                )
                await until_someone_waits(database)
                async with asyncio.timeout(30):
                    await cast(queue, 5)
                assert not entering.done()
                sweeper.execute("SELECT pg_advisory_unlock(7206, 0)")
                assert (await entering).responses == 3

        asyncio.run(scene())


class StuckFolder(FolderStorage):
    """It cannot remove anything, for now."""

    stuck = True

    async def remove(self, name):
        if self.stuck:
            raise StoreFault("the disk is gone")
        await super().remove(name)


async def test_a_takedown_holds_even_if_its_bytes_cannot_be_removed_yet(database, tmp_path, caplog):
    folder = StuckFolder(tmp_path / "responses")

    async with open_arena(database, tmp_path) as (pool, _, _voting_queue):
        blobs = BlobStore(pool, folder)
        path = tmp_path / "more.jsonl"
        path.write_text(
            json.dumps({"prompt_id": "p", "prompt": "?", "model": "m", "response": "y" * 70_000}) + "\n"
        )
        await import_answers(pool, blobs, "arena", path)
        taken = await withdraw(pool, blobs, "arena", "p", reason="asked", actor="cli")
        assert taken.responses == 1
        assert "disk is gone" in caplog.text
        assert len(list(folder.path.iterdir())) == 1
        folder.stuck = False
        with pytest.raises(Conflict, match="withdrawn already"):
            await withdraw(pool, blobs, "arena", "p", reason="asked", actor="cli")
        assert list(folder.path.iterdir()) == []


async def test_voters_of_a_release_are_found_again(database, tmp_path):
    keys = SecretKeys(["k" * 40])

    async with open_arena(database, tmp_path) as (pool, _, queue):
        await cast(queue, 6, voters=3)
        names = [keys.pseudonym("2026-11", session) for session in (3, 1)]
        assert await find_sessions_by_pseudonym(pool, keys, "arena", "2026-11", names) == [3, 1]
        with pytest.raises(NotFound, match="check the release"):
            await find_sessions_by_pseudonym(pool, keys, "arena", "2026-12", names)


async def test_a_withdrawn_response_is_gone_with_the_matchups_that_show_it(database, tmp_path):
    async with open_arena(database, tmp_path, models=2, prompts=2) as (pool, blobs, queue):
        await cast(queue, 4)
        opened = [await queue.next_matchup(Voter(50 + k)) for k in range(6)]
        prompts = {one.matchup: one.prompt for one in opened}
        close_window(database)
        start, votes = head(database), counted(database, "battles")
        taken = await withdraw(pool, blobs, "arena", "prompt-0", "model-1", reason="asked", actor="cli")
        hit = [one for one, prompt in prompts.items() if prompt == 0]
        assert (taken.responses, taken.matchups) == (1, len(hit))
        assert kinds(database, start) == [LogKind.EXPIRE] * len(hit) + [LogKind.WITHDRAW]
        for k, one in enumerate(opened):
            if one.matchup in hit:
                with pytest.raises((Expired, Closed)):
                    await queue.vote(Voter(50 + k), one.matchup, Kind.WIN_A)
                with pytest.raises((Expired, Closed)):
                    await queue.find(Voter(50 + k), one.matchup)
            else:
                await queue.vote(Voter(50 + k), one.matchup, Kind.WIN_A)
        assert counted(database, "battles") == votes + len(opened) - len(hit)
        for k in range(6):
            assert (await queue.next_matchup(Voter(70 + k))).prompt == 1
        with pytest.raises(Conflict, match="withdrawn already"):
            await withdraw(pool, blobs, "arena", "prompt-0", "model-1", reason="asked", actor="cli")
        with pytest.raises(NotFound, match="no prompt"):
            await withdraw(pool, blobs, "arena", "prompt-9", reason="asked", actor="cli")


async def test_a_withdrawn_prompt_takes_its_text_and_every_response(database, tmp_path):
    async with open_arena(database, tmp_path) as (pool, blobs, _voting_queue):
        taken = await withdraw(pool, blobs, "arena", "prompt-1", reason="personal data", actor="cli")
        assert taken.responses == 4
        with pytest.raises(Conflict, match="no prompt 'prompt-1'"):
            await withdraw(pool, blobs, "arena", "prompt-1", reason="again", actor="cli")
        assert (await actions(pool))[0] == "withdraw"
    with connect(database) as connection:
        rows = connection.execute("SELECT name, text, length(sha256) FROM prompts ORDER BY prompt").fetchall()
        assert rows[1] == ("prompt-1", None, 32)
        assert rows[0][1] == "What about 0?"
        left = connection.execute("SELECT count(*) FROM responses WHERE withdrawn_at IS NULL").fetchone()
        assert left == (8,)


async def test_a_change_that_fails_leaves_no_trace(database, tmp_path):
    async with open_arena(database, tmp_path) as (pool, blobs, queue):
        await cast(queue, 4)
        with connect(database) as connection:
            connection.execute("ALTER TABLE audit ADD CONSTRAINT nobody CHECK (actor <> 'nobody')")
        tables = ("events", "exclusions", "excluded_votes", "endings", "audit")
        before = [counted(database, table) for table in tables]
        changes = (
            lambda: set_enabled(pool, "arena", "model-0", enabled=False, actor="nobody"),
            lambda: set_policy(pool, "arena", {"phase": 1}, actor="nobody"),
            lambda: exclude(pool, "arena", VoteSelection(sessions=[1]), "a test", actor="nobody"),
            lambda: withdraw(pool, blobs, "arena", "prompt-0", reason="a test", actor="nobody"),
            lambda: change_settings(pool, "arena", {"visibility": "closed"}, actor="nobody"),
        )
        for change in changes:
            with pytest.raises(Exception, match=r"cannot|nobody"):
                await change()
        assert before == [counted(database, table) for table in tables]
        assert (await blobs.read(1)).data
        await cast(queue, 2)
