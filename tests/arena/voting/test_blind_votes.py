"""A vote is blind if its voter was told neither name: others are kept, exported and rated by nobody."""

import asyncio
from dataclasses import replace

import pytest

import live_arenas
from live_arenas import voting_queue_of
from tiltyard.arena.log.event_log import HUMAN, JUDGE, LogKind
from tiltyard.arena.rating.log_replay import replay_log
from tiltyard.arena.voting.revealed_names import RevealedNames
from tiltyard.arena.voting.voter_requests import SessionProgress, Voter
from tiltyard.core.battles import Kind
from tiltyard.core.policy.state.checkpoint import save
from tiltyard.core.policy.state.strengths import Strengths
from tiltyard.errors import Closed, Expired
from tiltyard.postgres.connections import connect
from tiltyard.settings.arena_settings import ArenaSettings

ANN, BOB, JUDY = Voter(1), Voter(2), Voter(3, JUDGE)
EACH = ArenaSettings(undo_seconds=60.0, reveal="vote")
SESSIONS = ArenaSettings(undo_seconds=60.0, session_votes=3)
NEVER = ArenaSettings(undo_seconds=60.0, reveal="never")


def run(coroutine):
    return asyncio.run(coroutine)


def rows(url, query):
    with connect(url) as connection:
        return connection.execute(query).fetchall()


def blind_of(url):
    """What the log says of each vote."""
    return [
        blind
        for (blind,) in rows(url, "SELECT blind FROM events WHERE kind = 1 AND source = 0 ORDER BY position")
    ]


async def make_arena(url, models, prompts, *, settings):
    return await live_arenas.make_arena(url, models, prompts, settings=settings, reveal=settings.reveal)


async def cast(desk, voter, kind=Kind.WIN_A, **options):
    """The next matchup, and a vote on it."""
    offered = await desk.next_matchup(voter)
    return offered, await desk.vote(voter, offered.matchup, kind, **options)


def sides(offered):
    return {offered.response_a, offered.response_b}


def counts(standing):
    standing.rank(Strengths.unknown(len(standing.models)))
    return save(standing).digest()


def test_what_was_told_is_served_again_only_where_nothing_else_is_left(database):
    async def scene():
        arena = await make_arena(database, 4, 2, settings=EACH)
        async with voting_queue_of(database, arena) as desk:
            seen = set()
            for _ in range(4):
                offered, ended = await cast(desk, ANN, reveal=True)
                assert not sides(offered) & seen
                assert ended.blind
                seen |= sides(offered)
            assert len(seen) == 8
            offered, ended = await cast(desk, ANN, reveal=True)
            assert not ended.blind
            assert (await desk.reveal(ANN, offered.matchup)).blind is False
            assert (await desk.vote(ANN, offered.matchup, Kind.WIN_A)).blind is False
            assert (await cast(desk, BOB))[1].blind

    run(scene())
    assert blind_of(database) == [True] * 4 + [False, True]
    assert rows(database, "SELECT count(*) FROM matchups WHERE given_up & 4 > 0") == [(1,)]
    assert rows(database, "SELECT blind FROM battles ORDER BY position") == [
        (blind,) for blind in blind_of(database)
    ]


def test_a_vote_that_is_not_blind_moves_nothing_and_is_an_exposure(database):
    async def scene():
        arena = await make_arena(database, 2, 2, settings=EACH)
        async with voting_queue_of(database, arena) as desk:
            for _ in range(5):
                await cast(desk, ANN, reveal=True)
            await desk.next_matchup(BOB)
            standing = desk.live.standings[HUMAN]
            assert (standing.votes, standing.skipped, standing.window.served) == (2, 3, 6)
            live = counts(standing)
        with connect(database) as connection:
            head = connection.execute("SELECT max(position) FROM events").fetchone()[0]
            replayed = replay_log(connection, arena.arena, head, 0)
        assert counts(replayed[HUMAN].standing) == live
        assert replayed[HUMAN].votes == 2

    run(scene())
    assert blind_of(database) == [True, True, False, False, False]


