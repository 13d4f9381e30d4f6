"""A vote counts after a look at both responses, and once its voter is no longer new. All others are kept and say why."""

import asyncio
from dataclasses import replace
from datetime import timedelta

import pytest

from support.folded_votes import counts, replayed
from support.live_arenas import let_time_pass, make_arena, new_voting_queue, voting_queue_of
from support.rewritten_logs import allow_rewriting
from tiltyard.arena.log.event_log import HUMAN, JUDGE, LogKind
from tiltyard.arena.log.votes import UnratedVotes, count_unrated, read_ballots, read_tally
from tiltyard.arena.operators import scheduled_jobs as admissions
from tiltyard.arena.operators.scheduled_jobs import admit_votes, admit_waiting_votes
from tiltyard.arena.voting.personal_boards import read_own_counts, read_own_recent
from tiltyard.arena.voting.sent_responses import SentResponse
from tiltyard.arena.voting.voter_requests import Voter
from tiltyard.core.battles import Kind
from tiltyard.core.policy.state.events import VoteMark
from tiltyard.postgres.connections import connect, open_pool
from tiltyard.settings.arena_settings import ArenaSettings

ANN, BOB, JUDY = Voter(1), Voter(2), Voter(3, JUDGE)
LOOKED = ArenaSettings(undo_seconds=60.0, shown_check="always")
AGEING = ArenaSettings(undo_seconds=60.0, ageing_hours=24)


def rows(url, query, values=()):
    with connect(url) as connection:
        allow_rewriting(connection)
        found = connection.execute(query, values)
        return found.fetchall() if found.description else []


def marks_of(url):
    """What the log says of each vote."""
    return [mark for (mark,) in rows(url, "SELECT mark FROM events WHERE kind = 1 ORDER BY position")]


async def looked(queue, voter, seconds=0.0, kind=Kind.WIN_A, sent=(100, 100), **options):
    """The next matchup, and a vote after some seconds with a receipt for so many characters of both sides."""
    offered = await queue.next_matchup(voter)
    let_time_pass(queue, seconds)
    return offered, await queue.vote(voter, offered.matchup, kind, sent=await proof(queue, *sent), **options)


async def proof(queue, *characters):
    now = await queue.now()
    return tuple(None if count is None else SentResponse(now, count) for count in characters)


def make_final(url):
    """Every vote so far is final, as after a rater's look."""
    rows(url, "UPDATE raters SET horizon = (SELECT max(position) FROM events)")


def make_older(url, by):
    rows(url, "UPDATE endings SET at = at - %s", (by,))


async def admitted(url, arena, hours=24.0, **options):
    async with open_pool(url, most=1) as pool, pool.connection() as connection:
        return await admit_votes(connection, arena.arena, hours, **options)


async def test_votes_before_a_look_are_kept_and_move_nothing(database):
    arena = await make_arena(database, 4, 3, settings=LOOKED)
    async with voting_queue_of(database, arena) as queue:
        _, unseen = await looked(queue, ANN, 60, sent=(100, None))
        _, early = await looked(queue, ANN, 0.2)
        offered, counted = await looked(queue, ANN, 5)
        assert [ended.unrated for ended in (unseen, early, counted)] == ["unseen", "early", None]
        again = await queue.vote(ANN, offered.matchup, Kind.WIN_A)
        assert again.unrated is None
        assert (await queue.review(ANN, unseen.matchup)).unrated == "unseen"
        assert (await queue.reveal(ANN, early.matchup)).unrated == "early"
        make_final(database)
        await queue.next_matchup(BOB)
        standing = queue.state.standings[HUMAN]
        assert (standing.votes, standing.skipped) == (1, 2)
        live = counts(standing)
    assert marks_of(database) == [VoteMark.UNSEEN, VoteMark.EARLY, None]
    assert rows(database, "SELECT unrated FROM battles ORDER BY position") == [
        ("unseen",),
        ("early",),
        (None,),
    ]
    assert counts(replayed(database, arena.arena)[HUMAN].standing) == live


