"""The billing server itself: it must count right before anyone is measured by it."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from support import TESTS
from support.arranged import wait_for
from support.asking import SDKS, ask, ended, entries, items, opened, run
from support.servers.paid_llm import paid_llm
from support.servers.replies import Prices

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
