"""A vote is blind if its voter was told neither name: others are kept, exported and rated by nobody."""

import asyncio
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from support import live_arenas
from support.folded_votes import counts, replayed, rows
from support.live_arenas import voting_queue_of
from support.rewritten_logs import allow_rewriting
from tiltyard.arena.log.event_log import HUMAN, JUDGE, LogKind
from tiltyard.arena.voting.arena_state import RaterLists, RevealedNames
from tiltyard.arena.voting.name_reveal import withheld_cells
from tiltyard.arena.voting.voter_requests import Voter
from tiltyard.core.battles import Kind
from tiltyard.errors import Closed, Expired
from tiltyard.postgres.connections import connect
from tiltyard.settings.arena_settings import ArenaSettings

ANN, BOB, JUDY = Voter(1), Voter(2), Voter(3, JUDGE)
EACH = ArenaSettings(undo_seconds=60.0, reveal="vote")
SESSIONS = ArenaSettings(undo_seconds=60.0, session_votes=3)
NEVER = ArenaSettings(undo_seconds=60.0, reveal="never")


def run(coroutine):
    return asyncio.run(coroutine)


def blind_of(url):
    """What the log says of each vote."""
    return [
        blind
        for (blind,) in rows(url, "SELECT blind FROM events WHERE kind = 1 AND source = 0 ORDER BY position")
    ]


async def make_arena(url, models, prompts, *, settings):
    return await live_arenas.make_arena(url, models, prompts, settings=settings, reveal=settings.reveal)


async def cast(queue, voter, kind=Kind.WIN_A, **options):
    """The next matchup, and a vote on it."""
    offered = await queue.next_matchup(voter)
    return offered, await queue.vote(voter, offered.matchup, kind, **options)


def sides(offered):
    return {offered.response_a, offered.response_b}


async def test_what_was_told_is_served_again_only_where_nothing_else_is_left(database):
    arena = await make_arena(database, 4, 2, settings=EACH)
    async with voting_queue_of(database, arena) as queue:
        seen = set()
        for _ in range(4):
            offered, ended = await cast(queue, ANN, reveal=True)
            assert not sides(offered) & seen
            assert ended.blind
            seen |= sides(offered)
        assert len(seen) == 8
        offered, ended = await cast(queue, ANN, reveal=True)
        assert not ended.blind
        assert (await queue.reveal(ANN, offered.matchup)).blind is False
        assert (await queue.vote(ANN, offered.matchup, Kind.WIN_A)).blind is False
        assert (await cast(queue, BOB))[1].blind
    assert blind_of(database) == [True] * 4 + [False, True]
    assert rows(database, "SELECT count(*) FROM matchups WHERE given_up & 4 > 0") == [(1,)]
    assert rows(database, "SELECT blind FROM battles ORDER BY position") == [
        (blind,) for blind in blind_of(database)
    ]


async def test_a_vote_that_is_not_blind_moves_nothing_and_is_an_exposure(database):
    arena = await make_arena(database, 2, 2, settings=EACH)
    async with voting_queue_of(database, arena) as queue:
        for _ in range(5):
            await cast(queue, ANN, reveal=True)
        await queue.next_matchup(BOB)
        standing = queue.state.standings[HUMAN]
        assert (standing.votes, standing.skipped, standing.window.served) == (2, 3, 6)
        live = counts(standing)
    found = replayed(database, arena.arena)[HUMAN]
    assert counts(found.standing) == live
    assert found.votes == 2
    assert blind_of(database) == [True, True, False, False, False]


async def test_votes_of_older_versions_count_as_blind(database):
    arena = await make_arena(database, 2, 3, settings=EACH)
    async with voting_queue_of(database, arena) as queue:
        for _ in range(3):
            await cast(queue, ANN)
    with connect(database) as connection:
        allow_rewriting(connection)
        connection.execute("UPDATE events SET blind = NULL")
        connection.execute("UPDATE endings SET blind = NULL")
    assert replayed(database, arena.arena)[HUMAN].votes == 3
    async with voting_queue_of(database, arena) as queue:
        assert all(vote.blind for vote in queue.state.fresh.values())
        assert len(queue.state.fresh) == 3
    assert rows(database, "SELECT DISTINCT blind FROM battles") == [(True,)]


