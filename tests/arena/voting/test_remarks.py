"""After the vote: a matchup is looked at again, a voter says why, and what the votes come to."""

import asyncio
import json
from datetime import timedelta
from uuid import uuid4

import pytest

from support.live_arenas import make_arena, new_voting_queue, voting_queue_of
from support.voted_arenas import rate, voted
from tiltyard.arena.boards.board_cache import BoardCache, ModelRank, newest_ranks, ranks_on_board
from tiltyard.arena.voting.remarks import Remark
from tiltyard.arena.voting.voter_requests import Voter
from tiltyard.core.battles import Kind
from tiltyard.core.policy.state.policy import Policy
from tiltyard.errors import Closed, Expired, NotFound
from tiltyard.postgres.connections import connect, open_pool
from tiltyard.settings.arena_settings import ArenaSettings
from tiltyard.wire.records import TAGS

ANN, BOB, JUDGE = Voter(1), Voter(2), Voter(1, 1)
SETTINGS = ArenaSettings(undo_seconds=60.0, expiry_seconds=300.0)


def let_time_pass(queue, seconds):
    """Advance the queue's own clock."""
    now = queue._now
    queue._now = lambda: now() + timedelta(seconds=seconds)


def database_time(database):
    with connect(database) as connection:
        return connection.execute("SELECT clock_timestamp()").fetchone()[0]


def kept(database):
    with connect(database) as connection:
        return connection.execute(
            "SELECT session, tags, comment FROM remarks ORDER BY arena, source, serial"
        ).fetchall()


async def test_a_matchup_is_looked_at_in_every_state(database):
    async with new_voting_queue(database, settings=SETTINGS) as queue:
        one = (await queue.next_matchup(ANN)).matchup
        opened = await queue.review(ANN, one)
        assert (opened.state, opened.outcome, opened.undo_until, opened.revealed) == (
            "open",
            None,
            None,
            False,
        )
        assert opened.responses is not None
        await queue.vote(ANN, one, Kind.WIN_B)
        voted_on = await queue.review(ANN, one)
        assert (voted_on.state, voted_on.outcome) == ("voted", Kind.WIN_B)
        assert voted_on.responses == opened.responses
        assert voted_on.undo_until is not None
        assert 0 < voted_on.left <= 60
        await queue.undo(ANN, one)
        undone = await queue.review(ANN, one)
        assert (undone.state, undone.responses, undone.undo_until) == ("open", opened.responses, None)
        assert (undone.outcome, undone.ballot) == (None, 1)
        await queue.vote(ANN, one, Kind.TIE, ballot=1)
        recast = await queue.review(ANN, one)
        assert (recast.state, recast.outcome, recast.ballot) == ("voted", Kind.TIE, 1)
        two = (await queue.next_matchup(ANN)).matchup
        await queue.skip(ANN, two)
        assert ((skipped := await queue.review(ANN, two)).state, skipped.responses) == ("skipped", None)
        three = (await queue.next_matchup(ANN)).matchup
        await queue.vote(ANN, three, Kind.TIE, reveal=True)
        shown = await queue.review(ANN, three)
        assert (shown.state, shown.revealed, shown.undo_until) == ("voted", True, None)
        assert shown.responses is not None


async def test_a_matchup_that_ran_out_shows_nothing(database):
    async with new_voting_queue(database, settings=SETTINGS) as queue:
        opened, answered = (await queue.next_matchup(ANN)).matchup, None
        answered = (await queue.next_matchup(BOB)).matchup
        await queue.vote(BOB, answered, Kind.WIN_A)
        assert await queue.find(BOB, answered, voted=True)
        let_time_pass(queue, 301)
        assert ((gone := await queue.review(ANN, opened)).state, gone.responses) == ("expired", None)
        assert ((old := await queue.review(BOB, answered)).state, old.responses) == ("voted", None)
        for voter, matchup in ((ANN, opened), (BOB, answered)):
            with pytest.raises(Expired):
                await queue.find(voter, matchup, voted=True)