def test_votes_of_older_versions_count_as_blind(database):
    async def scene():
        arena = await make_arena(database, 2, 3, settings=EACH)
        async with voting_queue_of(database, arena) as desk:
            for _ in range(3):
                await cast(desk, ANN)
        with connect(database) as connection:
            connection.execute("UPDATE events SET blind = NULL")
            connection.execute("UPDATE endings SET blind = NULL")
            head = connection.execute("SELECT max(position) FROM events").fetchone()[0]
            assert replay_log(connection, arena.arena, head, 0)[HUMAN].votes == 3
        async with voting_queue_of(database, arena) as desk:
            assert all(vote.blind for vote in desk.live.fresh.values())
            assert len(desk.live.fresh) == 3

    run(scene())
    assert rows(database, "SELECT DISTINCT blind FROM battles") == [(True,)]


def test_it_is_decided_when_the_vote_is_cast(database):
    """A matchup that was served ahead is blind no more once another tab has told its names."""

    async def scene():
        arena = await make_arena(database, 2, 1, settings=EACH)
        async with voting_queue_of(database, arena) as desk:
            first = await desk.next_matchup(ANN)
            ahead = await desk.next_matchup(ANN, ahead=True)
            assert sides(first) == sides(ahead)
            assert (await desk.vote(ANN, first.matchup, Kind.WIN_A)).blind
            await desk.reveal(ANN, first.matchup)
            assert not (await desk.vote(ANN, ahead.matchup, Kind.WIN_A)).blind

    run(scene())


def test_what_is_served_ahead_is_blind_when_its_turn_comes(database):
    async def scene():
        arena = await make_arena(database, 4, 4, settings=EACH)
        async with voting_queue_of(database, arena) as desk:
            for _ in range(2):
                first = await desk.next_matchup(ANN)
                ahead = await desk.next_matchup(ANN, ahead=True)
                assert not sides(first) & sides(ahead)
                await desk.vote(ANN, first.matchup, Kind.WIN_A)
                third = await desk.next_matchup(ANN, ahead=True)
                assert not sides(third) & (sides(first) | sides(ahead))
                await desk.reveal(ANN, first.matchup)
                assert (await desk.vote(ANN, ahead.matchup, Kind.WIN_A, reveal=True)).blind
                await desk.skip(ANN, third.matchup)

    run(scene())


def test_names_are_told_after_a_session(database):
    async def scene():
        arena = await make_arena(database, 4, 6, settings=SESSIONS)
        async with voting_queue_of(database, arena) as desk:
            votes = []
            for number in range(1, 4):
                offered, ended = await cast(desk, ANN)
                votes.append(offered)
                assert ended.revealed == (number == 3)
                assert (ended.undo_until is None) == (number == 3)
            assert await desk.session_progress(ANN) == SessionProgress(0, 3)
            for offered in votes:
                assert (await desk.reveal(ANN, offered.matchup)).model_a.startswith("model-")
                with pytest.raises(Closed, match="final"):
                    await desk.undo(ANN, offered.matchup)
            told = set().union(*map(sides, votes))
            offered, ended = await cast(desk, ANN)
            assert ended.blind
            assert not sides(offered) & told
            assert await desk.session_progress(ANN) == SessionProgress(1, 3)

    run(scene())
    assert rows(database, "SELECT count(*) FROM events WHERE kind = 9") == [(3,)]
    assert rows(
        database, "SELECT count(DISTINCT revealed_at) FROM endings WHERE revealed_at IS NOT NULL"
    ) == [(1,)]


def test_within_a_session_responses_may_come_again_and_are_blind(database):
    async def scene():
        arena = await make_arena(database, 2, 1, settings=SESSIONS)
        async with voting_queue_of(database, arena) as desk:
            return [(await cast(desk, ANN))[1].blind for _ in range(4)]

    assert run(scene()) == [True, True, True, False]


