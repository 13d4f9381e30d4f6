"""Badges, and the rules behind them."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.told_arenas import A, arena, arenas, full_votes, strengthen
from tiltyard.core.policy.validity.publication import (
    Badge,
    badge_from_rules,
    badge_of,
    established_rules,
    stable_rules,
)

STEPS = list(Badge)


def settled(rd=60.0):
    """Three models, ten prompts, every pair 30 times on 10 prompts."""
    return strengthen(arena(3, 10, full_votes(3, 10, 6)), [1700, 1600, 1500], rd)


@pytest.mark.parametrize(
    ("rd", "badge"), [(350.0, "provisional"), (90.0, "established"), (76.0, "established"), (75.0, "stable")]
)
def test_rd_alone_moves_a_settled_model_through_the_badges(rd, badge):
    assert badge_of(settled(rd), 1).badge == badge


def test_rules_have_names_values_and_bars():
    card = badge_of(settled(), 1)
    assert [(rule.name, rule.value, rule.bar) for rule in (*card.established, *card.stable)] == [
        ("decisive-votes", 120.0, 80.0),
        ("established-coverage", 1.0, 0.8),
        ("established-rd", 60.0, 90.0),
        ("stable-coverage", 1.0, 0.9),
        ("stable-rd", 60.0, 75.0),
        ("neighbour-floors", 2.0, 2.0),
    ]
    assert card.waiting == ()


def test_what_keeps_a_model_from_the_next_badge():
    votes = full_votes(2, 10, 8)
    standing = strengthen(arena(3, 10, votes), [1700, 1600, 1500])
    card = badge_of(standing, 1)
    assert card.badge is Badge.ESTABLISHED
    (waiting,) = card.waiting
    assert (waiting.name, waiting.value, waiting.bar, waiting.missing) == ("neighbour-floors", 1.0, 2.0, 12)
    assert waiting.detail == "short: m2 0 votes"
    card = badge_of(strengthen(arena(2, 2, [(0, 1, 0, A)] * 3), [1600, 1500], 300.0), 0)
    assert card.badge is Badge.PROVISIONAL
    assert [rule.name for rule in card.waiting] == [
        "decisive-votes",
        "established-coverage",
        "established-rd",
    ]
    alone = strengthen(arena(1, 3), [1500])
    assert stable_rules(alone, 0)[-1].value is None
    assert badge_of(alone, 0).badge is Badge.PROVISIONAL
    standing = settled()
    standing.retire(1)
    assert badge_of(standing, 1).badge is Badge.ESTABLISHED


def test_missing_votes_worked_by_hand():
    """20 votes, all decisive: 60 more. RD 100 of 350: (1/90² − 1/100²) at (1/100² − 1/350²) per 20 votes."""
    votes = [(0, 1, p, A) for p in range(10)] * 2
    decisive, coverage, rd = established_rules(strengthen(arena(2, 10, votes), [1600, 1500], 100.0), 0)
    assert decisive.missing == 60
    assert coverage.missing == 0
    assert rd.missing == 6
    assert rd.detail == "RD is 100"


@given(arenas(), st.data())
def test_meeting_one_more_rule_never_lowers_a_badge(standing, data):
    if not standing.models:
        return
    model = data.draw(st.integers(0, len(standing.models) - 1))
    card = badge_of(standing, model)
    for rules in (card.established, card.stable):
        for k, rule in enumerate(rules):
            better = (*rules[:k], replace(rule, holds=True), *rules[k + 1 :])
            new = (
                badge_from_rules(better, card.stable)
                if rules is card.established
                else badge_from_rules(card.established, better)
            )
            assert STEPS.index(new) >= STEPS.index(card.badge)


@given(arenas())
def test_a_badge_waits_for_something_unless_it_is_the_last(standing):
    for model in range(len(standing.models)):
        card = badge_of(standing, model)
        assert bool(card.waiting) == (card.badge is not Badge.STABLE)
