"""What a voter was told comes last: after every other rule of matchmaking was given up."""

import numpy as np
import pytest

from tiltyard.core.policy.matchmaking.eligible_pairs import has_servable_pair, voter_need
from tiltyard.core.policy.matchmaking.matchmaker import choose, fallback_fields
from tiltyard.core.policy.state.policy import Policy
from tiltyard.core.policy.state.standing import Standing


def arena(models=4, prompts=3, **policy):
    standing = Standing(Policy(**policy), [f"m{k}" for k in range(models)], [f"p{k}" for k in range(prompts)])
    for model in range(models):
        standing.enable(model)
    return standing


def test_nothing_told_leaves_the_needs_as_they_are():
    standing = arena()
    assert voter_need(standing, []) is standing.cells.need
    need = voter_need(standing, [(0, 1), (3, 2)])
    assert need[0, 1] == need[3, 2] == -np.inf
    assert np.isfinite(standing.cells.need).all()
    assert has_servable_pair(need)
    assert not has_servable_pair(need[:1])


@pytest.mark.parametrize("phase", [1, 4])
def test_the_last_unknown_pair_is_served_whatever_it_costs(phase):
    """By then the pair was just seen, on this prompt, and too often; both models have had their share."""
    standing = arena(phase=phase, window=10, settling=1)
    told = [(model, prompt) for model in range(4) for prompt in range(3) if prompt or model > 1]
    for _ in range(12):
        standing.serve(0, 1, 0, session=1)
        standing.vote(0, 1, 0, 0)
    rng = np.random.default_rng(3)
    for _ in range(20):
        choice = choose(standing, rng, session=1, told=told)
        assert ({choice.left, choice.right}, choice.prompt) == ({0, 1}, 0)
        assert "blind" not in choice.given_up
        assert "session" in choice.given_up


@pytest.mark.parametrize("phase", [1, 4])
def test_where_no_pair_is_unknown_the_choice_says_so(phase):
    standing = arena(phase=phase)
    told = [(model, prompt) for model in range(4) for prompt in range(3) if model]
    choice = choose(standing, np.random.default_rng(1), session=1, told=told)
    assert choice.given_up[-1] == "blind"
    assert choose(standing, np.random.default_rng(1), session=1).given_up == ()


def test_told_responses_of_a_model_that_has_had_its_share_are_no_pair():
    """The only unknown pair is over its share: the capped fields are passed over, the others come."""
    standing = arena(window=10, settling=1)
    told = [(model, prompt) for model in range(4) for prompt in range(3) if prompt or model > 1]
    for _ in range(12):
        standing.serve(0, 1, 0, session=1)
    found = [relaxed for _, relaxed in fallback_fields(standing, standing.sessions.of(1), told)]
    assert found[0] == ()
    assert all("exposure" in relaxed for relaxed in found[1:3])


@pytest.mark.parametrize(
    ("phase", "given_up"), [(1, ("session",)), (2, ("exposure", "session")), (4, ("exposure", "session"))]
)
def test_what_is_given_up_for_the_last_unknown_pair_names_an_upper_bound_only_where_there_is_one(
    phase, given_up
):
    standing = arena(phase=phase)
    told = [(model, prompt) for model in range(4) for prompt in range(3) if prompt or model > 1]
    found = fallback_fields(standing, standing.sessions.of(1), told)
    assert [relaxed for field, relaxed in found if field.repeats] == [given_up]
