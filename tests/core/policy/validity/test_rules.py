"""A rule: value, bar, what is missing."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.told_arenas import arenas
from tiltyard.core.policy.validity.publication import badge_of, publication_rules
from tiltyard.core.policy.validity.rules import check_rule, float_or_none


@pytest.mark.parametrize(
    ("value", "bar", "at_most", "holds"),
    [
        (75.0, 75.0, True, True),
        (75.1, 75.0, True, False),
        (0.9, 0.9, False, True),
        (0.89, 0.9, False, False),
        (None, 0.0, False, False),
        (math.nan, 0.0, True, False),
        (sum([0.7, 0.8, 0.9, 1.0, 1.0, 1.0, 1.0, 0.8, 0.9, 0.9]) / 10, 0.9, False, True),
    ],
)
def test_a_rule_holds_at_its_bar_and_never_without_a_value(value, bar, at_most, holds):
    assert check_rule("neighbour-floors", {}, value, bar, missing=3.0, at_most=at_most).holds is holds


@pytest.mark.parametrize(
    ("missing", "votes"), [(None, None), (math.inf, None), (math.nan, None), (0.0, 1), (2.1, 3)]
)
def test_what_is_missing_is_a_whole_number_of_votes_or_none(missing, votes):
    assert check_rule("neighbour-floors", {}, 1.0, 2.0, missing=missing).missing == votes


def test_a_rule_that_holds_misses_nothing():
    assert check_rule("neighbour-floors", {}, 2.0, 2.0, missing=None).missing == 0


@given(st.floats())
def test_numbers_are_finite_or_none(value):
    assert float_or_none(value) == (value if math.isfinite(value) else None)
    assert float_or_none(None) is None


@given(arenas())
def test_every_rule_of_every_arena_misses_nothing_exactly_when_it_holds(standing):
    rules = list(publication_rules(standing))
    for model in range(len(standing.models)):
        card = badge_of(standing, model)
        rules += [*card.established, *card.stable]
    for rule in rules:
        assert (rule.missing == 0) == rule.holds
        assert rule.missing is None or rule.missing >= 0
        assert rule.value is None or math.isfinite(rule.value)
        assert isinstance(rule.holds, bool)
        assert "nan" not in rule.detail
