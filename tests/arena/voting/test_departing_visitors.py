"""Visitors who prefetch and leave, robots that do so in a loop, two tabs, reloads, judges that show nothing."""

from contextlib import contextmanager

import numpy as np
import pytest

from support.folded_votes import rows, story_of
from support.live_arenas import make_arena, new_voting_queue, voting_queue_of
from support.rated_arenas import naive
from support.replayed_logs import replay_log
from support.rewritten_logs import allow_rewriting
from tiltyard.arena.log.event_log import HUMAN, JUDGE, LogKind
from tiltyard.arena.voting import matchup_lifecycle as open_matchup_limits
from tiltyard.arena.voting.voter_requests import Voter
from tiltyard.core.battles import Kind
from tiltyard.errors import Busy, Expired, NotFound
from tiltyard.postgres.connections import connect
from tiltyard.settings.arena_settings import ArenaSettings

ANN, BOB = Voter(1), Voter(2)
PATIENT = ArenaSettings(undo_seconds=60.0)
COUNTED = ("votes", "skipped", "expired")


def exposures(queue, source=HUMAN):
    """Exposures in the window, since the log began, and by lane."""
    standing = queue.state.standings[source]
    return [int(part.sum()) for part in (standing.window.exposures[0], standing.shown[:, 0], standing.lanes)]


async def at(queue, url, seconds):
    """Let the open matchups be this much older, as the tables and a new state have it."""
    moved = f"interval '{seconds} seconds'"
    with connect(url) as connection:
        allow_rewriting(connection)
        connection.execute(f"UPDATE events SET at = at - {moved}")
        connection.execute(
            f"UPDATE matchups SET served_at = served_at - {moved}, expires_at = expires_at - {moved}"
        )
    queue.state = None
    await queue.open_matchups(Voter(10**9))


@contextmanager
def arenas(url, arena):
    """After the scene the rater's fold is the plain one, event by event."""
    yield
    with connect(url) as connection:
        head = connection.execute("SELECT max(position) FROM events").fetchone()[0]
        replayed = replay_log(connection, arena.arena, head, 0)
    for source, plain in enumerate(naive(url, arena.arena, head, 0)):
        assert replayed[source].digest() == plain.digest()


async def test_what_is_prefetched_counts_for_nothing_until_it_is_shown(database):
    arena = await make_arena(database, settings=PATIENT)
    async with voting_queue_of(database, arena) as queue, voting_queue_of(database, arena) as other:
        first = await queue.next_matchup(ANN)
        ahead = await queue.look_ahead(ANN, first.matchup)
        for each in (queue, other):
            await each.open_matchups(ANN)
            assert exposures(each) == [2, 2, 1]
            assert len(each.state.standings[HUMAN].sessions.of(ANN.session).pairs) == 1
            assert each.state.shown_count == 1
        shown = await other.show(ANN, ahead.matchup)
        assert shown.expires_at > first.expires_at > ahead.expires_at
        for each in (queue, other):
            await each.open_matchups(ANN)
            assert exposures(each) == [4, 4, 2]
            assert len(each.state.standings[HUMAN].sessions.of(ANN.session).pairs) == 2
            assert each.state.shown_count == 2
            assert each.state.standings[HUMAN].window.reserved.sum() == 0
        with pytest.raises(NotFound):
            await queue.show(BOB, ahead.matchup)
    with arenas(database, arena):
        assert story_of(database, 0) == [LogKind.SERVED]
        assert story_of(database, 1) == [LogKind.PREFETCHED, LogKind.SHOWN]


@pytest.mark.parametrize("act", ["vote", "skip"])
async def test_whoever_answers_has_seen_it(database, act):
    arena = await make_arena(database, settings=PATIENT)
    async with voting_queue_of(database, arena) as queue:
        for voter in (ANN, Voter(7, JUDGE)):
            ahead = await queue.next_matchup(voter, ahead=True)
            assert exposures(queue, voter.source) == [0, 0, 0]
            await (
                queue.skip(voter, ahead.matchup)
                if act == "skip"
                else queue.vote(voter, ahead.matchup, Kind.TIE)
            )
            assert exposures(queue, voter.source) == [2, 2, 1]
    with arenas(database, arena):
        ends = LogKind.VOTE if act == "vote" else LogKind.SKIP
        assert story_of(database, 0) == [LogKind.PREFETCHED, LogKind.SHOWN, ends] * 2