async def test_a_vote_that_was_undone_may_count_after_a_look(database):
    async with new_voting_queue(database, 4, 3, settings=LOOKED) as queue:
        offered, early = await looked(queue, ANN, 0.2)
        undone = await queue.undo(ANN, offered.matchup)
        let_time_pass(queue, 5)
        sent = await proof(queue, 100, 100)
        again = await queue.vote(ANN, offered.matchup, Kind.WIN_B, ballot=undone.ballot, sent=sent)
        assert (early.unrated, again.unrated) == ("early", None)
    assert marks_of(database) == [VoteMark.EARLY, None]
    assert rows(database, "SELECT mark FROM endings") == [(None,)]


async def test_a_prefetched_matchup_is_looked_at_when_it_is_shown(database):
    async with new_voting_queue(database, 4, 3, settings=LOOKED) as queue:
        first = await queue.next_matchup(ANN)
        second = await queue.look_ahead(ANN, first.matchup)
        third = await queue.next_matchup(ANN, ahead=True)
        sent = await proof(queue, 100, 100)
        let_time_pass(queue, 10)
        assert (await queue.vote(ANN, first.matchup, Kind.TIE, sent=sent)).unrated is None
        await queue.look_ahead(ANN, second.matchup)
        assert (await queue.vote(ANN, second.matchup, Kind.TIE, sent=sent)).unrated == "early"
        await queue.show(ANN, third.matchup)
        # The tables know as well since when it is shown.
        await queue.unload()
        assert await queue.open_matchups(ANN)
        shown_at = queue.state.open[third.matchup].shown_at
        assert third.served_at < shown_at <= await queue.now()
        let_time_pass(queue, 10)
        assert (await queue.vote(ANN, third.matchup, Kind.TIE, sent=sent)).unrated is None
        # Nobody has said that it is shown: it may be since it was sent.
        fourth = await queue.next_matchup(ANN, ahead=True)
        assert (await queue.vote(ANN, fourth.matchup, Kind.TIE, sent=sent)).unrated == "early"
        fifth = await queue.next_matchup(ANN, ahead=True)
        old = tuple(one._replace(at=one.at - timedelta(seconds=10)) for one in sent)
        assert (await queue.vote(ANN, fifth.matchup, Kind.TIE, sent=old)).unrated is None


@pytest.mark.parametrize(
    "settings", [replace(LOOKED, shown_check="never"), replace(LOOKED, shown_check="public")]
)
async def test_elsewhere_and_of_judges_every_vote_counts(database, settings):
    async with new_voting_queue(database, 4, 3, settings=settings) as queue:
        assert (await looked(queue, ANN, sent=(None, None)))[1].unrated is None
        await queue.note_sent((await queue.next_matchup(ANN)).matchup, 0, 100)
        assert rows(database, "SELECT count(*) FROM sent_responses") == [(0,)]
        queue.change(LOOKED)
        assert (await looked(queue, JUDY, sent=(None, None)))[1].unrated is None
        queue.change(replace(settings, shown_check="public", public_address=True))
        assert (await looked(queue, ANN, sent=(None, None)))[1].unrated == "unseen"


async def test_what_one_process_sent_counts_in_another(database):
    """Texts by a receipt, bytes by a row; the first time that a side is sent counts."""
    arena = await make_arena(database, 4, 3, settings=LOOKED)
    async with voting_queue_of(database, arena) as one, voting_queue_of(database, arena) as other:
        offered = await one.next_matchup(ANN)
        await one.note_sent(offered.matchup, 1, 100)
        await other.note_sent(offered.matchup, 1, 9_000)
        assert await other.open_matchups(ANN)
        let_time_pass(other, 2)
        text, _ = await proof(one, 100, None)
        assert (await other.vote(ANN, offered.matchup, Kind.TIE, sent=(text, None))).unrated is None


