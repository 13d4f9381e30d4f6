"""A flood of strangers waits in line, and voters do not."""

import asyncio
import socket
from contextlib import closing
from types import SimpleNamespace

from support.served import make_token
from tiltyard.web.edge import stranger_queue
from tiltyard.web.edge.middleware import EdgeMiddleware
from tiltyard.web.edge.stranger_queue import KnownSenders, StrangerQueue

ASK = "/api/v1/arenas/arena/matchups"


def edge_of(site):
    """The middleware that stands before an application."""
    found = site.app._outermost
    while not isinstance(found, EdgeMiddleware):
        found = found._app if hasattr(found, "_app") else found.app
    return found


def test_turns_are_passed_on_in_order_and_end_once():
    async def scene():
        queue, order = StrangerQueue(at_once=1, longest=3), []
        first = queue.take()
        assert queue.take() is None

        async def waiting(name):
            turn = await queue.wait(name)
            order.append(name)
            turn.end()
            turn.end()

        tasks = [asyncio.create_task(waiting(name)) for name in "abc"]
        await asyncio.sleep(0)
        assert len(queue) == 3
        assert await queue.wait("d") is None
        first.end()
        await asyncio.gather(*tasks)
        last = queue.take()
        return order, last is not None and queue.take() is None, queue._waiting

    assert asyncio.run(scene()) == (["a", "b", "c"], True, {})


def test_one_network_has_a_part_of_the_line_only():
    async def scene():
        queue = StrangerQueue(at_once=1, longest=10, of_network=2)
        queue.take()
        waiting = [asyncio.create_task(queue.wait("one")) for _ in range(2)]
        await asyncio.sleep(0)
        assert await queue.wait("one") is None
        waiting.append(asyncio.create_task(queue.wait("other")))
        await asyncio.sleep(0)
        length = len(queue)
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        return length

    assert asyncio.run(scene()) == 3


def test_whoever_comes_to_a_line_that_ended_meanwhile_runs_at_once():
    """While a body was read, all who ran were answered: nobody is left to call the next."""

    async def scene():
        queue = StrangerQueue(at_once=1)
        first = queue.take()
        assert queue.take() is None
        first.end()
        async with asyncio.timeout(30):
            turn = await queue.wait("a")
        turn.end()
        return queue.take()

    assert asyncio.run(scene()) is not None


def test_a_full_line_makes_room_for_newcomers_and_sends_away_who_waits_most():
    async def scene():
        queue = StrangerQueue(at_once=1, longest=4)
        first = queue.take()
        waiting = [asyncio.create_task(queue.wait(network)) for network in ("loud", "loud", "loud", "b")]
        await asyncio.sleep(0)
        newcomer = asyncio.create_task(queue.wait("new"))
        await asyncio.sleep(0)
        # Now nobody waits for more than one more than another would.
        assert await queue.wait("loud") is None
        first.end()
        turns = []
        for task in (waiting[0], waiting[3], newcomer, waiting[1]):
            turns.append(await task)
            turns[-1].end()
        return [turn is not None for turn in turns], await waiting[2], len(queue)

    assert asyncio.run(scene()) == ([True] * 4, None, 0)


def test_networks_are_called_in_turn():
    async def scene():
        queue, order = StrangerQueue(at_once=1), []
        first = queue.take()

        async def waiting(network):
            turn = await queue.wait(network)
            order.append(network)
            turn.end()

        tasks = [
            asyncio.create_task(waiting(network)) for network in ("loud", "loud", "loud", "new", "newer")
        ]
        await asyncio.sleep(0)
        first.end()
        await asyncio.gather(*tasks)
        return order, len(queue)

    assert asyncio.run(scene()) == (["loud", "new", "newer", "loud", "loud"], 0)


def test_beside_voters_one_stranger_runs_and_the_next_after_a_rest(monkeypatch):
    monkeypatch.setattr(stranger_queue, "_TURN_SECONDS", 1000.0)
    monkeypatch.setattr(stranger_queue, "_VOTERS_STAY_SECONDS", 1000.0)
    monkeypatch.setattr(stranger_queue, "_REST_RATIO", 0.0)

    async def scene():
        queue, running = StrangerQueue(at_once=3), []
        taken = [queue.take() for _ in range(3)]
        tasks = [asyncio.create_task(queue.wait(str(number))) for number in range(4)]
        for task in tasks:
            task.add_done_callback(lambda done: running.append(done.result()))
        await asyncio.sleep(0)
        queue.note_voter()
        for turn in taken:
            turn.end()
        # At the end of a turn nobody is called at once: there is a rest first.
        resting = len(queue)
        while not running:  # noqa: ASYNC110
            await asyncio.sleep(0)
        for _ in range(10):
            await asyncio.sleep(0)
        beside = len(running)
        queue._voter_seen_at -= 2000.0
        running[0].end()
        await asyncio.gather(*tasks)
        return resting, beside, len(running)

    assert asyncio.run(scene()) == (4, 1, 4)