async def test_it_is_decided_when_the_vote_is_cast(database):
    """A matchup that was served ahead is blind no more once another tab has told its names."""
    arena = await make_arena(database, 2, 1, settings=EACH)
    async with voting_queue_of(database, arena) as queue:
        first = await queue.next_matchup(ANN)
        ahead = await queue.next_matchup(ANN, ahead=True)
        assert sides(first) == sides(ahead)
        assert (await queue.vote(ANN, first.matchup, Kind.WIN_A)).blind
        await queue.reveal(ANN, first.matchup)
        assert not (await queue.vote(ANN, ahead.matchup, Kind.WIN_A)).blind


async def test_what_is_served_ahead_is_blind_when_its_turn_comes(database):
    arena = await make_arena(database, 4, 4, settings=EACH)
    async with voting_queue_of(database, arena) as queue:
        for _ in range(2):
            first = await queue.next_matchup(ANN)
            ahead = await queue.next_matchup(ANN, ahead=True)
            assert not sides(first) & sides(ahead)
            await queue.vote(ANN, first.matchup, Kind.WIN_A)
            third = await queue.next_matchup(ANN, ahead=True)
            assert not sides(third) & (sides(first) | sides(ahead))
            await queue.reveal(ANN, first.matchup)
            assert (await queue.vote(ANN, ahead.matchup, Kind.WIN_A, reveal=True)).blind
            await queue.skip(ANN, third.matchup)


async def test_names_are_told_after_a_session(database):
    arena = await make_arena(database, 4, 6, settings=SESSIONS)
    async with voting_queue_of(database, arena) as queue:
        votes = []
        for number in range(1, 4):
            offered, ended = await cast(queue, ANN)
            votes.append(offered)
            assert ended.revealed == (number == 3)
            assert (ended.undo_until is None) == (number == 3)
        assert await queue.unrevealed_votes(ANN) == 0
        for offered in votes:
            assert (await queue.reveal(ANN, offered.matchup)).model_a.startswith("model-")
            with pytest.raises(Closed, match="final"):
                await queue.undo(ANN, offered.matchup)
        told = set().union(*map(sides, votes))
        offered, ended = await cast(queue, ANN)
        assert ended.blind
        assert not sides(offered) & told
        assert await queue.unrevealed_votes(ANN) == 1
    assert rows(database, "SELECT count(*) FROM events WHERE kind = 9") == [(3,)]
    assert rows(
        database, "SELECT count(DISTINCT revealed_at) FROM endings WHERE revealed_at IS NOT NULL"
    ) == [(1,)]


def test_within_a_session_responses_may_come_again_and_are_blind(database):
    async def scene():
        arena = await make_arena(database, 2, 1, settings=SESSIONS)
        async with voting_queue_of(database, arena) as queue:
            return [(await cast(queue, ANN))[1].blind for _ in range(4)]

    assert run(scene()) == [True, True, True, False]


async def test_whoever_finishes_is_told_the_names_sooner(database):
    arena = await make_arena(database, 4, 6, settings=SESSIONS)
    async with voting_queue_of(database, arena) as queue:
        offered, _ = await cast(queue, ANN)
        with pytest.raises(Closed, match="after 3 votes"):
            await queue.reveal(ANN, offered.matchup)
        waiting = await queue.next_matchup(ANN)
        with pytest.raises(Closed, match=r"after 3 votes"):
            await queue.vote(ANN, waiting.matchup, Kind.WIN_A, reveal=True)
        assert (await queue.review(ANN, waiting.matchup)).state == "open"
        assert await queue.finish(ANN) == 1
        assert await queue.finish(ANN) == 0
        assert (await queue.reveal(ANN, offered.matchup)).blind
        assert await queue.unrevealed_votes(ANN) == 0
    assert rows(database, "SELECT count(*) FROM events WHERE kind = 9") == [(1,)]


