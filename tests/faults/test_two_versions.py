"""Web processes and raters of two versions on one database: a rolling upgrade loses nothing and changes no board."""

import os
import random
import subprocess
import sys
import time
from contextlib import contextmanager, suppress

import httpx2
import pytest

from support.faults.children import wait_until
from support.faults.mortal_server import free_port
from support.faults.scenes import scene
from support.sizes import sized

#: The interpreter of an environment with the version before; without it this version stands beside itself.
EARLIER = os.environ.get("TILTYARD_TEST_EARLIER_PYTHON", sys.executable)
SECONDS = sized(20, 300)
#: The service's secret, which all of its processes share.
SECRET = "a secret for tests that is long enough"


@contextmanager
def earlier_version(database, home):
    """The address of a web process and a rater of the earlier version, started as an operator starts them."""
    port = free_port()
    environment = os.environ | {
        "DATABASE_URL": database,
        "TILTYARD_HOME": str(home),
        "TILTYARD_SECRET_KEY": SECRET,
        "TILTYARD_NEW_SESSIONS_PER_MINUTE": "0",
    }
    with (home / "earlier.log").open("wb") as log:
        command = [EARLIER, "-m", "tiltyard", "serve", "--port", str(port)]
        process = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
        try:
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()
            process.wait(60)


def answers(address):
    with suppress(httpx2.TransportError):
        return httpx2.get(f"{address}/readyz").status_code == 200
    return False


@pytest.mark.slow
def test_two_versions_side_by_side_lose_nothing(tmp_path):
    chance = random.Random(5)
    with scene(raters=["rater"]) as place, earlier_version(place.server.url, tmp_path) as address:
        wait_until(lambda: answers(address), 60, "the earlier version answers")
        end = time.monotonic() + SECONDS
        with place.crowd([*place.service.addresses, address], pause=0.1) as crowd:
            crowd.next_vote(time.monotonic(), 60.0)
            while time.monotonic() < end:
                place.strike(chance.choice(["web killed", "leading rater killed"]), crowd, chance)
                time.sleep(chance.uniform(3, 8))
                place.audit()
        audited, rated = place.settle()
    print(f"\n{audited}\n{rated}\n{dict(crowd.answers)}")