def test_who_takes_long_holds_nobody_up(monkeypatch):
    monkeypatch.setattr(stranger_queue, "_TURN_SECONDS", 0.01)

    async def scene():
        queue = StrangerQueue(at_once=1)
        queue.take()
        async with asyncio.timeout(30):
            return await queue.wait("a")

    assert asyncio.run(scene()) is not None


def test_who_leaves_the_line_takes_no_turn_along():
    async def scene():
        queue = StrangerQueue(at_once=1)
        first = queue.take()
        left, called = (asyncio.create_task(queue.wait("a")) for _ in range(2))
        await asyncio.sleep(0)
        left.cancel()
        await asyncio.sleep(0)
        first.end()
        # Called and cancelled at the same moment: the turn must not be lost.
        called.cancel()
        await asyncio.gather(left, called, return_exceptions=True)
        return queue.take()

    assert asyncio.run(scene()) is not None


def test_a_voter_votes_while_strangers_are_refused(shared):
    voter = shared.client()
    assert voter.post(ASK).status_code == 201
    edge = edge_of(shared)
    kept, edge._strangers = edge._strangers, StrangerQueue(at_once=0, longest=0)
    try:
        refused = shared.client().post(ASK)
        assert (refused.status_code, refused.headers["retry-after"]) == (503, "3")
        assert refused.json()["type"] == "urn:tiltyard:problem:crowded"
        assert shared.client(cookies={"tiltyard_session": "forged.forged"}).post(ASK).status_code == 503
        assert shared.client("tyt_forged").get("/api/v1/me").status_code == 503
        assert [shared.client().get(path).status_code for path in ("/healthz", "/readyz")] == [200, 200]
        matchup = voter.post(ASK).json()["matchup"]
        assert voter.get(f"/m/{matchup}/a").status_code == 200
        assert voter.post(f"/api/v1/matchups/{matchup}/vote", json={"winner": "tie"}).status_code == 200
    finally:
        edge._strangers = kept


def test_a_token_that_was_valid_is_known_and_a_session_that_fails_is_not(shared):
    token = make_token(shared.database, "read")
    program, voter = shared.client(token), shared.client()
    assert program.get("/api/v1/me").status_code == 200
    assert voter.post(ASK).status_code == 201
    edge = edge_of(shared)
    kept, edge._strangers = edge._strangers, StrangerQueue(at_once=0, longest=0)
    try:
        assert program.get("/api/v1/me").status_code == 200
        answers = [voter.get("/m/0-nothing/a").status_code for _ in range(3)]
        assert answers == [404, 404, 503]
        assert shared.client(token).get("/api/v1/me").status_code == 200
    finally:
        edge._strangers = kept


def test_failures_are_forgiven_and_bounded(shared, monkeypatch):
    senders = KnownSenders(shared.context.access)
    now = 1000.0
    # Not the clock of the whole process: the server's timers would wait for it.
    monkeypatch.setattr(stranger_queue, "time", SimpleNamespace(monotonic=lambda: now))
    voter = shared.client()
    voter.post(ASK)
    cookie = "; ".join(f"{name}={value}" for name, value in voter.cookies.items())
    scope = {"type": "http", "headers": [(b"cookie", cookie.encode())], "client": ("192.0.2.1", 1)}
    for status in (200, 302, 409, 410, 500, 503):
        for _ in range(10):
            senders.answered(scope, status)
    assert senders.knows(scope)
    for _ in range(1000):
        senders.answered(scope, 404)
    assert not senders.knows(scope)
    now += 160
    assert senders.knows(scope)
    assert not senders.knows({**scope, "headers": []})


def test_a_body_that_comes_slowly_takes_no_place_in_the_line(shared):
    """Whoever waits in line has sent the whole request."""
    edge = edge_of(shared)
    kept, edge._strangers = edge._strangers, StrangerQueue(at_once=0, longest=1)
    try:
        host, _, port = shared.url.removeprefix("http://").partition(":")
        with closing(socket.create_connection((host, int(port)))) as slow:
            slow.sendall(
                f"POST {ASK} HTTP/1.1\r\nHost: {host}:{port}\r\nContent-Type: application/json\r\n"
                "Content-Length: 20\r\n\r\n{".encode()
            )
            # A later request is still answered: the line has one place, and it is free.
            with closing(socket.create_connection((host, int(port)))) as other:
                other.sendall(f"GET /api/v1/arenas HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n".encode())

                async def line():
                    while not len(edge._strangers):  # noqa: ASYNC110
                        await asyncio.sleep(0.01)
                    return len(edge._strangers)

                assert shared.run(line()) == 1
                shared.run(_call(edge._strangers))
                assert other.recv(12) == b"HTTP/1.1 200"
    finally:
        edge._strangers = kept


async def _call(queue):
    queue._at_once, queue._running = 1, 1
    queue.end_turn(0.0)
