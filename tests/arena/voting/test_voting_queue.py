"""The voting queue: what voters may do, once, in order, and in batches."""

import asyncio
from datetime import UTC, datetime
from uuid import UUID, uuid4

import pytest

from support.live_arenas import make_arena, new_voting_queue, voting_queue_of
from support.rewritten_logs import allow_rewriting
from tiltyard.arena.log.event_log import HUMAN, JUDGE, LogKind, append_batch
from tiltyard.arena.voting.voter_requests import Voter
from tiltyard.arena.voting.voting_queue import VotingQueue
from tiltyard.core.battles import Kind
from tiltyard.core.policy.validity.arena_fold import save
from tiltyard.errors import Closed, Crowded, Expired, NoMatchup, NotFound, StoreFault
from tiltyard.postgres.connections import connect, connect_async, open_pool
from tiltyard.settings.arena_settings import ArenaSettings

ANN, BOB = Voter(1), Voter(2)


def log_of(url, arena=1):
    with connect(url) as connection:
        return connection.execute(
            "SELECT position, kind, source, serial FROM events WHERE arena = %s ORDER BY position", (arena,)
        ).fetchall()


def kinds_of(url, arena=1):
    return [LogKind(kind) for _, kind, _, _ in log_of(url, arena)]


async def test_a_voter_is_served_once_and_again_until_it_answers(database):
    async with new_voting_queue(database) as queue:
        first = await queue.next_matchup(ANN)
        assert first.new
        assert not (again := await queue.next_matchup(ANN)).new
        assert again.matchup == first.matchup
        second = await queue.next_matchup(ANN, ahead=True)
        assert second.new
        assert second.matchup != first.matchup
        assert (await queue.look_ahead(ANN, first.matchup)).matchup == second.matchup
        assert (await queue.next_matchup(ANN)).matchup == first.matchup
        held = await queue.open_matchups(ANN)
        assert [one.matchup for one in held] == [first.matchup, second.matchup]
        other = await queue.next_matchup(BOB)
        assert other.matchup not in {first.matchup, second.matchup}
    assert kinds_of(database).count(LogKind.SERVED) == 2
    assert kinds_of(database).count(LogKind.PREFETCHED) == 1


async def test_positions_are_dense_from_the_first_event(database):
    async with new_voting_queue(database) as queue:
        for _ in range(5):
            offered = await queue.next_matchup(ANN)
            await queue.vote(ANN, offered.matchup, Kind.TIE)
    assert [row[0] for row in log_of(database)] == list(range(1, len(log_of(database)) + 1))
    assert kinds_of(database)[0] is LogKind.POLICY


async def test_the_same_vote_again_has_the_same_answer_and_another_is_refused(database):
    async with new_voting_queue(database) as queue:
        matchup = (await queue.next_matchup(ANN)).matchup
        first = await queue.vote(ANN, matchup, Kind.WIN_A)
        assert first.undo_until is not None
        assert await queue.vote(ANN, matchup, Kind.WIN_A) == first
        with pytest.raises(Closed, match="different vote"):
            await queue.vote(ANN, matchup, Kind.WIN_B)
        with pytest.raises(Closed, match="different vote"):
            await queue.skip(ANN, matchup)
    assert kinds_of(database).count(LogKind.VOTE) == 1


async def test_many_copies_of_one_vote_at_once_are_one_vote(database):
    arena = await make_arena(database)
    async with voting_queue_of(database, arena) as one, voting_queue_of(database, arena) as other:
        matchup = (await one.next_matchup(ANN)).matchup
        answers = await asyncio.gather(*(queue.vote(ANN, matchup, Kind.WIN_B) for queue in (one, other) * 20))
        assert len({answer.position for answer in answers}) == 1
    assert kinds_of(database).count(LogKind.VOTE) == 1


async def test_conflicting_votes_at_once_leave_one_and_refuse_the_rest(database):
    arena = await make_arena(database)
    async with voting_queue_of(database, arena) as one, voting_queue_of(database, arena) as other:
        matchup = (await one.next_matchup(ANN)).matchup
        votes = [
            queue.vote(ANN, matchup, kind) for queue in (one, other) for kind in (Kind.WIN_A, Kind.WIN_B)
        ]
        answers = await asyncio.gather(*votes, return_exceptions=True)
        assert sum(isinstance(answer, Closed) for answer in answers) == 2
    assert kinds_of(database).count(LogKind.VOTE) == 1


