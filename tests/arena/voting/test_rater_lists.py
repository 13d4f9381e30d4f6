"""Raters of an expert panel are asked about their own items only, each once, whatever happens on the way."""

from contextlib import asynccontextmanager

import pytest

from support.live_arenas import voting_queue_of
from support.panelled import finish_list, opinion, panelled_arena
from tiltyard.arena.content.blob_store import BlobStore
from tiltyard.arena.content.object_storage import FolderStorage
from tiltyard.arena.operators.arena_changes import withdraw
from tiltyard.arena.operators.panels import PanelTerms, close_panel
from tiltyard.arena.voting.voter_requests import Voter
from tiltyard.core.battles import Kind
from tiltyard.errors import Closed, NoMatchup
from tiltyard.postgres.connections import connect, open_pool
from tiltyard.settings.arena_settings import ArenaSettings

TERMS = PanelTerms("panel", ("Ada", "Ben", "Cleo"), overlap=2, seed=4)
#: Three prompts and three models: nine items, six for each rater.
SMALL = {"models": 3, "prompts": 3}


@asynccontextmanager
async def panelled_queue(url, terms=TERMS, **options):
    """The open queue of an arena with a panel, and its raters."""
    arena, opened = await panelled_arena(url, terms, **(SMALL | options))
    async with voting_queue_of(url, arena) as queue:
        yield queue, opened.raters


def key_of(queue, offered):
    one = queue.state.open[offered.matchup]
    return one.prompt, *sorted((one.a, one.b))


def assigned(url, rater):
    with connect(url) as connection:
        rows = connection.execute(
            "SELECT prompt, one, other FROM panel_tasks JOIN panel_items USING (panel, item)"
            " WHERE rater = %s ORDER BY place",
            (rater,),
        )
        return rows.fetchall()


async def test_a_rater_gets_the_list_in_order_and_then_nothing(database):
    async with panelled_queue(database) as (queue, raters):
        voter, seen = Voter(raters[0].session), []
        for _ in range(6):
            offered = await queue.next_matchup(voter)
            assert (await queue.next_matchup(voter)).matchup == offered.matchup
            seen.append(key_of(queue, offered))
            await queue.vote(voter, offered.matchup, Kind.TIE)
        assert seen == assigned(database, 0)
        for ahead in (False, True):
            with pytest.raises(NoMatchup, match="finished"):
                await queue.next_matchup(voter, ahead=ahead)


async def test_prefetched_items_are_of_the_list_and_never_twice(database):
    async with panelled_queue(database) as (queue, raters):
        voter, seen = Voter(raters[1].session), []
        current = await queue.next_matchup(voter)
        for _ in range(5):
            following = await queue.look_ahead(voter, current.matchup)
            seen.append(key_of(queue, current))
            await queue.vote(voter, current.matchup, Kind.WIN_A)
            current = await queue.next_matchup(voter)
            assert current.matchup == following.matchup
        seen.append(key_of(queue, current))
        with pytest.raises(NoMatchup):
            await queue.look_ahead(voter, current.matchup)
        assert sorted(seen) == sorted(assigned(database, 1))


async def test_a_skipped_item_comes_back_once_at_the_end(database):
    async with panelled_queue(database) as (queue, raters):
        voter = Voter(raters[2].session)
        first = await queue.next_matchup(voter)
        skipped = key_of(queue, first)
        await queue.skip(voter, first.matchup)
        seen = []
        for _ in range(5):
            offered = await queue.next_matchup(voter)
            seen.append(key_of(queue, offered))
            await queue.vote(voter, offered.matchup, Kind.WIN_B)
        assert skipped not in seen
        again = await queue.next_matchup(voter)
        assert key_of(queue, again) == skipped
        await queue.skip(voter, again.matchup)
        with pytest.raises(NoMatchup, match="finished"):
            await queue.next_matchup(voter)


async def test_an_undone_vote_is_open_again_and_counts_once(database):
    async with panelled_queue(database, settings=ArenaSettings(undo_seconds=600)) as (queue, raters):
        voter = Voter(raters[0].session)
        offered = await queue.next_matchup(voter)
        await queue.vote(voter, offered.matchup, Kind.WIN_A)
        await queue.undo(voter, offered.matchup)
        assert (await queue.next_matchup(voter)).matchup == offered.matchup
        await queue.vote(voter, offered.matchup, Kind.WIN_B, ballot=1)
        assert await finish_list(queue, raters[0], opinion(0, 0.0)) == 5