async def test_a_visitor_who_leaves_costs_no_exposure_that_nobody_saw(database):
    arena = await make_arena(database, settings=PATIENT)
    async with voting_queue_of(database, arena) as queue:
        first = await queue.next_matchup(ANN)
        ahead = await queue.look_ahead(ANN, first.matchup)
        await at(queue, database, 301)
        await queue.next_matchup(BOB)
        assert [one.matchup for one in await queue.open_matchups(ANN)] == [first.matchup]
        with pytest.raises(Expired):
            await queue.show(ANN, ahead.matchup)
        with pytest.raises(Expired):
            await queue.vote(ANN, ahead.matchup, Kind.TIE)
        assert (await queue.review(ANN, ahead.matchup)).state == "expired"
        standing = queue.state.standings[HUMAN]
        assert [getattr(standing, name) for name in COUNTED] == [0, 0, 0]
        assert exposures(queue) == [4, 4, 2]
        assert standing.window.reserved.sum() == 0
    with arenas(database, arena):
        assert story_of(database, 1) == [LogKind.PREFETCHED, LogKind.RELEASED]
        assert rows(database, "SELECT unseen FROM matchups ORDER BY serial") == [(False,), (True,), (False,)]


async def test_a_robot_that_prefetches_in_a_loop_holds_two_and_moves_no_count(database):
    arena = await make_arena(database, settings=PATIENT)
    async with voting_queue_of(database, arena) as queue:
        offered = [(await queue.next_matchup(ANN, ahead=True)).matchup for _ in range(40)]
        assert len(set(offered)) == 40
        held = [one.matchup for one in await queue.open_matchups(ANN)]
        assert held == offered[-2:]
        assert exposures(queue) == [0, 0, 0]
        assert len(queue.state.open) == len(queue.state.unseen) == 2
        standing = queue.state.standings[HUMAN]
        assert standing.window.reserved[0].sum() == 4
        assert standing.expired == standing.window.served == 0
        with pytest.raises(Expired):
            await queue.vote(ANN, offered[0], Kind.TIE)
        assert (await queue.next_matchup(ANN)).matchup == offered[-2], "shown is what has waited longest"
    with arenas(database, arena):
        kinds = [LogKind(kind) for (kind,) in rows(database, "SELECT kind FROM endings")]
        assert kinds == [LogKind.RELEASED] * 38


async def test_two_tabs_and_a_reload_share_what_waits(database):
    async with new_voting_queue(database, settings=PATIENT) as queue:
        first = await queue.next_matchup(ANN)
        waits = [await queue.look_ahead(ANN, first.matchup) for _ in range(3)]
        assert len({one.matchup for one in waits}) == 1
        await queue.vote(ANN, first.matchup, Kind.TIE)
        second = waits[0].matchup
        third = await queue.look_ahead(ANN, second)
        again = await queue.look_ahead(ANN, second)
        assert third.matchup == again.matchup != second
        assert exposures(queue) == [4, 4, 2]
        assert [one.matchup for one in await queue.open_matchups(ANN)] == [second, third.matchup]
        assert (await queue.look_ahead(ANN, first.matchup)).matchup == second, "the other tab goes on there"
    assert story_of(database, 1) == [LogKind.PREFETCHED, LogKind.SHOWN]


async def test_a_third_that_is_shown_ends_the_first(database):
    async with new_voting_queue(database, settings=PATIENT) as queue:
        first = await queue.next_matchup(ANN)
        others = [await queue.next_matchup(ANN, ahead=True) for _ in range(2)]
        for one in others:
            await queue.show(ANN, one.matchup)
        assert [one.matchup for one in await queue.open_matchups(ANN)] == [one.matchup for one in others]
        with pytest.raises(Expired):
            await queue.vote(ANN, first.matchup, Kind.TIE)
        assert (await queue.next_matchup(ANN, ahead=True)).matchup == others[1].matchup, "no third waits"
    assert story_of(database, 0) == [LogKind.SERVED, LogKind.EXPIRE]


