"""An undo reopens the ballot: the matchup is the same, counts once, and ends once in the end."""

import asyncio
from datetime import timedelta

import numpy as np
import pytest

from support.folded_votes import catch_up, counts, replayed, rows, story_of
from support.live_arenas import make_arena, new_voting_queue, voting_queue_of
from support.rewritten_logs import allow_rewriting
from tiltyard.arena.content.blob_store import BlobStore
from tiltyard.arena.content.object_storage import FolderStorage
from tiltyard.arena.log.event_log import HUMAN, JUDGE, LogKind
from tiltyard.arena.operators.arena_changes import withdraw
from tiltyard.arena.operators.exclusions import VoteSelection, exclude
from tiltyard.arena.rating.rater_process import RaterPace, RaterProcess
from tiltyard.arena.voting.matchup_lifecycle import REOPENED_SECONDS
from tiltyard.arena.voting.voter_requests import Voter
from tiltyard.core.battles import Kind
from tiltyard.errors import Closed, Expired
from tiltyard.postgres.connections import connect, open_pool
from tiltyard.settings.arena_settings import ArenaSettings

ANN, BOB = Voter(1), Voter(2)
PATIENT = ArenaSettings(undo_seconds=60.0)


def kinds_of(url):
    return [
        LogKind(kind)
        for (kind,) in rows(url, "SELECT kind FROM events WHERE kind < 4 OR kind IN (8, 9) ORDER BY 1")
    ]


def endings_of(url):
    return rows(url, "SELECT serial, kind, outcome, undone IS NOT NULL FROM endings ORDER BY serial")


def let_a_minute_pass(url):
    with connect(url) as connection:
        allow_rewriting(connection)
        connection.execute("UPDATE events SET at = at - interval '61 seconds'")


async def test_an_undo_reopens_the_ballot_for_its_voter(database):
    async with new_voting_queue(database, settings=PATIENT) as queue:
        first = await queue.next_matchup(ANN)
        await queue.vote(ANN, first.matchup, Kind.WIN_A)
        undone = await queue.undo(ANN, first.matchup)
        assert (undone.kind, undone.outcome, undone.ballot) == (LogKind.UNDO, Kind.WIN_A, 1)
        again = await queue.next_matchup(ANN)
        assert not again.new
        assert (again.matchup, again.ballot) == (first.matchup, 1)
        assert (again.response_a, again.response_b) == (first.response_a, first.response_b)
        assert (again.served_at, again.expires_at) == (first.served_at, first.expires_at)
        assert (await queue.review(ANN, first.matchup)).state == "open"
        with pytest.raises(Closed, match="only after"):
            await queue.reveal(ANN, first.matchup)
        recast = await queue.vote(ANN, first.matchup, Kind.WIN_B, ballot=1)
        assert (recast.outcome, recast.ballot) == (Kind.WIN_B, 1)
        assert recast.undo_until is not None
        assert (await queue.reveal(ANN, first.matchup)).outcome == Kind.WIN_B
        assert (await queue.next_matchup(ANN)).matchup != first.matchup
    assert story_of(database) == [LogKind.SERVED, LogKind.VOTE, LogKind.UNDO, LogKind.VOTE, LogKind.REVEAL]
    assert endings_of(database) == [(0, LogKind.VOTE, Kind.WIN_B, False)]
    assert rows(database, "SELECT serial, outcome FROM battles") == [(0, Kind.WIN_B)]
    ((detail,),) = rows(database, "SELECT detail FROM events WHERE kind = 8")
    assert detail["vote"] == rows(database, "SELECT min(position) FROM events WHERE kind = 1")[0][0]
    assert detail["ballot"] == 1


async def test_a_vote_can_be_undone_again_and_again(database):
    async with new_voting_queue(database, settings=PATIENT) as queue:
        matchup = (await queue.next_matchup(ANN)).matchup
        for ballot, kind in enumerate((Kind.WIN_A, Kind.TIE, Kind.WIN_A)):
            await queue.vote(ANN, matchup, kind, ballot=ballot)
            assert (await queue.undo(ANN, matchup, ballot=ballot)).ballot == ballot + 1
        await queue.skip(ANN, matchup)
        with pytest.raises(Closed, match="no vote"):
            await queue.undo(ANN, matchup, ballot=3)
    assert endings_of(database) == [(0, LogKind.SKIP, None, False)]
    assert rows(database, "SELECT count(*) FROM battles") == [(0,)]


