"""The bounded cache: full, expired, too heavy, used by several threads."""

import threading
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiltyard.foundation.caches import BoundedCache


@pytest.fixture
def clock(monkeypatch):
    clock = SimpleNamespace(now=1_000_000.0)
    monkeypatch.setattr("tiltyard.foundation.caches.time", SimpleNamespace(monotonic=lambda: clock.now))
    return clock


def test_a_value_above_the_heaviest_is_not_kept_and_drives_nothing_out():
    cache = BoundedCache(100, heaviest=25)
    cache.put("a", "old", 25)
    cache.put("b", "b", 25)
    assert cache.put("a", "new", 26) == "new"
    assert (cache.get("a"), cache.get("b"), cache.weight) == (None, "b", 25)


def test_a_value_expires_after_its_time_and_is_no_longer_used(clock):
    cache = BoundedCache(2, seconds=5.0)
    cache.put("a", 1)
    clock.now += 4.875
    assert cache.get("a") == 1
    clock.now += 0.125
    assert (cache.get("a"), len(cache)) == (None, 1)
    cache.put("a", 2)
    clock.now += 4.0
    assert (cache.get("a"), len(cache)) == (2, 1)
    cache = BoundedCache(2, seconds=5.0)
    cache.put("a", 1, read_at=clock.now - 4.0)
    clock.now += 0.875
    assert cache.get("a") == 1
    clock.now += 0.125
    assert cache.get("a") is None
    cache = BoundedCache(2, seconds=5.0)
    cache.put("a", 1)
    clock.now += 6.0
    assert (cache.pop("a"), cache.pop("a"), len(cache), cache.weight) == (1, None, 0, 0)
    cache = BoundedCache(2, seconds=5.0)
    cache.put("a", 1)
    clock.now += 6.0
    cache.put("b", 2)
    cache.get("a")
    cache.put("c", 3)
    assert [cache.pop(key) for key in "abc"] == [None, 2, 3]


def test_a_cleared_cache_is_empty():
    cache = BoundedCache(10, seconds=5.0)
    cache.put("a", 1, 10)
    cache.clear()
    assert (len(cache), cache.weight, cache.get("a")) == (0, 0, None)
    cache.put("a", 2)
    assert (cache.get("a"), cache.weight) == (2, 1)
    assert (cache.pop("a"), cache.weight) == (2, 0)


@given(
    st.lists(st.tuples(st.integers(0, 5), st.integers(0, 12)), max_size=60),
    st.integers(1, 20),
    st.integers(1, 20) | st.none(),
)
def test_it_behaves_like_a_plain_list(steps, limit, heaviest):
    cache, twin = BoundedCache(limit, heaviest=heaviest), []
    for number, (key, weight) in enumerate(steps):
        if weight > 10:
            found = [entry for entry in twin if entry[0] == key]
            twin = [entry for entry in twin if entry[0] != key] + found
            assert cache.get(key) == (found[0][1] if found else None)
            continue
        cache.put(key, number, weight)
        twin = [entry for entry in twin if entry[0] != key]
        if heaviest is None or weight <= heaviest:
            twin.append((key, number, weight))
        while sum(entry[2] for entry in twin) > limit and len(twin) > 1:
            del twin[0]
        assert (cache.weight, len(cache)) == (sum(entry[2] for entry in twin), len(twin))
    assert list(cache._values) == [entry[0] for entry in twin]


def test_threads_do_not_upset_the_weight():
    cache, start = BoundedCache(50), threading.Barrier(4)

    def use(offset):
        start.wait()
        for number in range(2_000):
            cache.put((number * 7 + offset) % 90, number, 1 + number % 3)
            cache.get(number % 90)
            cache.pop((number + offset) % 90)

    threads = [threading.Thread(target=use, args=(offset,)) for offset in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert cache.weight == sum(cache._weights.get(key, 1) for key in cache._values) <= 50