async def test_guessed_and_foreign_matchups_are_alike(database):
    async with new_voting_queue(database) as queue:
        mine = (await queue.next_matchup(ANN)).matchup
        said = set()
        for voter, matchup in (
            (BOB, mine),
            (Voter(ANN.session, JUDGE), mine),
            (ANN, uuid4()),
            (ANN, UUID(int=mine.int ^ 1)),
        ):
            for act in (
                queue.vote(voter, matchup, Kind.TIE),
                queue.skip(voter, matchup),
                queue.undo(voter, matchup),
                queue.reveal(voter, matchup),
                queue.find(voter, matchup),
            ):
                with pytest.raises(NotFound) as refusal:
                    await act
                said.add(str(refusal.value))
        assert len(said) == 1
    assert LogKind.VOTE not in kinds_of(database)


async def test_a_matchup_of_another_arena_is_not_known_here(database):
    first, second = await make_arena(database), await make_arena(database, name="other")
    async with voting_queue_of(database, first) as here, voting_queue_of(database, second) as there:
        matchup = (await there.next_matchup(ANN)).matchup
        with pytest.raises(NotFound):
            await here.vote(ANN, matchup, Kind.TIE)
        with pytest.raises(NotFound):
            await here.find(ANN, matchup)


async def test_names_are_shown_only_after_a_vote_and_make_it_final(database):
    async with new_voting_queue(database) as queue:
        matchup = (await queue.next_matchup(ANN)).matchup
        with pytest.raises(Closed):
            await queue.reveal(ANN, matchup)
        await queue.vote(ANN, matchup, Kind.WIN_A)
        names = await queue.reveal(ANN, matchup)
        assert names.model_a != names.model_b
        assert names == await queue.reveal(ANN, matchup)
        with pytest.raises(Closed, match="final"):
            await queue.undo(ANN, matchup)
        at_once = (await queue.next_matchup(ANN)).matchup
        assert (await queue.vote(ANN, at_once, Kind.TIE, reveal=True)).undo_until is None
        with pytest.raises(Closed, match="final"):
            await queue.undo(ANN, at_once)


async def test_a_vote_cannot_be_taken_back_after_its_time(database):
    async with new_voting_queue(database, settings=ArenaSettings(undo_seconds=0.2)) as queue:
        matchup = (await queue.next_matchup(ANN)).matchup
        await queue.vote(ANN, matchup, Kind.WIN_A)
        await asyncio.sleep(0.3)
        with pytest.raises(Closed, match="final"):
            await queue.undo(ANN, matchup)


async def test_a_vote_cannot_be_taken_back_once_the_rater_has_claimed_it(database):
    arena = await make_arena(database)
    async with voting_queue_of(database, arena) as queue:
        matchup = (await queue.next_matchup(ANN)).matchup
        ended = await queue.vote(ANN, matchup, Kind.WIN_A)
        with connect(database) as connection:
            connection.execute(
                "INSERT INTO raters (arena, horizon) VALUES (%s, %s) "
                "ON CONFLICT (arena) DO UPDATE SET horizon = excluded.horizon",
                (arena.arena, ended.position),
            )
        with pytest.raises(Closed, match="final"):
            await queue.undo(ANN, matchup)


async def test_what_nobody_answers_expires_and_leaves_the_window(database):
    async with new_voting_queue(database, settings=ArenaSettings(expiry_seconds=1.0)) as queue:
        matchup = (await queue.next_matchup(ANN)).matchup
        await asyncio.sleep(1.1)
        with pytest.raises(Expired):
            await queue.find(ANN, matchup)
        with pytest.raises(Expired):
            await queue.vote(ANN, matchup, Kind.WIN_A)
        with pytest.raises(Expired):
            await queue.vote(ANN, matchup, Kind.WIN_A)
        assert (await queue.next_matchup(ANN)).new
        assert queue.state.standings[HUMAN].expired == 1
    assert kinds_of(database).count(LogKind.EXPIRE) == 1


