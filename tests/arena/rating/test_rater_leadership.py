"""Leadership: one at a time, known by a lock and by a term."""

import subprocess
import sys
import time

import pytest

from tiltyard.arena.rating.rater_leadership import Leadership
from tiltyard.arena.rating.rater_progress import claim_horizon, commit_rated, read_rater_progress
from tiltyard.errors import Deposed, StoreFault
from tiltyard.postgres.connections import connect


@pytest.fixture
def connection(database):
    with connect(database) as made:
        for name in ("one", "two"):
            made.execute(
                "INSERT INTO arenas (name, title, settings, bucket) VALUES (%s, '', '{}', 1)", (name,)
            )
        made.execute("INSERT INTO raters (arena) VALUES (1)")
        yield made


@pytest.fixture
def leaders(database, connection):
    """Two who would lead."""
    made = [Leadership(database, name=name) for name in ("left", "right")]
    yield made
    for leadership in made:
        leadership.close()


def test_one_leads_until_it_resigns(leaders, connection):
    left, right = leaders
    assert left.lead(1) == 1
    assert right.lead(1) is None
    assert left.lead(1) == 1, "asking again is not a new term"
    left.resign(1)
    assert right.lead(1) == 2
    assert left.lead(1) is None
    assert connection.execute("SELECT leader FROM raters WHERE arena = 1").fetchone() == ("right",)
    left.resign(1)
    assert right.still_leading() == {1}


def test_arenas_are_led_one_by_one_and_a_missing_row_is_made(leaders):
    left, right = leaders
    assert (left.lead(1), right.lead(2)) == (1, 1)
    assert (left.lead(2), right.lead(1)) == (None, None)
    assert (left.still_leading(), right.still_leading()) == ({1}, {2})


def test_the_lock_dies_with_its_connection(leaders, connection):
    left, right = leaders
    left.lead(1)
    connection.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND classid = 7207"
    )
    deadline = time.monotonic() + 5
    while right.lead(1) is None:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    assert right.terms == {1: 2}
    with pytest.raises(StoreFault):
        left.still_leading()
    assert left.lost


def test_a_lock_that_was_let_go_behind_our_back_is_noticed(leaders):
    left, _ = leaders
    left.lead(1)
    left._connection.execute("SELECT pg_advisory_unlock_all()")
    assert left.still_leading() == set()
    assert left.terms == {}


def test_locks_of_other_databases_and_other_kinds_are_not_taken_for_ours(leaders, connection):
    left, _ = leaders
    left._connection.execute("SELECT pg_advisory_lock(7205, 1), pg_advisory_lock(7207)")
    assert left.still_leading() == set()


def test_what_a_deposed_leader_writes_is_refused(leaders, connection):
    left, right = leaders
    term = left.lead(1)
    before = read_rater_progress(connection, 1)
    claim_horizon(connection, 1, term, 10)
    left.resign(1)
    right.lead(1)
    with pytest.raises(Deposed, match="another process now rates arena 1"):
        claim_horizon(connection, 1, term, 20)
    with pytest.raises(Deposed):
        commit_rated(connection, 1, before, before, [], None)
    assert read_rater_progress(connection, 1).horizon == 10


def test_a_horizon_never_goes_back(leaders, connection):
    term = leaders[0].lead(1)
    claim_horizon(connection, 1, term, 10)
    claim_horizon(connection, 1, term, 7)
    assert read_rater_progress(connection, 1).horizon == 10


def test_an_arena_that_is_not_there_is_a_fault_that_says_so(connection):
    with pytest.raises(StoreFault, match="arena 77 has no such row"):
        read_rater_progress(connection, 77)


def test_a_leader_of_no_known_arena_is_refused_and_keeps_no_lock(leaders, connection):
    with pytest.raises(StoreFault):
        leaders[0].lead(77)
    assert connection.execute("SELECT count(*) FROM pg_locks WHERE classid = 7207").fetchone() == (0,)


def test_a_leader_whose_term_could_not_be_written_keeps_no_lock(leaders, connection):
    connection.execute("ALTER TABLE raters RENAME TO raters_elsewhere")
    with pytest.raises(StoreFault):
        leaders[0].lead(1)
    connection.execute("ALTER TABLE raters_elsewhere RENAME TO raters")
    assert connection.execute("SELECT count(*) FROM pg_locks WHERE classid = 7207").fetchone() == (0,)
    assert leaders[1].lead(1) == 1


CHILD = """
import sys, time
from tiltyard.arena.rating.rater_leadership import Leadership
leadership = Leadership(sys.argv[1], name="child")
print(leadership.lead(1), flush=True)
time.sleep(600)
"""


def test_a_leader_that_is_killed_is_followed_at_once(leaders, database):
    child = subprocess.Popen([sys.executable, "-c", CHILD, database], stdout=subprocess.PIPE, text=True)
    try:
        assert child.stdout.readline() == "1\n"
        assert leaders[0].lead(1) is None
        child.kill()
        start = time.monotonic()
        while leaders[0].lead(1) is None:
            assert time.monotonic() - start < 60
            time.sleep(0.02)
    finally:
        child.kill()
        child.wait()
        child.stdout.close()
    assert leaders[0].terms == {1: 2}