async def test_an_undone_vote_is_none_of_the_session(database):
    arena = await make_arena(database, 4, 6, settings=SESSIONS)
    async with voting_queue_of(database, arena) as queue:
        await cast(queue, ANN)
        offered, _ = await cast(queue, ANN)
        await queue.undo(ANN, offered.matchup)
        assert await queue.unrevealed_votes(ANN) == 1
        assert not (await queue.vote(ANN, offered.matchup, Kind.TIE, ballot=1)).revealed
        assert (await cast(queue, ANN))[1].revealed


async def test_where_names_are_never_told_every_vote_is_blind(database):
    arena = await make_arena(database, 2, 1, settings=NEVER)
    async with voting_queue_of(database, arena) as queue:
        for _ in range(5):
            offered, ended = await cast(queue, ANN)
            assert ended.blind
            for ask in (queue.reveal(ANN, offered.matchup), queue.finish(ANN)):
                with pytest.raises(Closed, match="never reveals names"):
                    await ask
        assert await queue.unrevealed_votes(ANN) == 5


async def test_judges_ask_for_names_vote_by_vote(database):
    arena = await make_arena(database, 2, 1, settings=SESSIONS)
    async with voting_queue_of(database, arena) as queue:
        for _ in range(4):
            offered, ended = await cast(queue, JUDY)
            assert ended.blind
            assert not ended.revealed
        with pytest.raises(Closed, match="judge"):
            await queue.finish(JUDY)
        assert (await queue.reveal(JUDY, offered.matchup)).model_a
        assert not (await cast(queue, JUDY))[1].blind


async def test_another_process_knows_the_revealed_names(database):
    """It reads a voter from the tables at first, and follows the log from then on."""
    arena = await make_arena(database, 2, 4, settings=replace(SESSIONS, session_votes=2))
    async with voting_queue_of(database, arena) as here, voting_queue_of(database, arena) as there:
        await cast(here, ANN)
        assert await there.unrevealed_votes(ANN) == 1
        assert (await cast(there, ANN))[1].revealed
        assert await here.unrevealed_votes(ANN) == 0
        _, ended = await cast(here, ANN)
        assert ended.blind
        assert await there.finish(ANN) == 1
        seen = await cast(here, ANN)
        assert seen[1].blind
        assert (await cast(there, ANN))[1].revealed
        assert not (await cast(here, ANN))[1].blind


async def test_a_response_that_replaced_a_told_one_is_blind(database):
    arena = await make_arena(database, 2, 1, settings=EACH)
    async with voting_queue_of(database, arena) as queue:
        await cast(queue, ANN, reveal=True)
        state = queue.state
        assert {cell for _, cell in state.revealed.of(ANN.session).revealed.items()} == {(0, 0), (1, 0)}
        offered = await queue.next_matchup(ANN)
        state.responses[:, 0] += 100
        await queue.skip(ANN, offered.matchup)
        later = await queue.next_matchup(ANN)
        assert not sides(later) & sides(offered)
        assert (await queue.vote(ANN, later.matchup, Kind.TIE)).blind


async def test_the_log_tells_names_once(database):
    arena = await make_arena(database, 4, 6, settings=SESSIONS)
    async with voting_queue_of(database, arena) as queue:
        for _ in range(3):
            await cast(queue, ANN)
        assert await queue.finish(ANN) == 0
    kinds = [
        kind for (kind,) in rows(database, "SELECT kind FROM events WHERE kind IN (1, 9) ORDER BY position")
    ]
    assert kinds == [LogKind.VOTE] * 3 + [LogKind.REVEAL] * 3


async def test_what_is_served_ahead_of_the_end_of_a_session_is_blind_after_it(database):
    """The last vote of a session tells the names of all of it, not of that vote alone."""
    arena = await make_arena(database, 8, 4, settings=replace(SESSIONS, session_votes=5))
    async with voting_queue_of(database, arena) as queue:
        for number in range(10, 18):
            voter = Voter(number)
            for _ in range(4):
                await cast(queue, voter)
            last = await queue.next_matchup(voter)
            ahead = await queue.next_matchup(voter, ahead=True)
            assert (await queue.vote(voter, last.matchup, Kind.WIN_A)).revealed
            assert (await queue.vote(voter, ahead.matchup, Kind.WIN_A)).blind


