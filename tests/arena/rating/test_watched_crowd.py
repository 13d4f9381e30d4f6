"""The watch of a crowd outlives its raters: it is stored, and continues wherever they are stopped."""

import logging
from contextlib import closing
from dataclasses import replace

import numpy as np
import pytest

from support.postgres_servers import fresh_database
from support.rated_arenas import Yard, rated_arena
from support.voted_arenas import close_window
from tiltyard.arena.log.event_log import HUMAN, LogKind
from tiltyard.arena.processes.process_leases import new_process
from tiltyard.arena.rating import crowd_watch as watched_crowd
from tiltyard.arena.rating.arena_rater import ArenaRater
from tiltyard.arena.rating.crowd_watch import RatedPlace, WatchedCrowd
from tiltyard.arena.rating.rater_process import Leadership
from tiltyard.arena.rating.rater_progress import read_exclusion_changes
from tiltyard.core.policy.state.events import NO_MARK, VoteMark
from tiltyard.core.policy.state.policy import Policy
from tiltyard.postgres.connections import connect
from tiltyard.settings.arena_settings import ArenaSettings

MODELS, TARGET = 5, 4


def votes(yard, n, *, seed, first=100, target=None, mark=NO_MARK):
    """Votes of a crowd with an opinion, or of as many sessions for one model; every tenth matchup is skipped."""
    random, deeds = np.random.default_rng(seed), []
    for k in range(n):
        a = int(random.integers(MODELS)) if target is None else target
        b = int((a + random.integers(1, MODELS)) % MODELS)
        outcome = 0 if target is not None else int(random.random() > 1.0 / (1.0 + np.exp(0.6 * (a - b))))
        deeds.append(yard.serving(a, b, k % 3, session=first + k % 40))
        if k % 10 == 9:
            deeds.append(
                lambda log: log.end(
                    LogKind.SKIP, HUMAN, len(yard.served[HUMAN]) - 1, session=yard.sessions[HUMAN, len(yard.served[HUMAN]) - 1]
                )
            )  # fmt: skip
        else:
            deeds.append(yard.voting_later(outcome, HUMAN, mark=mark))
    yard.append(*deeds)


@pytest.fixture
def connection(yard):
    with connect(yard.url) as made, made.transaction(force_rollback=True):
        yield made


@pytest.fixture(scope="module")
def yard(server, template):
    """A crowd, a model that comes later, an undone vote, two campaigns, one of which is explained, and an exclusion."""
    with fresh_database(server, template) as url:
        settings = ArenaSettings(snapshot_seconds=0.05, undo_seconds=600)
        made = Yard(url, policy=Policy(), models=MODELS - 1, prompts=3, settings=settings)
        made.grow(["late"])
        votes(made, 600, seed=1)
        for opponent in (0, 1):
            made.undo(made.played(TARGET, opponent, session=90))
        votes(made, 130, seed=2, first=300, target=TARGET, mark=VoteMark.WAITING)
        made.sql("UPDATE raters SET horizon = %s WHERE arena = %s", (made.head, made.arena))
        made.admit(made.waiting()[:30])
        made.append(
            lambda log: log.add(LogKind.CROWD_EXPLAINED, a=TARGET, detail={"change": 1, "reason": "told"})
        )
        votes(made, 333, seed=3)
        votes(made, 130, seed=4, first=500, target=TARGET)
        made.explained = made.head
        made.exclude([(HUMAN, serial) for serial in range(400, 500)])
        votes(made, 100, seed=5)
        close_window(url, made.arena)
        yield made
        made.close()


def follow(yard, connection, random=None, *, live=False):
    """The signs that a watch finds; a random one is fed in pieces, stored at times, and killed at times."""
    told, upto = [], yard.head

    def tell(_arena, change):
        told.append((change.detail["until"], *change))

    crowd, position = WatchedCrowd(connection, yard.arena, tell, live=live), 0
    (change,) = read_exclusion_changes(connection, yard.arena)
    while position < upto:
        # As a rater does, the watch reaches an exclusion before it regards it.
        stop = min(upto, change.position - 1) if position < change.position - 1 else upto
        position = stop if random is None else min(position + int(random.integers(1, 300)), stop)
        generation = int(position >= change.position)
        excluded = range(400, 500) if generation else ()
        place = RatedPlace(generation, position, excluded, yard.head)
        while crowd.catch_up(place, 10_000 if random is None else int(random.integers(1, 200))):
            pass
        if random is not None and random.random() < 0.5:
            crowd.store()
        if random is not None and random.random() < 0.4:
            crowd = WatchedCrowd(connection, yard.arena, tell, live=live)
    # What was found after the last store is found again.
    return sorted({str(one): one for one in told}.values(), key=lambda one: one[:3])


