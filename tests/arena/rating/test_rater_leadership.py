"""Leadership: one at a time, known by a lease and by a term."""

import subprocess
import sys
import time

import pytest

from tiltyard.arena.processes.process_leases import new_process
from tiltyard.arena.rating.rater_process import Leadership
from tiltyard.arena.rating.rater_progress import claim_horizon, commit_rated, read_rater_progress
from tiltyard.errors import Deposed, StoreFault
from tiltyard.postgres.connections import connect


@pytest.fixture
def connection(database):
    with connect(database) as made:
        for number, name in enumerate(("one", "two"), start=1):
            made.execute(
                "INSERT INTO arenas (name, title, settings, bucket) VALUES (%s, '', '{}', %s)", (name, number)
            )
        made.execute("INSERT INTO raters (arena) VALUES (1)")
        yield made


@pytest.fixture
def leaders(database, connection):
    """Two who would lead."""
    made = [Leadership(database, new_process(), name=name) for name in ("left", "right")]
    yield made
    for leadership in made:
        leadership.close()


def follow(leadership):
    """Lead the first arena once the lease of its leader is over."""
    deadline = time.monotonic() + 60
    while leadership.lead(1) is None:
        assert time.monotonic() < deadline
        time.sleep(0.02)


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
    right.look_around()
    assert right.terms == {1: 2}


def test_arenas_are_led_one_by_one_and_a_missing_row_is_made(leaders):
    left, right = leaders
    assert (left.lead(1), right.lead(2)) == (1, 1)
    assert (left.lead(2), right.lead(1)) == (None, None)
    left.look_around()
    right.look_around()
    assert (left.terms, right.terms) == ({1: 1}, {2: 1})


def test_a_leader_whose_connection_is_cut_says_so_and_is_followed(leaders, connection):
    left, right = leaders
    left.lead(1)
    connection.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'tiltyard lease' "
        "AND datname = current_database() ORDER BY backend_start LIMIT 1"
    )
    follow(right)
    assert right.terms == {1: 2}
    with pytest.raises(StoreFault):
        left.look_around()


def test_a_lease_that_lapsed_ends_the_lead_only_when_another_takes_it(leaders, connection):
    left, right = leaders
    left.lead(1)
    connection.execute("UPDATE processes SET expires_at = now()")
    left.look_around()
    assert left.terms == {1: 1}
    assert right.lead(1) == 2
    left.look_around()
    assert left.terms == {}


def test_what_a_deposed_leader_writes_is_refused(leaders, connection):
    left, right = leaders
    term = left.lead(1)
    before = read_rater_progress(connection, 1)
    claim_horizon(connection, 1, term, 10)
    left.resign(1)
    right.lead(1)
    with pytest.raises(Deposed):
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
    with pytest.raises(StoreFault):
        read_rater_progress(connection, 77)


def test_a_leader_of_no_known_arena_is_refused(leaders):
    with pytest.raises(StoreFault):
        leaders[0].lead(77)
    assert leaders[0].terms == {}


CHILD = """
import sys, time
from tiltyard.arena.processes.process_leases import new_process
from tiltyard.arena.rating.rater_process import Leadership
leadership = Leadership(sys.argv[1], 7, name="child")
print(leadership.lead(1), flush=True)
time.sleep(600)
"""


@pytest.mark.slow
def test_a_leader_that_is_killed_is_followed(leaders, database):
    child = subprocess.Popen([sys.executable, "-c", CHILD, database], stdout=subprocess.PIPE, text=True)
    try:
        assert child.stdout.readline() == "1\n"
        assert leaders[0].lead(1) is None
        child.kill()
        follow(leaders[0])
    finally:
        child.kill()
        child.wait()
        child.stdout.close()
    assert leaders[0].terms == {1: 2}
