"""Several processes serve an arena: one decides, the others forward, and nothing is lost when it goes."""

import asyncio
import contextlib
import inspect
from collections import Counter
from pathlib import Path

import pytest

from support.live_arenas import make_arena
from tiltyard.arena.content.blob_store import BlobStore
from tiltyard.arena.content.object_storage import FolderStorage
from tiltyard.arena.log.event_log import LogKind
from tiltyard.arena.registry import ArenaRegistry
from tiltyard.arena.secret_keys import SecretKeys
from tiltyard.arena.voting import owner_calls
from tiltyard.arena.voting.owner_calls import handle_call
from tiltyard.arena.voting.voter_requests import Voter
from tiltyard.arena.voting.voting_queue import VotingQueue
from tiltyard.core.battles import Kind
from tiltyard.errors import Closed, NotAllowed, NotFound, StoreFault
from tiltyard.instruments import recording
from tiltyard.postgres.connections import connect, open_pool
from tiltyard.settings.serving_settings import ServingSettings

KEYS = SecretKeys(["k" * 40])
ANN = Voter(1)


@contextlib.asynccontextmanager
async def some_registries(url, count=2):
    """So many web processes of one service, all of which know each other."""
    async with contextlib.AsyncExitStack() as stack:
        registries = []
        for _ in range(count):
            pool = await stack.enter_async_context(open_pool(url, most=4))
            blobs = BlobStore(pool, FolderStorage(Path("/nonexistent")))
            registry = ArenaRegistry(ServingSettings(port=0), url, pool, blobs, KEYS)
            await registry.start()
            stack.push_async_callback(registry.stop)
            registries.append(registry)
        async with asyncio.timeout(30):
            while any(len(one.ownership.ring.members) < count for one in registries):  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        yield registries


def by_ownership(registries, arena):
    """The registry that owns an arena, and another."""
    owner = next(one for one in registries if one.ownership.ring.owns(arena.arena))
    return owner, next(one for one in registries if one is not owner)


def kinds(url):
    with connect(url) as connection:
        rows = connection.execute("SELECT kind FROM events ORDER BY position").fetchall()
    return [LogKind(kind) for (kind,) in rows]


def test_another_process_forwards_everything_that_voters_do(database):
    async def scene():
        arena = await make_arena(database)
        async with some_registries(database) as registries:
            owner, other = by_ownership(registries, arena)
            queue = await other.voting_queue("arena")
            first = await queue.next_matchup(ANN)
            assert first.new
            assert await queue.open_matchups(ANN) == await (await owner.voting_queue("arena")).open_matchups(
                ANN
            )
            voted = await queue.vote(ANN, first.matchup, Kind.WIN_A, detail={"note": "ä"})
            assert (voted.kind, voted.outcome) == (LogKind.VOTE, Kind.WIN_A)
            assert await queue.vote(ANN, first.matchup, Kind.WIN_A) == voted
            undone = await queue.undo(ANN, first.matchup)
            assert undone.ballot == 1
            await queue.vote(ANN, first.matchup, Kind.TIE, ballot=1)
            revealed = await queue.reveal(ANN, first.matchup)
            assert revealed.model_a != revealed.model_b
            await queue.skip(ANN, (await queue.next_matchup(ANN)).matchup)
            assert await queue.unrevealed_votes(ANN) == 0
            assert await queue.finish(ANN) == 0
            assert sum(await queue.responses_by_prompt()) > 0
            assert not queue.opened
            assert other.voting_queues == ()
            assert [one.name for one in owner.voting_queues] == ["arena"]

    counted = Counter()
    with recording(lambda instrument, amount, labels: counted.update({(instrument.name, *labels): amount})):
        asyncio.run(scene())
    assert counted["tiltyard_forwarded_requests", "answered"] >= 10
    assert counted["tiltyard_forwarded_requests", "no answer"] == 0
    assert kinds(database).count(LogKind.VOTE) == 2


def test_refusals_arrive_as_they_were_made(database):
    async def scene():
        arena = await make_arena(database)
        async with some_registries(database) as registries:
            _, other = by_ownership(registries, arena)
            queue = await other.voting_queue("arena")
            matchup = (await queue.next_matchup(ANN)).matchup
            with pytest.raises(NotFound, match="another voter"):
                await queue.vote(Voter(2), matchup, Kind.TIE)
            await queue.skip(ANN, matchup)
            with pytest.raises(Closed):
                await queue.vote(ANN, matchup, Kind.TIE)

    asyncio.run(scene())


