"""The scale of a board's bars: one for all rows, which an outlier cannot squash."""

import numpy as np
import pytest

from tiltyard.web.pages.board_view import BarPosition, DrawnInterval, IntervalScale, interval_scale


def around(*ratings, width=20.0):
    return [DrawnInterval(one - width, one, one + width) for one in ratings]


def test_a_board_without_intervals_has_no_scale():
    assert interval_scale([]) is None


@pytest.mark.parametrize(
    "ratings",
    [
        (1500,),
        (1500, 3000),
        (1400, 1500, 1600),
        (1300, 1485, 1700),
        (1300, 1300, 1300, 1300, 1700, 1700, 1700, 1700, 1700),
        tuple(range(1000, 2000, 25)),
    ],
)
def test_a_scale_without_outliers_holds_every_interval(ratings):
    assert interval_scale(around(*ratings)) == IntervalScale(min(ratings) - 20.0, max(ratings) + 20.0)


@pytest.mark.parametrize("outlier", [0.0, 3000.0, 90_000.0])
@pytest.mark.parametrize("models", [3, 5, 12, 60])
def test_one_outlier_leaves_the_others_their_room(models, outlier):
    others = np.linspace(1500.0, 1500.0 + 8.0 * models, models - 1)
    drawn = around(*others, outlier)
    scale = interval_scale(drawn)
    assert scale == interval_scale(drawn[:-1])
    at = scale.position(drawn[-1])
    assert (at.cut_low, at.cut_high) == (outlier < 1500.0, outlier > 1500.0)
    assert at.estimate is None
    assert at.low == at.high == (0.0 if outlier < 1500.0 else 100.0)


def test_one_wide_interval_does_not_determine_the_scale_at_either_side():
    scale = interval_scale([*around(1500, 1520, 1540, 1560), DrawnInterval(900.0, 1530.0, 2100.0)])
    assert scale == IntervalScale(1480.0, 1580.0)
    assert scale.position(DrawnInterval(900.0, 1530.0, 2100.0)) == BarPosition(
        0.0, pytest.approx(50.0), 100.0, cut_low=True, cut_high=True
    )


def test_outliers_at_both_sides_are_few_of_many():
    scale = interval_scale(around(*range(1500, 1530), 100, 9000, 9100))
    assert scale == IntervalScale(1480.0, 1549.0)


def test_an_end_that_is_hardly_outside_is_taken_in_again():
    scale = interval_scale(around(*np.linspace(1500.0, 1980.0, 59), 3000.0))
    assert scale == IntervalScale(1480.0, 2000.0)


def test_what_is_inside_is_neither_cut_nor_moved():
    at = IntervalScale(1000.0, 2000.0).position(DrawnInterval(1000.0, 1250.0, 2000.0))
    assert at == BarPosition(0.0, 25.0, 100.0, cut_low=False, cut_high=False)


def test_models_that_are_all_alike_are_drawn_in_one_place():
    (alike,) = around(1500.0, width=0.0)
    assert interval_scale([alike, alike]).position(alike) == BarPosition(
        0.0, 0.0, 0.0, cut_low=False, cut_high=False
    )
