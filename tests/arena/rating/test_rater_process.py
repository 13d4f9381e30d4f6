"""The rater: nothing skipped, nothing folded twice, and whatever happens to it, the bits of a replay."""

import json
import signal
import subprocess
import sys
import threading
import time
from contextlib import ExitStack, closing
from dataclasses import replace

import numpy as np
import pytest

from support.rated_arenas import Yard, naive, rated_arena, tell, tell_all
from support.replayed_logs import replay_log
from tiltyard.arena.log.event_log import HUMAN, JUDGE, LogKind
from tiltyard.arena.processes.process_leases import new_process
from tiltyard.arena.rating import arena_rater as rater_module
from tiltyard.arena.rating.arena_rater import ArenaRater, RaterPace
from tiltyard.arena.rating.board_publisher import BoardMoment, TimeBudget, make_snapshot, open_matchups_at
from tiltyard.arena.rating.log_replay import fold_until
from tiltyard.arena.rating.rater_process import Leadership, RaterProcess
from tiltyard.arena.rating.rater_progress import event_time, read_rater_progress
from tiltyard.core.policy.state.events import VoteMark
from tiltyard.errors import BadOption, Deposed, StoreFault
from tiltyard.postgres.connections import connect
from tiltyard.settings.arena_settings import ArenaSettings

#: Small steps and many checkpoints.
BUSY = RaterPace(step=7, checkpoint_events=20, catching_up=15)
AT_ONCE = ArenaSettings(undo_seconds=0.0, snapshot_seconds=0.5)


@pytest.fixture
def make_yard(database):
    """Makes arenas, and lets them go in the end."""
    with ExitStack() as stack:

        def make(**settings):
            yard = Yard(database, **settings)
            stack.callback(yard.close)
            return yard

        yield make


@pytest.fixture
def yard(make_yard):
    return make_yard()


@pytest.fixture
def quick(make_yard):
    """An arena whose votes are final as soon as the rater sees them."""
    return make_yard(settings=AT_ONCE)


@pytest.fixture
def connection(database):
    with connect(database) as made:
        yield made


class Clock:
    """Seconds that pass when they are told to, and a little with every look."""

    def __init__(self, tick=0.0):
        self.now = 1000.0
        self.tick = tick

    def __call__(self):
        self.now += self.tick
        return self.now


def led(yard, connection, *, pace=BUSY, clock=None, leadership=None):
    """A rater with a term of its own."""
    leadership = leadership or Leadership(yard.url, new_process())
    term = leadership.lead(yard.arena)
    try:
        return ArenaRater(
            connection, rated_arena(connection, yard.arena), term, pace=pace, clock=clock or Clock(0.01)
        )
    finally:
        leadership.close()


def rate(rater):
    """Steps until nothing is waiting."""
    for _ in range(2000):
        if not rater.step():
            return rater
    raise AssertionError("it goes on for ever")


def assert_replayed(yard, rater):
    """What it holds is what a naive reader of the log comes to, and so is a replay."""
    generation = rated_row(yard).generation
    expected = naive(yard.url, yard.arena, rater.position, generation)
    with connect(yard.url) as connection:
        replayed = replay_log(connection, yard.arena, rater.position, generation)
    for source in (HUMAN, JUDGE):
        assert rater.following(source).digest() == expected[source].digest()
        assert replayed[source].digest() == expected[source].digest()


def rated_row(yard):
    with connect(yard.url) as connection:
        return read_rater_progress(connection, yard.arena)


def snapshots(yard):
    """Source, generation, position, hash, evaluated, votes and document of every snapshot, in order."""
    return yard.sql(
        "SELECT source, generation, position, encode(sha256, 'hex'), evaluated, votes, document FROM snapshots "
        "WHERE arena = %s ORDER BY position, generation, source",
        (yard.arena,),
    )