async def test_names_that_were_told_release_what_waits(database):
    async with new_voting_queue(database, 2, 1, settings=PATIENT, reveal="session") as queue:
        first = await queue.next_matchup(ANN)
        await queue.look_ahead(ANN, first.matchup)
        await queue.vote(ANN, first.matchup, Kind.WIN_A)
        assert await queue.finish(ANN) == 1
        assert await queue.open_matchups(ANN) == []
    assert story_of(database, 1) == [LogKind.PREFETCHED, LogKind.RELEASED]


@pytest.mark.slow
async def test_far_more_visitors_may_leave_than_the_arena_has_room_for(database, monkeypatch):
    """Ten have room. Those who have looked for ten minutes make room for others; nobody else has to."""
    monkeypatch.setattr(open_matchup_limits, "OPEN_MATCHUP_LIMIT", 10)
    arena = await make_arena(database, settings=PATIENT)
    async with voting_queue_of(database, arena) as queue:

        async def come_and_leave(numbers):
            for number in numbers:
                shown = await queue.next_matchup(Voter(number))
                await queue.look_ahead(Voter(number), shown.matchup)

        await come_and_leave(range(100, 110))
        assert (queue.state.shown_count, len(queue.state.unseen)) == (10, 10)
        with pytest.raises(Busy):
            await queue.next_matchup(ANN)
        await queue.next_matchup(ANN, ahead=True)
        await queue.next_matchup(Voter(7, JUDGE))
        for minutes in range(5):
            await at(queue, database, 601)
            await come_and_leave(range(200 + 10 * minutes, 209 + 10 * minutes))
            assert queue.state.shown_count <= 10
            assert len(queue.state.unseen) == 9
        late = await queue.next_matchup(Voter(7, JUDGE))
        assert not late.new, "a judge's matchup makes no room"
        assert [getattr(queue.state.standings[HUMAN], name) for name in COUNTED] == [0, 0, 46]
    with arenas(database, arena):
        pass


async def test_an_arena_full_of_what_nobody_looks_at_releases_the_oldest(database, monkeypatch):
    monkeypatch.setattr(open_matchup_limits, "UNSEEN_MATCHUP_LIMIT", 5)
    async with new_voting_queue(database, settings=PATIENT) as queue:
        ahead = {number: await queue.next_matchup(Voter(number), ahead=True) for number in range(1, 21)}
        assert len(queue.state.unseen) == 5
        assert list(queue.state.unseen) == [ahead[number].matchup for number in range(16, 21)]
        assert (await queue.next_matchup(ANN)).new
        reserved = np.zeros(queue.state.n_models, dtype=int)
        for matchup in queue.state.unseen:
            reserved[[queue.state.open[matchup].a, queue.state.open[matchup].b]] += 1
        np.testing.assert_array_equal(queue.state.standings[HUMAN].window.reserved[0], reserved)


async def test_a_page_that_cannot_say_that_it_shows_a_matchup_still_gets_the_next(database, monkeypatch):
    """In an arena that is too full, what is before the voter stays prefetched until the vote."""
    async with new_voting_queue(database, settings=PATIENT) as queue:
        first = await queue.next_matchup(ANN)
        second = await queue.look_ahead(ANN, first.matchup)
        await queue.vote(ANN, first.matchup, Kind.TIE)
        monkeypatch.setattr(open_matchup_limits, "OPEN_MATCHUP_LIMIT", 0)
        third = await queue.look_ahead(ANN, second.matchup)
        assert third.matchup != second.matchup
        assert len(queue.state.unseen) == 2
        await queue.vote(ANN, second.matchup, Kind.TIE)
    assert story_of(database, 1) == [LogKind.PREFETCHED, LogKind.SHOWN, LogKind.VOTE]


async def test_a_log_without_these_events_has_shown_what_it_served(database):
    """As 0.1 wrote it: every serving is an exposure."""
    arena = await make_arena(database, settings=PATIENT)
    async with voting_queue_of(database, arena) as queue:
        for number in range(1, 6):
            offered = await queue.next_matchup(Voter(number))
            if number % 2:
                await queue.vote(Voter(number), offered.matchup, Kind.WIN_A)
        assert exposures(queue) == [10, 10, 5]
    assert not rows(database, "SELECT 1 FROM events WHERE kind > 13")
    with arenas(database, arena):
        pass