async def test_an_expired_item_is_asked_about_again(database):
    async with panelled_queue(database) as (queue, raters):
        voter = Voter(raters[0].session)
        offered = await queue.next_matchup(voter)
        item = key_of(queue, offered)
        queue.state.open[offered.matchup] = _expired(queue.state.open[offered.matchup])
        again = await queue.next_matchup(voter)
        assert again.matchup != offered.matchup
        assert key_of(queue, again) == item


def _expired(one):
    from dataclasses import replace

    return replace(one, expires_at=one.served_at)


async def test_another_process_goes_on_where_the_first_one_stopped(database):
    arena, opened = await panelled_arena(database, TERMS, **SMALL)
    rater = opened.raters[0]
    async with voting_queue_of(database, arena) as queue:
        assert await finish_list(queue, rater, opinion(0, 0.0), most=2) == 2
        skipped = await queue.next_matchup(Voter(rater.session))
        await queue.skip(Voter(rater.session), skipped.matchup)
    async with voting_queue_of(database, arena) as one, voting_queue_of(database, arena) as other:
        assert await finish_list(one, rater, opinion(0, 0.0), most=1) == 1
        assert await finish_list(other, rater, opinion(0, 0.0)) == 3
        assert await finish_list(one, rater, opinion(0, 0.0)) == 0
    with connect(database) as connection:
        rows = connection.execute("SELECT count(*) FROM endings WHERE kind = 1").fetchone()
    assert rows == (6,)


async def test_names_are_never_told_to_raters_whatever_the_arena_says(database):
    # The settings that this queue has are older than the panel.
    async with panelled_queue(database, reveal="vote") as (queue, raters):
        assert queue.settings.reveal == "vote"
        voter = Voter(raters[0].session)
        offered = await queue.next_matchup(voter)
        with pytest.raises(Closed, match="never reveals"):
            await queue.vote(voter, offered.matchup, Kind.WIN_A, reveal=True)
        await queue.vote(voter, offered.matchup, Kind.WIN_A)
        with pytest.raises(Closed, match="never reveals"):
            await queue.reveal(voter, offered.matchup)
        with pytest.raises(Closed, match="never reveals"):
            await queue.finish(voter)


async def test_other_voters_are_matched_as_always(database):
    async with panelled_queue(database) as (queue, raters):
        stranger = Voter(77)
        offered = await queue.next_matchup(stranger)
        await queue.vote(stranger, offered.matchup, Kind.WIN_A)
        assert await finish_list(queue, raters[0], opinion(0, 0.0)) == 6
    with connect(database) as connection:
        rows = connection.execute("SELECT reason FROM matchups WHERE session = 77").fetchall()
    assert "expert panel" not in {reason for (reason,) in rows}


async def test_a_judge_with_the_number_of_a_rater_is_no_rater(database):
    async with panelled_queue(database) as (queue, raters):
        await queue.next_matchup(Voter(raters[0].session, source=1))
    with connect(database) as connection:
        assert connection.execute("SELECT reason = 'expert panel' FROM matchups").fetchall() == [(False,)]


async def test_a_closed_panel_asks_nothing_more(database):
    async with panelled_queue(database, settings=ArenaSettings(undo_seconds=600)) as (queue, raters):
        voter = Voter(raters[0].session)
        first = await queue.next_matchup(voter)
        await queue.vote(voter, first.matchup, Kind.WIN_A)
        offered = await queue.next_matchup(voter)
        async with open_pool(database, most=2) as pool:
            await close_panel(pool, "arena", "panel", actor="cli")
        with pytest.raises(Closed, match="panel is closed"):
            await queue.vote(voter, offered.matchup, Kind.WIN_A)
        with pytest.raises(Closed, match="panel is closed"):
            await queue.undo(voter, first.matchup)
        await queue.skip(voter, offered.matchup)
        with pytest.raises(NoMatchup, match="closed"):
            await queue.next_matchup(voter)


async def test_withdrawn_responses_are_left_out(database, tmp_path):
    async with panelled_queue(
        database, terms=PanelTerms("panel", ("Ada", "Ben"), overlap=2, seed=4), prompts=2
    ) as (queue, raters):
        async with open_pool(database, most=2) as pool:
            blobs = BlobStore(pool, FolderStorage(tmp_path))
            await withdraw(pool, blobs, "arena", "prompt-1", "model-1", reason="wrong", actor="cli")
        left = [key for key in assigned(database, 0) if not (key[0] == 1 and 1 in key[1:])]
        assert await finish_list(queue, raters[0], opinion(0, 0.0)) == len(left) < 6