async def test_whoever_finishes_is_not_left_before_a_response_that_was_named(database):
    """Two models, one prompt: what is open has the responses that were just told."""
    arena = await make_arena(database, 2, 1, settings=SESSIONS)
    async with voting_queue_of(database, arena) as queue:
        await cast(queue, ANN)
        waiting = await queue.next_matchup(ANN)
        assert await queue.finish(ANN) == 1
        assert await queue.open_matchups(ANN) == []
        with pytest.raises(Expired):
            await queue.vote(ANN, waiting.matchup, Kind.WIN_A)
        assert await queue.finish(ANN) == 0


async def test_an_undo_and_a_finish_at_once_by_a_voter_whom_the_process_does_not_know(database):
    arena = await make_arena(database, 4, 4, settings=SESSIONS)
    async with voting_queue_of(database, arena) as queue:
        kept, _ = await cast(queue, ANN)
        offered, _ = await cast(queue, ANN)
        queue.state.revealed = RevealedNames()
        undone, told, _ = await asyncio.gather(
            queue.undo(ANN, offered.matchup), queue.finish(ANN), queue.next_matchup(BOB)
        )
        assert undone.kind == LogKind.UNDO
        assert told == 1
        assert (await queue.review(ANN, kept.matchup)).revealed
        assert not (await queue.review(ANN, offered.matchup)).revealed


async def test_votes_that_were_passed_over_are_told_when_the_setting_changes(database):
    """Names after each vote, one of which nobody asked for; then names by session."""
    arena = await make_arena(database, 4, 4, settings=EACH)
    async with voting_queue_of(database, arena) as queue:
        first, _ = await cast(queue, ANN)
        await cast(queue, ANN, reveal=True)
        queue.change(SESSIONS)
        assert await queue.unrevealed_votes(ANN) == 1
        queue.state.revealed = RevealedNames()
        assert await queue.finish(ANN) == 1
        assert (await queue.review(ANN, first.matchup)).revealed


def withheld(settings, *, pending, opened, voter=ANN):
    """Prompts that are withheld: every vote and every open matchup has a prompt of its own."""
    state = SimpleNamespace(
        settings=settings,
        revealed=RevealedNames(),
        raters=RaterLists(),
        responses=np.arange(20).reshape(2, 10),
    )
    state.revealed.remember(voter.session, [], [])
    names = state.revealed.of(voter.session)
    shown = [
        SimpleNamespace(serial=k, a=0, b=1, prompt=k, response_a=k, response_b=10 + k, free_prompt=0)
        for k in range(pending + opened)
    ]
    for one in shown[:pending]:
        names.vote(one)
    cells = withheld_cells(state, voter, shown[pending:])
    assert {model for model, _ in cells} <= {0, 1}
    assert len(cells) == 2 * len({prompt for _, prompt in cells})
    return sorted({prompt for _, prompt in cells})


@pytest.mark.parametrize(
    ("pending", "opened", "prompts"),
    [(0, 0, []), (1, 1, []), (2, 0, []), (2, 1, [0, 1, 2]), (1, 2, [0, 1, 2]), (3, 0, [0, 1, 2])],
)
def test_all_names_of_a_session_are_near_when_the_open_matchups_fill_it(pending, opened, prompts):
    assert withheld(SESSIONS, pending=pending, opened=opened) == prompts


@pytest.mark.parametrize(
    ("pending", "opened", "prompts"), [(0, 0, []), (0, 1, [0]), (1, 1, [0, 1]), (3, 0, [2]), (3, 1, [2, 3])]
)
def test_names_after_each_vote_are_near_for_the_last_vote_and_the_open_matchups(pending, opened, prompts):
    assert withheld(EACH, pending=pending, opened=opened) == prompts


def test_no_names_are_near_where_none_are_told():
    assert withheld(NEVER, pending=5, opened=1) == []
    assert withheld(EACH, pending=2, opened=1, voter=JUDY) == []
