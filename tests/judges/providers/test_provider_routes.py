"""Path, query and headers of an endpoint: what is sent, what decides the key of a reply, and what is never told."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from support.asking import SDKS, ask, run
from support.servers.scripted import http, overheard, scripted
from tiltyard.errors import ProviderFault
from tiltyard.judges.providers.local_replies import open_provider
from tiltyard.judges.requests import request_key
from tiltyard.settings.model_endpoints import EndpointRoute

KEY = "sk-the-key-itself"
SECRET = "a secret of the environment"
ROUTE = EndpointRoute(
    path="/my/model:chat",
    query={"api-version": "2024-10-21", "q": "a b&c"},
    headers={"X-Team": "Search"},
    secret_query={"key": SECRET},
    secret_headers={"X-Gateway-Key": SECRET},
)


def head_of(name, route, key=KEY):
    """The head of a request, in lower case."""

    async def go():
        async with overheard(http(200, b"{}")) as (url, heads):
            provider = open_provider(name, f"{url}/base", key, 5.0, route)
            await provider.complete(provider.body("m", ask(), {}))
            await provider.aclose()
            return heads

    (head,) = run(go())
    return head


def key_of(route, name="openai"):
    provider = open_provider(name, "http://h/v1", KEY, 5.0, route)
    return request_key(provider, provider.body("m", ask(), {}), 0)[0]


@pytest.mark.parametrize("name", SDKS)
def test_everything_of_a_route_is_sent(name):
    head = head_of(name, ROUTE)
    asked = "/base/my/model:chat?api-version=2024-10-21&q=a%20b%26c&key=a%20secret%20of%20the%20environment"
    assert head.startswith(f"post {asked} http/1.1\r\n")
    assert "\r\nx-team: search\r\n" in head
    assert f"\r\nx-gateway-key: {SECRET}\r\n" in head
    own = "authorization: bearer" if name == "openai" else "x-api-key:"
    assert f"\r\n{own} {KEY}\r\n" in head


@pytest.mark.parametrize(
    ("name", "header", "sent"),
    [
        ("openai", "api-key", f"api-key: {KEY}"),
        ("openai", None, f"authorization: bearer {KEY}"),
        ("anthropic", "Authorization", f"authorization: bearer {KEY}"),
        ("anthropic", None, f"x-api-key: {KEY}"),
    ],
)
def test_the_key_is_sent_once_in_the_header_of_choice(name, header, sent):
    head = head_of(name, EndpointRoute(api_key_header=header))
    assert f"\r\n{sent}\r\n" in head
    assert head.count(KEY) == 1
    assert ("authorization" in head) == ("authorization" in sent)


@pytest.mark.parametrize("name", SDKS)
def test_a_secret_header_takes_the_place_of_the_key(name):
    head = head_of(name, EndpointRoute(secret_headers={"X-Gateway-Key": SECRET}), key=None)
    assert "no-key" not in head
    assert "authorization" not in head
    assert "x-api-key" not in head
    assert "no-key" in head_of(name, EndpointRoute(headers={"X-Team": "Search"}), key=None)


def test_a_header_replaces_ours_whatever_its_case():
    head = head_of(
        "anthropic", EndpointRoute(headers={"Anthropic-Version": "2099-01-01", "user-agent": "me"})
    )
    assert head.count("anthropic-version") == 1
    assert "anthropic-version: 2099-01-01" in head
    assert "user-agent: me" in head


@pytest.mark.parametrize("name", SDKS)
def test_other_calls_follow_the_route(name):
    async def go():
        async with overheard(http(200, b'{"data": [], "input_tokens": 3}')) as (url, heads):
            provider = open_provider(name, f"{url}/base", KEY, 5.0, ROUTE)
            async for _ in provider.list_batches(__import__("datetime").datetime.now()):
                pass
            if name == "anthropic":
                await provider.count_tokens(provider.body("m", ask(), {}))
            await provider.aclose()
            return heads

    heads = run(go())
    paths = ["/base/my/model:chat/batches", "/base/my/model:chat/count_tokens"]
    for head, path in zip(heads, paths if name == "anthropic" else ["/base/batches"], strict=True):
        assert head.split()[1].startswith(f"{path}?api-version=2024-10-21&")
        assert "x-team: search" in head


# Cache keys.


@pytest.mark.parametrize("name", SDKS)
def test_without_a_route_keys_are_those_of_before(name):
    plain = open_provider(name, "http://h/v1", KEY)
    assert plain.address == plain.base_url == "http://h/v1"
    assert key_of(None, name) == key_of(EndpointRoute(), name)


def test_what_is_written_decides_the_key_of_a_reply():
    others = [
        EndpointRoute(),
        EndpointRoute(path="/x"),
        EndpointRoute(query={"v": "1"}),
        EndpointRoute(query={"v": "2"}),
        EndpointRoute(headers={"v": "1"}),
        EndpointRoute(headers={"v": "2"}),
        EndpointRoute(headers={"v": "1"}, query={"v": "1"}),
    ]
    assert len({key_of(route) for route in others}) == len(others)
    assert key_of(EndpointRoute(headers={"A": "1", "b": "2"})) == key_of(
        EndpointRoute(headers={"B": "2", "a": "1"})
    )


def test_what_comes_from_the_environment_does_not():
    assert key_of(ROUTE) == key_of(replace(ROUTE, secret_query={}, secret_headers={"Other": "value"}))
    assert key_of(EndpointRoute(api_key_header="api-key")) == key_of(None)


# Secrets.


@pytest.mark.parametrize("name", SDKS)
@pytest.mark.parametrize("status", [200, 400, 401, 429, 500])
def test_a_server_that_repeats_secrets_does_not_get_them_stored(name, status):
    """Some gateways show the request in their errors, and everything that is heard is stored or shown."""
    said = f"no: key {KEY}, header {SECRET}, url ?key=a%20secret"
    document = {"error": {"message": said}, "choices": [{"message": {"content": said}}], "content": []}

    async def go():
        async with scripted(http(status, json.dumps(document).encode())) as url:
            provider = open_provider(name, url, KEY, 5.0, ROUTE)
            try:
                return json.dumps(await provider.complete(provider.body("m", ask(), {})))
            except ProviderFault as error:
                return f"{error} {error!r} {error.said}"
            finally:
                await provider.aclose()

    heard = run(go())
    assert KEY not in heard
    assert SECRET not in heard
    assert "[secret]" in heard


@pytest.mark.parametrize("answer", [b"", b"HTTP/1.1 200 OK\r\ncontent-le", b"SSH-2.0-hello\r\n\r\n", None])
@pytest.mark.parametrize("name", SDKS)
def test_no_fault_tells_a_secret(name, answer):
    async def go():
        async with scripted(answer) as url:
            provider = open_provider(name, url, KEY, 0.3, ROUTE)
            with pytest.raises(ProviderFault) as caught:
                await provider.complete(provider.body("m", ask(), {}))
            await provider.aclose()
            return caught.value

    told = f"{run(go())!r}"
    assert KEY not in told
    assert "secret" not in told


def test_a_route_does_not_show_its_secrets():
    assert SECRET not in repr(ROUTE)
    provider = open_provider("openai", "http://h/v1", KEY, 5.0, ROUTE)
    assert SECRET not in provider.address
    assert KEY not in repr(provider._wire._credentials)
