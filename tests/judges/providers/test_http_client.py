"""The HTTP client of the providers: redirects, proxies, certificates, timeouts, limits, and connections kept."""

from __future__ import annotations

import asyncio
import gzip
import json
import ssl
from contextlib import asynccontextmanager

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.asking import SDKS, ask, items, opened, run
from support.certificates import make_certificate
from support.servers.paid_llm import paid_llm
from support.servers.scripted import http, overheard, scripted
from tiltyard.errors import BadOption, ProviderFault
from tiltyard.judges.providers import http_client
from tiltyard.judges.providers.endpoints import checked_base_url

PARTS = st.text(st.sampled_from("aB.-_~%/ é[]@:$&;=|^\\'()"), max_size=12)


@pytest.fixture(autouse=True)
def _no_proxies(monkeypatch):
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


async def complete(provider):
    return await provider.complete(provider.body("m", ask(), {}))


@asynccontextmanager
async def listening(serve, **options):
    """A server of raw connections, and its port."""
    server = await asyncio.start_server(serve, "127.0.0.1", 0, **options)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()


def fault_of(answer, name="openai", **options):
    async def go():
        async with scripted(answer) as url, opened(name, url, **options) as provider:
            with pytest.raises(ProviderFault) as caught:
                await complete(provider)
            return caught.value

    return run(go())


def reply_to(answer):
    async def go():
        async with scripted(answer) as url, opened("openai", url) as provider:
            return await complete(provider)

    return run(go())


# Addresses.


@given(st.sampled_from(["h", "H.example.ORG", "127.0.0.1", "[::1]", "a_b.", "münchen.de"]), PARTS)
def test_addresses_have_the_form_that_paid_calls_were_kept_under(host, path):
    """Until version 0.1 the official SDKs normalised them; a cache key contains the result."""
    address = f"http://{host}:8000/{path}"
    assert checked_base_url(address, "openai") == str(httpx2.URL(address)).rstrip("/")


@pytest.mark.parametrize(
    ("address", "normal"),
    [("http://h:80/v1/", "http://h/v1"), ("https://h:443", "https://h"), ("https://h:80", "https://h:80")],
)
def test_default_ports_are_left_out(address, normal):
    assert checked_base_url(address, "openai") == normal == str(httpx2.URL(address)).rstrip("/")


@pytest.mark.parametrize("address", ["http://h/v1?key=1", "http://h/#x", "http://h:99999", "http://h/\n"])
def test_an_address_that_is_more_or_less_than_one_is_refused(address):
    with pytest.raises(BadOption, match="base_url"):
        checked_base_url(address, "openai")


def test_a_password_in_an_address_is_refused():
    with pytest.raises(BadOption, match="api_key_env"):
        checked_base_url("http://me:word@h/v1", "openai")


# Redirects.


@pytest.mark.parametrize("status", [307, 308])
def test_a_redirect_within_the_origin_sends_the_same_request_again(status):
    seen = []

    async def serve(reader, writer):
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        length = int(head.lower().split("content-length:")[1].split("\r\n")[0])
        seen.append((head.split()[1], "Bearer key" in head, await reader.readexactly(length)))
        first = len(seen) == 1
        writer.write(http(status, b"", "location: /elsewhere\r\n") if first else http(200, b'{"a": 1}'))
        writer.close()

    async def go():
        async with listening(serve) as port, opened("openai", f"http://127.0.0.1:{port}/v1") as provider:
            return await complete(provider)

    assert run(go()) == {"a": 1}
    (before, _, first), (after, keyed, second) = seen
    assert (before, after) == ("/v1/chat/completions", "/elsewhere")
    assert keyed
    assert first == second


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_question_is_never_redirected_to_another_origin(status):
    async def go():
        async with overheard(http(200, b"{}")) as (elsewhere, heads):
            answer = http(status, b"", f"location: {elsewhere}/v1/chat/completions\r\n")
            async with scripted(answer) as url, opened("openai", url) as provider:
                with pytest.raises(ProviderFault, match="base_url") as caught:
                    await complete(provider)
        return heads, caught.value

    heads, error = run(go())
    assert heads == []
    assert (error.status, error.retryable, error.billed) == (status, False, False)


def test_a_circle_of_redirects_ends():
    error = fault_of(http(307, b"", "location: /again\r\n"))
    assert "redirects" in str(error)
    assert not error.retryable


# Proxies.


