"""A change of the crowd: found by the rater, told in the log, held on the board, explained by an operator."""

import asyncio
import json
from contextlib import ExitStack
from functools import partial
from itertools import count

import numpy as np
import pytest

from support.rated_arenas import Yard, rated_arena
from tiltyard.arena.log.crowd_changes import append_change, list_changes, read_open_changes
from tiltyard.arena.log.event_log import HUMAN, LogKind
from tiltyard.arena.operators.crowd import explain_crowd_change, read_crowd_changes
from tiltyard.arena.processes.process_leases import new_process
from tiltyard.arena.rating.arena_rater import ArenaRater
from tiltyard.arena.rating.rater_process import Leadership
from tiltyard.core.integrity.vote_groups import VOTE_GROUPS
from tiltyard.core.policy.state.policy import Policy
from tiltyard.errors import InputError, NotFound
from tiltyard.postgres.connections import connect, connect_async, open_pool
from tiltyard.settings.arena_settings import ArenaSettings

MODELS, TARGET = 6, 5
AT_ONCE = ArenaSettings(snapshot_seconds=0.05, undo_seconds=0)


@pytest.fixture
def connection(database):
    with connect(database) as made:
        yield made


@pytest.fixture
def make_yard(database):
    with ExitStack() as stack:

        def make(settings=AT_ONCE):
            yard = Yard(database, policy=Policy(), models=MODELS, prompts=3, settings=settings)
            stack.callback(yard.close)
            return yard

        yield make


def votes(yard, n, *, seed=1, sessions=60, first=100, target=None):
    """Votes of a crowd with an opinion, or of sessions for one model, in one batch."""
    random, deeds = np.random.default_rng(seed), []
    for k in range(n):
        a = int(random.integers(MODELS)) if target is None else target
        b = int((a + random.integers(1, MODELS)) % MODELS)
        outcome = 0 if target is not None else int(random.random() > 1.0 / (1.0 + np.exp(0.6 * (a - b))))
        session = first + k % sessions
        deeds += [yard.serving(a, b, k % 3, session=session), yard.voting_later(outcome, HUMAN)]
    yard.append(*deeds)


def rater_of(yard, connection):
    told = []

    def tell(arena, model, group, detail):
        async def telling():
            async with await connect_async(yard.url) as writer:
                told.append(await append_change(writer, arena, term, model, group, detail))

        asyncio.run(telling())

    leadership = Leadership(yard.url, new_process())
    try:
        term = leadership.lead(yard.arena)
        arena = rated_arena(connection, yard.arena)
        # Every look at the clock is a second later, so that no board waits.
        return ArenaRater(connection, arena, term, clock=partial(next, count(0.0)), tell_change=tell), told
    finally:
        leadership.close()


def rate(rater):
    for _ in range(100):
        if not rater.step():
            return
    raise AssertionError("it goes on for ever")


def board(yard):
    ((document,),) = yard.sql(
        "SELECT document FROM snapshots WHERE arena = %s AND source = 0 ORDER BY generation DESC, position DESC LIMIT 1",
        (yard.arena,),
    )
    return json.loads(document)


def findings(yard):
    return [finding["name"] for finding in board(yard)["findings"]]


def test_votes_for_one_model_are_told_and_hold_the_board_until_they_are_explained(make_yard, connection):
    yard = make_yard()
    rater, told = rater_of(yard, connection)
    votes(yard, 900)
    rate(rater)
    assert told == []
    votes(yard, 75, target=TARGET, first=500, sessions=75)
    rate(rater)
    (position,) = told
    assert yard.sql(
        "SELECT kind, a FROM events WHERE arena = %s AND position = %s", (yard.arena, position)
    ) == [(LogKind.CROWD_CHANGED, TARGET)]
    rate(rater)
    assert "crowd-changed" in findings(yard)
    assert board(yard)["status"] == "calibrating"

    async def operator():
        async with open_pool(yard.url, most=2) as pool:
            (change,) = await read_crowd_changes(pool, yard.arena)
            with pytest.raises(InputError, match="reason"):
                await explain_crowd_change(pool, yard.name, position, " ", actor="Ada")
            await explain_crowd_change(pool, yard.name, position, "a new class came", actor="Ada")
            with pytest.raises(NotFound, match="explained"):
                await explain_crowd_change(pool, yard.name, position, "again", actor="Ada")
            (after,) = await read_crowd_changes(pool, yard.arena)
            return change, after

    change, after = asyncio.run(operator())
    assert (change.name, change.explained) == (f"m{TARGET}", None)
    assert change.detail["shift"] > 100
    # They are known when a block of votes is complete.
    assert set(range(500, 550)) <= set(change.detail["sessions"])
    assert (after.reason, after.explained) == ("a new class came", position + 1)
    rate(rater)
    assert "crowd-changed" not in findings(yard)
    # What was explained is no evidence of another change.
    votes(yard, 100, seed=2)
    rate(rater)
    assert len(told) == 1