def test_when_the_owner_goes_another_takes_over_and_nothing_is_lost(database):
    async def scene():
        arena = await make_arena(database)
        async with some_registries(database, count=3) as registries:
            owner, other = by_ownership(registries, arena)
            queue = await other.voting_queue("arena")
            matchup = (await queue.next_matchup(ANN)).matchup
            voted = await queue.vote(ANN, matchup, Kind.WIN_B)
            # Its links break and its lease stays, as when a process is killed.
            await owner.ownership._server.stop()
            assert await queue.vote(ANN, matchup, Kind.WIN_B) == voted
            await queue.next_matchup(ANN)
            assert other.ownership.ring.owner_of(arena.arena) != owner.ownership.ring.own

    asyncio.run(scene())
    assert kinds(database).count(LogKind.VOTE) == 1


def test_an_owner_that_hangs_is_passed_over(database, monkeypatch):
    monkeypatch.setattr("tiltyard.arena.processes.process_links._PING_SECONDS", 0.02)
    monkeypatch.setattr("tiltyard.arena.processes.process_links._SILENCE_SECONDS", 0.3)

    async def scene():
        arena = await make_arena(database)
        async with some_registries(database) as registries:
            owner, other = by_ownership(registries, arena)
            queue = await other.voting_queue("arena")
            offered = await queue.next_matchup(ANN)
            for connection in owner.ownership._server._connections:
                connection.transport.pause_reading()
            await queue.vote(ANN, offered.matchup, Kind.TIE)
            assert queue.opened

    asyncio.run(scene())
    assert kinds(database).count(LogKind.VOTE) == 1


def test_a_stopped_process_gives_its_lease_back(database):
    async def scene():
        await make_arena(database)
        async with some_registries(database) as registries:
            await registries[0].stop()
            async with asyncio.timeout(30):
                while len(registries[1].ownership.ring.members) > 1:  # noqa: ASYNC110
                    await asyncio.sleep(0.01)

    asyncio.run(scene())
    with connect(database) as connection:
        assert connection.execute("SELECT count(*) FROM processes").fetchone() == (0,)


def test_an_arena_of_another_process_is_unloaded_and_an_idle_one_too(database, monkeypatch):
    async def scene():
        arena = await make_arena(database)
        async with some_registries(database) as registries:
            owner, other = by_ownership(registries, arena)
            own, foreign = await owner.voting_queue("arena"), await other.voting_queue("arena")
            await own.next_matchup(ANN)
            await foreign.ensure_open()
            monkeypatch.setattr("tiltyard.arena.registry._UNLOAD_FOREIGN_SECONDS", 0.0)
            await other._unload_idle()
            await owner._unload_idle()
            assert (own.opened, foreign.opened) == (True, False)
            monkeypatch.setattr("tiltyard.arena.registry._UNLOAD_SECONDS", 0.0)
            await owner._unload_idle()
            assert not own.opened
            assert owner._queues == {}
            assert not (await (await owner.voting_queue("arena")).next_matchup(ANN)).new

    asyncio.run(scene())


def test_a_call_that_cannot_be_read_is_refused():
    async def nobody(_call, _number):
        raise AssertionError

    for request in (b"", b"1 vote", b"x vote []", b"1 close []", b"1 vote [1]", b"1 open {}"):
        reply = asyncio.run(handle_call(request, nobody))
        with pytest.raises(StoreFault, match="different versions"):
            raise owner_calls._refusal(owner_calls.json.loads(reply[1:]))


def test_a_fault_of_the_owner_is_told(caplog):
    async def broken(_call, _number):
        raise ZeroDivisionError("secret")

    reply = asyncio.run(handle_call(b"1 responses_by_prompt []", broken))
    with pytest.raises(StoreFault, match="failed; try again"):
        raise owner_calls._refusal(owner_calls.json.loads(reply[1:]))
    assert "ZeroDivisionError" in caplog.text
    assert "secret" not in caplog.text


def test_a_refusal_keeps_its_class_and_values():
    for refusal in (NotAllowed("no", known=True), Closed("over"), StoreFault("away")):
        kept = owner_calls._refusal(owner_calls.json.loads(owner_calls._refused(refusal)[1:]))
        assert (type(kept), str(kept), vars(kept)) == (type(refusal), str(refusal), vars(refusal))
    strange = owner_calls._refusal(["Exception", ["text"], {}])
    assert type(strange) is StoreFault


def test_every_decision_is_made_by_the_owner():
    deciding = {
        name
        for name, method in inspect.getmembers(VotingQueue, inspect.isfunction)
        if not name.startswith("_") and "self._ask(" in inspect.getsource(method)
    }
    #: What the owner remembers, and needs no batch for.
    noted = {"note_delivery"}
    of_queues = {name for name in owner_calls._DECISIONS if not name.startswith("live_")}
    assert deciding | noted == of_queues == set(owner_calls._CALL_TYPES)