@pytest.fixture(scope="module")
def signs(yard):
    with connect(yard.url) as connection:
        found = follow(yard, connection)
    assert {model for _, model, _, _ in found} == {TARGET}
    assert any(position > yard.explained for position, *_ in found)
    assert len(found) > 3
    return found


@pytest.mark.slow(but="0")
@pytest.mark.parametrize("seed", range(4))
def test_a_watch_that_is_killed_anywhere_finds_the_same_at_the_same_positions(
    yard, signs, connection, monkeypatch, seed
):
    monkeypatch.setattr(watched_crowd, "_STORE_EVENTS", 100)
    assert follow(yard, connection, np.random.default_rng(seed)) == signs


@pytest.mark.slow
def test_a_live_arena_is_watched_by_model_and_category_and_goes_on_wherever_it_was_killed(
    yard, connection, monkeypatch
):
    read = watched_crowd.read_columns

    def in_one_category(*place):
        columns = read(*place)
        return replace(columns, prompt=np.full_like(columns.prompt, 7))

    assert follow(yard, connection, live=True) == [], "too few votes in each of three categories"
    monkeypatch.setattr(watched_crowd, "read_columns", in_one_category)
    connection.execute("DELETE FROM crowd_watches")
    found = follow(yard, connection, live=True)
    assert found
    assert {model for _, model, _, _ in found} == {TARGET}
    monkeypatch.setattr(watched_crowd, "_STORE_EVENTS", 100)
    connection.execute("DELETE FROM crowd_watches")
    assert follow(yard, connection, np.random.default_rng(1), live=True) == found


def test_a_stored_watch_of_other_votes_or_another_version_is_not_used(yard, connection, monkeypatch, caplog):
    monkeypatch.setattr(watched_crowd, "_STORE_EVENTS", 100)
    found = []

    class Counted(watched_crowd.CrowdWatch):
        @classmethod
        def restore(cls, saved):
            found.append(len(saved))
            return super().restore(saved)

    monkeypatch.setattr(watched_crowd, "CrowdWatch", Counted)

    def started(position, generation):
        found.clear()
        crowd = WatchedCrowd(connection, yard.arena, lambda *_: None)
        while crowd.catch_up(RatedPlace(generation, position, (), yard.head), 10_000):
            pass
        crowd.store()
        return bool(found)

    assert not started(600, 0)
    assert started(700, 0)
    # No vote up to there is excluded, so that it serves the next generation too.
    assert started(yard.explained + 1, 1)
    assert not started(yard.explained, 0)
    connection.execute("UPDATE crowd_watches SET version = 'older'")
    assert not started(yard.head, 1)
    connection.execute("UPDATE crowd_watches SET state = 'damaged'")
    with caplog.at_level(logging.WARNING):
        started(yard.head, 1)
    assert "stored watch" in caplog.text


def test_a_change_that_was_told_and_explained_is_not_told_again(yard, connection):
    told = []
    crowd = WatchedCrowd(connection, yard.arena, lambda _arena, change: told.append(change))
    connection.execute(
        "INSERT INTO crowd_changes VALUES (%s, %s, now(), %s, 0, '{}', %s, 'told')",
        (yard.arena, yard.head - 1, TARGET, yard.head),
    )
    crowd.catch_up(RatedPlace(0, yard.explained, (), yard.head), 10_000)
    assert told == []


def test_a_rater_stores_its_watch_with_a_checkpoint(yard, monkeypatch):
    monkeypatch.setattr(watched_crowd, "_STORE_EVENTS", 100)
    told, leadership = [], Leadership(yard.url, new_process())
    with connect(yard.url) as connection, closing(leadership):
        term = leadership.lead(yard.arena)
        arena = rated_arena(connection, yard.arena)
        rater = ArenaRater(connection, arena, term, tell_change=lambda _arena, change: told.append(change))
        while rater.step():
            pass
        rater.finish()
        (kept,) = connection.execute("SELECT generation, position FROM crowd_watches").fetchall()
    assert kept == (1, yard.head)
    assert {model for model, *_ in told} == {TARGET}