def test_a_rater_that_starts_later_sees_the_same(make_yard, connection):
    yard = make_yard()
    votes(yard, 900)
    first, _ = rater_of(yard, connection)
    rate(first)
    votes(yard, 75, target=TARGET, first=500, sessions=75)
    second, told = rater_of(yard, connection)
    rate(second)
    assert len(told) == 1
    third, again = rater_of(yard, connection)
    votes(yard, 80, seed=3)
    rate(third)
    assert again == []
    assert [change.model for change in read_open_changes(connection, yard.arena, 10**9)] == [TARGET]


def test_excluded_votes_are_no_longer_watched(make_yard, connection):
    yard = make_yard()
    votes(yard, 900)
    served = len(yard.served[HUMAN])
    votes(yard, 75, target=TARGET, first=500, sessions=75)
    yard.exclude([(HUMAN, serial) for serial in range(served, served + 75)])
    leading, _ = rater_of(yard, connection)
    rate(leading)
    yard.sql("DELETE FROM crowd_changes WHERE arena = %s", (yard.arena,))
    votes(yard, 80, seed=4)
    rater, told = rater_of(yard, connection)
    rate(rater)
    assert told == []


def test_one_change_of_a_model_is_told_once(make_yard, connection):
    yard = make_yard()
    detail = {
        "since": 1, "until": 2, "votes": 2, "shift": 1.0, "log_evidence": 14.0, "bar": 13.0, "sessions": []
    }  # fmt: skip

    async def telling():
        async with await connect_async(yard.url) as writer:
            found = [await append_change(writer, yard.arena, term, 1, 0, detail) for term in (6, 7, 7)]
            return found, await list_changes(writer, yard.arena)

    yard.sql("UPDATE raters SET term = 7")
    found, listed = asyncio.run(telling())
    assert found == [None, yard.head + 1, None], "a rater of an earlier term tells nothing"
    assert [(change.name, change.group_name) for change in listed] == [("m1", "all")]


def test_a_live_arena_is_not_watched(make_yard, connection):
    yard = make_yard(ArenaSettings(snapshot_seconds=0.05, undo_seconds=0, kind="live"))
    rater, told = rater_of(yard, connection)
    votes(yard, 900)
    votes(yard, 75, target=TARGET, first=500, sessions=75)
    rate(rater)
    assert told == []


def test_votes_from_one_network_are_a_group(make_yard, connection):
    yard = make_yard()
    votes(yard, 500)
    for session in range(100, 160):
        yard.sql(
            "INSERT INTO sessions (session, source, network, language) OVERRIDING SYSTEM VALUE VALUES (%s, 0, %s, 'de')",
            (session, session),
        )
    for session in range(500, 575):
        yard.sql(
            "INSERT INTO sessions (session, source, network) OVERRIDING SYSTEM VALUE VALUES (%s, 0, 6)",
            (session,),
        )
    random, deeds = np.random.default_rng(9), []
    for k in range(300):
        rigs = k % 4 == 0
        a = TARGET if rigs else int(random.integers(MODELS))
        b = int((a + random.integers(1, MODELS)) % MODELS)
        outcome = 0 if rigs else int(random.random() > 1.0 / (1.0 + np.exp(0.6 * (a - b))))
        session = 500 + k // 4 if rigs else 100 + k % 60
        deeds += [yard.serving(a, b, k % 3, session=session), yard.voting_later(outcome, HUMAN)]
    yard.append(*deeds)
    rater, told = rater_of(yard, connection)
    rate(rater)
    (change,) = read_open_changes(connection, yard.arena, 10**9)
    assert (change.position, change.model) == (told[0], TARGET)
    assert VOTE_GROUPS[change.group] in ("shared-networks-3", "new-voters")
