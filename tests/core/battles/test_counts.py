from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from support.worlds import drawn
from tiltyard.core.battles import counts as counts_module
from tiltyard.core.battles.counts import CELL_SUM_COUNT, CountsBuilder, _count_loop

MODELS = 7
EIGHTHS = st.integers(0, 8).map(lambda k: k / 8.0)


@st.composite
def logs(draw):
    """Columns a, b, kind, weight and pref; multiples of 1/8, so that every sum is exact."""
    n = draw(st.integers(0, 30))
    model = st.integers(0, MODELS - 1)
    a, b = (draw(hnp.arrays(np.uint16, n, elements=model)) for _ in range(2))
    kind = draw(hnp.arrays(np.uint8, n, elements=st.integers(0, 12)))
    weight = draw(st.none() | hnp.arrays(np.float64, n, elements=EIGHTHS))
    pref = draw(st.none() | hnp.arrays(np.float64, n, elements=st.just(np.nan) | EIGHTHS))
    return a, b, kind, weight, pref


def built(*parts, models=MODELS, **options):
    builder = CountsBuilder(models, **options)
    for part in parts:
        builder.add_rows(*part)
    return builder.counts()


def cells(counts):
    keys = zip(counts.a.tolist(), counts.b.tolist(), counts.kind.tolist(), counts.soft.tolist(), strict=True)
    values = zip(counts.n.tolist(), map(tuple, counts.moments().tolist()), strict=True)
    return dict(zip(keys, values, strict=True))


def naive(*parts):
    """The cells by going over the rows one at a time."""
    n, sums = Counter(), {}
    for a, b, kind, weight, pref in parts:
        for k in range(len(a)):
            w = 1.0 if weight is None else weight[k]
            soft = pref is not None and not np.isnan(pref[k])
            y = pref[k] if soft else 0.0
            key = (int(a[k]), int(b[k]), int(kind[k]), soft)
            n[key] += 1
            terms = (w, w * w, w * y, w * w * y, w * w * y * y)
            sums[key] = tuple(
                x + t for x, t in zip(sums.get(key, (0.0,) * CELL_SUM_COUNT), terms, strict=True)
            )
    return {key: (n[key], sums[key]) for key in n}


@given(st.lists(logs(), max_size=4))
def test_counts_are_what_counting_one_by_one_gives(parts):
    counts = built(*parts)
    assert cells(counts) == naive(*parts)
    assert counts.n_battles == sum(len(part[0]) for part in parts)


@given(st.lists(logs(), max_size=4))
def test_sorted_runs_count_as_the_dense_array_does(parts):
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(counts_module, "_DENSE_MODEL_LIMIT", 3)
        patched.setattr(counts_module, "_WAITING_CELLS", 8)
        assert cells(built(*parts)) == naive(*parts)


@given(st.lists(logs(), max_size=4), st.integers(2, MODELS))
def test_room_may_grow_while_counting(parts, dense):
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(counts_module, "_DENSE_MODEL_LIMIT", dense)
        builder = CountsBuilder()
        most = 0
        for part in parts:
            most = max([most, *part[0] + 1, *part[1] + 1])
            builder.grow(most)
            builder.add_rows(*part)
        assert cells(builder.counts()) == naive(*parts)


@given(st.lists(logs(), max_size=4), st.randoms(use_true_random=False))
def test_counts_of_parts_add_up_in_any_order(parts, random):
    counted = [built(part) for part in parts]
    random.shuffle(counted)
    builder = CountsBuilder(MODELS)
    for counts in counted:
        builder.add_counts(counts, np.arange(MODELS))
    assert cells(builder.counts()) == naive(*parts)


@given(logs(), st.permutations(range(MODELS)))
def test_relabelling_moves_cells_and_changes_none(log, codes):
    moved = built(log).relabel(np.array(codes))
    assert cells(moved) == {(codes[a], codes[b], *rest): v for (a, b, *rest), v in cells(built(log)).items()}


def test_cells_are_sorted_by_kind_and_then_by_models():
    counts = built(naive_columns())
    keys = list(zip(counts.soft, counts.kind, counts.a, counts.b, strict=True))
    assert keys == sorted(keys)


def naive_columns():
    codes = drawn(MODELS, 200, judged=True, soft=True)
    return codes.a, codes.b, codes.kind, None, codes.pref


def test_plain_battles_carry_no_sums():
    codes = drawn(MODELS, 50)
    counts = built((codes.a, codes.b, codes.kind))
    assert counts.sums is None
    np.testing.assert_array_equal(counts.moments()[:, 1], counts.n)


def test_rows_are_carried_over_before_thirty_two_bits_are_full(monkeypatch):
    monkeypatch.setattr(counts_module, "_CARRY_ROWS", 7)
    codes = drawn(MODELS, 40)
    part = (codes.a, codes.b, codes.kind, None, None)
    assert cells(built(part, part)) == naive(part, part)


def test_the_compiled_loop_counts_the_same():
    codes = drawn(MODELS, 300)
    part = (codes.a, codes.b, codes.kind, None, None)
    assert cells(built(part, kernel="compiled")) == naive(part)
    by_hand = np.zeros(16 * MODELS**2, dtype=np.int32)
    _count_loop(codes.a, codes.b, codes.kind, MODELS, by_hand)
    counts = built(part)
    np.testing.assert_array_equal(by_hand[(counts.kind * MODELS + counts.a) * MODELS + counts.b], counts.n)