async def test_what_the_browser_reports_can_only_shorten_the_look(database):
    async with new_voting_queue(database, 4, 9, settings=LOOKED) as queue:
        for seconds, a, b, unrated in (
            (60, 0.4, 0.1, "early"),
            (60, 4.0, 0.1, None),
            (0, 60.0, 60.0, "early"),
        ):
            _, ended = await looked(queue, ANN, seconds, detail={"shown": {"a": a, "b": b}})
            assert ended.unrated == unrated


async def test_votes_of_new_voters_wait_until_they_are_admitted(database):
    arena = await make_arena(database, 4, 3, settings=AGEING)
    async with voting_queue_of(database, arena) as queue:
        for voter in (ANN, ANN, BOB, JUDY):
            _, ended = await looked(queue, voter)
            assert ended.unrated == (None if voter is JUDY else "waiting")
        make_final(database)
        await queue.next_matchup(BOB)
        assert queue.state.standings[HUMAN].votes == 0
    assert await admitted(database, arena) == 0
    make_older(database, timedelta(hours=25))
    assert await admitted(database, arena, limit=2) == 2
    assert await admitted(database, arena) == 1
    assert await admitted(database, arena) == 0
    kinds = rows(database, "SELECT kind, session, outcome FROM events WHERE kind = 17 ORDER BY position")
    assert kinds == [(LogKind.ADMIT, voter.session, Kind.WIN_A) for voter in (ANN, ANN, BOB)]
    async with voting_queue_of(database, arena) as queue:
        assert queue.state.standings[HUMAN].votes == 3
        assert (await looked(queue, ANN))[1].unrated is None, "the voter is known"
        assert (await looked(queue, Voter(9)))[1].unrated == "waiting"
    assert replayed(database, arena.arena)[HUMAN].votes == 4


async def test_a_running_queue_learns_who_was_admitted(database):
    arena = await make_arena(database, 4, 3, settings=AGEING)
    async with voting_queue_of(database, arena) as queue:
        await looked(queue, ANN)
        make_final(database)
        _, not_final = await looked(queue, ANN)
        make_older(database, timedelta(hours=25))
        await admitted(database, arena)
        _, after = await looked(queue, ANN)
        assert (not_final.unrated, after.unrated) == ("waiting", None)
        assert queue.state.standings[HUMAN].votes == 1
        make_final(database)
        # What was not final when its voter was admitted follows, however young it is.
        assert await admitted(database, arena, 1000.0) == 1
        queue.change(replace(AGEING, ageing_hours=0.0))
        assert (await looked(queue, BOB))[1].unrated is None
        queue.change(AGEING)
        assert (await looked(queue, BOB))[1].unrated is None, "a vote of theirs is rated"


async def test_many_votes_over_an_hour_pass_the_checks(database, monkeypatch):
    monkeypatch.setattr(admissions, "CHECKED_VOTE_COUNT", 3)
    arena = await make_arena(database, 4, 6, settings=AGEING)
    async with voting_queue_of(database, arena) as queue:
        for _ in range(3):
            await looked(queue, ANN)
    make_final(database)
    assert await admitted(database, arena) == 0
    rows(database, "UPDATE endings SET at = at - interval '61 minutes' WHERE serial = 0")
    assert await admitted(database, arena) == 3


async def test_undone_and_named_votes_are_never_admitted_and_excluded_ones_count_for_nothing(database):
    arena = await make_arena(database, 4, 6, settings=AGEING)
    async with voting_queue_of(database, arena) as queue:
        offered, _ = await looked(queue, ANN)
        await queue.undo(ANN, offered.matchup)
        await queue.skip(ANN, offered.matchup)
        _, named = await looked(queue, ANN, detail={"recognized": True})
        _, kept = await looked(queue, ANN)
        assert (named.unrated, kept.unrated) == ("not-blind", "waiting")
    make_final(database)
    assert await admitted(database, arena, 0.0) == 1
    assert rows(database, "SELECT count(*) FROM endings WHERE admitted IS NOT NULL") == [(1,)]