def test_whoever_finishes_is_told_the_names_sooner(database):
    async def scene():
        arena = await make_arena(database, 4, 6, settings=SESSIONS)
        async with voting_queue_of(database, arena) as desk:
            offered, _ = await cast(desk, ANN)
            with pytest.raises(Closed, match=r"after 3 votes, or when you finish"):
                await desk.reveal(ANN, offered.matchup)
            waiting = await desk.next_matchup(ANN)
            with pytest.raises(Closed, match=r"after 3 votes"):
                await desk.vote(ANN, waiting.matchup, Kind.WIN_A, reveal=True)
            assert (await desk.review(ANN, waiting.matchup)).state == "open"
            assert await desk.finish(ANN) == 1
            assert await desk.finish(ANN) == 0
            assert (await desk.reveal(ANN, offered.matchup)).blind
            assert await desk.session_progress(ANN) == SessionProgress(0, 3)

    run(scene())
    assert rows(database, "SELECT count(*) FROM events WHERE kind = 9") == [(1,)]


def test_an_undone_vote_is_none_of_the_session(database):
    async def scene():
        arena = await make_arena(database, 4, 6, settings=SESSIONS)
        async with voting_queue_of(database, arena) as desk:
            await cast(desk, ANN)
            offered, _ = await cast(desk, ANN)
            await desk.undo(ANN, offered.matchup)
            assert (await desk.session_progress(ANN)).votes == 1
            assert not (await desk.vote(ANN, offered.matchup, Kind.TIE, ballot=1)).revealed
            assert (await cast(desk, ANN))[1].revealed

    run(scene())


def test_where_names_are_never_told_every_vote_is_blind(database):
    async def scene():
        arena = await make_arena(database, 2, 1, settings=NEVER)
        async with voting_queue_of(database, arena) as desk:
            for _ in range(5):
                offered, ended = await cast(desk, ANN)
                assert ended.blind
                for ask in (desk.reveal(ANN, offered.matchup), desk.finish(ANN)):
                    with pytest.raises(Closed, match="tells no names"):
                        await ask
            assert await desk.session_progress(ANN) == SessionProgress(5, None)

    run(scene())


def test_judges_ask_for_names_vote_by_vote(database):
    async def scene():
        arena = await make_arena(database, 2, 1, settings=SESSIONS)
        async with voting_queue_of(database, arena) as desk:
            for _ in range(4):
                offered, ended = await cast(desk, JUDY)
                assert ended.blind
                assert not ended.revealed
            with pytest.raises(Closed, match="judge"):
                await desk.finish(JUDY)
            assert (await desk.reveal(JUDY, offered.matchup)).model_a
            assert not (await cast(desk, JUDY))[1].blind

    run(scene())


def test_another_process_knows_what_was_told(database):
    """It reads a voter from the tables at first, and follows the log from then on."""

    async def scene():
        arena = await make_arena(database, 2, 4, settings=replace(SESSIONS, session_votes=2))
        async with voting_queue_of(database, arena) as here, voting_queue_of(database, arena) as there:
            await cast(here, ANN)
            assert await there.session_progress(ANN) == SessionProgress(1, 2)
            assert (await cast(there, ANN))[1].revealed
            assert await here.session_progress(ANN) == SessionProgress(0, 2)
            _, ended = await cast(here, ANN)
            assert ended.blind
            assert await there.finish(ANN) == 1
            seen = await cast(here, ANN)
            assert seen[1].blind
            assert (await cast(there, ANN))[1].revealed
            assert not (await cast(here, ANN))[1].blind

    run(scene())


