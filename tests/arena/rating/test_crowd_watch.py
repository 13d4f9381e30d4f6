"""A change of the crowd: found by the rater, told in the log, held on the board, explained by an operator."""

import asyncio
import json
from contextlib import ExitStack
from functools import partial
from itertools import count

import numpy as np
import pytest

from support.rated_arenas import Yard, rated_arena
from tiltyard.arena.log.crowd_changes import list_changes, read_open_changes
from tiltyard.arena.log.event_log import HUMAN, LogKind
from tiltyard.arena.operators.crowd import explain_crowd_change, hold_crowd_change
from tiltyard.arena.operators.exclusions import list_exclusions
from tiltyard.arena.processes.process_leases import new_process
from tiltyard.arena.rating.arena_rater import ArenaRater
from tiltyard.arena.rating.crowd_watch import HeldChange, VoteGrouper, WatchedEvent
from tiltyard.arena.rating.rater_process import Leadership
from tiltyard.core.integrity.vote_groups import VOTE_GROUPS
from tiltyard.core.policy.state.events import NO_MARK
from tiltyard.core.policy.state.policy import Policy
from tiltyard.errors import InputError, NotFound
from tiltyard.postgres.connections import connect, open_pool
from tiltyard.settings.arena_settings import ArenaSettings

MODELS, TARGET = 6, 5
#: Nearly any board is official.
LENIENT = Policy(
    published_rd=350, published_pairs=0.01, published_coverage=0.01, evaluated_every=150, evaluations=1
)
AT_ONCE = ArenaSettings(snapshot_seconds=0.05, undo_seconds=0)


@pytest.fixture
def connection(database):
    with connect(database) as made:
        yield made


@pytest.fixture
def make_yard(database):
    with ExitStack() as stack:

        def make(settings=AT_ONCE, policy=LENIENT):
            yard = Yard(database, policy=policy, models=MODELS, prompts=3, settings=settings)
            stack.callback(yard.close)
            return yard

        yield make


def votes(yard, n, *, seed=1, sessions=60, first=100, target=None, prompts=3, sign=1):
    """Votes of a crowd with an opinion, the opposite one, or of sessions for one model, in one batch."""
    random, deeds = np.random.default_rng(seed), []
    for k in range(n):
        a = int(random.integers(MODELS)) if target is None else target
        b = int((a + random.integers(1, MODELS)) % MODELS)
        outcome = (
            0 if target is not None else int(random.random() > 1.0 / (1.0 + np.exp(0.6 * sign * (a - b))))
        )
        session = first + k % sessions
        deeds += [yard.serving(a, b, k % prompts, session=session), yard.voting_later(outcome, HUMAN)]
    yard.append(*deeds)


def rater_of(yard, connection):
    told = []

    def tell(arena, change):
        told.append(change)
        assert asyncio.run(hold_crowd_change(yard.url, arena, term, change))

    leadership = Leadership(yard.url, new_process())
    try:
        term = leadership.lead(yard.arena)
        arena = rated_arena(connection, yard.arena)
        # Every look at the clock is a second later, so that no board waits.
        return ArenaRater(connection, arena, term, clock=partial(next, count(0.0)), tell_change=tell), told
    finally:
        leadership.close()


def rate(rater):
    """Rate everything, and then what the rater itself appended."""
    for _ in range(3):
        for _ in range(100):
            if not rater.step():
                break
        else:
            raise AssertionError("it goes on for ever")


def board(yard):
    ((document,),) = yard.sql(
        "SELECT document FROM snapshots WHERE arena = %s AND source = 0 ORDER BY generation DESC, position DESC LIMIT 1",
        (yard.arena,),
    )
    return json.loads(document)


def findings(yard):
    return [finding["name"] for finding in board(yard)["findings"]]


def order(yard):
    return [(row["model"], row["votes"]) for row in board(yard)["rows"]]


def explain(yard, position, **options):
    async def explaining():
        async with open_pool(yard.url, most=2) as pool:
            (*_, change) = await list_changes(pool, yard.arena)
            with pytest.raises(InputError):
                await explain_crowd_change(pool, yard.name, position, " ", actor="Ada")
            await explain_crowd_change(pool, yard.name, position, "a class", actor="Ada", **options)
            with pytest.raises(NotFound):
                await explain_crowd_change(pool, yard.name, position, "again", actor="Ada")
            (*_, after) = await list_changes(pool, yard.arena)
            async with pool.connection() as connection:
                return change, after, await list_exclusions(connection, yard.arena)

    return asyncio.run(explaining())


