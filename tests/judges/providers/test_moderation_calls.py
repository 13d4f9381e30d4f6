"""Moderation endpoints and guard models: what they are sent, and what their replies mean."""

import asyncio
import json

import pytest

from support.servers.scripted import http, scripted
from tiltyard.errors import BadConfig, ProviderFault
from tiltyard.judges.providers.moderation_calls import GuardModel, ModerationEndpoint
from tiltyard.judges.providers.provider import ChatTurn
from tiltyard.settings.environment import read_environment
from tiltyard.settings.live_models import GuardSection, ModerationEndpointSection

TALK = (ChatTurn("user", "Hello"), ChatTurn("assistant", "Hi"), ChatTurn("user", ""))
ENVIRONMENT = read_environment(variables={"GUARD_KEY": "a-secret-key"})


def asked(make, reply, talk=TALK):
    """What a guard says of a conversation if its server gives this reply."""

    async def go():
        content = reply if isinstance(reply, bytes) else http(200, json.dumps(reply).encode())
        async with scripted(content) as url:
            guard = make(url)
            try:
                return await guard.harm(talk)
            finally:
                await guard.close()

    return asyncio.run(go())


def endpoint(**fields):
    return lambda url: ModerationEndpoint(ModerationEndpointSection(base_url=url, **fields), ENVIRONMENT, 5.0)


def guard(**fields):
    return lambda url: GuardModel(GuardSection(base_url=url, model="guard", **fields), ENVIRONMENT, 5.0)


def result(flagged, **categories):
    return {"flagged": flagged, "categories": categories}


def said(text):
    return {"choices": [{"message": {"role": "assistant", "content": text}}]}


def test_an_endpoint_flags_any_text_of_the_conversation():
    assert asked(endpoint(), {"results": [result(False), result(False, violence=False)]}) is None
    reply = {"results": [result(False), result(True, violence=True, hate=False, self_harm=True)]}
    assert asked(endpoint(), reply) == ("violence", "self_harm")
    assert asked(endpoint(), {"results": [{"flagged": True}]}) == ()


def test_only_the_named_categories_refuse():
    reply = {"results": [result(True, violence=True, hate=True)]}
    assert asked(endpoint(categories=("hate",)), reply) == ("hate",)
    assert asked(endpoint(categories=("sexual",)), reply) is None


def test_nothing_is_sent_of_a_conversation_without_text():
    assert asked(endpoint(), http(500, b"{}"), (ChatTurn("user", ""),)) is None


@pytest.mark.parametrize(
    "reply",
    [
        {},
        {"results": []},
        {"results": [1]},
        {"results": [{"flagged": "no"}]},
        http(503, b"{}"),
        http(200, b"x"),
    ],
)
def test_an_endpoint_that_says_nothing_is_a_fault(reply):
    with pytest.raises(ProviderFault):
        asked(endpoint(), reply)


@pytest.mark.parametrize("text", ["safe", " Safe.\n", "SAFE\nanything", "Safety: Safe\nCategories: None"])
def test_a_guard_says_safe(text):
    assert asked(guard(), said(text)) is None


@pytest.mark.parametrize(
    ("text", "categories"),
    [
        ("unsafe", ()),
        ("\n\nunsafe\nS1,S9", ("S1", "S9")),
        ("Safety: Unsafe\nCategories: Violent, Illegal", ("Violent", "Illegal")),
    ],
)
def test_a_guard_says_unsafe(text, categories):
    assert asked(guard(), said(text)) == categories


@pytest.mark.parametrize("text", ["", "not safe", "I cannot help with that", "safety"])
def test_any_other_answer_of_a_guard_is_a_fault(text):
    with pytest.raises(ProviderFault, match="safe nor unsafe"):
        asked(guard(), said(text))


@pytest.mark.parametrize(
    "reply", [{}, {"choices": []}, {"choices": [{"message": {"content": None}}]}, {"choices": [1]}]
)
def test_a_guard_without_text_is_a_fault(reply):
    with pytest.raises(ProviderFault, match="no text"):
        asked(guard(), reply)


def test_other_words_can_be_named():
    yes_no = guard(safe=("no",), unsafe=("yes",), system="Is it harmful? Yes or no.")
    assert asked(yes_no, said("No")) is None
    assert asked(yes_no, said("Yes")) == ()


def test_what_is_sent():
    """The conversation in its order, the key in its header, and nothing else."""
    seen = []

    async def serve(reader, writer):
        head = await reader.readuntil(b"\r\n\r\n")
        size = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
        seen.append((head.decode(), json.loads(await reader.readexactly(size))))
        writer.write(http(200, json.dumps(said("safe") | {"results": [result(False)]}).encode()))
        await writer.drain()
        writer.close()

    async def go():
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
        for made in (endpoint(api_key_env="GUARD_KEY")(url), guard(system="Judge.")(url)):
            await made.harm(TALK)
            await made.close()
        server.close()

    asyncio.run(go())
    (first, moderated), (second, guarded) = seen
    assert first.startswith("POST /v1/moderations ")
    assert "Bearer" in first
    assert moderated == {"model": "omni-moderation-latest", "input": ["Hello", "Hi"]}
    assert second.startswith("POST /v1/chat/completions ")
    assert "a-secret-key" not in second
    assert guarded["messages"] == [
        {"role": "system", "content": "Judge."},
        {"role": "user", "content": "Hello"},
        {"role": "assistant", "content": "Hi"},
        {"role": "user", "content": ""},
    ]


def test_a_missing_key_is_said_before_anything_is_sent():
    with pytest.raises(BadConfig, match="NO_SUCH_KEY"):
        ModerationEndpoint(ModerationEndpointSection(api_key_env="NO_SUCH_KEY"), ENVIRONMENT, 5.0)
