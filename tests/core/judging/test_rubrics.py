"""Rubric files: versioned, asking for what they need, saying what is wrong with them."""

from __future__ import annotations

from importlib.resources import files

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiltyard.core.judging import Rubric, parse_rubric
from tiltyard.errors import UnreadableFile

SHIPPED = {
    "factuality": (True, False),
    "calibration": (True, True),
    "clinical_utility": (True, True),
}


@pytest.mark.parametrize("dimension", SHIPPED)
def test_the_shipped_rubrics_are_read_and_ask_for_what_they_need(dimension):
    text = files("tiltyard.settings").joinpath("rubrics", f"{dimension}.txt").read_text("utf-8")
    rubric = parse_rubric(dimension, text, dimension)
    assert (rubric.gold, rubric.expected_behavior) == SHIPPED[dimension]
    assert rubric.version == "v1"
    assert "both_bad:" in rubric.text


@given(st.text(st.characters(exclude_categories=["Cs"])), st.booleans(), st.booleans())
def test_a_rubric_is_read_back_as_it_was_written(text, gold, expected):
    body = text.replace("\r\n", "\n").strip()
    if body and not body.startswith("#"):
        rubric = Rubric("d", "v7", body, gold, expected)
        assert parse_rubric("d", rubric.file_text(), "here") == rubric


def test_every_part_of_a_rubric_is_part_of_its_identity():
    rubrics = [
        Rubric("d", "v1", "t"),
        Rubric("d", "v2", "t"),
        Rubric("d", "v1", "u"),
        Rubric("d", "v1", "t", gold=True),
        Rubric("d", "v1", "t", expected_behavior=True),
    ]
    assert len({rubric.sha256 for rubric in rubrics}) == 5
    assert Rubric("other", "v1", "t").sha256 == rubrics[0].sha256


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("", "line 1"),
        ("Be right.", "line 1"),
        ("# version: 1\nBe right.", "line 1"),
        ("# version: v1", "has no text"),
        ("# version: v1\n# uses: gold\n \n", "has no text"),
        ("# version: v1\n# uses: silver\nBe right.", "line 2"),
    ],
)
def test_a_rubric_without_version_or_text_is_an_error_that_names_the_place(text, wrong):
    with pytest.raises(UnreadableFile, match=f"here.*{wrong}"):
        parse_rubric("d", text, "here")