async def test_only_a_vote_that_stands_lets_its_responses_be_seen_again(database):
    async with new_voting_queue(database, settings=SETTINGS) as queue:
        one = await queue.next_matchup(ANN)
        assert (await queue.find(ANN, one.matchup, voted=True)).response_a == one.response_a
        await queue.vote(ANN, one.matchup, Kind.WIN_A)
        again = await queue.find(ANN, one.matchup, voted=True)
        assert (again.response_a, again.response_b) == (one.response_a, one.response_b)
        with pytest.raises(Closed, match="ended"):
            await queue.find(ANN, one.matchup)
        for stranger in (BOB, JUDGE):
            with pytest.raises(NotFound):
                await queue.find(stranger, one.matchup, voted=True)
            with pytest.raises(NotFound):
                await queue.review(stranger, one.matchup)
        await queue.undo(ANN, one.matchup)
        reopened = await queue.find(ANN, one.matchup)
        assert (reopened.response_a, reopened.response_b, reopened.ballot) == (
            one.response_a,
            one.response_b,
            1,
        )
        await queue.skip(ANN, one.matchup)
        with pytest.raises(Closed, match="ended"):
            await queue.find(ANN, one.matchup, voted=True)
        two = (await queue.next_matchup(ANN)).matchup
        await queue.skip(ANN, two)
        with pytest.raises(Closed, match="ended"):
            await queue.find(ANN, two, voted=True)


async def test_a_remark_is_kept_and_another_replaces_it(database):
    async with new_voting_queue(database, settings=SETTINGS) as queue:
        matchup = (await queue.next_matchup(ANN)).matchup
        await queue.vote(ANN, matchup, Kind.WIN_A)
        assert await queue.remarked(ANN, matchup) == Remark()
        await queue.remark(ANN, matchup, ["accurate", "clear"], "because <b>so</b>")
        await queue.remark(ANN, matchup, ["concise"], None)
        assert await queue.remarked(ANN, matchup) == Remark(("concise",))
        assert await queue.remarked(BOB, matchup) == Remark()
    assert kept(database) == [(1, ["concise"], None)]


async def test_a_remark_on_a_vote_that_was_undone_is_not_one_on_the_next(database):
    async with new_voting_queue(database, settings=SETTINGS) as queue:
        matchup = (await queue.next_matchup(ANN)).matchup
        await queue.vote(ANN, matchup, Kind.WIN_A)
        await queue.remark(ANN, matchup, ["accurate"], "A is right")
        await queue.undo(ANN, matchup)
        assert await queue.remarked(ANN, matchup) == Remark()
        await queue.vote(ANN, matchup, Kind.WIN_B, ballot=1)
        assert await queue.remarked(ANN, matchup) == Remark()
        await queue.remark(ANN, matchup, ["clear"], None)
    assert kept(database) == [(1, ["clear"], None)]


async def test_a_remark_and_an_undo_at_once_leave_none_on_an_open_matchup(database):
    async with new_voting_queue(database, settings=SETTINGS) as queue:
        for _ in range(15):
            matchup = (await queue.next_matchup(ANN)).matchup
            await queue.vote(ANN, matchup, Kind.WIN_A)
            await asyncio.gather(
                queue.remark(ANN, matchup, ["clear"], None), queue.undo(ANN, matchup), return_exceptions=True
            )
            assert await queue.remarked(ANN, matchup) == Remark()
            await queue.skip(ANN, matchup)
    assert kept(database) == []


async def test_a_remark_goes_with_a_vote_of_ones_own_before_the_names(database):
    async with new_voting_queue(database, settings=SETTINGS) as queue:
        matchup = (await queue.next_matchup(ANN)).matchup
        with pytest.raises(Closed, match="vote"):
            await queue.remark(ANN, matchup, [], "too early")
        await queue.vote(ANN, matchup, Kind.BOTH_BAD)
        for stranger in (BOB, JUDGE):
            with pytest.raises(NotFound):
                await queue.remark(stranger, matchup, [], "mine")
        with pytest.raises(NotFound):
            await queue.remark(ANN, uuid4(), [], "of nothing")
        await queue.reveal(ANN, matchup)
        with pytest.raises(Closed, match="have been revealed"):
            await queue.remark(ANN, matchup, ["wrong"], None)
        other = (await queue.next_matchup(ANN)).matchup
        await queue.vote(ANN, other, Kind.TIE)
        await queue.undo(ANN, other)
        with pytest.raises(Closed, match="vote"):
            await queue.remark(ANN, other, ["wrong"], None)
        await queue.skip(ANN, other)
        skipped = (await queue.next_matchup(ANN)).matchup
        await queue.skip(ANN, skipped)
        with pytest.raises(Closed, match="vote"):
            await queue.remark(ANN, skipped, ["wrong"], None)
    assert kept(database) == []