async def test_expiry_needs_no_voter_to_come_by(database):
    async with new_voting_queue(database, settings=ArenaSettings(expiry_seconds=1.0)) as queue:
        await queue.next_matchup(ANN)
        for _ in range(600):
            await asyncio.sleep(0.1)
            if LogKind.EXPIRE in kinds_of(database):
                break
    assert LogKind.EXPIRE in kinds_of(database)


async def test_two_processes_fold_the_same_state_as_one_that_comes_later(database):
    arena = await make_arena(database, settings=ArenaSettings(undo_seconds=0.0))
    async with voting_queue_of(database, arena) as one, voting_queue_of(database, arena) as other:

        async def voter(number, queue):
            for k in range(12):
                offered = await queue.next_matchup(Voter(number))
                if k % 5 == 4:
                    await queue.skip(Voter(number), offered.matchup)
                else:
                    await queue.vote(Voter(number), offered.matchup, Kind(k % 4))

        await asyncio.gather(*(voter(n, (one, other)[n % 2]) for n in range(8)))
        await one.open_matchups(ANN)
        await other.open_matchups(ANN)
        async with voting_queue_of(database, arena) as late:
            states = {save(queue.state.standings[HUMAN]).digest() for queue in (one, other, late)}
            assert len(states) == 1
            assert late.state.standings[HUMAN].votes == 8 * 10


async def test_judges_have_their_own_window_and_votes(database):
    arena = await make_arena(database, settings=ArenaSettings(undo_seconds=0.0))
    judge = Voter(7, JUDGE)
    async with voting_queue_of(database, arena) as queue:
        offered = await queue.next_matchup(judge)
        await queue.vote(judge, offered.matchup, Kind.INCONSISTENT, detail={"judge_model": "j", "pref": 0.5})
        await queue.open_matchups(judge)
        human, machine = queue.state.standings
        assert (human.votes, machine.votes) == (0, 1)
        assert (human.window.served, machine.window.served) == (0, 1)


async def test_an_arena_without_a_pair_has_no_matchup(database):
    async with new_voting_queue(database, models=1) as queue:
        with pytest.raises(NoMatchup):
            await queue.next_matchup(ANN)


async def test_a_cut_connection_costs_a_refusal_and_nothing_else(database):
    async with new_voting_queue(database) as queue:
        votes = 0
        for k in range(30):
            if k % 7 == 3:
                with connect(database) as killer:
                    killer.execute(
                        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                        "WHERE datname = current_database() AND pid <> pg_backend_pid()"
                    )
            for _ in range(600):
                try:
                    offered = await queue.next_matchup(ANN)
                    await queue.vote(ANN, offered.matchup, Kind.TIE, reveal=True)
                    break
                except StoreFault:
                    await asyncio.sleep(0.05)
            votes += 1
        assert votes == 30
    assert kinds_of(database).count(LogKind.VOTE) == 30
    assert [row[0] for row in log_of(database)] == list(range(1, len(log_of(database)) + 1))


async def test_time_in_a_log_never_runs_backward(database):
    async with new_voting_queue(database) as queue:
        with connect(database) as connection:
            allow_rewriting(connection)
            connection.execute("UPDATE events SET at = %s", (datetime(2999, 1, 1, tzinfo=UTC),))
        offered = await queue.next_matchup(ANN)
        assert offered.served_at.year == 2999


def claim(url, arena, horizon):
    """As a rater does that has folded up to there."""
    with connect(url) as connection:
        connection.execute(
            "INSERT INTO raters (arena, horizon) VALUES (%s, %s) "
            "ON CONFLICT (arena) DO UPDATE SET horizon = excluded.horizon",
            (arena, horizon),
        )


async def test_names_are_never_shown_without_a_word_in_the_log(database):
    """A vote was counted, and then the time to take votes back was made longer."""
    arena = await make_arena(database, settings=ArenaSettings(undo_seconds=0.2))
    async with voting_queue_of(database, arena) as queue, voting_queue_of(database, arena) as other:
        matchup = (await queue.next_matchup(ANN)).matchup
        await queue.vote(ANN, matchup, Kind.WIN_A)
        await other.open_matchups(BOB)
        await asyncio.sleep(0.3)
        await queue.open_matchups(ANN)
        assert not queue.state.voted
        for each in (queue, other):
            each.change(ArenaSettings(undo_seconds=600.0, reveal="vote"))
        await queue.reveal(ANN, matchup)
        with pytest.raises(Closed, match="final"):
            await other.undo(ANN, matchup)
    assert kinds_of(database).count(LogKind.REVEAL) == 1
    assert LogKind.UNDO not in kinds_of(database)


