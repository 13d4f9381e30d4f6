import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tiltyard.core.battles import cluster_keys as keys_module
from tiltyard.core.battles.cluster_keys import MISSING_KEY, hash_buffer, hash_texts

TEXTS = st.text(st.characters(), max_size=40)


@pytest.mark.no_cover
@given(st.lists(st.none() | TEXTS))
@example([])
@example([None])
@example(["", None])
@example(["\ud800", "\udfff", "?"])
@example(["a" * 8, "a" * 7, "a" * 9, "a" * 16, "a" * 17])
@example(["a", "a\0", "a\0\0", "\0"])
@example(["x" * 100_000, "x" * 100_001])
def test_keys_are_equal_exactly_where_texts_are(texts):
    keys = hash_texts(texts).tolist()
    assert len(set(keys)) == len(set(texts))
    assert [key == MISSING_KEY for key in keys] == [text is None for text in texts]
    assert dict(zip(texts, keys, strict=True)) == {text: hash_texts([text])[0] for text in texts}


def test_many_short_texts_do_not_collide():
    assert len(np.unique(hash_texts([f"q{k}" for k in range(100_000)]))) == 100_000


def test_a_buffer_may_hold_more_than_its_texts():
    data = np.frombuffer(b"..oakelm..", dtype=np.uint8)
    keys = hash_buffer(data, np.array([2, 5, 8]))
    assert keys.tolist() == hash_texts(["oak", "elm"]).tolist()


def test_no_text_takes_the_key_of_a_missing_one(monkeypatch):
    monkeypatch.setattr(keys_module, "_mix", np.zeros_like)
    assert hash_texts(["oak", None]).tolist() == [1, MISSING_KEY]


def mixed(x):
    x = (x + 0x9E3779B97F4A7C15) % 2**64
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
    x = (x ^ (x >> 27)) * 0x94D049BB133111EB % 2**64
    return x ^ (x >> 31)


@given(TEXTS.filter(str.isascii))
def test_a_key_mixes_the_length_and_then_eight_bytes_at_a_time(text):
    data = text.encode()
    key = mixed(len(data))
    for first in range(0, len(data), 8):
        key = mixed(key ^ int.from_bytes(data[first : first + 8], "little"))
    assert hash_texts([text]).tolist() == [key]


@pytest.mark.parametrize(
    ("text", "key"),
    [("", 0xE220A8397B1DCDAF), ("q1", 0x45A59C907F4D4B86), ("a question of some length", 0xABF6ABE87BA817A7)],
)
def test_keys_never_change(text, key):
    assert hash_texts([text]).tolist() == [key]
