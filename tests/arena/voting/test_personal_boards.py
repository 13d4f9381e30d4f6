"""The board of one's own votes: from final votes alone, of this voter alone, and no surer than they allow."""

import json
from contextlib import asynccontextmanager

import pytest

from support.live_arenas import make_arena, new_voting_queue, voting_queue_of
from support.voted_arenas import boards_of, close_window, rate
from support.voted_arenas import cast as cast_votes
from tiltyard.arena.operators.exclusions import VoteSelection, exclude
from tiltyard.arena.voting import voter_requests
from tiltyard.arena.voting.personal_boards import PersonalBoards
from tiltyard.arena.voting.voter_requests import Voter
from tiltyard.core.battles import Kind
from tiltyard.core.board.voter_board import BoardAgreement
from tiltyard.errors import Closed
from tiltyard.postgres.connections import connect, open_pool
from tiltyard.settings.arena_settings import ArenaSettings


@asynccontextmanager
async def personal_boards(url):
    async with boards_of(url) as (boards, arena):
        yield PersonalBoards(boards._pool, boards), arena


async def personal(url, session, source=0):
    async with personal_boards(url) as (boards, arena):
        return await boards.of(arena, Voter(session, source))


def names_in(found):
    return {name for vote in found.recent for name in (vote.model_a, vote.model_b)} | {
        row.model for row in (found.board.rows if found.board else ())
    }


async def one_vote(queue, voter, kind=Kind.WIN_A, **options):
    offered = await queue.next_matchup(voter)
    await queue.vote(voter, offered.matchup, kind, **options)
    return offered.matchup


def let_time_pass(url, seconds):
    with connect(url) as connection:
        connection.execute("UPDATE endings SET at = at - make_interval(secs => %s)", (seconds,))


async def test_a_vote_shows_no_name_before_it_is_revealed(database):
    voter = Voter(1)
    async with new_voting_queue(database, 6, 8) as queue:
        matchups = [await one_vote(queue, voter) for _ in range(3)]
    found = await personal(database, 1)
    assert (found.totals.votes, found.totals.pending) == (0, 3)
    assert names_in(found) == set()
    assert found.board is None
    assert sum(found.outcomes.values()) == found.agreement.decisive == 0
    async with personal_boards(database) as (_, arena), voting_queue_of(database, arena) as queue:
        shown = await queue.reveal(voter, matchups[1])
        await queue.undo(voter, matchups[2])
    found = await personal(database, 1)
    assert (found.totals.votes, found.totals.pending) == (1, 1)
    assert names_in(found) == {shown.model_a, shown.model_b}
    assert [vote.matchup for vote in found.recent] == [matchups[1]]
    let_time_pass(database, 71)
    found = await personal(database, 1)
    assert (found.totals.votes, found.totals.pending) == (1, 1)
    assert [vote.matchup for vote in found.recent] == [matchups[1]]
    assert [vote.blind for vote in found.recent] == [True]


async def test_remarks_close_after_a_while_although_names_are_not_revealed(database, monkeypatch):
    """By the database's clock, and however early the vote is rated."""
    monkeypatch.setattr(voter_requests, "REMARK_GRACE_SECONDS", 40.0)
    settings = ArenaSettings(undo_seconds=300.0)
    async with new_voting_queue(database, 6, 8, settings=settings) as queue:
        matchup = await one_vote(queue, Voter(1))
    close_window(database)

    async def say(comment):
        async with personal_boards(database) as (_, arena), voting_queue_of(database, arena) as queue:
            await queue.remark(Voter(1), matchup, [], comment)

    await say("soon")
    let_time_pass(database, 330)
    await say("in time")
    found = await personal(database, 1)
    assert (found.totals.votes, found.totals.pending, names_in(found)) == (0, 1, set())
    let_time_pass(database, 11)
    with pytest.raises(Closed, match="too much time"):
        await say("too late")
    found = await personal(database, 1)
    assert (found.totals.votes, found.totals.pending, names_in(found)) == (0, 1, set())
    with connect(database) as connection:
        assert connection.execute("SELECT comment FROM remarks").fetchall() == [("in time",)]


async def test_an_open_matchup_a_skip_and_an_undone_vote_are_not_votes(database):
    voter = Voter(1)
    async with new_voting_queue(database, 6, 8) as queue:
        await queue.undo(voter, await one_vote(queue, voter))
        offered = await queue.next_matchup(voter, ahead=True)
        await queue.skip(voter, offered.matchup)
    close_window(database)
    found = await personal(database, 1)
    assert (found.totals.votes, found.totals.pending, found.totals.skipped) == (0, 0, 1)
    assert names_in(found) == set()