def assert_boards_replayed(yard, rng, most=5):
    """Boards that were published are those of a replay from zero, byte for byte."""
    found = snapshots(yard)
    for place in rng.choice(len(found), min(most, len(found)), replace=False).tolist():
        source, generation, position, sha256, evaluated, _, document = found[place]
        with connect(yard.url) as connection:
            following = replay_log(connection, yard.arena, position, generation)[source]
            moment = BoardMoment(source, position, event_time(connection, yard.arena, position), generation)
            opened = open_matchups_at(connection, yard.arena, source, following, position)
            again = make_snapshot(following, rated_arena(connection, yard.arena), moment, opened)
        assert (again.sha256, again.document) == (sha256, document)
        if evaluated:
            assert following.history.evaluations[-1].votes == following.votes


@pytest.mark.slow(but="0")
@pytest.mark.parametrize("seed", range(3))
def test_whatever_happens_in_an_arena_its_rater_comes_to_what_a_replay_does(yard, connection, seed):
    rng = np.random.default_rng(seed)
    rater = led(yard, connection)
    for _ in range(2):
        tell_all(yard, rng)
        tell(yard, rng, 8)
        yard.age()
        rate(rater)
        assert rater.position == yard.head == rated_row(yard).position == rated_row(yard).horizon
        assert_replayed(yard, rater)
    assert_boards_replayed(yard, rng)


def test_votes_that_waited_count_where_they_were_admitted(yard, connection):
    """Mixed with undo, exclusion and restoration, before the admission and after it."""
    rater = led(yard, connection)

    def rated():
        yard.age()
        rate(rater)
        assert_replayed(yard, rater)
        return rater.following(HUMAN).votes

    waiting = [yard.played(0, 1, session=2, mark=VoteMark.WAITING) for _ in range(6)]
    yard.played(2, 3, session=2, mark=VoteMark.EARLY)
    assert yard.undo(waiting[0])
    yard.vote(waiting[0], 1, mark=VoteMark.WAITING)
    assert yard.undo(waiting[1])
    assert rated() == 0
    before = yard.exclude([waiting[2]])
    assert rated() == 0
    votes = yard.waiting()
    assert [vote.serial for vote in votes] == [2, 3, 4, 5, 0]
    yard.admit(votes)
    assert yard.waiting() == []
    assert not yard.undo(waiting[3]), "it is final"
    assert rated() == 4
    after = yard.exclude([waiting[4]])
    yard.played(2, 3, session=2)
    assert rated() == 4
    yard.restore(before)
    assert rated() == 5
    yard.restore(after)
    assert rated() == 6
    assert_boards_replayed(yard, np.random.default_rng(1))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 130))
def test_long_stories_too(yard, connection, seed):
    rng = np.random.default_rng(seed)
    pace = RaterPace(step=60, checkpoint_events=100, catching_up=150)
    rater = led(yard, connection, pace=pace)
    for _ in range(8):
        tell_all(yard, rng)
        tell(yard, rng, 20)
        yard.age()
        for _ in range(int(rng.integers(0, 30))):
            rater.step()
        if rng.random() < 0.3:
            rater = led(yard, connection, pace=pace)
    rate(rater)
    assert_replayed(yard, rater)
    assert_boards_replayed(yard, rng, most=40)


@pytest.mark.slow(but="0")
@pytest.mark.parametrize("seed", range(2))
def test_one_that_is_thrown_away_at_any_moment_is_followed_by_one_that_comes_to_the_same(
    yard, connection, seed
):
    rng = np.random.default_rng(seed)
    rater = led(yard, connection)
    for _ in range(6):
        tell(yard, rng, 6)
        yard.age()
        for _ in range(int(rng.integers(0, 9))):
            rater.step()
        rater = led(yard, connection)
        assert rater.position <= rated_row(yard).position
    rate(rater)
    assert_replayed(yard, rater)
    assert_boards_replayed(yard, rng)
    assert_every_evaluation_has_a_board(yard)


def assert_every_evaluation_has_a_board(yard):
    """In an arena without exclusions, one board for each evaluation; here, one for each of the last generation."""
    row = rated_row(yard)
    with connect(yard.url) as connection:
        followings = replay_log(connection, yard.arena, row.position, row.generation)
    changed = max(
        (x or 0 for pair in yard.sql("SELECT excluded, restored FROM exclusions") for x in pair), default=0
    )
    at_change = None
    if changed:
        with connect(yard.url) as connection:
            at_change = replay_log(connection, yard.arena, changed, row.generation)
    for source, following in followings.items():
        seen = [
            votes
            for of, generation, _, _, evaluated, votes, _ in snapshots(yard)
            if (of, generation, evaluated) == (source, row.generation, True)
        ]
        after = 0 if at_change is None else len(at_change[source].history.evaluations)
        assert seen == [known.votes for known in following.history.evaluations[after:]]


