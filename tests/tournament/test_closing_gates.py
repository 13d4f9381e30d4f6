"""A gate that closes when a provider will serve nothing: soon, for good, and without losing a call under way."""

from __future__ import annotations

import asyncio

import pytest

from tiltyard.errors import ProviderFault
from tiltyard.tournament.closing import ClosingGate, watched


def fault(status):
    return ProviderFault(f"status {status}", status=status)


@pytest.mark.parametrize("status", [401, 402, 403, 404])
def test_eight_in_a_row_are_enough(status):
    gate = ClosingGate(4)
    for _ in range(7):
        gate.tell(fault(status))
    assert gate.closed is None
    gate.tell(fault(status))
    assert gate.closed is not None


@pytest.mark.parametrize("other", [None, 400, 429, 500])
def test_anything_else_in_between_begins_the_count_anew(other):
    gate = ClosingGate(4)
    for _ in range(5):
        for _ in range(7):
            gate.tell(fault(403))
        gate.tell(None if other is None else fault(other))
    assert gate.closed is None


class Provider:
    """Answers as it is told."""

    name = "scripted"

    def __init__(self, replies):
        self.replies = iter(replies)

    async def complete(self, _body):
        reply = next(self.replies)
        if isinstance(reply, Exception):
            raise reply
        return reply


def test_a_watched_provider_is_the_same_to_whoever_calls_it():
    async def calls():
        gate = ClosingGate(4)
        provider = watched(Provider([fault(401), {"ok": 1}, *(fault(401) for _ in range(8))]), gate)
        assert provider.name == "scripted"
        with pytest.raises(ProviderFault, match="401"):
            await provider.complete({})
        assert await provider.complete({}) == {"ok": 1}
        for _ in range(8):
            assert gate.closed is None
            with pytest.raises(ProviderFault, match="401"):
                await provider.complete({})
        assert gate.closed is not None

    asyncio.run(calls())


def test_whoever_waits_hears_why_but_only_after_the_calls_under_way_have_come_back():
    async def calls():
        gate = ClosingGate(2)
        await gate.enter()
        await gate.enter()
        waiting = [asyncio.create_task(gate.enter()) for _ in range(5)]
        for _ in range(8):
            gate.tell(fault(401))
        gate.leave(well=False)
        await asyncio.sleep(0.01)
        assert not any(task.done() for task in waiting)
        gate.leave(well=True)
        ended = await asyncio.wait_for(asyncio.gather(*waiting, return_exceptions=True), 5)
        assert all(isinstance(one, ProviderFault) and one.status == 401 for one in ended)
        assert gate.in_flight == 0
        with pytest.raises(ProviderFault, match="status 401"):
            await asyncio.wait_for(gate.enter(), 5)

    asyncio.run(calls())