async def test_a_reveal_that_comes_after_an_undo_is_refused_alone(database, monkeypatch):
    async with new_voting_queue(database) as queue:
        matchup = (await queue.next_matchup(ANN)).matchup
        await queue.vote(ANN, matchup, Kind.WIN_A)
        found = queue._voted

        async def slow(voter, one):
            seen = await found(voter, one)
            await queue.undo(ANN, matchup)
            return seen

        monkeypatch.setattr(queue, "_voted", slow)
        late, fine = await asyncio.gather(
            queue.reveal(ANN, matchup), queue.next_matchup(BOB), return_exceptions=True
        )
        assert isinstance(late, Closed)
        assert fine.new
        assert queue.ready


async def test_undo_and_reveal_at_once_are_one_or_the_other(database):
    arena = await make_arena(database)
    async with voting_queue_of(database, arena) as queue, voting_queue_of(database, arena) as other:
        for _ in range(10):
            matchup = (await queue.next_matchup(ANN)).matchup
            await queue.vote(ANN, matchup, Kind.WIN_A)
            await other.open_matchups(BOB)
            told = await asyncio.gather(
                queue.undo(ANN, matchup), other.reveal(ANN, matchup), return_exceptions=True
            )
            assert sum(isinstance(one, Closed) for one in told) == 1
            if not isinstance(told[0], Closed):
                await queue.skip(ANN, matchup)
    kinds = kinds_of(database)
    assert kinds.count(LogKind.UNDO) + kinds.count(LogKind.REVEAL) == 10


async def test_votes_that_are_rated_count_whatever_the_clock_says(database):
    """A log that is ahead of the clock would keep them uncounted until the clock has caught up."""
    arena = await make_arena(database)
    async with voting_queue_of(database, arena) as queue:
        offered = await queue.next_matchup(ANN)
        ended = await queue.vote(ANN, offered.matchup, Kind.WIN_A)
        await queue.open_matchups(ANN)
        assert queue.state.standings[HUMAN].votes == 0
        claim(database, arena.arena, ended.position)
        await queue.open_matchups(ANN)
        assert queue.state.standings[HUMAN].votes == 1


async def test_queues_hold_no_connection_and_share_the_pool(database):
    arenas = [await make_arena(database, name=f"arena-{k}") for k in range(8)]
    async with open_pool(database, most=2) as pool:
        voting_queues = [VotingQueue(pool, one.arena, one.name, one.settings) for one in arenas]
        for queue in voting_queues:
            await queue.open()
        for _ in range(3):
            offered = await asyncio.gather(*(queue.next_matchup(ANN) for queue in voting_queues))
            await asyncio.gather(
                *(
                    queue.vote(ANN, one.matchup, Kind.TIE)
                    for queue, one in zip(voting_queues, offered, strict=True)
                )
            )
        assert pool.opened <= 2
        await asyncio.gather(*(queue.close() for queue in voting_queues))
        assert pool.in_use == 0


async def test_a_queue_that_gets_no_connection_refuses_and_keeps_its_state(database, monkeypatch):
    monkeypatch.setattr("tiltyard.postgres.connections.WAIT_SECONDS", 0.2)
    arena = await make_arena(database)
    async with open_pool(database, most=1) as pool:
        queue = VotingQueue(pool, arena.arena, arena.name, arena.settings)
        await queue.open()
        loaded = queue.state
        async with pool.connection():
            with pytest.raises(Crowded, match="try again"):
                await queue.next_matchup(ANN)
        assert queue.state is loaded
        assert (await queue.next_matchup(ANN)).new
        await queue.close()


async def test_what_is_acknowledged_is_on_disk_whatever_the_roles_default(database):
    arena = await make_arena(database)
    with connect(database) as connection:
        name = connection.execute("SELECT current_database()").fetchone()[0]
        connection.execute(f'ALTER DATABASE "{name}" SET synchronous_commit = off')
    async with (
        await connect_async(database) as connection,
        append_batch(connection, arena.arena) as batch,
    ):
        found = await batch.connection.execute("SHOW synchronous_commit")
        assert await found.fetchone() == ("on",)
