"""For those who watch: alive, ready, and figures for whoever may see them."""

import asyncio
import threading
import urllib.request
from types import SimpleNamespace

import pytest

from support.live_arenas import made_arena
from support.served import make_operator, make_token, served
from tiltyard.arena.operators.service_status import ServiceStatusReader
from tiltyard.errors import StoreFault
from tiltyard.postgres.connections import connect
from tiltyard.web.routes import health
from tiltyard.web.routes.health import Readiness, count_loaded_arenas
from tiltyard.web.server.supervisor import serve_monitoring

ASK = "/api/v1/arenas/arena/matchups"


def figures_in(text):
    return {
        name: float(value)
        for name, _, value in (line.rpartition(" ") for line in text.splitlines())
        if name and not name.startswith("#")
    }


def test_the_server_is_ready_while_its_database_is(site):
    client = site.client()
    assert client.get("/healthz").json() == {"status": "ok"}
    assert client.get("/readyz").json() == {"status": "ok", "arenas": 0, "loading": 0}
    with connect(site.database) as connection:
        connection.execute("UPDATE migrations SET name = 'other ' || name")
    readiness = site.context.shared(Readiness, pytest.fail)
    readiness._looks._tasks.clear()
    behind = client.get("/readyz")
    assert behind.status_code == 503
    assert "other" not in behind.text
    assert client.get("/healthz").status_code == 200


def test_concurrent_readiness_checks_query_the_database_once(monkeypatch):
    monkeypatch.setattr(health, "_READINESS_CACHE_SECONDS", 60.0)
    looks, going = [], threading.Event()

    def look():
        looks.append(threading.current_thread())
        assert going.wait(60)
        if len(looks) == 2:
            raise StoreFault("gone")

    async def scene():
        readiness = Readiness(look)
        asking = [asyncio.create_task(readiness.check()) for _ in range(50)]
        await asyncio.sleep(0.05)
        going.set()
        await asyncio.gather(*asking)
        await readiness.check()
        assert len(looks) == 1
        readiness._looks._tasks.clear()
        for _ in range(3):
            with pytest.raises(StoreFault, match="gone"):
                await readiness.check()
        assert len(looks) == 2
        readiness._looks._tasks.clear()
        await readiness.check()
        assert len(looks) == 3

    asyncio.run(scene())


def test_a_database_that_is_silent_keeps_one_thread_waiting_and_nobody_for_long(monkeypatch):
    monkeypatch.setattr(health, "_DATABASE_TIMEOUT_SECONDS", 0.05)
    looks, going = [], threading.Event()

    def look():
        looks.append(1)
        going.wait(60)

    async def scene():
        readiness = Readiness(look)
        for _ in range(3):
            with pytest.raises(StoreFault, match="in time"):
                await readiness.check()
        monkeypatch.setattr(health, "_DATABASE_TIMEOUT_SECONDS", 60.0)
        going.set()
        await readiness.check()
        assert len(looks) == 1

    asyncio.run(scene())


def test_one_arena_that_cannot_be_loaded_takes_no_other_out_of_service():
    ready, lost = SimpleNamespace(ready=True), SimpleNamespace(ready=False)
    for voting_queues, counts in (([], (0, 0)), ([ready], (1, 0)), ([ready, lost, lost], (1, 2))):
        told = count_loaded_arenas(voting_queues)
        assert (told.arenas, told.loading) == counts
    with pytest.raises(StoreFault, match="loaded"):
        count_loaded_arenas([lost, lost])


def test_metrics_need_a_token_and_count_requests(site):
    make_operator(site.database)
    client = site.client()
    assert client.get("/metrics").status_code == 401
    assert site.client(make_token(site.database, "read")).get("/metrics").status_code == 403
    for _ in range(3):
        matchup = client.post(ASK).json()["matchup"]
        client.post(f"/api/v1/matchups/{matchup}/vote", json={"winner": "tie"})
    client.post("/api/v1/matchups/x/vote", json={"winner": "tie"})
    page = site.client(make_token(site.database, "metrics")).get("/metrics")
    assert page.headers["content-type"].startswith("text/plain; version=0.0.4")
    figures = figures_in(page.text)
    voted = 'tiltyard_requests_total{method="POST",route="vote",status="%s"}'
    assert figures[voted % 200] == 3
    assert figures[voted % 404] == 1
    assert figures['tiltyard_request_seconds_count{route="vote"}'] == 4
    assert figures["tiltyard_database_up"] == 1
    assert figures["tiltyard_arenas"] == figures["tiltyard_arenas_behind"] == 1
    assert figures['tiltyard_unrated_events{arena="arena"}'] > 6
    assert figures["tiltyard_database_bytes"] > 1_000_000
    assert figures['tiltyard_events_total{kind="vote"}'] == 3
    assert figures['tiltyard_events_total{kind="served"}'] == 3
    assert figures["tiltyard_sessions_total"] == 1
    assert figures["tiltyard_batch_requests_sum"] >= 6
    assert figures["tiltyard_batch_seconds_count"] == figures["tiltyard_lock_wait_seconds_count"] > 0
    assert figures["tiltyard_loaded_arenas"] == 1
    assert figures["tiltyard_queue_length"] == figures["tiltyard_pool_waiting"] == 0
    assert figures["tiltyard_pool_limit"] == site.registry.pool.most


def test_figures_tell_that_the_database_is_gone(database, server, monkeypatch, tmp_path):
    monkeypatch.setenv("PROMETHEUS_MULTIPROC_DIR", str(tmp_path))
    made_arena(database)
    for url, up in ((database, 1), (database + "_not", 0)):
        reader = ServiceStatusReader(url, tmp_path)
        with (
            serve_monitoring("127.0.0.1", 0, reader, list, list) as port,
            urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer,
        ):
            figures = figures_in(answer.read().decode())
        assert figures["tiltyard_database_up"] == up


def test_unknown_methods_and_paths_add_no_new_metrics(site):
    client = site.client()
    for k in range(20):
        client.request(("PROPFIND", "TRACE", "MKCOL")[k % 3], f"/path/{k}")
    page = site.client(make_token(site.database, "metrics")).get("/metrics").text
    assert 'method="OTHER",route="none"' in page
    assert "PROPFIND" not in page
    assert "/path" not in page


def test_two_servers_of_one_database_see_the_same_sessions(database):
    made_arena(database)
    with served(database) as one, served(database) as two:
        first = one.client().post(ASK)
        client = two.client(cookies=dict(first.cookies))
        assert client.post(ASK).json() == first.json()
        matchup = first.json()["matchup"]
        assert client.post(f"/api/v1/matchups/{matchup}/vote", json={"winner": "tie"}).status_code == 200
