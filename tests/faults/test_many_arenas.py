"""Many arenas on one server: the number of connections does not grow with them, and nobody is refused."""

import asyncio
import base64
import os
import random
import tempfile
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import httpx2
import pytest
from children import service
from mortal_server import mortal_server

from live_arenas import answers_file
from tiltyard.arena.importing import create_arena, import_answers
from tiltyard.settings.serving import ServingSettings
from tiltyard.store.bulky import Folder
from tiltyard.store.connecting import connect, open_pool
from tiltyard.store.contents import Contents
from tiltyard.store.migrating import migrate


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
        contents = Contents(pool, Folder(folder))
        for number in range(arenas):
            await create_arena(pool, f"arena-{number}")
            await import_answers(pool, contents, f"arena-{number}", answers)


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


def check(arenas, max_connections, connections):
    with many_arenas(arenas, max_connections, connections) as (made, server):
        for start in ("first", "after a restart"):
            guessed, stop = Counter(), threading.Event()
            attacker = threading.Thread(target=guess, args=(made.addresses, stop, guessed))
            attacker.start()
            statuses, refusals = visit(made.addresses, arenas)
            stop.set()
            attacker.join()
            assert not refusals, refusals[:3]
            assert set(guessed) == {404}
            with connect(server.url) as connection:
                used = connection.execute(
                    "SELECT application_name, count(*) FROM pg_stat_activity "
                    "WHERE backend_type = 'client backend' AND pid <> pg_backend_pid() GROUP BY 1"
                ).fetchall()
            print(f"\n{start}: {dict(statuses)}, guessed {dict(guessed)}, connections {dict(used)}")
            for child in (*made.webs, *made.raters):
                child.kill()
            made.tend()
            for child in (*made.webs, *made.raters):
                child.ready()


def test_thirty_arenas_on_a_small_server():
    check(30, max_connections=25, connections=5)


@pytest.mark.slow
def test_two_hundred_arenas_on_a_server_of_a_hundred_connections():
    check(200, max_connections=100, connections=ServingSettings().connections)
