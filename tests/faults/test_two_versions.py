"""Web processes and raters of two versions on one database: a rolling upgrade loses nothing and changes no board."""

import itertools
import os
import random
import shutil
import subprocess
import sys
import threading
import time
from collections import Counter
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import httpx2
import pytest

import tiltyard
from support.faults.children import wait_until
from support.faults.mortal_server import free_port
from support.faults.scenes import scene
from support.faulty_upstream import faulty_upstream
from support.folded_votes import rows
from support.live_sites import ASK, add_live_arena
from support.matchup_texts import stored_id
from support.sizes import sized

#: The interpreter of an environment with the version before; without it this version stands beside itself.
EARLIER = os.environ.get("TILTYARD_TEST_EARLIER_PYTHON", sys.executable)
SECONDS = sized(20, 300)
#: The service's secret, which all of its processes share.
SECRET = "a secret for tests that is long enough"


@contextmanager
def another_version(database, home, python=EARLIER, **variables):
    """The address of a web process and a rater of another version, started as an operator starts them."""
    port = free_port()
    environment = os.environ | {
        "DATABASE_URL": database,
        "TILTYARD_HOME": str(home),
        "TILTYARD_SECRET_KEY": SECRET,
        **variables,
    }
    with (home / "another.log").open("wb") as log:
        command = [python, "-m", "tiltyard", "serve", "--port", str(port)]
        process = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
        try:
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()
            process.wait(60)


def answers(address):
    with suppress(httpx2.TransportError):
        return httpx2.get(f"{address}/readyz", timeout=30).status_code == 200
    return False


@pytest.mark.slow
def test_two_versions_side_by_side_lose_nothing(tmp_path):
    chance = random.Random(5)
    with scene(raters=["rater"]) as place, another_version(place.server.url, tmp_path) as address:
        wait_until(lambda: answers(address), 300, "the earlier version answers")
        end = time.monotonic() + SECONDS
        with place.crowd([*place.service.addresses, address], pause=0.1) as crowd:
            crowd.next_vote(time.monotonic(), 60.0)
            while time.monotonic() < end:
                place.strike(chance.choice(["web killed", "leading rater killed"]), crowd, chance)
                time.sleep(chance.uniform(3, 8))
                place.audit()
        audited, rated = place.settle()
    print(f"\n{audited}\n{rated}\n{dict(crowd.answers)}")


LATER = """
ALTER TABLE matchups ADD COLUMN rolled_out text;
ALTER TABLE live_turns ADD COLUMN rolled_out text;
CREATE TABLE rolled_out (arena integer PRIMARY KEY REFERENCES arenas);
"""


def later_version(folder):
    """A copy of this version with a migration more; what its processes are started with."""
    shutil.copytree(Path(tiltyard.__file__).parent, folder / "tiltyard")
    (folder / "tiltyard/postgres/migrations/9999_rolled_out.sql").write_text(LATER)
    return {"PYTHONPATH": str(folder)}


class LiveVoter(threading.Thread):
    """Asks models of a live arena and votes, at one address after the other, until told to stop."""

    def __init__(self, addresses):
        super().__init__(name="live voter")
        self.addresses, self.stopping = addresses, threading.Event()
        self.acknowledged, self.told = set(), Counter()

    def run(self):
        for turn in itertools.count():
            if self.stopping.is_set():
                return
            # Another address, but the same battle: any process answers for it.
            with suppress(httpx2.TransportError), httpx2.Client(timeout=20) as client:
                self.battle(client, lambda turn=turn: self.addresses[turn % len(self.addresses)])

    def battle(self, client, address):
        began = client.post(
            address() + ASK.replace("arena/live", "live/live"), json={"prompt": "Which bird?"}
        )
        self.told[began.status_code] += 1
        if began.status_code != 201:
            time.sleep(0.2)
            return
        matchup, end = began.json()["matchup"], time.monotonic() + 30
        while time.monotonic() < end and not self.stopping.is_set():
            shown = client.get(f"{address()}/api/v1/live/{matchup}").json()
            if shown["state"] == "void":
                self.told["void"] += 1
                return
            if shown["turns"][-1]["state"] == "done":
                body = {"winner": "model_a", "ballot": 0}
                voted = client.post(f"{address()}/api/v1/matchups/{matchup}/vote", json=body)
                self.told[f"vote {voted.status_code}"] += 1
                if voted.status_code == 200:
                    self.acknowledged.add(matchup)
                return
            time.sleep(0.1)


@pytest.mark.slow
def test_a_rolling_upgrade_loses_nothing(tmp_path):
    variables = later_version(tmp_path / "later")
    with ExitStack() as stack:
        place = stack.enter_context(scene(raters=["rater"]))
        url, upstream = place.server.url, stack.enter_context(faulty_upstream(process=True))
        live = add_live_arena(url, upstream, [f"bird-{k}@tokens=20,rate=200" for k in range(4)], name="live")
        addresses = list(place.service.addresses)
        crowd = place.crowd(addresses, pause=0.5, voters=4)
        stack.callback(lambda: print(f"\n{dict(crowd.answers)}\n{dict(voter.told)}"))
        voter = LiveVoter(addresses)
        with crowd:
            voter.start()
            try:
                roll_out(place, crowd, addresses, voter, variables, tmp_path, stack)
            finally:
                voter.stopping.set()
                voter.join()
        audited, rated = place.settle()
        positions = [
            row for (row,) in rows(url, f"SELECT position FROM events WHERE arena = {live.arena} ORDER BY 1")
        ]
        assert positions == list(range(1, len(positions) + 1))
        votes = f"SELECT matchup FROM battles JOIN matchups USING (arena, source, serial) WHERE arena = {live.arena}"
        recorded = {stored_id(one) for one in voter.acknowledged}
        assert recorded <= {one for (one,) in rows(url, votes)}
        assert len(recorded) > 3
        print(f"\n{audited}\n{rated}")


def roll_out(place, crowd, addresses, voter, variables, home, stack):
    """Migrate under load, start the later version beside this one, then stop this one's processes in turn."""

    def goes_on():
        crowd.next_vote(time.monotonic(), 60.0)
        known = len(voter.acknowledged)
        wait_until(lambda: len(voter.acknowledged) > known, 90, "a vote on a live battle")
        place.audit()

    goes_on()
    migrating = [sys.executable, "-m", "tiltyard", "arena", "migrate"]
    environment = os.environ | variables | {"DATABASE_URL": place.server.url, "TILTYARD_HOME": str(home)}
    # Where voters hold a table for too long it is rolled back, and given again.
    wait_until(
        lambda: subprocess.run(migrating, check=False, env=environment).returncode == 0, 120, "the migration"
    )
    assert rows(place.server.url, "SELECT count(*) FROM rolled_out") == [(0,)]
    goes_on()
    later = stack.enter_context(another_version(place.server.url, home, sys.executable, **variables))
    wait_until(lambda: answers(later), 300, "the later version answers")
    addresses.append(later)
    goes_on()
    for rater in place.service.raters:
        rater.stop()
    goes_on()
    for web in place.service.webs:
        addresses.remove(web.address)
        web.stop()
        goes_on()
