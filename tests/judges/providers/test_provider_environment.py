"""Variables of the environment that the providers' SDKs know redirect nothing and add nothing."""

from __future__ import annotations

import pytest

from support.asking import SDKS, ask, opened, run
from support.servers.scripted import http, overheard
from tiltyard.errors import ProviderFault
from tiltyard.judges.providers.provider_factory import open_provider
from tiltyard.settings.model_endpoints import PROVIDERS


@pytest.fixture(autouse=True)
def _redirected(monkeypatch):
    for name in ("ANTHROPIC", "OPENAI"):
        monkeypatch.setenv(f"{name}_BASE_URL", "http://127.0.0.1:9/elsewhere")
        monkeypatch.setenv(f"{name}_CUSTOM_HEADERS", "x-behind-our-back: yes\nauthorization: Bearer theirs")
    monkeypatch.setenv("ANTHROPIC_AUTH_TOKEN", "theirs")
    monkeypatch.setenv("OPENAI_ORG_ID", "theirs")


@pytest.mark.parametrize("name", SDKS)
def test_without_an_address_a_provider_is_at_its_own(name):
    async def go():
        provider = open_provider(name, None, "key")
        await provider.aclose()
        return provider.base_url

    assert run(go()) == PROVIDERS[name].base_url


@pytest.mark.parametrize("name", SDKS)
def test_no_header_comes_from_the_environment(name):
    async def go():
        async with overheard(http(400, b"{}")) as (url, heads), opened(name, url) as provider:
            with pytest.raises(ProviderFault, match="400"):
                await provider.complete(provider.body("m", ask(), {}))
            return heads

    (head,) = run(go())
    assert "behind-our-back" not in head
    assert "theirs" not in head
    assert "key" in head