async def test_a_recast_vote_counts_as_if_it_had_been_the_first(database):
    """Window, attempts, session's memory: one exposure, one vote."""
    arena = await make_arena(database, settings=PATIENT)
    async with voting_queue_of(database, arena) as queue:
        matchup = (await queue.next_matchup(ANN)).matchup
        await queue.vote(ANN, matchup, Kind.WIN_A)
        await queue.undo(ANN, matchup)
        standing = queue.state.standings[HUMAN]
        assert (standing.votes, standing.skipped, standing.expired) == (0, 0, 0)
        await queue.vote(ANN, matchup, Kind.TIE, ballot=1, reveal=True)
        await queue.open_matchups(ANN)
        assert (standing.votes, standing.skipped, standing.window.served) == (1, 0, 1)
        assert standing.shown[:, 0].sum() == 2
        assert standing.record[:, 2].sum() == 2
        assert standing.record.sum() == 2
        assert sum(len(prompts) for prompts in standing.sessions.of(1).prompts.values()) == 1
        assert len(standing.sessions.of(1).pairs) == 1
        assert counts(standing) == counts(replayed(database, arena.arena)[HUMAN].standing)


async def test_what_was_served_ahead_and_not_seen_is_released(database):
    async with new_voting_queue(database, settings=PATIENT) as queue:
        first = await queue.next_matchup(ANN)
        ahead = await queue.next_matchup(ANN, ahead=True)
        await queue.vote(ANN, first.matchup, Kind.WIN_A)
        await queue.undo(ANN, first.matchup)
        assert [one.matchup for one in await queue.open_matchups(ANN)] == [first.matchup]
        with pytest.raises(Expired):
            await queue.vote(ANN, ahead.matchup, Kind.TIE)
        standing = queue.state.standings[HUMAN]
        assert (standing.expired, standing.window.exposures[0].sum()) == (0, 2)
        another = await queue.next_matchup(ANN, ahead=True)
        assert another.new
        assert len(await queue.open_matchups(ANN)) == 2
    assert story_of(database, 1) == [LogKind.PREFETCHED, LogKind.RELEASED]


@pytest.mark.parametrize("seen", ["offered", "noted", "later"])
async def test_a_second_matchup_that_was_shown_stays(database, seen):
    async with new_voting_queue(database, settings=PATIENT) as queue:
        first = await queue.next_matchup(ANN)
        if seen != "later":
            second = await queue.next_matchup(ANN, ahead=True)
        await queue.vote(ANN, first.matchup, Kind.WIN_A)
        if seen == "noted":
            await queue.show(ANN, second.matchup)
        else:
            second = await queue.next_matchup(ANN)
        await queue.undo(ANN, first.matchup)
        held = [one.matchup for one in await queue.open_matchups(ANN)]
        assert held == [first.matchup, second.matchup]
        assert (await queue.next_matchup(ANN)).matchup == first.matchup


async def test_nobody_holds_three_after_an_undo(database):
    async with new_voting_queue(database, settings=PATIENT) as queue:
        first = await queue.next_matchup(ANN)
        await queue.vote(ANN, first.matchup, Kind.WIN_A)
        second = await queue.next_matchup(ANN)
        third = await queue.next_matchup(ANN, ahead=True)
        await queue.show(ANN, third.matchup)
        await queue.undo(ANN, first.matchup)
        held = [one.matchup for one in await queue.open_matchups(ANN)]
        assert held == [first.matchup, second.matchup]