def test_a_checkpoint_of_another_version_is_not_used(yard, connection):
    tell(yard, np.random.default_rng(1), 20)
    yard.age()
    rate(led(yard, connection)).finish()
    assert led(yard, connection).position == yard.head
    yard.sql("UPDATE checkpoints SET kernel = 'state-4 python-2.7 vax'")
    assert led(yard, connection).position == 0


def test_a_damaged_checkpoint_is_passed_over_for_an_older_one(yard, connection, caplog):
    tell(yard, np.random.default_rng(1), 20)
    yard.age()
    rate(led(yard, connection)).finish()
    places = [place for (place,) in yard.sql("SELECT position FROM checkpoints ORDER BY 1 DESC")]
    yard.sql(
        "UPDATE checkpoints SET state = substr(state, 1, 200) || '\\x00'::bytea WHERE position = %s",
        (places[0],),
    )
    again = led(yard, connection)
    assert again.position == places[1]
    assert "checkpoint of arena" in caplog.text
    assert_replayed(yard, rate(again))


# What is final


def test_a_vote_that_may_be_undone_is_not_folded(yard, connection):
    yard.age()
    yard.played(0, 1)
    fresh = yard.played(1, 2)
    yard.played(2, 3)
    first = yard.sql("SELECT min(position) FROM events WHERE kind = 1")[0][0]
    rater = rate(led(yard, connection))
    assert rated_row(yard).horizon == rater.position == first - 1
    assert rater.following(HUMAN).votes == 0
    yard.undo(fresh)
    yard.age()
    rate(rater)
    assert rater.following(HUMAN).votes == 2
    assert_replayed(yard, rater)


def test_a_vote_whose_names_were_shown_is_final_and_one_that_was_undone_is_passed(yard, connection):
    yard.age()
    shown, taken, fresh = yard.played(0, 1), yard.played(1, 2), yard.played(2, 3)
    yard.reveal(shown)
    yard.undo(taken)
    rater = rate(led(yard, connection))
    assert rater.following(HUMAN).votes == 1
    assert rater.following(HUMAN).standing.skipped == 0
    before = yard.sql("SELECT position FROM endings WHERE serial = %s", (fresh[1],))[0][0]
    assert rated_row(yard).horizon == before - 1
    assert_replayed(yard, rater)


@pytest.mark.slow(but="0")
@pytest.mark.parametrize("seed", range(2))
def test_the_horizon_never_passes_a_vote_that_may_be_undone(yard, connection, seed):
    rng = np.random.default_rng(seed)
    rater = led(yard, connection)
    for _ in range(4):
        yard.age()
        tell(yard, rng, 6)
        rate(rater)
        young = yard.sql(
            "SELECT min(e.position) FROM events e JOIN endings n USING (arena, source, serial) "
            "WHERE e.kind = 1 AND n.position = e.position AND revealed_at IS NULL AND undone IS NULL "
            "AND e.at > now() - interval '10 s'"
        )[0][0]
        assert rated_row(yard).horizon == (yard.head if young is None else young - 1)
        assert rater.position <= rated_row(yard).horizon
        assert_replayed(yard, rater)


def test_a_clock_that_was_set_back_does_not_stop_an_arena(yard, connection):
    clock = Clock()
    yard.played(0, 1)
    yard.sql(
        "UPDATE events SET at = at + interval '1 day' WHERE position = (SELECT max(position) FROM events)"
    )
    rater = rate(led(yard, connection, clock=clock))
    assert rater.following(HUMAN).votes == 0
    clock.now += 5.0
    assert rate(rater).following(HUMAN).votes == 0
    clock.now += 6.5
    assert rate(rater).following(HUMAN).votes == 1


