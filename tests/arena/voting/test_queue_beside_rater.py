"""Desk and rater on one log: what the web counts is what the rater folds, whatever happened."""

from contextlib import contextmanager

import numpy as np
import pytest

from support.folded_votes import catch_up, counts, replayed
from support.live_arenas import make_arena, new_voting_queue, voting_queue_of
from support.rewritten_logs import allow_rewriting
from tiltyard.arena.content.blob_store import BlobStore
from tiltyard.arena.content.object_storage import FolderStorage
from tiltyard.arena.log.event_log import HUMAN
from tiltyard.arena.operators.arena_changes import (
    set_enabled,
    set_policy,
    withdraw,
)
from tiltyard.arena.operators.exclusions import (
    VoteSelection,
    exclude,
    restore,
)
from tiltyard.arena.rating.rater_process import ArenaRater, RaterPace, RaterProcess
from tiltyard.arena.voting.voter_requests import Voter
from tiltyard.core.battles import Kind
from tiltyard.core.policy.state.strengths import Strengths
from tiltyard.errors import Expired, TiltyardError
from tiltyard.postgres.connections import connect, open_pool
from tiltyard.settings.arena_settings import ArenaSettings

AT_ONCE = ArenaSettings(undo_seconds=0.0, snapshot_seconds=0.05)
IN_A_MINUTE = ArenaSettings(undo_seconds=60.0, snapshot_seconds=0.05)


@contextmanager
def rating(url):
    rater_process = RaterProcess(url, pace=RaterPace(checkpoint_events=40))
    try:
        yield rater_process
    finally:
        rater_process.close()


def let_a_minute_pass(url):
    """Whatever is not rated yet happened more than a minute ago."""
    with connect(url) as connection:
        allow_rewriting(connection)
        connection.execute(
            "UPDATE events e SET at = e.at - interval '61 seconds' FROM raters r "
            "WHERE r.arena = e.arena AND e.position > r.position"
        )


async def some_votes(queue, voters, each, seed):
    rng = np.random.default_rng(seed)
    for _ in range(each):
        for number in voters:
            voter = Voter(number)
            matchup = (await queue.next_matchup(voter)).matchup
            await queue.vote(voter, matchup, Kind(int(rng.integers(4))), reveal=True)


async def test_a_queue_loaded_from_a_checkpoint_has_the_same_counts(database):
    arena = await make_arena(database, settings=AT_ONCE)
    with rating(database) as rater_process:
        async with voting_queue_of(database, arena) as queue:
            await some_votes(queue, (1, 2, 3), 20, 0)
            await queue.next_matchup(Voter(9))
            catch_up(rater_process)
            rater_process.close()
            await some_votes(queue, (1, 2), 3, 1)
            await queue.open_matchups(Voter(1))
            async with voting_queue_of(database, arena) as late:
                assert late.state.open.keys() == queue.state.open.keys()
                here, there = (counts(each.state.standings[HUMAN]) for each in (queue, late))
                assert here == there == counts(replayed(database, arena.arena, 0)[HUMAN].standing)
    with connect(database) as connection:
        assert connection.execute("SELECT count(*) FROM checkpoints").fetchone()[0] >= 1


async def test_every_change_of_an_arena_reaches_the_queue_and_a_replay_alike(database, tmp_path):
    arena = await make_arena(database, 5, 6, settings=AT_ONCE)
    async with open_pool(database, most=3) as pool, voting_queue_of(database, arena) as queue:
        contents = BlobStore(pool, FolderStorage(tmp_path))
        await some_votes(queue, (1, 2, 3), 6, 2)
        await set_enabled(pool, arena.name, "model-0", enabled=False, actor="cli")
        await some_votes(queue, (1, 2), 4, 3)
        await set_policy(pool, arena.name, {"phase": 2}, actor="cli")
        await some_votes(queue, (1,), 4, 4)
        await withdraw(pool, contents, arena.name, "prompt-1", "model-2", reason="asked for", actor="cli")
        await withdraw(pool, contents, arena.name, "prompt-3", reason="asked for", actor="cli")
        await some_votes(queue, (1, 2), 6, 5)
        await set_enabled(pool, arena.name, "model-0", enabled=True, actor="cli")
        await some_votes(queue, (4,), 6, 6)
        await queue.open_matchups(Voter(1))
        assert queue.state.standings[HUMAN].policy.phase == 2
        assert counts(queue.state.standings[HUMAN]) == counts(
            replayed(database, arena.arena, 0)[HUMAN].standing
        )