async def test_only_ones_own_votes_count(database):
    async with new_voting_queue(database, 6, 8) as queue:
        await cast_votes(queue, 60, voters=3)
        await cast_votes(queue, 9, voters=1, source=1)
    for session in (1, 2, 3):
        found = await personal(database, session)
        with connect(database) as connection:
            rows = connection.execute(
                "SELECT outcome FROM battles WHERE source = 0 AND session = %s ORDER BY position", (session,)
            ).fetchall()
        assert found.totals.votes == len(rows) == 20
        kinds = [kind for (kind,) in rows]
        assert list(found.outcomes.values()) == [kinds.count(kind) for kind in range(4)]
        assert len(found.recent) == 20
    assert (await personal(database, 1, source=1)).totals.votes == 9
    assert (await personal(database, 99)).totals.votes == 0


async def test_agreement_is_counted_on_the_arenas_order(database):
    async with new_voting_queue(database, 6, 8) as queue:
        await cast_votes(queue, 80, voters=2)
    before = await personal(database, 1)
    assert before.agreement == BoardAgreement(0, 0)
    assert before.agreement.share is None
    assert all(vote.agrees is None for vote in before.recent)
    close_window(database)
    rate(database)
    found = await personal(database, 1)
    with connect(database) as connection:
        (document,) = connection.execute("SELECT document FROM snapshots WHERE source = 0").fetchone()
        rows = connection.execute(
            "SELECT a, b, outcome FROM battles WHERE session = 1 ORDER BY position"
        ).fetchall()
    board = json.loads(document)["rows"]
    rank = {row["model"]: row["rank"] for row in board}
    ranges = {row["model"]: range(row["rank_low"], row["rank_high"] + 1) for row in board}
    decisive = [(rank[f"model-{a}"], rank[f"model-{b}"], kind) for a, b, kind in rows if kind < 2]
    agreed = sum((a < b) == (kind == 0) for a, b, kind in decisive)
    assert found.agreement == BoardAgreement(agreed, len(decisive))
    assert found.agreement.share == agreed / len(decisive)
    last = [
        (rank[f"model-{a}"] < rank[f"model-{b}"]) == (kind == 0) if kind < 2 else None for a, b, kind in rows
    ]
    close = [kind < 2 and bool(set(ranges[f"model-{a}"]) & set(ranges[f"model-{b}"])) for a, b, kind in rows]
    assert any(close)
    assert [vote.close for vote in found.recent] == close[:-31:-1]
    assert [vote.agrees for vote in found.recent] == [
        None if near else agrees for near, agrees in zip(close, last, strict=True)
    ][:-31:-1]


async def test_votes_that_an_operator_excluded_are_still_the_voters_own(database):
    async with new_voting_queue(database, 6, 8) as queue:
        await cast_votes(queue, 20, voters=1)
    before = await personal(database, 1)
    async with open_pool(database, most=1) as pool:
        await exclude(pool, "arena", VoteSelection(sessions=[1]), "a bot", actor="cli")
    after = await personal(database, 1)
    assert (after.totals, after.outcomes, after.recent) == (before.totals, before.outcomes, before.recent)


async def test_a_board_is_made_again_only_after_a_vote(database):
    voter = Voter(1)
    arena = await make_arena(database, 4, 6)
    async with voting_queue_of(database, arena) as queue, personal_boards(database) as (boards, known):
        await cast_votes(queue, 11, voters=1)
        one, two = await boards.of(known, voter), await boards.of(known, voter)
        assert one.board is two.board
        await one_vote(queue, voter, reveal=True)
        assert (await boards.of(known, voter)).board is not one.board


async def test_only_so_many_boards_are_kept(database, monkeypatch):
    monkeypatch.setattr("tiltyard.arena.voting.personal_boards._CACHED_BOARD_LIMIT", 1)
    arena = await make_arena(database, 4, 6)
    async with voting_queue_of(database, arena) as queue, personal_boards(database) as (boards, known):
        await cast_votes(queue, 12, voters=2)
        one, two = await boards.of(known, Voter(1)), await boards.of(known, Voter(2))
        assert (len(boards._made), boards._made.get((known.arena, Voter(1)))) == (1, None)
        again = await boards.of(known, Voter(1))
        assert again.board == one.board
        assert again.board != two.board
