"""A standby takes over: the service finds it by itself, and what was acknowledged is there."""

import shutil
import time

import pytest

from support.faults.children import service, wait_until
from support.faults.mortal_server import MortalServer, end, mortal_server, new_folder
from support.faults.scenes import SETTINGS, Scene
from support.live_arenas import made_arena
from tiltyard.core.policy.state.policy import Policy
from tiltyard.postgres.connections import connect
from tiltyard.postgres.schema_migrations import migrate


def streaming(primary):
    """Whether commits wait for the standby."""
    with connect(primary.url) as connection:
        row = connection.execute("SELECT sync_state FROM pg_stat_replication").fetchone()
    return row is not None and row[0] == "sync"


def promoted(raters=("rater", "quick rater"), votes_first=2.0):
    """Lose a primary under load; seconds until the standby was promoted, and until a vote was taken."""
    folder, home = new_folder(), new_folder()
    standby = MortalServer(folder)
    try:
        with mortal_server() as primary:
            migrate(primary.url)
            made_arena(primary.url, settings=SETTINGS, policy=Policy(evaluated_every=50))
            standby.copy_of(primary)
            standby.start()
            with connect(primary.url) as connection:
                connection.execute("ALTER SYSTEM SET synchronous_standby_names = 'standby'")
                connection.execute("SELECT pg_reload_conf()")
            wait_until(lambda: streaming(primary), 30.0, "a synchronous standby")
            hosts = f"127.0.0.1:{primary.port},127.0.0.1:{standby.port}"
            url = f"postgresql://tiltyard@{hosts}/postgres?target_session_attrs=read-write"
            with service(url, home, raters=raters) as running:
                scene = Scene(standby, None, running)
                with scene.crowd() as crowd:
                    crowd.next_vote(time.monotonic() + votes_first, 60.0)
                    primary.kill_everything()
                    killed = time.monotonic()
                    standby.promote()
                    ready = time.monotonic()
                    taken = crowd.next_vote(ready, 60.0)
                    scene.audit()
                    crowd.next_vote(time.monotonic() + 1.0, 60.0)
                audited, rated = scene.settle()
                scene.hang_up()
        print(f"\n{audited}\n{rated}\n{dict(crowd.answers)}")
        return round(ready - killed, 2), round(taken - killed, 2)
    finally:
        end(standby)
        shutil.rmtree(folder, ignore_errors=True)
        shutil.rmtree(home, ignore_errors=True)


@pytest.mark.slow
def test_a_promoted_standby_has_every_acknowledged_vote_ten_times():
    found = [promoted() for _ in range(10)]
    print(f"\npromoted, and a vote, after: {sorted(found)}")
    assert max(vote for _, vote in found) < 60.0