def test_the_horizon_waits_for_whoever_is_appending(yard, connection):
    """An undo that is on its way is in the log before its vote is final."""
    vote = yard.played(0, 1)
    yard.age()
    rater = led(yard, connection, pace=RaterPace())
    with connect(yard.url) as other, other.transaction():
        other.execute("SELECT pg_advisory_xact_lock(7205, %s)", (yard.arena,))
        working = threading.Thread(target=rate, args=(rater,))
        working.start()
        time.sleep(0.3)
        assert rated_row(yard).horizon == 0
        position = yard.head + 1
        other.execute(
            "INSERT INTO events_b1 (arena, position, at, kind, source, serial, detail) "
            "SELECT arena, %s, now(), 8, source, serial, jsonb_build_object('vote', position) "
            "FROM endings WHERE arena = %s AND serial = %s",
            (position, yard.arena, vote[1]),
        )
    working.join(60)
    assert rated_row(yard).horizon == position - 1
    assert rater.following(HUMAN).votes == 0
    assert rater.following(HUMAN).standing.skipped == 0


# Exclusions


def test_an_exclusion_goes_back_to_the_last_checkpoint_before_it(yard, connection, monkeypatch):
    votes = [yard.played(k % 4, (k + 1) % 4, k % 3, k % 3) for k in range(60)]
    yard.age()
    rater = rate(led(yard, connection, pace=replace(BUSY, checkpoint_events=30)))
    kept = {position for (position,) in yard.sql("SELECT position FROM checkpoints")}
    begun = []
    real = rater_module.read_columns
    monkeypatch.setattr(
        rater_module, "read_columns", lambda c, a, after, upto: begun.append(after) or real(c, a, after, upto)
    )
    yard.exclude(votes[-3:])
    rate(rater)
    assert min(begun) in kept
    assert_replayed(yard, rater)
    yard.exclude(votes[:1])
    rate(rater)
    assert min(begun) == 0
    assert rater.following(HUMAN).votes == 56
    assert rated_row(yard).generation == 2
    assert_replayed(yard, rater)


def test_votes_that_are_restored_count_as_if_they_had_never_left(yard, connection):
    votes = [yard.played(k % 4, (k + 1) % 4, k % 3, k % 3) for k in range(40)]
    yard.age()
    rater = rate(led(yard, connection))
    before = rater.following(HUMAN).digest()
    number = yard.exclude(votes[5:9])
    rate(rater)
    assert rater.following(HUMAN).digest() != before
    yard.restore(number)
    rate(rater)
    assert rater.following(HUMAN).digest() == before
    assert rated_row(yard).generation == 2
    assert_replayed(yard, rater)


def test_a_new_generation_is_published_and_saved_at_once(yard, connection):
    votes = [yard.played(k % 4, (k + 1) % 4, k % 3, k % 3) for k in range(12)]
    yard.age()
    rater = rate(led(yard, connection, clock=Clock()))
    yard.exclude(votes[:2])
    rate(rater)
    (place,) = yard.sql("SELECT max((generation, position)::text) FROM checkpoints")[0]
    assert place == f"(1,{yard.head})"
    last = [row[:3] for row in snapshots(yard)][-2:]
    assert last == [(HUMAN, 1, yard.head), (JUDGE, 1, yard.head)]
    assert json.loads(snapshots(yard)[-2][6])["generation"] == 1


def test_an_exclusion_of_votes_not_folded_yet_needs_no_way_back(yard, connection):
    yard.age()
    rater = rate(led(yard, connection))
    yard.exclude([yard.played(0, 1)])
    yard.exclude([])
    yard.age()
    rate(rater)
    assert rater.following(HUMAN).votes == 0
    assert rated_row(yard).generation == 2
    assert_replayed(yard, rater)


def test_a_vote_excluded_twice_counts_only_when_both_are_restored(yard, connection):
    votes = [yard.played(0, 1) for _ in range(6)]
    one, other = yard.exclude(votes[:2]), yard.exclude(votes[1:3])
    yard.restore(one)
    yard.age()
    rater = rate(led(yard, connection))
    assert rater.following(HUMAN).votes == 4
    yard.restore(other)
    assert rate(rater).following(HUMAN).votes == 6
    assert_replayed(yard, rater)


