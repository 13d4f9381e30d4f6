"""Nothing that was acknowledged is lost, doubled or changed, whatever dies and whenever."""

import json
import random
import time
from datetime import UTC, datetime, timedelta

import httpx2
import pytest

from support.faults.children import Child, wait_until
from support.faults.scenes import FAULTS, SETTINGS, scene, tally
from support.faults.wrong_clock import wrong_clock
from tiltyard.postgres.connections import connect

#: What a short run strikes with; the full one has everything.
SOME = ("web killed", "server stopped immediately", "leading rater killed")
#: A process that is stopped in the middle of a batch holds everybody up at most so long.
HELD_UP = 25.0
#: A leading rater that is killed has a follower within so many seconds.
FOLLOWED = 5.0


@pytest.fixture(scope="module")
def place():
    """With raters that start quickly; they do no scheduled work."""
    with scene(raters=["quick rater"] * 2) as made:
        yield made


@pytest.fixture(scope="module")
def whole():
    """With everything that `tiltyard serve` starts, and a second rater."""
    with scene() as made:
        yield made


def strike_again_and_again(place, names, rounds, seed, pause=0.0):
    rng = random.Random(seed)
    with place.crowd(pause=pause) as crowd:
        crowd.next_vote(time.monotonic(), 60.0)
        for number in range(rounds):
            time.sleep(rng.uniform(0.2, 1.0))
            place.strike(names[number % len(names)], crowd, rng)
            place.audit()
            place.audit_ratings()
    audited, rated = place.settle()
    print(f"\n{tally(place.outages)}\n{audited}\n{rated}\n{dict(crowd.answers)}")


def test_no_acknowledged_vote_is_lost_whatever_is_killed(place):
    strike_again_and_again(place, SOME, len(SOME), seed=1)


@pytest.mark.slow
def test_a_hundred_rounds_of_faults(whole):
    strike_again_and_again(whole, list(FAULTS), 100, seed=2, pause=0.1)


def stall(place, seconds, times):
    found = []
    with place.crowd() as crowd:
        for _ in range(times):
            crowd.next_vote(time.monotonic(), 60.0)
            place.wire.stall()
            time.sleep(seconds)
            place.wire.flow()
            flowing = time.monotonic()
            found.append(crowd.next_vote(flowing, 60.0) - flowing)
            place.wire.cut()
    place.settle()
    print(f"\nafter {seconds} s of silence, votes again after {sorted(round(one, 2) for one in found)}")


@pytest.mark.slow
def test_a_wire_that_is_silent_for_long_delays_votes_and_loses_none(whole):
    stall(whole, 1.0, 20)
    stall(whole, 45.0, 3)


@pytest.mark.slow
def test_a_database_that_does_not_answer_is_told_to_voters(whole):
    asking = f"{whole.service.webs[0].address}/api/v1/arenas/arena/matchups"
    with httpx2.Client(timeout=60) as http:
        known = http.post(asking, json={"ahead": False})
        cookie = {"cookie": known.headers["set-cookie"].partition(";")[0]}
        whole.wire.stall()
        try:
            began = time.monotonic()
            first = http.post(asking, json={"ahead": False}, headers=cookie)
            waited = time.monotonic() - began
            second = http.post(asking, json={"ahead": False}, headers=cookie)
            again = time.monotonic() - began - waited
        finally:
            whole.wire.flow()
    assert (first.status_code, second.status_code) == (503, 503)
    print(f"\ntold after {waited:.1f} s, and again after {again:.1f} s")
    assert waited < 30.0
    assert again < 5.0
    with whole.crowd() as crowd:
        crowd.next_vote(time.monotonic(), 60.0)
    whole.settle()


def stop_in_the_middle(place, times):
    waits, backs = [], []
    for number in range(times):
        web = place.service.webs[number % 2]
        with place.crowd() as crowd:
            crowd.next_vote(time.monotonic(), 60.0)
            stopped = place.freeze_in_a_batch(web, crowd)
            waits.append(crowd.next_vote(stopped + 0.5, 60.0) - stopped)
            web.thaw()
        with place.crowd([web.address]) as crowd:
            thawed = time.monotonic()
            backs.append(crowd.next_vote(thawed, 60.0) - thawed)
    place.settle()
    print(f"\nheld up for {sorted(round(one, 1) for one in waits)} s, back after {max(backs):.1f} s")
    assert max(waits) < HELD_UP


@pytest.mark.slow
def test_web_processes_stopped_in_the_middle_of_batches_hold_nobody_up_for_long(whole):
    stop_in_the_middle(whole, 20)