async def test_an_undo_sent_again_has_the_same_answer_and_undoes_no_other_vote(database):
    arena = await make_arena(database, settings=PATIENT)
    async with voting_queue_of(database, arena) as queue, voting_queue_of(database, arena) as other:
        matchup = (await queue.next_matchup(ANN)).matchup
        with pytest.raises(Closed, match="no vote"):
            await queue.undo(ANN, matchup)
        await queue.vote(ANN, matchup, Kind.WIN_A)
        undone = await queue.undo(ANN, matchup)
        for each in (queue, other):
            again = await each.undo(ANN, matchup)
            assert (again.kind, again.position, again.ballot) == (LogKind.UNDO, undone.position, 1)
        with pytest.raises(Closed, match="no vote"):
            await queue.undo(ANN, matchup, ballot=1)
        await queue.vote(ANN, matchup, Kind.WIN_B, ballot=1)
        for each in (queue, other):
            with pytest.raises(Closed, match="ballot 1"):
                await each.undo(ANN, matchup)
        await queue.reveal(ANN, matchup)
        with pytest.raises(Closed, match="final"):
            await queue.undo(ANN, matchup, ballot=1)
    assert kinds_of(database).count(LogKind.UNDO) == 1


async def test_a_vote_that_arrives_after_its_undo_counts_for_nothing(database):
    """The browser gave it up and sent it again; the copy was answered, then undone; now the first arrives."""
    arena = await make_arena(database, settings=PATIENT)
    async with voting_queue_of(database, arena) as queue, voting_queue_of(database, arena) as other:
        matchup = (await queue.next_matchup(ANN)).matchup
        await queue.vote(ANN, matchup, Kind.WIN_A)
        await queue.undo(ANN, matchup)
        for each in (queue, other):
            with pytest.raises(Closed, match="ballot 1"):
                await each.vote(ANN, matchup, Kind.WIN_A)
            with pytest.raises(Closed, match="is closed"):
                await each.vote(ANN, matchup, Kind.WIN_A, ballot=2)
        recast = await other.vote(ANN, matchup, Kind.TIE, ballot=1)
        for each in (queue, other):
            assert (await each.vote(ANN, matchup, Kind.TIE, ballot=1)).position == recast.position
            for kind in (Kind.TIE, Kind.WIN_A):
                with pytest.raises(Closed, match="ballot 1"):
                    await each.vote(ANN, matchup, kind)
            with pytest.raises(Closed, match="different vote"):
                await each.vote(ANN, matchup, Kind.WIN_A, ballot=1)
    assert kinds_of(database).count(LogKind.VOTE) == 2
    assert endings_of(database) == [(0, LogKind.VOTE, Kind.TIE, False)]


async def test_votes_and_undos_of_one_batch_are_one_ending(database):
    async with new_voting_queue(database, settings=PATIENT) as queue:
        for acts, expected in (
            ("vu", None),
            ("vuvu", None),
            ("vuv", Kind.WIN_B),
            ("vuvur", Closed),
            ("vuvuvr", Kind.WIN_A),
            ("vus", "skip"),
        ):
            matchup = (await queue.next_matchup(BOB)).matchup
            batches = queue.batches
            await asyncio.gather(
                queue.open_matchups(ANN), *_acts(queue, matchup, acts), return_exceptions=True
            )
            assert queue.batches - batches <= 2
            seen = await queue.review(BOB, matchup)
            if expected is None or expected is Closed:
                assert (seen.state, seen.ballot) == ("open", acts.count("u"))
                await queue.skip(BOB, matchup)
            elif expected == "skip":
                assert seen.state == "skipped"
            else:
                assert (seen.state, seen.outcome) == ("voted", expected)
        assert queue.ready
        await queue.open_matchups(ANN)
    assert len(endings_of(database)) == 6


def _acts(queue, matchup, acts):
    """All requested at once; the queue processes them in this order."""
    ballot = 0
    for act in acts:
        if act == "v":
            yield queue.vote(BOB, matchup, Kind.WIN_A if ballot % 2 == 0 else Kind.WIN_B, ballot=ballot)
        elif act == "u":
            yield queue.undo(BOB, matchup, ballot=ballot)
            ballot += 1
        elif act == "s":
            yield queue.skip(BOB, matchup)
        else:
            yield queue.reveal(BOB, matchup)