def test_an_exclusion_that_the_table_does_not_know_is_damage(yard, connection):
    yard.append(lambda log: log.add(LogKind.EXCLUDE, detail={"exclusion": 99}))
    yard.age()
    with pytest.raises(StoreFault, match="exclusions does"):
        rate(led(yard, connection))


def test_a_log_with_a_hole_is_refused(yard, connection):
    yard.played(0, 1)
    yard.age()
    yard.sql("DELETE FROM events WHERE position = 5")
    with pytest.raises(StoreFault, match="has a gap"):
        rate(led(yard, connection))


def test_a_policy_that_cannot_be_taken_in_stops_the_rating_with_a_reason(yard, connection):
    yard.change(window=500)
    yard.age()
    with pytest.raises(BadOption, match="window cannot change"):
        rate(led(yard, connection))


# What is published


def test_boards_come_no_more_often_than_asked_except_at_evaluations(make_yard, connection):
    yard = make_yard(settings=ArenaSettings(snapshot_seconds=10.0))
    clock = Clock()
    rater = rate(led(yard, connection, pace=RaterPace(), clock=clock))
    published = len(snapshots(yard))
    assert published == 2
    yard.played(0, 1)
    yard.age()
    rate(rater)
    assert len(snapshots(yard)) == published
    clock.now += 10.0
    rate(rater)
    assert [row[0] for row in snapshots(yard)[published:]] == [HUMAN], "judges have no news"
    for _ in range(4):
        yard.played(0, 1)
    yard.age()
    rate(rater)
    assert snapshots(yard)[-1][4:6] == (True, 5)
    clock.now += 100.0
    rate(rater)
    before = len(snapshots(yard))
    clock.now += 100.0
    rate(rater)
    assert len(snapshots(yard)) == before, "without news there is no board"


def test_the_newest_board_of_each_source_is_announced_once(yard, connection):
    with connect(yard.url) as listening:
        listening.execute("LISTEN tiltyard_snapshot")
        for _ in range(11):
            yard.played(0, 1)
        yard.age()
        rate(led(yard, connection, pace=RaterPace()))
        listening.execute("SELECT 1")
        heard = [notice.payload for notice in listening.notifies(timeout=30, stop_after=2)]
    assert len(snapshots(yard)) == 4, "two evaluations, and both boards at the end"
    assert sorted(heard) == [f"{yard.arena} {source} {yard.head} 0" for source in (HUMAN, JUDGE)]


def test_when_boards_take_too_long_only_the_newest_evaluation_is_sure_of_one(yard, connection, monkeypatch):
    clock = Clock()
    real = rater_module.make_snapshot

    def slow(*args, **rest):
        clock.now += 8.0
        return real(*args, **rest)

    monkeypatch.setattr(rater_module, "make_snapshot", slow)
    for _ in range(60):
        yard.played(0, 1)
    yard.age()
    rater = rate(led(yard, connection, pace=RaterPace(), clock=clock))
    assert len(rater.following(HUMAN).history.evaluations) == 12
    evaluated = [row[5] for row in snapshots(yard) if row[4]]
    assert 2 <= len(evaluated) <= 4
    assert evaluated[-1] == 60, "the board to cite is that of the last evaluation"
    for _ in range(6):
        yard.played(0, 1)
    yard.age()
    rate(rater)
    assert [row[5] for row in snapshots(yard) if row[4]] == [*evaluated, 65]
    assert_replayed(yard, rater)


def test_an_allowance_is_a_share_of_the_time_and_saves_up_to_a_limit():
    allowance = TimeBudget(share=0.2, most=2.0)
    assert allowance.allows(0.0)
    allowance.spend(3.0)
    assert not allowance.allows(1.0)
    assert not allowance.allows(4.9)
    assert allowance.allows(5.1)
    spent, now = 0.0, 1e6
    for _ in range(1000):
        now += 0.5
        if allowance.allows(now):
            allowance.spend(1.0)
            spent += 1.0
    assert 100.0 <= spent <= 104.0


def test_a_board_says_when_more_models_play_than_were_planned(make_yard, connection):
    yard = make_yard(settings=ArenaSettings(settled_family=3, snapshot_seconds=0.05))
    yard.age()
    rate(led(yard, connection))
    assert "family-outgrown" in {finding["name"] for finding in json.loads(snapshots(yard)[0][6])["findings"]}


