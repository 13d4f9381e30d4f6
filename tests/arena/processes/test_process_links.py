"""Links between processes: only with the key, replies in any order, and given up when nothing comes."""

import asyncio
import contextlib

import pytest
import uvloop

from tiltyard.arena.processes import process_links
from tiltyard.arena.processes.process_links import LinkFault, LinkServer, ProcessLinks
from tiltyard.arena.processes.rendezvous import ServingProcess
from tiltyard.arena.secret_keys import SecretKeys

KEYS, OTHERS = SecretKeys(["k" * 40]), SecretKeys(["o" * 40])


@contextlib.asynccontextmanager
async def linked(handle, *, server_keys=KEYS, client_keys=KEYS):
    server, links = LinkServer(server_keys, handle), ProcessLinks(client_keys)
    address = await server.start("127.0.0.1")
    try:
        yield links, ServingProcess(1, address, "here"), server
    finally:
        links.close()
        await server.stop()


async def echo(request):
    return b"so " + request


@pytest.mark.parametrize(
    "new_loop", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"]
)
def test_replies_find_their_requests_in_any_order(new_loop):
    first_waits = asyncio.Event()

    async def handle(request):
        if request == b"first":
            await first_waits.wait()
        else:
            first_waits.set()
        return request.upper()

    async def scene():
        async with linked(handle) as (links, process, _):
            asked = [asyncio.create_task(links.ask(process, text)) for text in (b"first", b"second")]
            return await asyncio.gather(*asked)

    with asyncio.Runner(loop_factory=new_loop) as runner:
        assert runner.run(scene()) == [b"FIRST", b"SECOND"]


@pytest.mark.parametrize(("server_keys", "client_keys"), [(OTHERS, KEYS), (KEYS, OTHERS)])
def test_another_key_opens_no_link(server_keys, client_keys):
    handled = []

    async def handle(request):
        handled.append(request)
        return request

    async def scene():
        async with linked(handle, server_keys=server_keys, client_keys=client_keys) as (links, process, _):
            with pytest.raises(LinkFault, match="try again"):
                await links.ask(process, b"anything")

    asyncio.run(scene())
    assert handled == []


def test_a_server_that_does_not_know_the_key_learns_no_request():
    """Somebody else listens at the address: the greeting is the only thing that it is sent."""
    heard = []

    async def impostor(reader, writer):
        writer.write(b"0" * 32 + b"\n")
        heard.append(await reader.readline())
        writer.write(b"00" * 32 + b"\n")
        heard.append(await reader.read())
        writer.close()

    async def scene():
        server = await asyncio.start_server(impostor, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        links = ProcessLinks(KEYS)
        with pytest.raises(LinkFault):
            await links.ask(ServingProcess(1, f"127.0.0.1:{port}", "here"), b"secret request")
        links.close()
        server.close()
        await server.wait_closed()

    asyncio.run(scene())
    assert b"secret request" not in b"".join(heard)


def test_a_stranger_is_cut_off(monkeypatch):
    monkeypatch.setattr(process_links, "_GREETING_SECONDS", 0.1)

    async def scene(said):
        async with linked(echo) as (_, process, _server):
            host, port = process.address.split(":")
            reader, writer = await asyncio.open_connection(host, int(port))
            await reader.readline()
            with contextlib.suppress(ConnectionError):
                writer.write(said)
                left = await reader.read()
                assert left == b""
            writer.close()

    for said in (b"", b"\xff \xff\n", b"1 anything\n", b"x" * 10_000):
        asyncio.run(scene(said))


def test_a_link_is_opened_again_after_it_broke():
    async def scene():
        async with linked(echo) as (links, process, server):
            assert await links.ask(process, b"one") == b"so one"
            for connection in list(server._connections):
                connection.transport.abort()
            while server._connections or not links._links[1].transport.is_closing():  # noqa: ASYNC110
                await asyncio.sleep(0.001)
            assert await links.ask(process, b"two") == b"so two"

    asyncio.run(scene())


def test_what_waits_fails_when_the_link_breaks():
    async def scene():
        async with linked(lambda _: asyncio.Event().wait()) as (links, process, server):
            asked = asyncio.create_task(links.ask(process, b"one"))
            while not server._connections or not next(iter(server._connections))._tasks:  # noqa: ASYNC110
                await asyncio.sleep(0.001)
            await server.stop()
            with pytest.raises(LinkFault):
                await asked

    asyncio.run(scene())


def test_a_slow_answer_is_waited_for_but_silence_is_not(monkeypatch):
    """A busy process answers pings; one that is stopped does not."""
    monkeypatch.setattr(process_links, "_PING_SECONDS", 0.02)
    monkeypatch.setattr(process_links, "_SILENCE_SECONDS", 0.2)

    async def slow(request):
        await asyncio.sleep(0.5)
        return request

    async def scene():
        async with linked(slow) as (links, process, server):
            assert await links.ask(process, b"slow") == b"slow"
            for connection in server._connections:
                connection.transport.pause_reading()
            with pytest.raises(LinkFault):
                await links.ask(process, b"never read")

    asyncio.run(scene())


def test_nobody_at_the_address_is_a_fault():
    async def scene():
        links = ProcessLinks(KEYS)
        for address in ("127.0.0.1:1", "", "nowhere"):
            with pytest.raises(LinkFault):
                await links.ask(ServingProcess(1, address, "here"), b"x")

    asyncio.run(scene())