def movable_clock(place):
    """The server's clock is that of a function which stands before the server's own."""
    with connect(place.server.url) as connection:
        connection.execute(
            "CREATE SCHEMA faults;"
            "CREATE TABLE faults.clock (ahead interval NOT NULL);"
            "INSERT INTO faults.clock VALUES ('0');"
            "CREATE FUNCTION faults.clock_timestamp() RETURNS timestamptz LANGUAGE sql VOLATILE AS "
            "$$ SELECT pg_catalog.clock_timestamp() + ahead FROM faults.clock $$;"
            "ALTER DATABASE postgres SET search_path = faults, pg_catalog, public"
        )
    place.server.cut_connections()


def set_clock(place, ahead):
    with connect(place.server.url) as connection:
        connection.execute("UPDATE faults.clock SET ahead = %s", (ahead,))


def log_is_ahead_by(place):
    with connect(place.server.url) as connection:
        row = connection.execute(
            "SELECT extract(epoch FROM max(at) - pg_catalog.clock_timestamp())::float8 FROM events"
        ).fetchone()
    return row[0]


@pytest.mark.slow
def test_clock_steps_delay_nothing_for_long_and_change_no_decision(place):
    movable_clock(place)
    with place.crowd() as crowd:
        for ahead in ("1 hour", "-1 hour", "1 day", "0", "30 hours"):
            crowd.next_vote(time.monotonic(), 60.0)
            set_clock(place, ahead)
            time.sleep(0.5)
            place.audit()
        crowd.next_vote(time.monotonic(), 60.0)
        assert log_is_ahead_by(place) > 100_000
        # A step back by 30 hours: the log's time stands still, and what is voted is rated all the same.
        set_clock(place, "0")
        crowd.next_vote(time.monotonic() + 1.0, 60.0)
    place.settle()
    with connect(place.server.url) as connection:
        connection.execute("ALTER DATABASE postgres RESET search_path; DROP SCHEMA faults CASCADE")
    place.server.cut_connections()


def looks(asked_at, shown_at):
    """How one process shows a new matchup of another, three times, in less time than a matchup lives."""
    for _ in range(5):
        began = time.monotonic()
        with httpx2.Client(timeout=60) as http:
            asked = http.post(f"{asked_at}/api/v1/arenas/arena/matchups", json={"ahead": False})
            assert asked.status_code == 201, asked.text
            cookie = {"cookie": asked.headers["set-cookie"].partition(";")[0]}
            path = f"{shown_at}/m/{asked.json()['matchup']}/a"
            tries = [http.get(path, headers=cookie).status_code for _ in range(3)]
        if time.monotonic() - began < SETTINGS.expiry_seconds:
            return tries
    raise AssertionError("this machine is too slow to look at a matchup")


@pytest.mark.slow
def test_a_web_process_whose_own_clock_is_wrong_decides_like_the_others(place, tmp_path):
    library = wrong_clock(tmp_path)
    if library is None:
        pytest.skip("there is no C compiler to make a wrong clock with")
    web, other = place.service.webs
    tomorrow = {"LD_PRELOAD": str(library), "SKEW": "86400"}
    skewed = Child("web", web.url, web.home, web.listening, variables=tomorrow)
    web.kill()
    skewed.start()
    try:
        said = datetime.fromisoformat(json.loads(skewed.log.read_text().splitlines()[0])["at"])
        assert said - datetime.now(UTC) > timedelta(hours=23)
        for address in (skewed.address, other.address):
            # A connection that was cut while nobody used it costs one refusal.
            tries = looks(skewed.address, address)
            assert 200 in tries
            assert set(tries) <= {200, 503}
        with place.crowd([skewed.address, other.address]) as crowd:
            crowd.next_vote(time.monotonic() + 2.0, 60.0)
        place.settle()
    finally:
        skewed.kill()
        web.start()


@pytest.mark.slow
def test_a_killed_leader_is_followed_within_five_seconds_twenty_times(whole):
    assert max(take_over(whole, 20)) < FOLLOWED


def take_over(place, times):
    """Kill the leading rater again and again; seconds until another leads, each time."""
    found = []
    with place.crowd(voters=4) as crowd:
        crowd.next_vote(time.monotonic(), 60.0)
        for _ in range(times):
            wait_until(lambda: place.leader() is not None, 60.0, "a leader")
            leader = place.leader()
            leader.kill()
            killed = time.monotonic()
            wait_until(lambda was=leader: place.leader() not in {None, was}, 60.0, "another leader")
            found.append(time.monotonic() - killed)
            place.service.tend()
            leader.ready()
            place.audit_ratings()
    audited, rated = place.settle()
    print(f"\nfollowed after {sorted(round(one, 2) for one in found)} s\n{audited}\n{rated}")
    return found