def test_hostile_names_are_published_as_they_are(make_yard, connection):
    names = ["</script><b>", "'; DROP TABLE snapshots; --", "a\u202eb", "🦆 \\u0000 %s {x}"]
    yard = make_yard(models=0)
    yard.grow(names, ["%(arena)s"])
    yard.played(0, 1)
    yard.age()
    rate(led(yard, connection))
    assert {row["model"] for row in json.loads(snapshots(yard)[-1][6])["rows"]} == set(names)


def test_an_arena_of_which_nothing_is_known_yet_has_no_board(make_yard, connection):
    yard = make_yard(models=0, prompts=0)
    yard.sql("DELETE FROM events")
    rater = rate(led(yard, connection))
    assert (rater.position, snapshots(yard)) == (0, [])
    rater.finish()
    assert yard.sql("SELECT * FROM checkpoints") == []


# Leaders


def test_a_deposed_leader_writes_nothing(yard, connection):
    yard.played(0, 1)
    yard.age()
    rater = led(yard, connection)
    while rater.position < 10:
        rater.step()
    before = rated_row(yard)
    new = led(yard, connection)
    written = len(snapshots(yard))
    with pytest.raises(Deposed):
        rate(rater)
    assert rated_row(yard) == replace(before, term=new.term)
    assert len(snapshots(yard)) == written
    assert_replayed(yard, rate(new))


def test_a_leader_that_was_deposed_between_two_writes_loses_the_second(yard, connection, monkeypatch):
    """It has claimed its horizon and folded; then another takes over; its boards must not appear."""
    yard.played(0, 1)
    yard.age()
    rater = led(yard, connection, pace=RaterPace())
    real = rater_module.commit_rated

    def overtaken(*args):
        led(yard, connection)
        return real(*args)

    monkeypatch.setattr(rater_module, "commit_rated", overtaken)
    with pytest.raises(Deposed):
        rater.step()
    assert rated_row(yard).position == 0
    assert snapshots(yard) == []


def test_one_whose_term_has_ended_does_not_begin(yard, connection):
    old = led(yard, connection).term
    led(yard, connection)
    with pytest.raises(Deposed):
        ArenaRater(connection, rated_arena(connection, yard.arena), old)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_a_connection_that_breaks_in_the_middle_of_writing_loses_nothing(yard, seed, monkeypatch):
    """Every few writes the server cuts the rater off, before or after the commit."""
    rng = np.random.default_rng(seed)
    real = rater_module.commit_rated

    def cut(connection, *rest):
        if rng.random() < 0.3:
            yard.sql("SELECT pg_terminate_backend(%s)", (connection.info.backend_pid,))
        real(connection, *rest)
        if rng.random() < 0.3:
            yard.sql("SELECT pg_terminate_backend(%s)", (connection.info.backend_pid,))

    monkeypatch.setattr(rater_module, "commit_rated", cut)
    faults = 0
    for _ in range(4):
        tell(yard, rng, 6)
        yard.age()
        while rated_row(yard).position < yard.head:
            with closing(connect(yard.url)) as connection:
                try:
                    rate(led(yard, connection))
                except StoreFault:
                    faults += 1
    assert faults > 2
    monkeypatch.undo()
    with connect(yard.url) as connection:
        assert_replayed(yard, rate(led(yard, connection)))
    assert_boards_replayed(yard, rng)
    assert_every_evaluation_has_a_board(yard)


# Houses


@pytest.fixture
def rater_processes():
    """Houses in threads, which end with the test."""
    stop, threads = threading.Event(), []

    def open_rater_process(url, name):
        rater_process = RaterProcess(url, name=name)
        threads.append(threading.Thread(target=rater_process.run, args=(stop,)))
        threads[-1].start()
        return rater_process

    yield open_rater_process
    stop.set()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()


def until(holds, seconds=60.0):
    """Wait until something holds; how long it took."""
    start = time.monotonic()
    while not holds():
        assert time.monotonic() - start < seconds, "it took too long"
        time.sleep(0.02)
    return time.monotonic() - start


def leader(yard):
    return yard.sql("SELECT leader FROM raters WHERE arena = %s", (yard.arena,))[0][0]


