"""Batches: created, found again, read as they come, with everything that can happen on the way."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from support.asking import SDKS, ask, ended, entries, items, opened, run
from support.servers.paid_llm import paid_llm
from tiltyard.errors import ProviderFault
from tiltyard.judges.providers.local_replies import open_provider
from tiltyard.judges.providers.provider import BatchItem

pytestmark = pytest.mark.parametrize("name", SDKS)


@pytest.fixture(scope="module")
def server():
    with paid_llm() as running:
        yield running


def with_provider(server, name, work):
    async def go():
        async with opened(name, server.base_url(name)) as provider:
            return await work(provider)

    return run(go())


def long_ago():
    return datetime.now(UTC) - timedelta(days=1)


def test_a_batch_from_creation_to_results(server, name):
    async def go(provider):
        started = datetime.now(UTC).replace(microsecond=0)
        asked = items(provider, 30, f"{name} whole")
        batch = await provider.submit_batch(asked, "the mark")
        first = await provider.poll(batch)
        last = await ended(provider, batch)
        found = await entries(provider, batch)
        assert first.id == last.id == batch
        assert not first.ended
        assert last.size == 30
        assert last.mark == ("the mark" if name == "openai" else None)
        assert started <= last.created_at <= datetime.now(UTC)
        assert sorted(entry.name for entry in found) == sorted(item.name for item in asked)
        assert [entry.name for entry in found] != [item.name for item in asked], "results come in any order"
        bodies = {item.name: item.body for item in asked}
        for entry in found[:3]:
            assert entry.outcome == "succeeded"
            live = await provider.complete(bodies[entry.name])
            assert provider.read(entry.body) == provider.read(live)

    before = server.tally()
    with_provider(server, name, go)
    after = server.tally()
    assert after["batch_calls"] - before["batch_calls"] == 30


def test_a_batch_costs_half(name):
    async def batch(provider):
        name = await provider.submit_batch(items(provider, 4, "half"), "m")
        await ended(provider, name)

    async def live(provider):
        for item in items(provider, 4, "half"):
            await provider.complete(item.body)

    with paid_llm() as server:
        with_provider(server, name, live)
        alone = server.tally()["picodollars"]
        with_provider(server, name, batch)
        tally = server.tally()
    assert tally["picodollars"] == alone + alone // 2
    assert (tally["paid_calls"], tally["distinct"], tally["paid_again"]) == (8, 4, 4)


def test_items_that_fail_say_whether_asking_again_may_help(name):
    async def go(provider):
        asked = items(provider, 120, "failing")
        batch = await provider.submit_batch(asked, "m")
        status = await ended(provider, batch)
        assert status.failed is None
        return await entries(provider, batch)

    with paid_llm(expire=0.2, item_error=0.2, bad_item=0.2, seed=5) as server:
        found = with_provider(server, name, go)
        tally = server.tally()
    assert len(found) == 120
    by_outcome = {
        outcome: [e for e in found if e.outcome == outcome] for outcome in ("succeeded", "expired", "errored")
    }
    assert sum(map(len, by_outcome.values())) == 120
    assert tally["batch_calls"] == len(by_outcome["succeeded"])
    assert len(by_outcome["expired"]) == tally["faults"]["expire"]
    for entry in by_outcome["errored"]:
        assert entry.body is None
        assert entry.retryable == ("item_error" in entry.error)
    assert {entry.retryable for entry in by_outcome["errored"]} == {True, False}


def test_a_creation_whose_answer_was_lost_is_found_by_listing(name):
    async def go(provider):
        before = datetime.now(UTC)
        with pytest.raises(ProviderFault) as caught:
            await provider.submit_batch(items(provider, 7, "lost"), "wanted")
        assert caught.value.billed
        assert caught.value.retryable
        [found] = [status async for status in provider.list_batches(before)]
        assert found.size == 7
        assert found.mark in {None, "wanted"}
        await ended(provider, found.id)
        assert len(await entries(provider, found.id)) == 7

    with paid_llm(lost_creates=1) as server:
        with_provider(server, name, go)
        assert server.tally()["batch_calls"] == 7


def test_a_creation_that_failed_may_have_created_something(name):
    async def go(provider):
        with pytest.raises(ProviderFault) as caught:
            await provider.submit_batch(items(provider, 7), "m")
        assert caught.value.retryable
        assert caught.value.billed
        return len([status async for status in provider.list_batches(long_ago())])

    for fault, created in (("failed_creates", 0), ("late_creates", 1)):
        with paid_llm(**{fault: 1}) as server:
            assert with_provider(server, name, go) == created
            assert server.tally()["batches"] == created


def test_listing_goes_through_all_pages_newest_first_and_stops_at_a_moment(name):
    async def go(provider):
        made = [await provider.submit_batch(items(provider, 1, str(n)), f"mark {n}") for n in range(130)]
        listed = [status.id async for status in provider.list_batches(long_ago())]
        assert listed == made[::-1]
        later = datetime.now(UTC) + timedelta(seconds=2)
        assert [status async for status in provider.list_batches(later)] == []
        newest = provider.list_batches(long_ago())
        assert (await anext(newest)).id == made[-1]
        await newest.aclose()

    with paid_llm() as server:
        with_provider(server, name, go)


def test_results_are_handed_over_as_they_arrive(name):
    async def go(provider):
        batch = await provider.submit_batch(items(provider, 20), "m")
        await ended(provider, batch)
        results = provider.results(batch)
        first = await asyncio.wait_for(anext(results), 30)
        await results.aclose()
        assert first.outcome == "succeeded", "and the second comes only in ten minutes"

    with paid_llm(results_pause=600.0) as server:
        with_provider(server, name, go)


def test_results_that_break_off_are_a_fault_and_can_be_read_again(name):
    async def go(provider):
        batch = await provider.submit_batch(items(provider, 40), "m")
        await ended(provider, batch)
        seen = []

        async def read():
            async for entry in provider.results(batch):
                seen.append(entry.name)

        with pytest.raises(ProviderFault) as caught:
            await read()
        assert caught.value.retryable
        assert not caught.value.billed
        assert 0 < len(seen) < 40
        assert len(await entries(provider, batch)) == 40

    with paid_llm(cut_results=1) as server:
        with_provider(server, name, go)


def test_results_left_in_the_middle_leave_nothing_open(server, name):
    async def go(provider):
        batch = await provider.submit_batch(items(provider, 50, "left"), "m")
        await ended(provider, batch)
        results = provider.results(batch)
        await anext(results)
        await results.aclose()
        assert len(await entries(provider, batch)) == 50

    with_provider(server, name, go)


def test_polling_through_a_bad_hour(name):
    async def go(provider):
        batch = await provider.submit_batch(items(provider, 3), "m")
        faults = []
        for _ in range(30):
            try:
                await provider.poll(batch)
            except ProviderFault as error:
                faults.append(error)
        # A lost connection is tried once more by itself, because a poll costs nothing.
        assert {529, 500} <= {error.status for error in faults} <= {529, 500, None}
        assert all(error.retryable and not error.billed for error in faults)

    with paid_llm(poll_fault_every=3) as server:
        with_provider(server, name, go)


def test_results_before_the_end_and_batches_that_are_not_there(server, name):
    async def go(provider):
        server.change(batch_seconds=30.0)
        batch = await provider.submit_batch(items(provider, 1, "early"), "m")
        server.change(batch_seconds=0.05)
        with pytest.raises(ProviderFault):
            await entries(provider, batch)
        for missing in ("batch_none", "../../tally", "a b?c=d"):
            with pytest.raises(ProviderFault) as caught:
                await provider.poll(missing)
            assert not caught.value.retryable

    with_provider(server, name, go)


def test_a_batch_that_fails_as_a_whole_has_no_results(name):
    """Only OpenAI looks at the requests after the creation; Anthropic refuses at once."""

    async def go(provider):
        status = await ended(provider, await provider.submit_batch(items(provider, 3), "m"))
        assert status.failed == ("Enqueued token limit reached." if name == "openai" else None)
        return await entries(provider, status.id)

    with paid_llm(failed_batches=1) as server:
        found = with_provider(server, name, go)
        assert len(found) == server.tally()["paid_calls"] == (0 if name == "openai" else 3)


def test_names_that_the_provider_refuses_are_not_retried(server, name):
    async def go(provider):
        bad = [BatchItem("a b", provider.body("m", ask(), {}))]
        if name == "openai":
            assert "custom_id" in (await ended(provider, await provider.submit_batch(bad, "m"))).failed
            return
        with pytest.raises(ProviderFault, match="custom_id") as caught:
            await provider.submit_batch(bad, "m")
        assert not caught.value.retryable

    with_provider(server, name, go)


def test_limits_are_the_documented_ones(name):
    provider = open_provider(name, None, "key")
    wanted = {"anthropic": (100_000, 256_000_000), "openai": (50_000, 200_000_000)}
    assert (provider.capabilities.batch_requests, provider.capabilities.batch_bytes) == wanted[name]


def test_a_large_batch_is_read_without_its_whole_body_in_one_piece(server, name):
    async def go(provider):
        asked = items(provider, 3_000, f"{name} large")
        batch = await provider.submit_batch(asked, "m")
        await ended(provider, batch)
        names = {entry.name async for entry in provider.results(batch)}
        assert len(names) == 3_000

    with_provider(server, name, go)


def test_line_separators_inside_a_reply_do_not_cut_it(name):
    """U+2028 is no end of a line in JSON Lines."""
    from support.servers.scripted import scripted

    text = "a\u2028b\x85c"
    if name == "anthropic":
        line = '{"custom_id":"q0","result":{"type":"succeeded","message":{"content":[{"type":"text","text":"%s"}]}}}'
    else:
        line = '{"custom_id":"q0","response":{"status_code":200,"body":{"choices":[{"message":{"content":"%s"}}]}}}'

    async def go():
        body = (line % text).encode() + b"\r\n\n"
        answer = b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(body) + body
        async with scripted(answer) as url, opened(name, url) as provider:
            [found] = [line async for line in provider._wire.lines("/any")]
            entry = provider._entry(found)
            assert provider.read(entry.body)[0].text == text

    run(go())


def test_anthropic_counts_tokens_and_warms_the_cache_and_openai_says_that_it_does_not(name):
    async def go(provider):
        body = provider.body("m", ask(system="Judge. " * 200), {"prompt_cache": "5m"})
        if name == "openai":
            for verb in (provider.count_tokens, provider.prewarm):
                with pytest.raises(ProviderFault) as caught:
                    await verb(body)
                assert not caught.value.retryable
            return
        warmed = await provider.prewarm(body)
        usage = provider.read(warmed)[1]
        assert (usage.output, usage.cache_read) == (0, 0)
        assert usage.cache_write > 300
        asked = provider.read(await provider.complete(body))[1]
        assert asked.cache_read == usage.cache_write
        counted = await provider.count_tokens(body)
        assert counted == asked.input + asked.cache_read

    with paid_llm(prompt_cache=True) as server:
        with_provider(server, name, go)
        assert server.tally()["prewarms"] == (name == "anthropic")


def test_two_providers_at_once_do_not_mix(server, name):
    async def go(provider):
        batches = await asyncio.gather(
            *(provider.submit_batch(items(provider, 5, f"{name} mix {n}"), str(n)) for n in range(5))
        )
        assert len(set(batches)) == 5
        for batch in batches:
            await ended(provider, batch)
        found = await asyncio.gather(*(entries(provider, batch) for batch in batches))
        assert [len(each) for each in found] == [5] * 5

    with_provider(server, name, go)