async def test_two_processes_agree_on_a_reopened_matchup(database):
    arena = await make_arena(database, settings=PATIENT)
    async with voting_queue_of(database, arena) as queue, voting_queue_of(database, arena) as other:
        for round_ in range(6):
            first, second = (queue, other) if round_ % 2 else (other, queue)
            matchup = (await first.next_matchup(ANN)).matchup
            await second.vote(ANN, matchup, Kind.WIN_A)
            await first.undo(ANN, matchup)
            assert [one.ballot for one in await second.open_matchups(ANN)] == [1]
            votes = [
                each.vote(ANN, matchup, kind, ballot=1)
                for each in (queue, other)
                for kind in (Kind.WIN_A, Kind.TIE)
            ]
            told = await asyncio.gather(*votes, return_exceptions=True)
            assert sum(isinstance(one, Closed) for one in told) == 2
            racing = await asyncio.gather(
                queue.undo(ANN, matchup, ballot=1), other.reveal(ANN, matchup), return_exceptions=True
            )
            assert sum(isinstance(one, Closed) for one in racing) == 1
            if not isinstance(racing[0], Closed):
                await first.vote(ANN, matchup, Kind.WIN_B, ballot=2, reveal=True)
        for each in (queue, other):
            await each.open_matchups(ANN)
        assert counts(queue.state.standings[HUMAN]) == counts(other.state.standings[HUMAN])
    assert rows(database, "SELECT count(*), count(DISTINCT serial) FROM battles") == [(6, 6)]


async def test_a_reopened_matchup_that_nobody_answers_expires(database):
    async with new_voting_queue(
        database, settings=ArenaSettings(undo_seconds=60.0, expiry_seconds=2.0)
    ) as queue:
        matchup = (await queue.next_matchup(ANN)).matchup
        await queue.vote(ANN, matchup, Kind.WIN_A)
        await queue.undo(ANN, matchup)
        await asyncio.sleep(2.2)
        with pytest.raises(Expired):
            await queue.vote(ANN, matchup, Kind.WIN_A, ballot=1)
        with pytest.raises(Expired):
            await queue.find(ANN, matchup)
        assert (await queue.review(ANN, matchup)).state == "expired"
        standing = queue.state.standings[HUMAN]
        assert (standing.expired, standing.window.exposures[0].sum()) == (1, 0)
    assert endings_of(database) == [(0, LogKind.EXPIRE, None, False)]


async def test_a_reopened_matchup_expires_though_younger_ones_stand_before_it(database):
    async with new_voting_queue(database, settings=PATIENT) as queue:
        matchup = (await queue.next_matchup(ANN)).matchup
        await queue.vote(ANN, matchup, Kind.WIN_A)
        await queue.next_matchup(BOB)
        undone = await queue.undo(ANN, matchup)
        first = queue.state.open[matchup]
        assert [one.serial for one in queue.state.open.values()] == [1, 0]
        assert queue.state.due(first.expires_at - timedelta(seconds=1)) == []
        assert queue.state.due(first.expires_at) == [first]
        assert undone.ballot == 1


async def test_a_matchup_that_had_run_out_waits_for_some_minutes_more(database):
    arena = await make_arena(database, settings=ArenaSettings(undo_seconds=600.0, expiry_seconds=1000.0))
    async with voting_queue_of(database, arena) as queue:
        matchup = (await queue.next_matchup(ANN)).matchup
        await queue.vote(ANN, matchup, Kind.WIN_A)
    with connect(database) as connection:
        connection.execute("UPDATE matchups SET expires_at = now() - interval '1 second'")
    async with voting_queue_of(database, arena) as queue, voting_queue_of(database, arena) as other:
        undone = await queue.undo(ANN, matchup)
        until = undone.at + timedelta(seconds=REOPENED_SECONDS)
        for each in (queue, other):
            ((one),) = await each.open_matchups(ANN)
            assert one.expires_at == until
        async with voting_queue_of(database, arena) as late:
            ((one),) = await late.open_matchups(ANN)
            assert one.expires_at == until
            assert one.ballot == 1
        await other.vote(ANN, matchup, Kind.TIE, ballot=1)


