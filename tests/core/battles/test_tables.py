from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from support.worlds import (
    batch,
    battles,
    columns,
    counted,
    drawn,
    names,
    rows,
    split_tables,
    styled,
    table,
    told,
)
from tiltyard.core.battles import (
    CodedBattles,
    GroupTableBuilder,
    NameColumn,
    Table,
    TableBuilder,
    to_batches,
)
from tiltyard.core.battles import counts as counts_module
from tiltyard.core.battles.counts import CELL_SUM_COUNT, CountsBuilder, _count_loop
from tiltyard.core.battles.table import _code_type
from tiltyard.errors import CannotRate

EVERYTHING = {"judged": True, "prompts": 6, "voters": 4, "weighted": True, "soft": True}


def same_log(one: CodedBattles, other: CodedBattles) -> None:
    for left, right in zip(columns(one), columns(other), strict=True):
        np.testing.assert_array_equal(left, right)


def same_counts(one: Table, other: Table) -> None:
    for name in ("a", "b", "kind", "soft", "n"):
        np.testing.assert_array_equal(getattr(one.counts, name), getattr(other.counts, name))
    np.testing.assert_array_equal(one.counts.moments(), other.counts.moments())


def test_models_are_sorted_whatever_the_order_of_battles():
    found = told("c>a b=a c!d")
    assert found.models == ("a", "b", "c", "d")
    log = found.log()
    assert [(found.models[a], found.models[b]) for a, b in zip(log.a, log.b, strict=True)] == [
        ("c", "a"),
        ("b", "a"),
        ("c", "d"),
    ]
    assert found.n_battles == 3


def test_a_table_of_no_battles_is_empty():
    empty = Table.from_battles([])
    assert (empty.models, empty.n_battles, len(empty.log())) == ((), 0, 0)
    assert empty.has_log


def test_codes_need_sorted_and_distinct_names():
    codes = drawn(2, 3)
    for wrong in (["b", "a"], ["a", "a"]):
        with pytest.raises(ValueError, match="sorted and distinct"):
            Table.from_codes(wrong, codes)


def test_a_table_says_which_clusters_its_log_can_name():
    assert told("a>b").keyed == frozenset()
    assert told("a>b", question_id=["q"]).keyed == {"prompt"}
    assert told("a>b", question_id=["q"], voter=["v"]).keyed == {"prompt", "voter"}
    assert table(drawn(prompts=3, voters=2)).keyed == {"prompt", "voter"}


@given(st.integers(0, 1000), st.integers(1, 5))
def test_a_log_split_anyhow_and_merged_is_the_whole_log(seed, parts):
    codes = drawn(6, 60, seed, **EVERYTHING)
    part = np.random.default_rng(seed).integers(0, parts, 60)
    merged, *others = split_tables(codes, 6, part)
    for other in others:
        merged = merged.merge(other)
    whole = table(rows(codes, np.argsort(part, kind="stable")), 6)
    assert merged.models == whole.models
    assert merged.keyed == whole.keyed
    same_counts(merged, whole)
    same_log(merged.log(), whole.log())


def test_merging_a_table_without_a_log_leaves_counts_alone():
    merged = told("a>b", question_id=["q"]).merge(counted("b>a"))
    assert (merged.has_log, merged.keyed, merged.n_battles) == (False, frozenset(), 2)
    assert not counted("b>a").merge(told("a>b")).has_log


def test_merging_fills_columns_that_one_side_lacks():
    merged = told("a>b", question_id=["q"], pref=[0.75], weight=[2]).merge(told("b>a", voter=["v"]))
    log = merged.log()
    assert (log.prompt[1], log.voter[0], log.weight[1]) == (0, 0, 1.0)
    assert np.isnan(log.pref[1])
    assert merged.keyed == {"prompt", "voter"}


def test_a_table_remembers_who_decided_and_what_was_asked():
    one = told("a>b a<b", source=["human", None], dimension=["truth", "style"])
    other = told("a>b", source=["judge"], judge_model=["oak"])
    assert one.tags == {"source": {"human"}, "dimension": {"truth", "style"}, "judge_model": set()}
    assert one.merge(other).tags == {
        "source": {"human", "judge"},
        "dimension": {"truth", "style"},
        "judge_model": {"oak"},
    }


def test_tables_with_other_style_columns_do_not_merge():
    with pytest.raises(CannotRate, match="different style columns"):
        styled(drawn(n=20), np.ones((20, 1))).merge(styled(drawn(n=20), np.ones((20, 2))))


def test_style_columns_stay_with_their_battles():
    codes = drawn(n=20)
    z = np.arange(40.0).reshape(20, 2)
    merged = styled(codes, z).merge(styled(codes, -z))
    np.testing.assert_array_equal(merged.log().covariates, np.concatenate([z, -z]))


@pytest.mark.parametrize("keep_log", [False, True])
def test_a_log_read_again_is_the_log_held(keep_log):
    codes = drawn(6, 100, **EVERYTHING)
    batches = [batch(rows(codes, np.arange(k, 100, 3)), 6) for k in range(3)]
    builder = TableBuilder(keep_log=keep_log)
    for some in batches:
        builder.add(some)
    held = table(rows(codes, np.concatenate([np.arange(k, 100, 3) for k in range(3)])), 6)
    found = builder.table(reread=lambda: iter(batches))
    assert found.has_log
    same_counts(found, held)
    same_log(found.log(), held.log())
    same_log(found.log(), held.log())


def test_a_table_of_counts_alone_has_no_battles_to_show():
    assert not counted("a>b").has_log
    with pytest.raises(CannotRate, match="contains only counts"):
        counted("a>b").log()


def test_tables_by_group_are_the_tables_of_each_group():
    told_rows = battles("a>b b>c c=a a!b b<a c>b", question_id=list("pqrstu"))
    groups = ["y", "x", "y", "y", "x", "z"]
    batches = [
        (next(iter(to_batches(told_rows[first : first + 3]))), NameColumn.of(groups[first : first + 3]))
        for first in (0, 3)
    ]
    builder = GroupTableBuilder()
    for part, column in batches:
        builder.add(part, column)
    assert set(builder.names) == {"x", "y", "z"}
    found = builder.tables()
    assert list(found) == ["x", "y", "z"]
    for name, part in found.items():
        alone = Table.from_battles(row for row, group in zip(told_rows, groups, strict=True) if group == name)
        assert part.models == alone.models
        same_counts(part, alone)
        same_log(part.log(), alone.log())


def test_names_nobody_fought_under_stay_models():
    codes = replace(drawn(3, 10), prompt=None)
    assert Table.from_codes(names(4), codes).models == names(4)


def test_codes_are_small_until_there_are_too_many_models():
    assert _code_type(1 << 16) is np.uint16
    assert _code_type((1 << 16) + 1) is np.int32


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
