"""Both-bad votes: rates, trend, findings."""

import pytest
from hypothesis import given

from support.told_arenas import BAD, A, arena, arenas, cast
from tiltyard.core.policy.state.policy import Policy
from tiltyard.core.policy.validity.model_record import (
    flagged_models,
    flagged_prompts,
    model_quality,
    quality_findings,
)


def test_rates_count_all_votes_and_the_recent_ones_apart():
    standing = arena(2, 2, [(0, 1, 0, A)] * 30 + [(0, 1, 1, BAD)] * 10)
    found = model_quality(standing, 0)
    assert (found.votes, found.both_bad, found.rate, found.floor_score) == (40, 10, 0.25, 0.75)
    assert found.trend == (0.0, 0.5)
    policy = Policy(both_bad_over=20)
    found = model_quality(arena(2, 1, [(0, 1, 0, BAD)] * 30 + [(0, 1, 0, A)] * 20, policy=policy), 0)
    assert (found.rate, found.recent_rate, found.recent_votes) == (0.6, 0.0, 20)
    found = model_quality(arena(2, 1), 0)
    assert (found.rate, found.floor_score, found.recent_rate, found.trend) == (None, None, None, ())


@pytest.mark.parametrize(("votes", "flagged"), [(1, []), (19, []), (20, [0, 1])])
def test_a_few_votes_raise_no_finding(votes, flagged):
    standing = arena(2, 1, [(0, 1, 0, BAD)] * votes)
    assert flagged_models(standing).tolist() == flagged
    assert len(quality_findings(standing)) == (2 if flagged else 0)


def test_a_rate_at_the_bar_raises_none():
    standing = arena(2, 1, [(0, 1, 0, BAD)] * 5 + [(0, 1, 0, A)] * 15)
    assert quality_findings(standing) == ()
    cast(standing, [(0, 1, 0, BAD)])
    assert [finding.name for finding in quality_findings(standing)] == ["both-bad-models", "both-bad-prompts"]


def test_findings_name_the_worst_first_among_the_votes_looked_at():
    votes = [(0, 1, 0, BAD)] * 10 + [(0, 1, 0, A)] * 20 + [(1, 2, 1, BAD)] * 20 + [(3, 4, 2, A)] * 40
    standing = arena(5, 3, votes)
    models, prompts = quality_findings(standing)
    assert "m2 (100% of 20), m1 (60% of 50), m0 (33% of 30)" in models.text
    assert "p1 (100% of 20), p0 (33% of 30)" in prompts.text
    assert flagged_prompts(standing).tolist() == [1, 0]
    standing.retire(2)
    assert flagged_models(standing).tolist() == [1, 0]
    standing = arena(2, 1, [(0, 1, 0, BAD)] * 50, policy=Policy(both_bad_over=30))
    assert "p0 (100% of 30)" in quality_findings(standing)[1].text


def test_a_prompt_on_which_nobody_can_be_served_any_more_is_no_longer_flagged():
    standing = arena(3, 2, [(0, 1, 0, BAD)] * 20 + [(0, 1, 1, A)] * 80)
    assert flagged_prompts(standing).tolist() == [0]
    standing.respond(0, 0, present=False)
    assert flagged_prompts(standing).tolist() == [0]
    standing.retire(2)
    assert flagged_prompts(standing).tolist() == []
    standing.respond(0, 0)
    assert flagged_prompts(standing).tolist() == [0]


@given(arenas())
def test_rates_lie_within_0_and_1(standing):
    for quality in [model_quality(standing, k) for k in range(len(standing.models))]:
        for share in (quality.rate, quality.floor_score, quality.recent_rate, *quality.trend):
            assert share is None or 0.0 <= share <= 1.0
        assert (quality.rate is None) == (quality.votes == 0)
