"""Variables of the environment that the SDKs know redirect nothing and add nothing."""

from __future__ import annotations

import asyncio

import pytest
from asking import SDKS, ask, opened, run

from servers.scripted import http
from tiltyard.judges.providers import open_provider
from tiltyard.settings.prices import OWN_ADDRESSES


@pytest.fixture(autouse=True)
def _redirected(monkeypatch):
    for name in ("ANTHROPIC", "OPENAI"):
        monkeypatch.setenv(f"{name}_BASE_URL", "http://127.0.0.1:9/elsewhere")
        monkeypatch.setenv(f"{name}_CUSTOM_HEADERS", "x-behind-our-back: yes\nauthorization: Bearer theirs")
    monkeypatch.setenv("ANTHROPIC_AUTH_TOKEN", "theirs")


@pytest.mark.parametrize("name", SDKS)
def test_without_an_address_a_provider_is_at_its_own(name):
    async def go():
        provider = open_provider(name, None, "key")
        await provider.aclose()
        return provider.base_url

    assert run(go()) == OWN_ADDRESSES[name]


@pytest.mark.parametrize("name", SDKS)
def test_no_header_comes_from_the_environment(name):
    heads = []

    async def serve(reader, writer):
        heads.append((await reader.readuntil(b"\r\n\r\n")).decode().lower())
        writer.write(http(400, b"{}"))
        writer.close()

    async def go():
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        async with server, opened(name, url) as provider:
            with pytest.raises(Exception, match="400"):
                await provider.complete(provider.body("m", ask(), {}))

    run(go())
    (head,) = heads
    assert "behind-our-back" not in head
    assert "theirs" not in head
    assert "key" in head