async def test_names_come_with_what_is_known_of_the_pair(database):
    """Every final decisive vote counts, at once; ties and both_bad do not."""
    async with new_voting_queue(
        database, settings=SETTINGS, models=2, policy=Policy(adjacent_votes=3, session_pairs=1)
    ) as queue:
        decisive = 0
        for kind in (Kind.WIN_A, Kind.TIE, Kind.WIN_B, Kind.BOTH_BAD, Kind.WIN_A):
            matchup = (await queue.next_matchup(ANN)).matchup
            await queue.vote(ANN, matchup, kind)
            names = await queue.reveal(ANN, matchup)
            decisive += kind in {Kind.WIN_A, Kind.WIN_B}
            assert (names.decisive, names.floor) == (decisive, 3)


async def test_final_votes_are_counted_once_the_names_are_revealed(database):
    async with new_voting_queue(
        database, settings=SETTINGS, models=2, policy=Policy(adjacent_votes=2, session_pairs=1)
    ) as queue:
        counts = []
        for kind in (Kind.WIN_A, Kind.WIN_B, Kind.WIN_A):
            matchup = (await queue.next_matchup(ANN)).matchup
            await queue.vote(ANN, matchup, kind)
            before = await queue.final_votes(ANN)
            await queue.reveal(ANN, matchup)
            counts.append((before, await queue.final_votes(ANN)))
        assert counts == [(0, 1), (1, 2), (2, 3)]
        assert await queue.final_votes(BOB) == 0
        tie = (await queue.next_matchup(BOB)).matchup
        await queue.vote(BOB, tie, Kind.TIE, reveal=True)
        assert await queue.final_votes(BOB) == 1


async def test_a_vote_that_can_no_longer_be_undone_is_final_without_a_reveal(database):
    async with new_voting_queue(database, settings=SETTINGS) as queue:
        matchup = (await queue.next_matchup(ANN)).matchup
        await queue.vote(ANN, matchup, Kind.WIN_A)
        assert await queue.final_votes(ANN) == 0
        let_time_pass(queue, 61)
        assert await queue.final_votes(ANN) == 1
        assert (await queue.review(ANN, matchup)).undo_until is None


async def test_places_are_those_of_the_newest_board(database):
    await asyncio.to_thread(voted, database, votes=40)
    async with open_pool(database, most=2) as pool:
        assert await newest_ranks(BoardCache(database, pool), 1, 0) is None
        await asyncio.to_thread(rate, database)
        boards = BoardCache(database, pool)
        places, newest = await newest_ranks(boards, 1, 0), await boards.latest(1, 0)
    rows = json.loads(newest.document)["rows"]
    assert places == {
        row["model"]: ModelRank(
            rank=row["rank"],
            rank_low=row["rank_low"],
            rank_high=row["rank_high"],
            score=row["conservative"],
            badge=row["badge"],
            votes=row["votes"],
            unordered=True,
        )
        for row in rows
    }
    assert sorted(place.rank for place in places.values()) == [1, 2, 3, 4]
    for order, name in (("bradley-terry", "bradley_terry"), ("legacy-elo", "legacy_elo")):
        other = ranks_on_board(json.dumps(json.loads(newest.document) | {"order": order}))
        assert other[rows[0]["model"]].score == rows[0][name]


def test_tags_are_told_apart_and_short():
    assert len(set(TAGS)) == len(TAGS)
    assert all(tag == tag.lower() and " " not in tag and len(tag) <= 20 for tag in TAGS)


async def test_the_time_to_take_a_vote_back_is_the_databases(database):
    async with new_voting_queue(database, settings=SETTINGS) as queue:
        matchup = (await queue.next_matchup(ANN)).matchup
        before = database_time(database)
        ended = await queue.vote(ANN, matchup, Kind.WIN_A)
        seen = await queue.review(ANN, matchup)
        after = database_time(database)
        assert seen.undo_until == ended.undo_until == ended.at + timedelta(seconds=60)
        most, least = ((seen.undo_until - moment).total_seconds() for moment in (before, after))
        assert least - 0.1 < seen.left < most + 0.1


async def test_a_queue_that_was_just_opened_knows_the_time(database):
    """Before anybody has asked anything of it."""
    arena = await make_arena(database, settings=SETTINGS)
    async with voting_queue_of(database, arena) as queue:
        matchup = (await queue.next_matchup(ANN)).matchup
        await queue.vote(ANN, matchup, Kind.WIN_A)
    async with voting_queue_of(database, arena) as queue:
        assert await queue.final_votes(ANN) == 0
        assert 0 < (await queue.review(ANN, matchup)).left <= 60
        assert await queue.find(ANN, matchup, voted=True)
