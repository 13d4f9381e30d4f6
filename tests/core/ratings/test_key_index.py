"""Where keys stand among known ones: what a search says, however keys are spread."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiltyard.core.battles.cluster_keys import hash_texts
from tiltyard.core.ratings.leave_one_out import KeyIndex, sorted_distinct

LAST = 2**64 - 1


def keys(values):
    return np.array(values, dtype=np.uint64)


@given(
    st.sets(st.integers(1, LAST), max_size=60),
    st.lists(st.integers(0, LAST), max_size=60),
    st.integers(0, 63),
)
def test_an_index_says_what_a_search_says(known, sought, shift):
    known = sorted_distinct(keys([value >> shift for value in known]))
    sought = np.concatenate([keys([value >> shift for value in sought]), known, keys([0, LAST])])
    np.testing.assert_array_equal(KeyIndex(known).positions(sought), np.searchsorted(known, sought))


@pytest.mark.parametrize(
    "known",
    [
        hash_texts([f"prompt {k}" for k in range(5000)]),
        np.arange(1, 5000),
        np.concatenate([np.arange(1, 5000), [2**63]]),
        2 ** np.arange(1, 64),
    ],
    ids=["hashes", "numbers", "numbers and one far away", "powers"],
)
def test_keys_may_be_spread_evenly_or_not(known):
    known = sorted_distinct(known.astype(np.uint64))
    sought = np.concatenate([known, known + np.uint64(1), known - np.uint64(1)])
    np.testing.assert_array_equal(KeyIndex(known).positions(sought), np.searchsorted(known, sought))
