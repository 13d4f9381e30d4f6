from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

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