def caught_up(yard):
    return lambda: rated_row(yard).position == yard.head


@pytest.mark.slow
def test_of_two_rater_processes_one_leads_each_arena_and_everything_is_rated_once(
    make_yard, database, rater_processes
):
    yards = [make_yard(settings=AT_ONCE) for k in range(3)]
    rng = np.random.default_rng(0)
    rater_processes(database, "left")
    rater_processes(database, "right")
    for _ in range(3):
        for yard in yards:
            tell(yard, rng, 5)
    for yard in yards:
        until(caught_up(yard))
        assert leader(yard) in ("left", "right")
    # An arena may have begun with the one that was there first.
    assert 3 <= sum(term for (term,) in yards[0].sql("SELECT term FROM raters")) <= 6
    for yard in yards:
        assert_boards_replayed(yard, rng, most=3)


@pytest.mark.slow
def test_a_rater_process_that_is_disconnected_reconnects_and_leads_again(quick, rater_processes):
    yard = quick
    rater_processes(yard.url, "alone")
    rng = np.random.default_rng(2)
    until(caught_up(yard))
    for name in ("tiltyard rater", "tiltyard lease", "tiltyard%"):
        yard.sql(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE application_name LIKE %s AND application_name <> 'tiltyard test' "
            "AND pid <> pg_backend_pid() AND datname = current_database()",
            (name,),
        )
        tell(yard, rng, 6)
        assert until(caught_up(yard)) < 30
    until(lambda: leader(yard) == "alone")
    assert_boards_replayed(yard, rng)


def test_a_connection_that_is_stuck_in_a_statement_is_given_up(quick):
    """The driver may give up waiting and leave a connection open that refuses every statement."""
    yard = quick
    stop, rater_process = threading.Event(), RaterProcess(yard.url)
    rater_process.turn()
    rater_process._connected().connection.pgconn.send_query(b"SELECT pg_sleep(60)")
    with pytest.raises(StoreFault):
        rater_process.search()
    thread = threading.Thread(target=rater_process.run, args=(stop,))
    thread.start()
    yard.played(0, 1)
    until(caught_up(yard))
    stop.set()
    thread.join(60)


def test_an_arena_that_cannot_be_rated_does_not_keep_the_others_waiting(
    make_yard, database, rater_processes, caplog
):
    broken, sound = make_yard(), make_yard()
    broken.change(meetings=99)
    broken.age()
    rater_processes(database, "one")
    sound.played(0, 1)
    sound.age()
    until(caught_up(sound))
    until(lambda: "meetings cannot change" in caplog.text)


def test_long_replays_take_turns(make_yard, database):
    yards = [make_yard(), make_yard()]
    for yard in yards:
        tell(yard, np.random.default_rng(1), 20)
        yard.age()
    house = RaterProcess(database, pace=RaterPace(step=1), clock=Clock(0.6))
    try:
        for _ in range(30):
            house.turn()
        positions = [house.raters[yard.arena].position for yard in yards]
    finally:
        house.close()
    assert min(positions) > 5


def test_arenas_are_carried_over_to_a_new_version_before_a_new_rater_takes_them(
    make_yard, database, rater_processes, monkeypatch
):
    yards = [make_yard(settings=AT_ONCE) for _ in range(2)]
    earlier = Leadership(database, new_process(), name="earlier")
    for yard in yards:
        tell(yard, np.random.default_rng(1), 20)
        yard.age()
        about = rated_arena(earlier.connection, yard.arena)
        term = earlier.lead(yard.arena)
        rate(ArenaRater(earlier.connection, about, term, pace=BUSY, clock=Clock(0.01))).finish()
    yards[0].sql("UPDATE checkpoints SET kernel = 'state-4'")
    monkeypatch.setattr("tiltyard.arena.rating.version_change.QUICK_EVENTS", 5)
    monkeypatch.setattr("tiltyard.arena.rating.version_change._CHECKPOINT_EVENTS", 20)
    began, go_on = threading.Event(), threading.Event()

    def fold_slowly(*about):
        began.set()
        go_on.wait(60)
        return fold_until(*about)

    monkeypatch.setattr("tiltyard.arena.rating.version_change.fold_until", fold_slowly)
    rater_processes(database, "later")
    began.wait(60)
    assert [leader(yard) for yard in yards] == ["earlier", "earlier"]
    assert yards[0].sql("SELECT count(*) FROM processes WHERE role = 'rater'") == [(1,)]
    go_on.set()
    until(lambda: yards[0].sql("SELECT count(*) FROM processes WHERE role = 'rater'") == [(2,)])
    earlier.close()
    for yard in yards:
        assert rated_row(yard).position == yard.head
        own = yard.sql(
            f"SELECT max(position) FROM checkpoints WHERE arena = {yard.arena} AND kernel <> 'state-4'"
        )
        assert own == [(yard.head - 1,)]
        tell(yard, np.random.default_rng(2), 5)
        yard.age()
        until(caught_up(yard))
        assert_boards_replayed(yard, np.random.default_rng(3))