async def test_a_withdrawn_response_voids_its_open_matchups(database, tmp_path):
    arena = await make_arena(database, 2, 1, settings=AT_ONCE)
    async with open_pool(database, most=3) as pool, voting_queue_of(database, arena) as queue:
        voter = Voter(1)
        matchup = (await queue.next_matchup(voter)).matchup
        contents = BlobStore(pool, FolderStorage(tmp_path))
        await withdraw(pool, contents, arena.name, "prompt-0", "model-1", reason="asked for", actor="cli")
        with pytest.raises(Expired):
            await queue.vote(voter, matchup, Kind.TIE)
        with pytest.raises(Expired):
            await queue.find(voter, matchup)
        with pytest.raises(TiltyardError, match="two enabled models"):
            await queue.next_matchup(voter)


async def test_excluded_votes_leave_the_queue_with_the_raters_next_generation(database):
    arena = await make_arena(database, 4, 8, settings=AT_ONCE)
    async with open_pool(database, most=3) as pool, voting_queue_of(database, arena) as queue:
        with rating(database) as rater_process:
            await some_votes(queue, (1, 2), 15, 7)
            catch_up(rater_process)
            queue.rank(HUMAN, 0, Strengths.unknown(4))
            done = await exclude(pool, arena.name, VoteSelection(sessions=(2,)), "a robot", actor="cli")
            catch_up(rater_process)
            queue.rank(HUMAN, 1, Strengths.unknown(4))
            await queue.open_matchups(Voter(1))
            assert queue.state.standings[HUMAN].votes == 15
            assert queue.state.standings[HUMAN].skipped == 15
            assert counts(queue.state.standings[HUMAN]) == counts(
                replayed(database, arena.arena, 1)[HUMAN].standing
            )
            await restore(pool, arena.name, done.exclusion, actor="cli")
            catch_up(rater_process)
            queue.rank(HUMAN, 2, Strengths.unknown(4))
            await queue.open_matchups(Voter(1))
            assert queue.state.standings[HUMAN].votes == 30


async def test_an_arena_that_cannot_be_rated_does_not_stop_the_others(database, monkeypatch):
    step = ArenaRater.step

    def failing(rater):
        if rater.arena.name == "one":
            raise FloatingPointError("a mistake of ours")
        return step(rater)

    monkeypatch.setattr(ArenaRater, "step", failing)

    await make_arena(database, name="one", settings=AT_ONCE)
    two = await make_arena(database, name="two", settings=AT_ONCE)
    async with voting_queue_of(database, two) as queue:
        await some_votes(queue, (1,), 3, 8)
    with rating(database) as rater_process:
        for _ in range(30):
            rater_process.turn()
        assert rater_process.raters[two.arena].following(HUMAN).votes == 3


async def test_an_undo_is_remembered_until_its_vote_is_folded(database):
    """The matchup's serving is folded in one step, another's vote is waited for, the undone vote comes in a later step."""
    async with new_voting_queue(database, settings=IN_A_MINUTE) as queue:
        ann, bob = [(await queue.next_matchup(Voter(number))).matchup for number in (1, 2)]
        await queue.vote(Voter(2), bob, Kind.WIN_A)
        await queue.vote(Voter(1), ann, Kind.WIN_A)
        await queue.undo(Voter(1), ann)
        with rating(database) as rater_process:
            catch_up(rater_process)
            let_a_minute_pass(database)
            catch_up(rater_process)
            following = next(iter(rater_process.raters.values())).following(HUMAN)
            assert (following.votes, following.standing.skipped) == (1, 0)