@pytest.mark.parametrize("variable", ["http_proxy", "HTTP_PROXY", "ALL_PROXY"])
def test_a_proxy_of_the_environment_is_used(variable, monkeypatch):
    async def go():
        async with overheard(http(200, b'{"through": 1}')) as (proxy, heads):
            monkeypatch.setenv(variable, proxy.replace("http://", "http://me:word@"))
            async with opened("openai", "http://judge.invalid/v1") as provider:
                return await complete(provider), heads

    reply, (head,) = run(go())
    assert reply == {"through": 1}
    assert head.startswith("post http://judge.invalid/v1/chat/completions ")
    assert "proxy-authorization: basic " in head


def test_no_proxy_is_respected(monkeypatch):
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    assert reply_to(http(200, b"{}")) == {}


@pytest.mark.parametrize("target", ["http", "https"])
def test_a_proxy_that_is_not_there_was_not_paid_and_its_password_is_not_told(target, monkeypatch):
    monkeypatch.setenv(f"{target}_proxy", "http://me:pass-word@127.0.0.1:9")

    async def go():
        async with opened("openai", f"{target}://judge.invalid/v1") as provider:
            with pytest.raises(ProviderFault) as caught:
                await complete(provider)
            return caught.value

    error = run(go())
    assert error.retryable
    assert not error.billed
    assert "pass-word" not in str(error)


def test_a_proxy_that_refuses_a_tunnel_was_not_paid(monkeypatch):
    async def go():
        async with overheard(http(403, b"")) as (proxy, heads):
            monkeypatch.setenv("https_proxy", proxy)
            async with opened("openai", "https://judge.invalid/v1") as provider:
                with pytest.raises(ProviderFault) as caught:
                    await complete(provider)
            return caught.value, heads

    error, (head,) = run(go())
    assert head.startswith("connect judge.invalid:443 ")
    assert "key" not in head
    assert error.retryable
    assert not error.billed


@pytest.mark.parametrize("proxy", ["socks5://127.0.0.1:9", "http://[x", "ftp://me:pass-word@h"])
def test_a_proxy_that_cannot_be_used_says_so(proxy, monkeypatch):
    monkeypatch.setenv("http_proxy", proxy)

    async def go():
        async with opened("openai", "http://judge.invalid/v1") as provider:
            with pytest.raises(ProviderFault, match="HTTP_PROXY") as caught:
                await complete(provider)
            return caught.value

    error = run(go())
    assert not error.retryable
    assert "pass-word" not in str(error)


def test_passwords_of_a_netrc_file_are_not_sent(tmp_path, monkeypatch):
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login me password word\n")
    (tmp_path / "netrc").chmod(0o600)
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))

    async def go():
        async with overheard(http(200, b"{}")) as (url, heads), opened("anthropic", url) as provider:
            await complete(provider)
            return heads

    (head,) = run(go())
    assert "authorization" not in head


# Certificates.


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    return make_certificate(tmp_path_factory.mktemp("certificate"))


@pytest.fixture
def context(certificate):
    """What a server with the certificate needs. Nobody remembers which certificates were trusted before."""
    http_client._certificates.cache_clear()
    made = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    made.load_cert_chain(certificate / "cert.pem", certificate / "key.pem")
    yield made
    http_client._certificates.cache_clear()


@pytest.mark.parametrize("trusted", [True, False])
def test_only_a_trusted_server_gets_the_key(certificate, context, trusted, monkeypatch):
    if trusted:
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate / "cert.pem"))
    heads = []

    async def serve(reader, writer):
        try:
            heads.append(await reader.readuntil(b"\r\n\r\n"))
            writer.write(http(200, b'{"a": 1}'))
        finally:
            writer.close()

    async def go():
        async with listening(serve, ssl=context) as port:
            url = f"https://localhost:{port}/v1"
            async with opened("openai", url) as provider:
                try:
                    return await complete(provider)
                except ProviderFault as error:
                    return error

    reply = run(go())
    if trusted:
        assert reply == {"a": 1}
    else:
        assert "CERTIFICATE_VERIFY_FAILED" in str(reply)
        assert not reply.billed
        assert heads == []


@pytest.mark.parametrize("secure", [True, False])
def test_reading_follows_a_redirect_elsewhere_without_the_key(certificate, context, secure, monkeypatch):
    """As for a file of results that is kept in object storage; never without TLS."""
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate / "cert.pem"))
    heads = []

    async def serve(reader, writer):
        heads.append((await reader.readuntil(b"\r\n\r\n")).decode().lower())
        writer.write(http(200, json.dumps({"id": "b", "status": "completed", "created_at": 0}).encode()))
        writer.close()

    async def go():
        async with listening(serve, ssl=context if secure else None) as port:
            answer = http(302, b"", f"location: http{'s' * secure}://localhost:{port}/kept\r\n")
            async with overheard(answer) as (url, asked), opened("openai", url) as provider:
                try:
                    return await provider.poll("b"), asked
                except ProviderFault as error:
                    return error, asked

    found, (asked,) = run(go())
    assert "bearer key" in asked
    if secure:
        assert found.ended
        assert len(heads) == 1
        assert "authorization" not in heads[0]
    else:
        assert found.status == 302
        assert heads == []