async def test_readers_see_why_votes_are_not_rated_as_of_a_position(database):
    arena = await make_arena(database, 4, 6, settings=replace(AGEING, shown_check="always"))
    async with voting_queue_of(database, arena) as queue:
        await looked(queue, ANN, 0.1)
        await looked(queue, ANN, 60, sent=(None, 10))
        await looked(queue, ANN, 60)
        await queue.finish(ANN)
    make_final(database)
    before = rows(database, "SELECT max(position) FROM events")[0][0]
    assert await admitted(database, arena, 0.0) == 1
    after = before + 1
    async with open_pool(database, most=1) as pool, pool.connection() as connection:
        waiting = await count_unrated(connection, arena.arena, HUMAN, upto=before)
        rest = await count_unrated(connection, arena.arena, HUMAN, upto=after)
        assert (waiting.unseen, waiting.early, waiting.waiting, waiting.total) == (1, 1, 1, 3)
        assert waiting.waiting_since is not None
        assert rest == UnratedVotes(unseen=1, early=1)
        for upto, votes in ((before, 0), (after, 1)):
            assert len(await read_tally(connection, arena.arena, HUMAN, upto=upto)) == votes
            assert len(await read_ballots(connection, arena.arena, HUMAN, upto=upto)) == votes
        ballots = await read_ballots(connection, arena.arena, HUMAN, upto=after)
        assert ballots.position.tolist() == [after], "in the order in which they count"
        own = await read_own_recent(connection, arena.arena, HUMAN, ANN.session, limit=9)
        assert [vote.unrated for vote in own] == [None, "unseen", "early"]
        assert sum(row[-1] for row in await read_own_counts(connection, arena.arena, HUMAN, ANN.session)) == 1


async def test_the_scheduled_job_admits_in_every_arena_and_at_once_where_nobody_waits_any_longer(database):
    arena = await make_arena(database, 4, 3, settings=AGEING)
    async with voting_queue_of(database, arena) as queue:
        await looked(queue, ANN)
    make_final(database)
    assert await asyncio.to_thread(admit_waiting_votes, database) == 0
    rows(database, "UPDATE arenas SET settings = settings || '{\"ageing_hours\": 0}'")
    # Whoever is held by a change of the crowd waits for the operator, and nobody else.
    async with voting_queue_of(database, arena) as queue:
        await looked(queue, BOB)
    make_final(database)
    rows(database, "INSERT INTO exclusions (arena, reason, excluded) VALUES (1, 'crowd', 1)")
    rows(
        database,
        "INSERT INTO crowd_changes (arena, position, found_at, model, vote_group, detail, exclusion) "
        f"VALUES (1, 1, now(), 0, 0, '{{\"sessions\": [{ANN.session}]}}', 1)",
    )
    assert await asyncio.to_thread(admit_waiting_votes, database) == 1
    assert await asyncio.to_thread(admit_waiting_votes, database) == 0
    rows(database, "UPDATE exclusions SET restored = 2")
    assert await asyncio.to_thread(admit_waiting_votes, database) == 1
    assert await asyncio.to_thread(admit_waiting_votes, database) == 0


async def test_who_failed_at_the_gate_does_not_pass_the_checks(database, monkeypatch):
    monkeypatch.setattr(admissions, "CHECKED_VOTE_COUNT", 1)
    monkeypatch.setattr(admissions, "CHECKED_MINUTES", 0)
    arena = await make_arena(database, 4, 3, settings=AGEING)
    async with voting_queue_of(database, arena) as queue:
        await looked(queue, ANN)
    make_final(database)
    session = "INSERT INTO sessions (session, source, name, gate) OVERRIDING SYSTEM VALUE"
    rows(database, f"{session} VALUES ({ANN.session}, 0, NULL, 2)")
    assert await admitted(database, arena) == 0
    rows(database, "UPDATE sessions SET gate = 1")
    assert await admitted(database, arena) == 1
