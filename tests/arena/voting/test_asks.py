"""One request in a voting queue: decided once, answered after the commit, refused at most once."""

import asyncio
from types import SimpleNamespace

import pytest

from tiltyard.arena.voting.ask import Ask
from tiltyard.arena.voting.voter_requests import Voter
from tiltyard.errors import Closed, StoreFault

VOTER = Voter(5)


class Revealed:
    """A cache of revealed names that remembers every session it is asked about."""

    def __init__(self):
        self.known = {}

    def __contains__(self, session):
        return session in self.known

    def remember(self, session, *told):
        self.known[session] = told


class Batch:
    """A batch that counts how often the tables are asked."""

    def __init__(self):
        self.asked = 0

    async def read_revealed_names(self, *_):
        self.asked += 1
        return [], []


def settled(make, *, then=Ask.tell):
    """What an ask brings whoever made it, once it is settled and then told."""

    async def scene():
        ask = make()
        await ask.settle(SimpleNamespace(revealed=Revealed(), new_voters_wait=False), Batch())
        assert not ask._answer.done()
        then(ask)
        return await ask.reply()

    return asyncio.run(scene())


def closed(*_):
    raise Closed("it has ended")


def test_the_reply_is_sent_after_the_decision():
    assert settled(lambda: Ask(lambda *_: "done")) == "done"


def test_a_refusal_is_a_reply():
    with pytest.raises(Closed, match="it has ended"):
        settled(lambda: Ask(closed))


def test_a_request_that_was_refused_gets_no_other_reply():
    def silent(ask):
        ask.refuse(StoreFault("silence"))
        ask.tell()
        ask.refuse(StoreFault("again"))

    with pytest.raises(StoreFault, match="silence"):
        settled(lambda: Ask(lambda *_: "done"), then=silent)


def test_a_fault_of_the_store_ends_the_batch():
    def broken(*_):
        raise StoreFault("gone")

    async def scene():
        await Ask(broken).settle(SimpleNamespace(revealed=Revealed(), new_voters_wait=False), Batch())

    with pytest.raises(StoreFault, match="gone"):
        asyncio.run(scene())


def test_the_revealed_names_of_a_voter_are_read_once():
    async def scene():
        state, batch = SimpleNamespace(revealed=Revealed(), new_voters_wait=False), Batch()
        for _ in range(2):
            await Ask(lambda *_: None, voter=VOTER).settle(state, batch)
        return batch.asked, state.revealed.known

    assert asyncio.run(scene()) == (1, {VOTER.session: ([], [])})


def test_what_must_be_looked_at_is_looked_at_before_the_decision():
    order = []

    async def look(batch):
        order.append("look")

    settled(lambda: Ask(lambda *_: order.append("decide"), look))
    assert order == ["look", "decide"]