@pytest.mark.slow(but="True")
@pytest.mark.parametrize("keep_out", [False, True])
def test_those_who_change_a_crowd_are_held_and_the_board_goes_on(make_yard, connection, keep_out):
    """The attack: 75 votes for one model took the official status away from everybody."""
    yard = make_yard()
    rater, told = rater_of(yard, connection)
    votes(yard, 900)
    rate(rater)
    honest, status = order(yard), board(yard)["status"]
    assert (told, status) == ([], "official")
    votes(yard, 75, target=TARGET, first=500, sessions=75)
    rate(rater)
    (change,) = told
    # They are known when a block of votes is complete; honest ones are not among them.
    held = set(change.detail["sessions"])
    assert (change.model, held <= set(range(500, 550)), len(held) > 30) == (TARGET, True, True)
    assert findings(yard)[0] == "crowd-changed"
    assert board(yard)["status"] == "official"
    assert board(yard)["votes"] == 975 - len(held)
    ((position,),) = yard.sql("SELECT position FROM events WHERE kind = %s", (LogKind.CROWD_CHANGED,))
    # Whoever goes on is held too; whoever else comes is not.
    for first in range(800, 900, 20):
        votes(yard, 20, target=TARGET, first=first, sessions=20)
        votes(yard, 20, seed=first)
        rate(rater)
    assert len(told) > 1
    assert all(one >= 500 for later in told for one in later.detail["sessions"])
    assert [name for name, _ in order(yard)] == [name for name, _ in honest]
    assert board(yard)["status"] == "official"
    before, after, exclusions = explain(yard, position, keep_out=keep_out)
    assert (before.explained, before.detail["shift"] > 100) == (None, True)
    assert (after.reason, after.explained is None) == ("a class", False)
    assert [one.restored is None for one in exclusions][-1] is keep_out
    rate(rater)
    counted = board(yard)["votes"]
    assert counted == 1175 - sum(one.votes for one in exclusions if one.restored is None)
    # What was explained is no evidence of another change.
    known = len(told)
    votes(yard, 100, seed=3)
    rate(rater)
    assert len(told) == known


@pytest.mark.slow(but="upside-down")
@pytest.mark.parametrize(
    "attack",
    [{"sign": -1}, {"target": TARGET}, {"target": TARGET // 2}],
    ids=["upside-down", "last", "middle"],
)
def test_nineteen_admissions_take_no_official_status(make_yard, connection, attack):
    """Twelve votes each, against what everybody else says: at no time is the board less than official."""
    yard = make_yard(policy=Policy())
    rater, _ = rater_of(yard, connection)
    votes(yard, 1500)
    rate(rater)
    seen = [board(yard)["status"]]
    for part in range(12):
        votes(yard, 19, seed=part, first=500, sessions=19, **attack)
        rate(rater)
        seen.append(board(yard)["status"])
    votes(yard, 500, seed=2)
    rate(rater)
    seen.append(board(yard)["status"])
    assert set(seen) == {"official"}


def test_many_votes_at_once_are_held_as_if_they_had_come_one_by_one(make_yard, connection):
    """The attack: all that came after the first alarm's block counted until others voted."""
    yard = make_yard()
    rater, told = rater_of(yard, connection)
    votes(yard, 900)
    rate(rater)
    votes(yard, 175, target=TARGET, first=500, sessions=175)
    rate(rater)
    rate(rater)
    held = [session for change in told for session in change.detail["sessions"]]
    assert len(set(held)) == len(held) >= 120
    assert all(session >= 500 for session in held)
    assert board(yard)["votes"] == 1075 - len(held)


@pytest.mark.slow
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


def test_a_rater_of_an_earlier_term_holds_nobody(make_yard):
    yard = make_yard()
    votes(yard, 20)
    detail = {
        "since": 1, "until": 2, "votes": 2, "shift": 1.0, "log_evidence": 14.0, "bar": 13.0, "sessions": [100]
    }  # fmt: skip
    yard.sql("UPDATE raters SET term = 7")
    told = [
        asyncio.run(hold_crowd_change(yard.url, yard.arena, term, HeldChange(1, 0, detail)))
        for term in (6, 7)
    ]
    assert told == [False, True]
    assert yard.sql("SELECT count(*) FROM exclusions") == [(1,)]


@pytest.mark.slow
def test_those_who_change_the_crowd_of_a_live_arena_are_held(make_yard, connection):
    yard = make_yard(ArenaSettings(snapshot_seconds=0.05, undo_seconds=0, kind="live"))
    rater, told = rater_of(yard, connection)
    votes(yard, 900, prompts=1)
    rate(rater)
    assert told == []
    votes(yard, 75, target=TARGET, first=500, sessions=75, prompts=1)
    rate(rater)
    assert {change.model for change in told} == {TARGET}
    assert min(session for change in told for session in change.detail["sessions"]) >= 500
    assert "crowd-changed" in findings(yard)


@pytest.mark.slow
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
    change, *_ = read_open_changes(connection, yard.arena, 10**9)
    assert (change.model, told[0].model) == (TARGET, TARGET)
    assert VOTE_GROUPS[change.group] in ("shared-networks-3", "new-voters")


@pytest.mark.parametrize(
    ("kind", "skips"), [(LogKind.SKIP, True), (LogKind.RELEASED, True), (LogKind.EXPIRE, False)]
)
def test_matchups_fetched_ahead_and_released_are_skips(kind, skips):
    grouper, group = VoteGrouper(), 1 << VOTE_GROUPS.index("skipping-voters")
    ended = WatchedEvent(1, 0, kind, 0, 7, -1, -1, -1, -1, -1, NO_MARK)
    for serial in range(6):
        assert grouper.read(ended._replace(serial=serial), (), {}) is None
    cast = ended._replace(kind=LogKind.VOTE, serial=6, a=0, b=1, outcome=0, blind=1)
    assert bool(grouper.read(cast, (), {}).groups & group) is skips
