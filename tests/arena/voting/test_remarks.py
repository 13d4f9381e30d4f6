"""After the vote: a matchup is looked at again, a voter says why, and what the votes come to."""

import asyncio
import json
from datetime import timedelta

import pytest

from live_arenas import make_arena, voting_queue_of
from tiltyard.arena.boards.board_cache import BoardCache
from tiltyard.arena.boards.rank_lookup import ModelRank, newest_ranks, ranks_on_board
from tiltyard.arena.voting.remarks import Remark
from tiltyard.arena.voting.voter_requests import Voter
from tiltyard.core.battles import Kind
from tiltyard.core.policy.state.policy import Policy
from tiltyard.errors import Closed, Expired, NotFound
from tiltyard.postgres.connections import connect, open_pool
from tiltyard.settings.arena_settings import ArenaSettings
from tiltyard.wire.vocabulary import TAGS
from voted_arenas import rate, voted

ANN, BOB, JUDGE = Voter(1), Voter(2), Voter(1, 1)
SETTINGS = ArenaSettings(undo_seconds=60.0, expiry_seconds=300.0)


def run(coroutine):
    return asyncio.run(coroutine)


def scene(database, play, **options):
    """Play with a desk of a new arena, in which there is time."""

    async def playing():
        arena = await make_arena(database, **{"settings": SETTINGS, **options})
        async with voting_queue_of(database, arena) as desk:
            await play(desk)

    run(playing())


def let_time_pass(desk, seconds):
    """On the desk's own clock."""
    now = desk._now
    desk._now = lambda: now() + timedelta(seconds=seconds)


def database_time(database):
    with connect(database) as connection:
        return connection.execute("SELECT clock_timestamp()").fetchone()[0]


def kept(database):
    with connect(database) as connection:
        return connection.execute(
            "SELECT session, tags, comment FROM remarks ORDER BY arena, source, serial"
        ).fetchall()


def test_a_matchup_is_looked_at_in_every_state(database):
    async def play(desk):
        one = (await desk.next_matchup(ANN)).matchup
        opened = await desk.review(ANN, one)
        assert (opened.state, opened.outcome, opened.undo_until, opened.revealed) == (
            "open",
            None,
            None,
            False,
        )
        assert opened.responses is not None
        await desk.vote(ANN, one, Kind.WIN_B)
        voted_on = await desk.review(ANN, one)
        assert (voted_on.state, voted_on.outcome) == ("voted", Kind.WIN_B)
        assert voted_on.responses == opened.responses
        assert voted_on.undo_until is not None
        assert 0 < voted_on.left <= 60
        await desk.undo(ANN, one)
        undone = await desk.review(ANN, one)
        assert (undone.state, undone.responses, undone.undo_until) == ("open", opened.responses, None)
        assert (undone.outcome, undone.ballot) == (None, 1)
        await desk.vote(ANN, one, Kind.TIE, ballot=1)
        recast = await desk.review(ANN, one)
        assert (recast.state, recast.outcome, recast.ballot) == ("voted", Kind.TIE, 1)
        two = (await desk.next_matchup(ANN)).matchup
        await desk.skip(ANN, two)
        assert ((skipped := await desk.review(ANN, two)).state, skipped.responses) == ("skipped", None)
        three = (await desk.next_matchup(ANN)).matchup
        await desk.vote(ANN, three, Kind.TIE, reveal=True)
        shown = await desk.review(ANN, three)
        assert (shown.state, shown.revealed, shown.undo_until) == ("voted", True, None)
        assert shown.responses is not None

    scene(database, play)


def test_a_matchup_that_ran_out_shows_nothing(database):
    async def play(desk):
        opened, answered = (await desk.next_matchup(ANN)).matchup, None
        answered = (await desk.next_matchup(BOB)).matchup
        await desk.vote(BOB, answered, Kind.WIN_A)
        assert await desk.find(BOB, answered, voted=True)
        let_time_pass(desk, 301)
        assert ((gone := await desk.review(ANN, opened)).state, gone.responses) == ("expired", None)
        assert ((old := await desk.review(BOB, answered)).state, old.responses) == ("voted", None)
        for voter, matchup in ((ANN, opened), (BOB, answered)):
            with pytest.raises(Expired):
                await desk.find(voter, matchup, voted=True)

    scene(database, play)