@pytest.mark.parametrize("content", [None, b"no certificate"])
@pytest.mark.usefixtures("context")
def test_certificates_that_cannot_be_loaded_were_not_paid(content, tmp_path, monkeypatch):
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
    if content is not None:
        (tmp_path / "ca.pem").write_bytes(content)
    error = fault_of(http(200, b"{}"))
    assert "SSL_CERT_FILE" in str(error)
    assert not error.billed


# Timeouts and limits.


def test_a_server_that_stops_reading_does_not_hold_a_call_forever(monkeypatch):
    monkeypatch.setattr(http_client, "_CONNECT_SECONDS", 0.1)
    monkeypatch.setattr(http_client, "_UPLOAD_BYTES_PER_SECOND", 1e9)

    async def go():
        over = asyncio.Event()

        async def serve(reader, writer):
            await over.wait()
            writer.transport.abort()

        async with listening(serve, limit=1024) as port:
            url = f"http://127.0.0.1:{port}/v1"
            async with opened("openai", url, 0.3) as provider:
                body = provider.body("m", ask("x" * 50_000_000), {})
                with pytest.raises(ProviderFault, match="timeout_seconds") as caught:
                    await provider.complete(body)
            over.set()
            await asyncio.sleep(0.1)
            return caught.value

    error = run(go())
    assert error.retryable
    assert error.billed


def test_a_reply_has_a_largest_size(monkeypatch):
    monkeypatch.setattr(http_client, "_REPLY_BYTES", 1000)
    packed = gzip.compress(json.dumps({"a": " " * 5000}).encode())
    error = fault_of(http(200, packed, "content-encoding: gzip\r\n"))
    assert "too large" in str(error)
    assert error.billed


def test_a_compressed_reply_and_a_long_header_are_read():
    packed = http(200, gzip.compress(b'{"a": 1}'), "content-encoding: gzip\r\n")
    headed = http(200, b'{"a": 1}', f"x-long: {'y' * 30_000}\r\n")
    assert reply_to(packed) == reply_to(headed) == {"a": 1}


def test_an_error_page_is_told_in_short():
    error = fault_of(http(403, b"<html>" + b"no " * 5000))
    assert "<html>no no" in str(error)
    assert len(str(error)) < 600


@pytest.mark.parametrize("name", SDKS)
def test_large_questions_and_batches_are_sent_whole(name):
    async def go(url):
        async with opened(name, url) as provider:
            body = provider.body("m", ask("é" * 2_000_000), {})
            await provider.complete(body)
            await provider.submit_batch(items(provider, 3, "x" * 1_000_000), "mark")
            return body

    with paid_llm(keep_bodies=True) as server:
        assert run(go(server.base_url(name))) == server.bodies()[0]


# Connections.


@pytest.mark.parametrize("name", SDKS)
def test_connections_are_kept_and_a_lost_question_is_not_sent_again(name):
    """A request on a kept connection that is cut may have been paid: it must not be repeated unseen."""
    asked, opened_connections = [], []

    async def serve(reader, writer):
        opened_connections.append(writer)
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).lower()
                at = head.find(b"content-length:")
                asked.append(await reader.readexactly(int(head[at + 15 : head.index(b"\r\n", at)])))
                if len(asked) == 3:
                    return
                writer.write(http(200, b"{}"))
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    async def go():
        async with listening(serve) as port, opened(name, f"http://127.0.0.1:{port}") as provider:
            await complete(provider)
            await complete(provider)
            with pytest.raises(ProviderFault) as caught:
                await complete(provider)
            return caught.value

    error = run(go())
    assert error.billed
    assert (len(asked), len(opened_connections)) == (3, 1)


def test_cookies_are_not_kept():
    async def go():
        async with overheard(http(200, b"{}", "set-cookie: a=b\r\n")) as (url, heads):
            async with opened("openai", url) as provider:
                await complete(provider)
                await complete(provider)
            return heads

    assert not any("cookie" in head for head in run(go()))


@pytest.mark.parametrize("name", SDKS)
def test_a_provider_that_was_never_used_needs_no_event_loop(name):
    from tiltyard.judges.providers.local_replies import open_provider

    provider = open_provider(name, "http://127.0.0.1:9", None)
    run(provider.aclose())
