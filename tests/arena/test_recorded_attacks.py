"""Two attacks that once took the demo's last model to first place, against an open arena with default settings.

The attackers know more than the recorded ones did: which model every response is from. They use the API and its
client, fetch both responses, pass the gate, and have one address. A day's waiting is simulated by the dates of votes.
"""

import asyncio
import threading
import time
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from matchup_texts import stored_id
from served import served
from tiltyard.arena.content.blob_store import BlobStore
from tiltyard.arena.content.object_storage import FolderStorage
from tiltyard.arena.demo_arena import fill_demo_arena
from tiltyard.arena.operators.arena_changes import exclude
from tiltyard.arena.operators.crowd_review import explain_crowd_change, read_crowd_changes
from tiltyard.arena.operators.exclusions import VoteSelection
from tiltyard.arena.operators.scheduled_jobs import admit_waiting_votes
from tiltyard.arena.rating.rater_process import rate_arenas
from tiltyard.arena.registry import ArenaRegistry
from tiltyard.cli.demo import _demo_script
from tiltyard.client import AsyncClient
from tiltyard.errors import Busy
from tiltyard.postgres.connections import connect, open_pool
from tiltyard.settings.serving_settings import ServingSettings

PUBLIC = ServingSettings(port=0, base_url="http://arena.example.org")
HONEST_VOTES = 3000
BOARD_SECONDS = 120.0


@contextmanager
def attacked(database: str, folder: Path):
    """The demo as people left it, then served on a public address, and rated."""

    async def filling():
        async with open_pool(database, most=8) as pool:
            registry = ArenaRegistry(
                ServingSettings(), database, pool, BlobStore(pool, FolderStorage(folder))
            )
            await fill_demo_arena(registry, _demo_script(), votes=HONEST_VOTES, seed=7)

    asyncio.run(filling())
    stop = threading.Event()
    with served(database, settings=PUBLIC, folder=folder) as site:
        rater = threading.Thread(target=rate_arenas, args=(database, stop), daemon=True)
        rater.start()
        try:
            yield site
        finally:
            stop.set()
            rater.join(60)


def board(site):
    return site.client().get("/api/v1/arenas/demo/board").json()


def ranks(shown):
    return {row["model"]: row["rank"] for row in shown["rows"] if row["rank"] is not None}


def query(site, text, values=()):
    with connect(site.database) as connection:
        found = connection.execute(text, values)
        return found.fetchall() if found.description else []


def attack(site, target, *, sessions, target_votes, pause, cover):
    """Vote for the target whenever it is served; else cover with honest votes, or skip. Returns votes for the target."""
    (last,) = query(site, "SELECT model FROM models WHERE name = %s", (target,))[0]
    strength = {row["model"]: row["bradley_terry"] or 0.0 for row in board(site)["rows"]}
    names = dict(query(site, "SELECT model, name FROM models"))
    random, left, sent = np.random.default_rng(1), [target_votes] * sessions, [0]
    many = asyncio.Semaphore(20)

    async def session(number):
        async with many, AsyncClient(site.url, patience=120.0) as client:
            while left[number]:
                try:
                    matchup = (await client.next_matchup("demo")).matchup
                    for side in ("a", "b"):
                        await client.response(matchup, side)
                    ((a, b),) = query(
                        site, "SELECT a, b FROM matchups WHERE matchup = %s", (stored_id(matchup),)
                    )
                    await asyncio.sleep(pause)
                    if last in (a, b):
                        await client.vote(matchup, "model_a" if a == last else "model_b")
                        left[number] -= 1
                        sent[0] += 1
                    elif cover:
                        chance = 1.0 / (1.0 + 10.0 ** ((strength[names[b]] - strength[names[a]]) / 400.0))
                        await client.vote(matchup, "model_a" if random.random() < chance else "model_b")
                    else:
                        await client.skip(matchup)
                except Busy as error:
                    await asyncio.sleep(error.retry_after or 1.0)

    async def all_sessions():
        await asyncio.gather(*(session(number) for number in range(sessions)))

    asyncio.run(all_sessions())
    return sent[0]


def settled(site):
    """Wait until everything is rated and on a board."""
    deadline = time.monotonic() + BOARD_SECONDS
    while time.monotonic() < deadline:
        ((head, rated),) = query(
            site,
            "SELECT (SELECT max(position) FROM events WHERE arena = 1), (SELECT position FROM raters WHERE arena = 1)",
        )
        if head == rated and board(site)["position"] == head:
            return board(site)
        time.sleep(1.0)
    raise AssertionError("the rater did not come to an end")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sessions", "target_votes", "pause", "cover"),
    [(10, 30, 0.0, False), (10, 30, 3.1, False), (100, 3, 3.1, True)],
    ids=["hasty", "at the pace of people", "patient, with cover"],
)
def test_an_attack_moves_nothing_before_it_is_noticed(
    server, template, tmp_path, sessions, target_votes, pause, cover
):
    from postgres_servers import fresh_database

    with fresh_database(server, template) as database, attacked(database, tmp_path) as site:
        before = settled(site)
        first = ranks(before)
        target = max(first, key=first.__getitem__)
        assert query(site, "SELECT count(*) FROM crowd_changes") == [(0,)]
        sent = attack(site, target, sessions=sessions, target_votes=target_votes, pause=pause, cover=cover)
        after = settled(site)
        assert sent == sessions * target_votes
        marks = dict(query(site, "SELECT coalesce(mark, 0), count(*) FROM endings WHERE kind = 1 GROUP BY 1"))
        print(f"\n{sent} votes for {target}; marks {marks}; rank {first[target]} → {ranks(after)[target]}")
        assert first[target] - ranks(after)[target] <= 1

        async def operator():
            async with open_pool(database, most=2) as pool:
                changes = await read_crowd_changes(pool, 1)
                assert admit(site) == 0
                for change in changes:
                    print(f"{change.name} {change.group_name} at {change.position}: {change.detail}")
                    assert change.name == target
                    await exclude(
                        pool, "demo", VoteSelection(sessions=change.detail["sessions"]), "attack", actor="Ada"
                    )
                    await explain_crowd_change(pool, "demo", change.position, "attack", actor="Ada")
                return len(changes)

        def admit(site):
            query(site, "UPDATE endings SET at = at - interval '25 hours' WHERE mark = 3")
            return admit_waiting_votes(database)

        if pause:
            assert asyncio.run(operator()) == 1
            (early,) = query(
                site,
                "SELECT count(*) FROM events e JOIN models m ON m.model IN (e.a, e.b) AND m.arena = 1 WHERE e.kind = 1 "
                "AND m.name = %s AND e.position < (SELECT position FROM crowd_changes) AND e.mark = 3",
                (target,),
            )[0]
            print(f"noticed after {early} waiting votes on it")
            assert early <= 100
            print(f"{admit(site)} votes admitted afterwards")
        else:
            # None was looked at, so that none ever counts.
            assert admit(site) == 0
        final = ranks(settled(site))
        print(
            f"afterwards: rank {final[target]}; {sum(final[one] != first[one] for one in first)} ranks differ"
        )
        assert first[target] - final[target] <= 1
