import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from support.worlds import batch, battles, drawn, names
from tiltyard.core.battles import NameColumn, to_batches
from tiltyard.core.battles.cluster_keys import MISSING_KEY, hash_texts


@given(st.lists(st.sampled_from(["oak", "elm", "ash"])))
def test_names_are_integers_into_a_list_of_distinct_names(column):
    found = NameColumn.of(column)
    assert [found.values[code] for code in found.codes] == column
    assert len(set(found.values)) == len(found.values)


def test_battles_come_in_batches_of_a_size():
    sizes = [len(some) for some in to_batches(battles("a>b*7"), size=3)]
    assert sizes == [3, 3, 1]
    assert list(to_batches([])) == []


def test_a_column_is_absent_or_has_a_value_for_every_battle():
    (some,) = to_batches(battles("a>b a<b"))
    assert (some.prompt, some.voter, some.weight, some.pref, some.covariates) == (None,) * 5
    (some,) = to_batches(
        battles("a>b a<b", question_id=["q", None], voter=[None, "v"], weight=[2, None], pref=[None, 0.25])
    )
    assert some.prompt.tolist() == [hash_texts(["q"])[0], MISSING_KEY]
    assert some.voter.tolist() == [MISSING_KEY, hash_texts(["v"])[0]]
    assert some.weight.tolist() == [2.0, 1.0]
    np.testing.assert_array_equal(some.pref, [np.nan, 0.25])


def test_taking_rows_takes_them_from_every_column():
    codes = drawn(n=20, prompts=5, voters=3, weighted=True, soft=True)
    whole = batch(codes, 5)
    for chosen in (np.array([7, 3, 3]), np.arange(20) % 2 == 0):
        part = whole.take(chosen)
        for column, source in zip((part.model_a, part.model_b), (codes.a, codes.b), strict=True):
            assert [column.values[k] for k in column.codes] == [names(5)[k] for k in source[chosen]]
            assert len(column.values) == len(set(source[chosen]))
        for name in ("kind", "prompt", "voter", "weight", "pref"):
            np.testing.assert_array_equal(getattr(part, name), getattr(codes, name)[chosen])
        assert part.covariates is None


def test_a_batch_splits_into_groups_in_log_order():
    whole = batch(drawn(n=6), 5)
    groups = NameColumn(np.array([1, 0, 1, 1, 0, 1]), ["x", "y", "nobody"])
    parts = dict(whole.split(groups))
    assert list(parts) == ["x", "y"]
    np.testing.assert_array_equal(parts["x"].kind, whole.kind[[1, 4]])
    np.testing.assert_array_equal(parts["y"].kind, whole.kind[[0, 2, 3, 5]])
