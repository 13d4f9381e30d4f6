"""Ids of matchups: what they carry, who can make them, and that each has one spelling."""

import asyncio
from types import SimpleNamespace
from uuid import UUID

import pytest

from support.matchup_texts import stored_id
from tiltyard.arena.secret_keys import SecretKeys
from tiltyard.arena.voting import matchup_ids as matchup_arenas
from tiltyard.arena.voting.matchup_ids import MatchupArenas, MatchupIds, matchup_arena_number, new_matchup_id
from tiltyard.errors import NotFound

OLD, NEW = "an old secret key of 32 characters", "a newer secret key of 32 characters"
IDS = MatchupIds(SecretKeys([OLD]), 3)


def refused(ids, text):
    try:
        ids.parse(text)
    except NotFound:
        return True
    return False


@pytest.mark.parametrize(("shard", "arena"), [(0, 1), (3, 7), (4095, 2**31 - 1)])
def test_an_id_carries_its_shard_and_its_arena(shard, arena):
    ids = MatchupIds(SecretKeys([OLD]), shard)
    made = new_matchup_id(shard, arena)
    text = ids.format(made)
    assert text.startswith(f"{shard}-")
    assert len(text) == len(f"{shard}-") + 32
    assert ids.parse(text) == stored_id(text) == made
    assert matchup_arena_number(made) == arena
    assert text.replace("_", "").replace("-", "").isalnum()


def test_ten_bytes_cannot_be_guessed():
    made = [new_matchup_id(3, 7).bytes for _ in range(64)]
    assert {one[:6] for one in made} == {b"\0\3\0\0\0\7"}
    for place in range(6, 16):
        assert len({one[place] for one in made}) > 16


def test_no_bit_of_an_id_can_be_changed():
    matchup = UUID(int=3 << 112 | 7 << 80 | 12345)
    text = IDS.format(matchup)
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    for place in range(2, len(text)):
        for other in alphabet.replace(text[place], ""):
            assert refused(IDS, text[:place] + other + text[place + 1 :]), (place, other)


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text[:-1],
        lambda text: text + "A",
        lambda text: text + "=",
        lambda text: text[:-4] + "====",
        lambda text: "é" + text[1:],
        lambda text: text[:5] + "é" + text[6:],
        lambda text: text.removeprefix("3-"),
        lambda text: "0" + text,
        lambda text: "+" + text,
        lambda text: " " + text,
        lambda text: text + "\n",
        lambda text: text.replace("3-", "٣-", 1),
        lambda text: text.replace("3-", "0-", 1),
        lambda text: text.replace("3-", "3--", 1),
        lambda _text: "",
        lambda _text: "3-",
    ],
)
def test_an_id_has_one_spelling(change):
    text = IDS.format(new_matchup_id(3, 7))
    assert IDS.format(IDS.parse(text)) == text
    assert refused(IDS, change(text))


def test_an_id_of_another_shard_is_refused_even_if_its_signature_is_right():
    other = MatchupIds(SecretKeys([OLD]), 4)
    text = other.format(new_matchup_id(4, 7))
    assert not refused(other, text)
    assert refused(IDS, text)


def test_an_id_signed_with_another_key_or_for_another_purpose_is_refused():
    matchup = new_matchup_id(3, 7)
    assert refused(IDS, MatchupIds(SecretKeys([NEW]), 3).format(matchup))
    cookie = SecretKeys([OLD]).sign("cookie tiltyard_session", matchup.bytes)
    assert cookie[:10] != SecretKeys([OLD]).sign("matchup id", matchup.bytes)[:10]


def test_ids_stay_valid_while_a_key_is_replaced():
    text = IDS.format(new_matchup_id(3, 7))
    both = MatchupIds(SecretKeys([NEW, OLD]), 3)
    assert both.parse(text) == IDS.parse(text)
    assert refused(MatchupIds(SecretKeys([NEW]), 3), text)


def test_an_arena_is_read_once(monkeypatch):
    asked = []

    async def finding(_, number):
        asked.append(number)
        return SimpleNamespace(arena=number, name=f"arena {number}") if number < 6 else None

    class Pool:
        def connection(self):
            return self

        async def __aenter__(self):
            return None

        async def __aexit__(self, *_):
            return None

    monkeypatch.setattr(matchup_arenas, "find_arena_by_number", finding)
    arenas = MatchupArenas(Pool())

    async def found(number):
        try:
            return await arenas.find(new_matchup_id(0, number))
        except NotFound:
            return None

    names = [asyncio.run(found(number)) for number in (5, 3, 4, 4, 6, 5, 3)]
    assert names == ["arena 5", "arena 3", "arena 4", "arena 4", None, "arena 5", "arena 3"]
    assert asked == [5, 3, 4, 6]