def test_a_rater_process_that_stops_leaves_a_checkpoint_and_no_leader(yard):
    stop = threading.Event()
    thread = threading.Thread(target=RaterProcess(yard.url).run, args=(stop,))
    thread.start()
    yard.played(0, 1)
    yard.age()
    until(caught_up(yard))
    stop.set()
    thread.join(60)
    assert leader(yard) is None
    assert yard.sql("SELECT max(position) FROM checkpoints") == [(yard.head,)]
    assert yard.sql("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'") == [(0,)]


def test_a_rater_process_waits_for_a_database_that_is_not_there_yet(yard):
    stop = threading.Event()
    rater_process = RaterProcess(yard.url.replace("/test_", "/none_"))
    thread = threading.Thread(target=rater_process.run, args=(stop,))
    thread.start()
    time.sleep(0.3)
    assert thread.is_alive()
    stop.set()
    thread.join(60)
    assert not thread.is_alive()


CHILD = """
import sys, threading
from tiltyard.arena.rating.rater_process import RaterProcess
RaterProcess(sys.argv[1]).run(threading.Event())
"""


def take_over(yard, rng):
    """Kill a leader beside its heir: seconds until the heir leads, and until it has rated what comes then."""
    stop = threading.Event()
    heir = threading.Thread(target=RaterProcess(yard.url, name="heir").run, args=(stop,))
    child = subprocess.Popen([sys.executable, "-c", CHILD, yard.url])
    try:
        tell(yard, rng, 5)
        until(lambda: leader(yard) is not None)
        until(caught_up(yard))
        assert leader(yard) != "heir"
        term = rated_row(yard).term
        heir.start()
        until(lambda: yard.sql("SELECT count(*) FROM processes WHERE expires_at > now()") == [(2,)])
        tell(yard, rng, 5)
        child.send_signal(signal.SIGKILL)
        leads = until(lambda: leader(yard) == "heir")
        tell(yard, rng, 5)
        rates = until(caught_up(yard))
        assert rated_row(yard).term == term + 1
    finally:
        child.kill()
        child.wait()
        stop.set()
        if heir.is_alive():
            heir.join(60)
    return leads, rates


@pytest.mark.slow
def test_when_a_leader_is_killed_another_leads(quick):
    """How soon is measured by name, in tests/faults: a busy machine may take long."""
    yard = quick
    rng = np.random.default_rng(3)
    leads, rates = take_over(yard, rng)
    print(f"another leads after {leads:.1f} s, and has rated everything after {rates:.1f} s")
    assert_boards_replayed(yard, rng)
    assert_every_evaluation_has_a_board(yard)


def test_small_steps_and_large_ones_publish_the_same_evaluations(yard, connection):
    tell(yard, np.random.default_rng(9), 40)
    yard.age()
    rate(led(yard, connection, pace=RaterPace(step=3)))
    slowly = {row[:3]: row[3] for row in snapshots(yard) if row[4]}
    yard.sql("DELETE FROM snapshots")
    yard.sql("DELETE FROM checkpoints")
    yard.sql("UPDATE raters SET position = 0, generation = 0")
    rate(led(yard, connection, pace=RaterPace(step=1000)))
    assert {row[:3]: row[3] for row in snapshots(yard) if row[4]} == slowly