def test_a_response_that_replaced_a_told_one_is_blind(database):
    async def scene():
        arena = await make_arena(database, 2, 1, settings=EACH)
        async with voting_queue_of(database, arena) as desk:
            await cast(desk, ANN, reveal=True)
            live = desk.live
            assert {cell for _, cell in live.told.of(ANN.session).told.items()} == {(0, 0), (1, 0)}
            offered = await desk.next_matchup(ANN)
            live.responses[:, 0] += 100
            live.open.clear()
            live.held.clear()
            later = await desk.next_matchup(ANN)
            assert not sides(later) & sides(offered)
            assert (await desk.vote(ANN, later.matchup, Kind.TIE)).blind

    run(scene())


def test_the_log_tells_names_once(database):
    async def scene():
        arena = await make_arena(database, 4, 6, settings=SESSIONS)
        async with voting_queue_of(database, arena) as desk:
            for _ in range(3):
                await cast(desk, ANN)
            assert await desk.finish(ANN) == 0

    run(scene())
    kinds = [
        kind for (kind,) in rows(database, "SELECT kind FROM events WHERE kind IN (1, 9) ORDER BY position")
    ]
    assert kinds == [LogKind.VOTE] * 3 + [LogKind.REVEAL] * 3


def test_what_is_served_ahead_of_the_end_of_a_session_is_blind_after_it(database):
    """The last vote of a session tells the names of all of it, not of that vote alone."""

    async def scene():
        arena = await make_arena(database, 8, 4, settings=replace(SESSIONS, session_votes=5))
        async with voting_queue_of(database, arena) as desk:
            for number in range(10, 18):
                voter = Voter(number)
                for _ in range(4):
                    await cast(desk, voter)
                last = await desk.next_matchup(voter)
                ahead = await desk.next_matchup(voter, ahead=True)
                assert (await desk.vote(voter, last.matchup, Kind.WIN_A)).revealed
                assert (await desk.vote(voter, ahead.matchup, Kind.WIN_A)).blind

    run(scene())


def test_whoever_finishes_is_not_left_before_a_response_that_was_named(database):
    """Two models, one prompt: what is open has the responses that were just told."""

    async def scene():
        arena = await make_arena(database, 2, 1, settings=SESSIONS)
        async with voting_queue_of(database, arena) as desk:
            await cast(desk, ANN)
            waiting = await desk.next_matchup(ANN)
            assert await desk.finish(ANN) == 1
            assert await desk.open_matchups(ANN) == []
            with pytest.raises(Expired):
                await desk.vote(ANN, waiting.matchup, Kind.WIN_A)
            assert await desk.finish(ANN) == 0

    run(scene())


def test_an_undo_and_a_finish_at_once_by_a_voter_whom_the_process_does_not_know(database):
    async def scene():
        arena = await make_arena(database, 4, 4, settings=SESSIONS)
        async with voting_queue_of(database, arena) as desk:
            kept, _ = await cast(desk, ANN)
            offered, _ = await cast(desk, ANN)
            desk.live.told = RevealedNames()
            undone, told, _ = await asyncio.gather(
                desk.undo(ANN, offered.matchup), desk.finish(ANN), desk.next_matchup(BOB)
            )
            assert undone.kind == LogKind.UNDO
            assert told == 1
            assert (await desk.review(ANN, kept.matchup)).revealed
            assert not (await desk.review(ANN, offered.matchup)).revealed

    run(scene())


def test_votes_that_were_passed_over_are_told_when_the_setting_changes(database):
    """Names after each vote, one of which nobody asked for; then names by session."""

    async def scene():
        arena = await make_arena(database, 4, 4, settings=EACH)
        async with voting_queue_of(database, arena) as desk:
            first, _ = await cast(desk, ANN)
            await cast(desk, ANN, reveal=True)
            desk.change(SESSIONS)
            assert await desk.session_progress(ANN) == SessionProgress(1, 3)
            desk.live.told = RevealedNames()
            assert await desk.finish(ANN) == 1
            assert (await desk.review(ANN, first.matchup)).revealed

    run(scene())
