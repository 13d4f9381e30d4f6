"""Many arenas on one server: the number of connections does not grow with them, and nobody is refused."""

import asyncio
import base64
import os
import random
import tempfile
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import httpx2
import pytest

from support.faults.children import service
from support.faults.mortal_server import mortal_server
from support.live_arenas import answers_file
from tiltyard.arena.content.answer_import import create_arena, import_answers
from tiltyard.arena.content.blob_store import BlobStore
from tiltyard.arena.content.object_storage import FolderStorage
from tiltyard.arena.rating.rater_process import RaterProcess
from tiltyard.postgres.connections import connect, open_pool
from tiltyard.postgres.schema_migrations import migrate
from tiltyard.settings.arena_settings import ArenaSettings
from tiltyard.settings.serving_settings import ServingSettings


@contextmanager
def many_arenas(arenas, max_connections, connections):
    """Two web processes and a rater over so many arenas, and the server's address."""
    with (
        mortal_server(f"-c max_connections={max_connections} -c fsync=off") as server,
        tempfile.TemporaryDirectory() as folder,
    ):
        migrate(server.url)
        asyncio.run(make_arenas(server.url, Path(folder), arenas))
        settings = ServingSettings(port=0, connections=connections)
        with service(server.url, Path(folder), raters=["rater"], settings=settings) as made:
            yield made, server


async def make_arenas(url, folder, arenas):
    answers = answers_file(folder / "answers.jsonl", models=3, prompts=2)
    async with open_pool(url, most=2) as pool:
        blobs = BlobStore(pool, FolderStorage(folder))
        for number in range(arenas):
            await create_arena(pool, f"arena-{number}")
            await import_answers(pool, blobs, f"arena-{number}", answers)


def visit(addresses, arenas, voters=8):
    """A matchup and a vote in every arena at every address; how often each status came, and what was refused."""
    statuses, refusals = Counter(), []
    lock = threading.Lock()

    def vote(client, arena, address):
        asked = client.post(f"{address}/api/v1/arenas/arena-{arena}/matchups", json={})
        told = [asked]
        if asked.is_success:
            matchup = asked.json()["matchup"]
            # The vote goes to any process, as behind a proxy.
            other = random.choice(addresses)
            told.append(client.post(f"{other}/api/v1/matchups/{matchup}/vote", json={"winner": "tie"}))
        with lock:
            statuses.update(one.status_code for one in told)
            refusals.extend(one.text for one in told if not one.is_success)

    def work(number):
        jobs = [(arena, address) for arena in range(number, arenas, voters) for address in addresses]
        with httpx2.Client(timeout=60) as client:
            for arena, address in jobs:
                vote(client, arena, address)

    with ThreadPoolExecutor(voters) as pool:
        list(pool.map(work, range(voters)))
    return statuses, refusals


def guess(addresses, stop, statuses):
    """Ask for matchups that do not exist, until told to stop."""
    with httpx2.Client(timeout=60) as client:
        client.post(f"{addresses[0]}/api/v1/arenas/arena-0/matchups", json={})
        while not stop.is_set():
            guessed = base64.urlsafe_b64encode(os.urandom(16)).rstrip(b"=").decode()
            path = f"{random.choice(addresses)}/api/v1/matchups/{guessed}/vote"
            statuses[client.post(path, json={"winner": "tie"}).status_code] += 1


def restart_service(made):
    for child in (*made.webs, *made.raters):
        child.kill()
    made.tend()
    for child in (*made.webs, *made.raters):
        child.ready()


def restart_server(server, seconds_down):
    server.stop_immediately()
    time.sleep(seconds_down)
    server.start()


def connections_in_use(url):
    """By the name that each process gives them."""
    with connect(url) as connection:
        return dict(
            connection.execute(
                "SELECT application_name, count(*) FROM pg_stat_activity "
                "WHERE backend_type = 'client backend' AND pid <> pg_backend_pid() GROUP BY 1"
            ).fetchall()
        )


def warnings_in(log):
    """The last lines of a log that tell of something amiss."""
    return [line for line in log.splitlines() if '"level": "info"' not in line][-20:]


def check(arenas, max_connections, connections, *, active=None, seconds_down=1.0, settled=None):
    """Visit all arenas, or the active ones: at first, after a restart of the service, and after one of the server."""
    with many_arenas(arenas, max_connections, connections) as (made, server):
        restarts = {
            "first": lambda: None,
            "after a restart of the service": lambda: restart_service(made),
            "after a restart of PostgreSQL": lambda: restart_server(server, seconds_down),
        }
        for when, restart in restarts.items():
            restarted = time.monotonic()
            restart()
            restarted = time.monotonic() - restarted
            guessed, stop = Counter(), threading.Event()
            attacker = threading.Thread(target=guess, args=(made.addresses, stop, guessed))
            attacker.start()
            began = time.monotonic()
            statuses, refusals = visit(made.addresses, active or arenas)
            seconds = time.monotonic() - began
            stop.set()
            attacker.join()
            used = connections_in_use(server.url)
            print(
                f"\n{when} (it took {restarted:.1f} s): {dict(statuses)} in {seconds:.1f} s, "
                f"guessed {dict(guessed)}, connections {used}"
            )
            assert not refusals, (when, refusals[:3], warnings_in(made.said()))
            assert set(guessed) == {404}
            assert used["tiltyard web"] <= 2 * connections
        if settled is not None:
            settled(made, server)


