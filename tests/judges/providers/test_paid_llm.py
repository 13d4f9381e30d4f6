"""The billing server itself: it must count right before anyone is measured by it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request

import pytest

from support import TESTS
from support.asking import SDKS, ask, ended, entries, items, opened, run
from support.servers.behaviour import ITEM, LIVE, Behaviour
from support.servers.paid_llm import paid_llm
from support.servers.replies import Prices, tokens
from tiltyard.errors import ProviderFault

PRICES = {"input": 7_000_000, "output": 31_000_000}


def price(usage, *, batch=False):
    """What a client reckons, by the same prices."""
    whole = usage.input * PRICES["input"] + usage.output * PRICES["output"]
    whole += usage.cache_write * PRICES["input"] * 5 // 4 + usage.cache_read * PRICES["input"] // 10
    return -(-whole // 2) if batch else whole


@pytest.mark.parametrize("name", SDKS)
def test_it_charges_exactly_what_its_replies_state(name):
    async def go(url):
        async with opened(name, url) as provider:
            bodies = [
                provider.body("m", ask(f"charge {n}", system="Long. " * 200), {"prompt_cache": "5m"})
                for n in range(20)
            ]
            replies = [await provider.complete(body) for body in bodies]
            spent = sum(price(provider.read(reply)[1]) for reply in replies)
            batch = await provider.submit_batch(items(provider, 20, "charged"), "m")
            await ended(provider, batch)
            found = await entries(provider, batch)
            return spent + sum(price(provider.read(entry.body)[1], batch=True) for entry in found)

    with paid_llm(prices=Prices(**PRICES), prompt_cache=True) as server:
        spent = run(go(server.base_url(name)))
        tally = server.tally()
    assert tally["picodollars"] == spent
    assert tally["dollars"] == f"{spent / 10**12:.12f}"
    assert (tally["live_calls"], tally["batch_calls"], tally["distinct"]) == (20, 20, 40)


@pytest.mark.parametrize("kinds", [LIVE, ITEM])
def test_faults_come_by_seed_and_request_and_end(kinds):
    chances = dict.fromkeys(kinds, 0.1)
    for seed in (1, 2):
        behaviour = Behaviour(seed=seed, times=3, **chances)
        draw = behaviour.live_fault if kinds is LIVE else behaviour.item_fault
        drawn = [[draw(bytes([n]) * 32, arrival) for arrival in range(5)] for n in range(200)]
        assert drawn == [[draw(bytes([n]) * 32, arrival) for arrival in range(5)] for n in range(200)]
        assert all(late is None for row in drawn for late in row[3:])
        met = [fault for row in drawn for fault in row[:3] if fault]
        assert set(met) == set(kinds)
        assert 0.6 < len(met) / (600 * 0.1 * len(kinds)) < 1.4


def test_tokens_are_never_more_than_bytes():
    for text in ("", "a", "abcde", "é" * 9, "\ud83d", "x" * 1001):
        assert tokens(text) <= len(text.encode(errors="replace"))


@pytest.mark.slow
def test_what_was_in_flight_when_the_client_was_killed_is_paid():
    script = (
        "import sys, asyncio; sys.path.insert(0, sys.argv[1]); from support.asking import *\n"
        "async def go():\n"
        "    async with opened('openai', sys.argv[2]) as provider:\n"
        "        await asyncio.gather(*(provider.complete(item.body) for item in items(provider, 9)))\n"
        "run(go())"
    )
    with paid_llm(latency=10.0) as server:
        client = subprocess.Popen([sys.executable, "-c", script, str(TESTS), server.openai])
        with client:
            wait_for(lambda: server.tally()["in_flight"] == 9)
            client.send_signal(signal.SIGKILL)
        assert server.tally()["paid_calls"] == 9
        assert server.settled_tally()["paid_and_lost"] == 9


def test_it_ends_when_whoever_opened_it_is_killed():
    script = (
        "import sys, time; sys.path.insert(0, sys.argv[1]); from support.servers.paid_llm import paid_llm\n"
        "with paid_llm() as server:\n"
        "    print(server.url, flush=True)\n"
        "    time.sleep(60)"
    )
    tests = str(TESTS)
    opener = subprocess.Popen([sys.executable, "-c", script, tests], stdout=subprocess.PIPE)
    with opener:
        url = opener.stdout.readline().decode().strip()
        assert url
        os.kill(opener.pid, signal.SIGKILL)
    wait_for(lambda: not answers(url))


def test_refusals_and_nonsense_are_billed_and_always_the_same():
    async def go(url):
        async with opened("anthropic", url) as provider:
            bodies = [provider.body("m", ask(f"odd {n}"), {}) for n in range(40)]
            first = [await provider.complete(body) for body in bodies]
            assert first == [await provider.complete(body) for body in bodies]
            return [provider.read(reply)[0] for reply in first]

    with paid_llm(refuse=0.3, garble=0.3) as server:
        replies = run(go(server.anthropic))
        assert server.tally()["paid_calls"] == 80
    assert {reply.stop for reply in replies} == {"end", "refusal"}
    assert any(reply.stop == "end" and "VERDICT" not in reply.text for reply in replies)


def test_a_wrong_key_is_refused():
    async def go(url):
        async with opened("openai", url, key="wrong") as provider:
            with pytest.raises(ProviderFault) as caught:
                await provider.complete(provider.body("m", ask(), {}))
            assert caught.value.status == 401

    with paid_llm(key="Right") as server:
        run(go(server.openai))
        assert server.tally()["paid_calls"] == 0


def answers(url):
    try:
        urllib.request.urlopen(f"{url}/tally", timeout=5).close()
    except (urllib.error.URLError, ConnectionError):
        return False
    return True


def wait_for(condition, seconds=60.0):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it does not happen"
        time.sleep(0.02)
