"""Style covariates, from the columns of a file or the answers in it."""

from dataclasses import replace

import numpy as np
import pytest

from support.counting_sources import InHand, parquet
from support.worlds import battles
from tiltyard.core.ratings import BradleyTerry
from tiltyard.errors import BadOption, CannotRate
from tiltyard.files import open_battles, write_battles
from tiltyard.files.battle_tables import count_groups, count_table, style_columns

PLAIN = {"model_a": ["x", "y", "x"], "model_b": ["y", "x", "y"], "winner": ["A", "A", "tie"]}


def covariates(*style, **columns):
    table = count_table([InHand.of(**PLAIN, **columns)], style=style)
    return table.covariates, table.log().covariates


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        ({"gap_a": [30.0, 0.0, 5.0], "gap_b": [10.0, 0.0, 5.0]}, [0.5, 0.0, 0.0]),
        ({"gap_a": [-1.0, -3.0, 0.5], "gap_b": [1.0, -1.0, 0.5]}, [-1.0, -0.5, 0.0]),
        ({"gap": [3, -1, 0]}, [3.0, -1.0, 0.0]),
        ({"gap": ["1.5", "2", "-3"]}, [1.5, 2.0, -3.0]),
    ],
    ids=["relative difference", "below zero: relative to the sizes", "as it stands", "numbers in text"],
)
def test_a_covariate_is_a_pair_of_columns_or_a_single_one(columns, expected):
    names, z = covariates("gap", **columns)
    assert (names, z[:, 0].tolist()) == (("gap",), expected)


def test_a_row_does_not_depend_on_the_others_in_its_batch():
    source = InHand.of(**PLAIN, tone_a=[-1.0, 3.0, 0.5], tone_b=[1.0, 1.0, 0.5])
    whole = count_table([source], style=["tone"]).log().covariates
    apart = count_table([replace(source, size=1)], style=["tone"]).log().covariates
    np.testing.assert_array_equal(whole, apart)


def test_position_is_the_advantage_of_side_a():
    assert covariates("position")[1].tolist() == [[1.0]] * 3


def test_markdown_is_three_traits():
    pairs = {f"{trait}_{side}": [1.0] * 3 for trait in ("headers", "lists", "bold") for side in "ab"}
    names, z = covariates("markdown", "position", **pairs)
    assert names == ("headers", "lists", "bold", "position")
    assert z.shape == (3, 4)


@pytest.mark.parametrize("gap", [["1", "two", "3"], [[1], [2], [3]]], ids=["text", "lists"])
def test_what_is_no_number_is_refused(gap):
    with pytest.raises(BadOption, match="style='gap'"):
        covariates("gap", gap=gap)


@pytest.mark.parametrize("columns", [{}, {"length_a": [1.0] * 3}], ids=["none", "half"])
def test_a_style_that_is_not_there_is_refused(columns):
    with pytest.raises(BadOption, match="style='length'"):
        covariates("length", **columns)


def test_every_file_must_have_the_style():
    with_gap, without = InHand.of(**PLAIN, gap=[1.0] * 3), InHand.of(**PLAIN)
    assert style_columns([with_gap], ["gap"]) == {"gap": ("gap",)}
    with pytest.raises(BadOption, match="style='gap'"):
        style_columns([with_gap, without], ["gap"])


@pytest.mark.parametrize("absent", [None, np.nan])
def test_a_missing_value_is_no_zero(absent):
    table = count_table([InHand.of(**PLAIN, gap=[1.0, absent, 2.0])], style=["gap"])
    with pytest.raises(CannotRate, match="missing values"):
        BradleyTerry(style=True)(table)


def test_a_missing_value_where_nothing_is_rated_does_no_harm():
    columns = {"model_a": ["x"] * 5, "model_b": ["y"] * 5, "winner": ["A", "B", "A", "B", "both_bad"]}
    table = count_table([InHand.of(**columns, gap=[2.0, 1.0, 1.0, 2.0, None])], style=["gap"])
    assert BradleyTerry(style=True, interval="none", prior_sd=100.0)(table).extras["style"].keys() == {"gap"}


@pytest.mark.parametrize("ending", ["jsonl", "csv", "parquet"])
def test_style_is_counted_in_responses(ending, tmp_path):
    answers = {"response_a": ["# One\ntwo", "abc"], "response_b": ["x", "abc"]}
    write_battles(tmp_path / f"battles.{ending}", battles("a>b b>a", **answers))
    table = count_table([open_battles(tmp_path / f"battles.{ending}")], style=["length", "markdown"])
    assert table.covariates == ("length", "headers", "lists", "bold")
    assert table.log().covariates.tolist() == [[0.8, 1.0, 0.0, 0.0], [0.0] * 4]


def test_a_reread_style_keeps_to_its_group(tmp_path):
    rows = [
        {"model_a": "x", "model_b": "y", "winner": "A", "category": name, "gap": value}
        for name, value in (("red", 1.0), ("blue", 2.0), ("red", 3.0))
    ]
    tables = count_groups([parquet(tmp_path / "rows.parquet", rows)], ["category"], style=["gap"])["category"]
    assert {name: table.log().covariates[:, 0].tolist() for name, table in tables.items()} == {
        "blue": [2.0],
        "red": [1.0, 3.0],
    }