@pytest.mark.slow
def test_twenty_four_arenas_on_a_small_server():
    check(24, max_connections=25, connections=5)


@pytest.mark.slow
def test_two_thousand_arenas_of_which_two_hundred_are_active():
    check(
        2000,
        max_connections=100,
        connections=ServingSettings().connections,
        active=200,
        settled=measure_lag_and_idle,
    )


def measure_lag_and_idle(made, server):
    # Boards of earlier votes come first.
    time.sleep(ArenaSettings().undo_seconds + 15)
    lags = sorted(measure_lags(made.addresses, range(0, 200, 5)))
    print(
        f"\nvote to board in {len(lags)} arenas, beyond the time to undo: median {lags[len(lags) // 2]:.1f} s, "
        f"95 % {lags[int(len(lags) * 0.95)]:.1f} s"
    )
    measure_idle(made, server)


def measure_lags(addresses, arenas):
    """Seconds from votes to the boards that count them, without the time to undo a vote."""

    def lag(arena):
        with httpx2.Client(timeout=60, base_url=random.choice(addresses)) as client:
            board = f"/api/v1/arenas/arena-{arena}/board"
            before = client.get(board).json()["votes"]
            matchup = client.post(f"/api/v1/arenas/arena-{arena}/matchups", json={}).json()["matchup"]
            assert client.post(f"/api/v1/matchups/{matchup}/vote", json={"winner": "tie"}).is_success
            voted = time.monotonic()
            while client.get(board).json()["votes"] == before:
                assert time.monotonic() < voted + 120
                time.sleep(0.2)
            return time.monotonic() - voted - ArenaSettings().undo_seconds

    with ThreadPoolExecutor(8) as pool:
        return list(pool.map(lag, arenas))


def measure_idle(made, server):
    """What arenas cost in which nobody votes: of the whole service, and in one turn of the rater over all of them."""
    # Raters drop arenas after half a minute, and voting queues read their logs twice a minute.
    time.sleep(75)
    idle = _Cost(server, [child.process.pid for child in (*made.webs, *made.raters)])
    time.sleep(60)
    memory = sum(_proportional_mebibytes(child.process.pid) for child in (*made.webs, *made.raters))
    print(
        f"\nidle service: {idle.told(60, 'second')}, {memory:.0f} MiB, "
        f"connections {connections_in_use(server.url)}"
    )
    for child in (*made.webs, *made.raters):
        child.kill()
    rater_process = RaterProcess(server.url)
    try:
        # The first turns rate what is left.
        while rater_process.turn():
            pass
        turns = 20
        time.sleep(12)
        rater_process.turn()
        turning = _Cost(server, [os.getpid()], reported_after=12)
        for _ in range(turns):
            rater_process.turn()
        print(f"\nidle turn of the rater: {turning.told(turns, 'turn')}")
    finally:
        rater_process.close()


class _Cost:
    """Time, processor time of the server and of some processes, and transactions since it was made."""

    def __init__(self, server, processes, *, reported_after=1.5):
        self._server = server
        self._processes = processes
        #: Busy backends report their transactions once a second, idle ones after ten.
        self._reported_after = reported_after
        self._transactions = self._count_transactions()
        self._before = self._spent()

    def told(self, times, each):
        spent = self._spent()
        database, own, wall = (
            (now - before) / times * 1000 for now, before in zip(spent, self._before, strict=True)
        )
        transactions = (self._count_transactions() - self._transactions) / times
        return (
            f"in each {each} {transactions:.0f} transactions, {database:.1f} ms of CPU of PostgreSQL and "
            f"{own:.1f} of ours, in {wall:.0f} ms"
        )

    def _spent(self):
        database = sum(map(_processor_seconds, self._server.family()))
        return database, sum(map(_processor_seconds, self._processes)), time.monotonic()

    def _count_transactions(self):
        time.sleep(self._reported_after)
        with connect(self._server.url) as connection:
            counted = connection.execute("SELECT sum(xact_commit + xact_rollback) FROM pg_stat_database")
            return int(counted.fetchone()[0])


def _processor_seconds(pid):
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _proportional_mebibytes(pid):
    """Memory of a process; what it shares with others is counted in parts."""
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) / 1024
    return 0.0
