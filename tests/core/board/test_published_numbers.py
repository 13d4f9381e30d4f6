"""Numbers as they are published."""

import math
from dataclasses import dataclass
from enum import StrEnum

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiltyard.core.board.document import published_number, with_published_numbers


@pytest.mark.parametrize(
    ("value", "published"),
    [
        (1523.4567891234, 1523.456789),
        (0.062164794180, 0.06216479),
        (1.23456789e-12, 1.234568e-12),
        (-87.65432199, -87.654322),
        (123_456_789.0, 123_456_789.0),
        (123_456_789.12345678, 123_456_789.123457),
        (999.99999999, 1000.0),
        (0.0, 0.0),
        (math.inf, math.inf),
    ],
)
def test_seven_digits_and_at_least_six_decimals(value, published):
    assert published_number(value) == published


@pytest.mark.parametrize("value", [-0.0, 0.0])
def test_there_is_one_zero(value):
    assert math.copysign(1.0, published_number(value)) == 1.0


@given(st.floats(allow_nan=False))
def test_what_is_published_is_rounded_no_further(value):
    once = published_number(value)
    assert published_number(once) == once
    assert once == value or abs(once - value) <= max(abs(value) * 5.1e-7, 5e-324)


def test_what_is_no_number_stays():
    assert math.isnan(published_number(math.nan))


class Colour(StrEnum):
    RED = "red"


@dataclass(frozen=True)
class Part:
    share: float | None
    counts: tuple[int, ...]
    named: dict[str, float]
    colour: Colour = Colour.RED


def test_records_are_rounded_all_through_and_keep_their_types():
    part = Part(1 / 3, (1, 2), {"x": 2 / 3})
    assert with_published_numbers((part, part, True, "1.23456789")) == (
        Part(0.3333333, (1, 2), {"x": 0.6666667}),
        Part(0.3333333, (1, 2), {"x": 0.6666667}),
        True,
        "1.23456789",
    )
    assert with_published_numbers(Part(None, (), {})) == Part(None, (), {})