async def test_an_arena_that_is_loaded_anywhere_in_the_middle_comes_to_the_same(database):
    arena = await make_arena(database, settings=PATIENT)
    rater_process = RaterProcess(database, pace=RaterPace(checkpoint_events=1))
    try:
        async with voting_queue_of(database, arena) as queue:
            for k in range(8):
                matchup = (await queue.next_matchup(ANN)).matchup
                ahead = await queue.next_matchup(ANN, ahead=True)
                await _as_loaded(database, arena, queue)
                await queue.vote(ANN, matchup, Kind.WIN_A)
                await _as_loaded(database, arena, queue)
                if k % 2 == 0:
                    catch_up(rater_process)
                    await queue.show(ANN, ahead.matchup)
                    await _as_loaded(database, arena, queue)
                await queue.undo(ANN, matchup)
                await _as_loaded(database, arena, queue)
                if k % 3 == 0:
                    let_a_minute_pass(database)
                    catch_up(rater_process)
                    await _as_loaded(database, arena, queue)
                if k % 4 == 1:
                    await queue.skip(ANN, matchup)
                else:
                    await queue.vote(ANN, matchup, Kind.TIE, ballot=1)
                await _as_loaded(database, arena, queue)
                if k % 3 == 1:
                    catch_up(rater_process)
                assert ahead.new
            let_a_minute_pass(database)
            catch_up(rater_process)
            await _as_loaded(database, arena, queue)
            rater = next(iter(rater_process.raters.values()))
            assert rater.following(HUMAN).votes == 6
            assert rater.following(HUMAN).digest() == replayed(database, arena.arena)[HUMAN].digest()
    finally:
        rater_process.close()
    assert rows(database, "SELECT count(*) FROM checkpoints")[0][0] >= 2


async def _as_loaded(url, arena, queue):
    """A queue that is loaded now has the same state as one that was open all the time."""
    await queue.open_matchups(ANN)
    async with voting_queue_of(url, arena) as late:
        known = {one.matchup: one for one in queue.state.open.values()}
        assert {one.matchup: one for one in late.state.open.values()} == known
        assert late.state.held == queue.state.held
        assert late.state.next_serial == queue.state.next_serial
        assert list(late.state.unseen) == list(queue.state.unseen)
        assert {key: vote.position for key, vote in late.state.fresh.items()} == {
            key: vote.position for key, vote in queue.state.fresh.items()
        }
        for source in (HUMAN, JUDGE):
            standings = late.state.standings[source], queue.state.standings[source]
            assert counts(standings[0]) == counts(standings[1])
            assert standings[0].meetings.reserved == standings[1].meetings.reserved
            np.testing.assert_array_equal(standings[0].window.reserved, standings[1].window.reserved)


async def test_an_exclusion_has_what_stands_and_sticks_to_its_matchups(database):
    arena = await make_arena(database, settings=PATIENT)
    async with open_pool(database, most=3) as pool, voting_queue_of(database, arena) as queue:
        recast, later, undone = [await _voted(queue) for _ in range(3)]
        await queue.undo(ANN, recast)
        await queue.vote(ANN, recast, Kind.TIE, ballot=1)
        await queue.undo(ANN, undone)
        done = await exclude(pool, arena.name, VoteSelection(sessions=(1,)), "a robot", actor="cli")
        assert done.votes == 2
        await queue.undo(ANN, later)
        await queue.vote(ANN, later, Kind.TIE, ballot=1)
        await queue.vote(ANN, undone, Kind.TIE, ballot=1)
        assert rows(database, "SELECT serial, excluded FROM battles ORDER BY serial") == [
            (0, True),
            (1, True),
            (2, False),
        ]
        let_a_minute_pass(database)
        rater_process = RaterProcess(database)
        try:
            catch_up(rater_process)
            following = next(iter(rater_process.raters.values())).following(HUMAN)
            assert (following.votes, following.standing.skipped) == (1, 2)
            assert following.digest() == replayed(database, arena.arena, 1)[HUMAN].digest()
        finally:
            rater_process.close()