def test_only_a_vote_that_stands_lets_its_responses_be_seen_again(database):
    async def play(desk):
        one = await desk.next_matchup(ANN)
        assert (await desk.find(ANN, one.matchup, voted=True)).response_a == one.response_a
        await desk.vote(ANN, one.matchup, Kind.WIN_A)
        again = await desk.find(ANN, one.matchup, voted=True)
        assert (again.response_a, again.response_b) == (one.response_a, one.response_b)
        with pytest.raises(Closed, match="ended"):
            await desk.find(ANN, one.matchup)
        for stranger in (BOB, JUDGE):
            with pytest.raises(NotFound):
                await desk.find(stranger, one.matchup, voted=True)
            with pytest.raises(NotFound):
                await desk.review(stranger, one.matchup)
        await desk.undo(ANN, one.matchup)
        reopened = await desk.find(ANN, one.matchup)
        assert (reopened.response_a, reopened.response_b, reopened.ballot) == (
            one.response_a,
            one.response_b,
            1,
        )
        await desk.skip(ANN, one.matchup)
        with pytest.raises(Closed, match="ended"):
            await desk.find(ANN, one.matchup, voted=True)
        two = (await desk.next_matchup(ANN)).matchup
        await desk.skip(ANN, two)
        with pytest.raises(Closed, match="ended"):
            await desk.find(ANN, two, voted=True)

    scene(database, play)


def test_a_remark_is_kept_and_another_replaces_it(database):
    async def play(desk):
        matchup = (await desk.next_matchup(ANN)).matchup
        await desk.vote(ANN, matchup, Kind.WIN_A)
        assert await desk.remarked(ANN, matchup) == Remark()
        await desk.remark(ANN, matchup, ["accurate", "clear"], "because <b>so</b>")
        await desk.remark(ANN, matchup, ["concise"], None)
        assert await desk.remarked(ANN, matchup) == Remark(("concise",))
        assert await desk.remarked(BOB, matchup) == Remark()

    scene(database, play)
    assert kept(database) == [(1, ["concise"], None)]


def test_a_remark_on_a_vote_that_was_undone_is_not_one_on_the_next(database):
    async def play(desk):
        matchup = (await desk.next_matchup(ANN)).matchup
        await desk.vote(ANN, matchup, Kind.WIN_A)
        await desk.remark(ANN, matchup, ["accurate"], "A is right")
        await desk.undo(ANN, matchup)
        assert await desk.remarked(ANN, matchup) == Remark()
        await desk.vote(ANN, matchup, Kind.WIN_B, ballot=1)
        assert await desk.remarked(ANN, matchup) == Remark()
        await desk.remark(ANN, matchup, ["clear"], None)

    scene(database, play)
    assert kept(database) == [(1, ["clear"], None)]


def test_a_remark_and_an_undo_at_once_leave_none_on_an_open_matchup(database):
    async def play(desk):
        for _ in range(15):
            matchup = (await desk.next_matchup(ANN)).matchup
            await desk.vote(ANN, matchup, Kind.WIN_A)
            await asyncio.gather(
                desk.remark(ANN, matchup, ["clear"], None), desk.undo(ANN, matchup), return_exceptions=True
            )
            assert await desk.remarked(ANN, matchup) == Remark()
            await desk.skip(ANN, matchup)

    scene(database, play)
    assert kept(database) == []


def test_a_remark_goes_with_a_vote_of_ones_own_before_the_names(database):
    async def play(desk):
        matchup = (await desk.next_matchup(ANN)).matchup
        with pytest.raises(Closed, match="vote"):
            await desk.remark(ANN, matchup, [], "too early")
        await desk.vote(ANN, matchup, Kind.BOTH_BAD)
        for stranger in (BOB, JUDGE):
            with pytest.raises(NotFound):
                await desk.remark(stranger, matchup, [], "mine")
        with pytest.raises(NotFound):
            await desk.remark(ANN, "x", [], "of nothing")
        await desk.reveal(ANN, matchup)
        with pytest.raises(Closed, match="names were shown"):
            await desk.remark(ANN, matchup, ["wrong"], None)
        other = (await desk.next_matchup(ANN)).matchup
        await desk.vote(ANN, other, Kind.TIE)
        await desk.undo(ANN, other)
        with pytest.raises(Closed, match="vote"):
            await desk.remark(ANN, other, ["wrong"], None)
        await desk.skip(ANN, other)
        skipped = (await desk.next_matchup(ANN)).matchup
        await desk.skip(ANN, skipped)
        with pytest.raises(Closed, match="vote"):
            await desk.remark(ANN, skipped, ["wrong"], None)

    scene(database, play)
    assert kept(database) == []


