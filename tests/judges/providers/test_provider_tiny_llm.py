"""Both adapters against a real llama.cpp server. Its model says nonsense: invariants only."""

from __future__ import annotations

import asyncio
import json

import pytest

from support.asking import ask, ended, entries, items, opened, run
from support.servers.paid_llm import paid_llm
from support.servers.tiny_llm import tiny_llm
from tiltyard.core.judging.verdict import QuestionState, VerdictForm, VerdictStep, read_reply
from tiltyard.errors import ProviderFault
from tiltyard.judges.providers.provider import BatchItem


@pytest.fixture(scope="module")
def url():
    with tiny_llm() as running:
        yield running


def test_openai_schema_verdicts_of_a_real_model(url):
    async def one(provider, number):
        body = provider.body(
            "tiny", ask(f"Which {number}?", VerdictForm.SCHEMA, limit=120), {"temperature": 0}
        )
        [answer] = await asyncio.gather(provider.complete(body), return_exceptions=True)
        if isinstance(answer, ProviderFault):
            assert answer.status == 500, "some replies cut off inside a schema are its own error"
            assert answer.retryable
            return QuestionState.PROVIDER_ERROR
        reply, usage = provider.read(answer)
        assert usage.input + usage.cache_read > 0
        assert usage.output > 0
        reading = read_reply(reply, VerdictForm.SCHEMA)
        if reading.state is QuestionState.OK:
            assert reading.verdict.step in VerdictStep
        else:
            assert reply.stop == "length"
        return reading.state

    async def go():
        async with opened("openai", f"{url}/v1", 60, key=None) as provider:
            return await asyncio.gather(*(one(provider, number) for number in range(6)))

    states = run(go())
    assert set(states) <= {QuestionState.OK, QuestionState.TRUNCATED, QuestionState.PROVIDER_ERROR}
    assert QuestionState.OK in states


def test_anthropic_messages_and_token_counts_of_a_real_model(url):
    async def go():
        async with opened("anthropic", url, 60, key=None) as provider:
            body = provider.body("tiny", ask("Which?", limit=12), {"prompt_cache": "5m"})
            reply, usage = provider.read(await provider.complete(body))
            assert reply.stop in {"length", "end"}
            assert usage.output <= 12
            assert await provider.count_tokens(body) == usage.input + usage.cache_read

    run(go())


@pytest.mark.parametrize("name", ["openai", "anthropic"])
def test_a_prompt_longer_than_the_context_is_not_asked_again(url, name):
    async def go():
        async with opened(name, f"{url}/v1" if name == "openai" else url, 60, key=None) as provider:
            with pytest.raises(ProviderFault) as caught:
                await provider.complete(provider.body("tiny", ask("word " * 20_000, limit=5), {}))
            assert caught.value.status == 400
            assert not caught.value.retryable

    run(go())


@pytest.mark.parametrize("name", ["openai", "anthropic"])
def test_a_batch_answered_by_the_real_model(url, name):
    async def go(server):
        async with opened(name, server.base_url(name)) as provider:
            asked = [BatchItem(item.name, item.body | {"max_tokens": 8}) for item in items(provider, 3)]
            batch = await provider.submit_batch(asked, "m")
            await ended(provider, batch)
            found = await entries(provider, batch)
            assert {entry.name for entry in found} == {item.name for item in asked}
            for entry in found:
                assert entry.outcome == "succeeded"
                reply, usage = provider.read(entry.body)
                assert reply.text
                assert 0 < usage.output <= 8
            live = await provider.complete(asked[0].body)
            assert json.dumps(live)

    with paid_llm(forward=url) as server:
        run(go(server))
        assert server.tally()["paid_calls"] == 4
        assert server.tally()["picodollars"] > 0