async def _voted(queue):
    matchup = (await queue.next_matchup(ANN)).matchup
    await queue.vote(ANN, matchup, Kind.WIN_A)
    return matchup


async def test_an_excluded_vote_can_be_undone_and_is_open_again(database):
    """A queue that was loaded after the exclusion does not count the vote, but must still reopen its matchup."""
    arena = await make_arena(database, settings=PATIENT)
    async with open_pool(database, most=3) as pool, voting_queue_of(database, arena) as queue:
        matchup = await _voted(queue)
        await exclude(pool, arena.name, VoteSelection(sessions=(1,)), "a robot", actor="cli")
        async with voting_queue_of(database, arena) as late:
            await late.undo(ANN, matchup)
            assert [one.matchup for one in await late.open_matchups(ANN)] == [matchup]
            assert late.state.standings[HUMAN].skipped == 0
            await late.vote(ANN, matchup, Kind.TIE, ballot=1, reveal=True)
            await late.open_matchups(ANN)
            standing = late.state.standings[HUMAN]
            assert (standing.votes, standing.skipped) == (0, 1)


async def test_a_withdrawn_response_ends_a_reopened_matchup_and_one_that_is_undone_later(database, tmp_path):
    arena = await make_arena(database, 2, 2, settings=PATIENT)
    async with open_pool(database, most=3) as pool, voting_queue_of(database, arena) as queue:
        first, second = [await _voted(queue) for _ in range(2)]
        await queue.undo(ANN, first)
        contents = BlobStore(pool, FolderStorage(tmp_path))
        for prompt in ("prompt-0", "prompt-1"):
            await withdraw(pool, contents, arena.name, prompt, reason="asked for", actor="cli")
        with pytest.raises(Expired):
            await queue.vote(ANN, first, Kind.TIE, ballot=1)
        undone = await queue.undo(ANN, second)
        assert undone.kind == LogKind.UNDO
        with pytest.raises(Expired):
            await queue.vote(ANN, second, Kind.TIE, ballot=1)
        assert await queue.open_matchups(ANN) == []
        assert counts(queue.state.standings[HUMAN]) == counts(replayed(database, arena.arena)[HUMAN].standing)
    assert [row[1:] for row in endings_of(database)] == [(LogKind.EXPIRE, None, False)] * 2


async def test_a_matchup_reopened_while_its_response_is_withdrawn_is_ended_too(
    database, tmp_path, monkeypatch
):
    """It was closed when the open ones were looked for, and is open when the arena's lock is held."""
    arena = await make_arena(database, 2, 1, settings=PATIENT)
    async with open_pool(database, most=3) as pool, voting_queue_of(database, arena) as queue:
        matchup = await _voted(queue)
        from tiltyard.arena.operators import arena_changes

        found = arena_changes.find_open_matchups

        async def slow(*asked):
            seen = await found(*asked)
            await queue.undo(ANN, matchup)
            return seen

        monkeypatch.setattr(arena_changes, "find_open_matchups", slow)
        contents = BlobStore(pool, FolderStorage(tmp_path))
        await withdraw(pool, contents, arena.name, "prompt-0", reason="asked for", actor="cli")
        with pytest.raises(Expired):
            await queue.vote(ANN, matchup, Kind.TIE, ballot=1)


async def test_judges_undo_as_people_do(database):
    async with new_voting_queue(database, settings=PATIENT) as queue:
        judge = Voter(7, JUDGE)
        matchup = (await queue.next_matchup(judge)).matchup
        detail = {"judge_model": "j", "pref": 0.9}
        await queue.vote(judge, matchup, Kind.LEAN_A, detail=detail)
        await queue.undo(judge, matchup)
        await queue.vote(
            judge, matchup, Kind.INCONSISTENT, ballot=1, reveal=True, detail={"judge_model": "j"}
        )
        await queue.open_matchups(ANN)
        assert queue.state.standings[JUDGE].votes == 1
        assert queue.state.standings[HUMAN].window.served == 0
    assert rows(database, "SELECT source, outcome FROM battles") == [(JUDGE, Kind.INCONSISTENT)]