def test_names_come_with_what_is_known_of_the_pair(database):
    """Every final decisive vote counts, at once; ties and both_bad do not."""

    async def play(desk):
        decisive = 0
        for kind in (Kind.WIN_A, Kind.TIE, Kind.WIN_B, Kind.BOTH_BAD, Kind.WIN_A):
            matchup = (await desk.next_matchup(ANN)).matchup
            await desk.vote(ANN, matchup, kind)
            names = await desk.reveal(ANN, matchup)
            decisive += kind in {Kind.WIN_A, Kind.WIN_B}
            assert (names.decisive, names.floor) == (decisive, 3)

    scene(database, play, models=2, policy=Policy(adjacent_votes=3, session_pairs=1))


def test_a_contribution_counts_final_votes_and_the_pairs_they_settled(database):
    async def play(desk):
        told = []
        for kind in (Kind.WIN_A, Kind.WIN_B, Kind.WIN_A):
            matchup = (await desk.next_matchup(ANN)).matchup
            await desk.vote(ANN, matchup, kind)
            before = await desk.contribution(ANN)
            await desk.reveal(ANN, matchup)
            after = await desk.contribution(ANN)
            told.append((before.votes, before.settled, after.votes, after.settled))
        assert told == [(0, 0, 1, 0), (1, 0, 2, 1), (2, 1, 3, 1)]
        nobody = await desk.contribution(BOB)
        assert (nobody.votes, nobody.settled) == (0, 0)
        tie = (await desk.next_matchup(BOB)).matchup
        await desk.vote(BOB, tie, Kind.TIE, reveal=True)
        assert ((bob := await desk.contribution(BOB)).votes, bob.settled) == (1, 0)

    scene(database, play, models=2, policy=Policy(adjacent_votes=2, session_pairs=1))


def test_a_vote_that_can_no_longer_be_taken_back_contributes_without_its_names(database):
    async def play(desk):
        matchup = (await desk.next_matchup(ANN)).matchup
        await desk.vote(ANN, matchup, Kind.WIN_A)
        assert (await desk.contribution(ANN)).votes == 0
        let_time_pass(desk, 61)
        assert (await desk.contribution(ANN)).votes == 1
        assert (await desk.review(ANN, matchup)).undo_until is None

    scene(database, play)


def test_places_are_those_of_the_newest_board(database):
    async def look():
        async with open_pool(database, most=2) as pool:
            boards = BoardCache(database, pool)
            return await newest_ranks(boards, 1, 0), await boards.latest(1, 0)

    async def look_before():
        async with open_pool(database, most=2) as pool:
            return await newest_ranks(BoardCache(database, pool), 1, 0)

    voted(database, votes=40)
    assert run(look_before()) is None
    rate(database)
    places, newest = run(look())
    rows = json.loads(newest.document)["rows"]
    assert places == {
        row["model"]: ModelRank(row["rank"], row["conservative"], row["badge"], row["votes"]) for row in rows
    }
    assert sorted(place.rank for place in places.values()) == [1, 2, 3, 4]
    for order, name in (("bradley-terry", "bradley_terry"), ("legacy-elo", "legacy_elo")):
        other = ranks_on_board(json.dumps(json.loads(newest.document) | {"order": order}))
        assert other[rows[0]["model"]].score == rows[0][name]


def test_tags_are_told_apart_and_short():
    assert len(set(TAGS)) == len(TAGS)
    assert all(tag == tag.lower() and " " not in tag and len(tag) <= 20 for tag in TAGS)


def test_the_time_to_take_a_vote_back_is_the_databases(database):
    async def play(desk):
        matchup = (await desk.next_matchup(ANN)).matchup
        before = database_time(database)
        ended = await desk.vote(ANN, matchup, Kind.WIN_A)
        seen = await desk.review(ANN, matchup)
        after = database_time(database)
        assert seen.undo_until == ended.undo_until == ended.at + timedelta(seconds=60)
        most, least = ((seen.undo_until - moment).total_seconds() for moment in (before, after))
        assert least - 0.1 < seen.left < most + 0.1

    scene(database, play)


def test_a_desk_that_was_opened_just_now_knows_the_time(database):
    """Before anybody has asked anything of it."""

    async def playing():
        arena = await make_arena(database, settings=SETTINGS)
        async with voting_queue_of(database, arena) as desk:
            matchup = (await desk.next_matchup(ANN)).matchup
            await desk.vote(ANN, matchup, Kind.WIN_A)
        async with voting_queue_of(database, arena) as desk:
            assert (await desk.contribution(ANN)).votes == 0
            assert 0 < (await desk.review(ANN, matchup)).left <= 60
            assert await desk.find(ANN, matchup, voted=True)

    run(playing())
