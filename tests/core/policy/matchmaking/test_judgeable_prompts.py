"""A voter is served what they can judge and nothing else, by the probabilities of that choice."""

from collections import Counter

import numpy as np
import pytest

from tiltyard.core.policy.matchmaking.eligible_pairs import EligiblePairs, voter_need
from tiltyard.core.policy.matchmaking.matchmaker import choose
from tiltyard.core.policy.matchmaking.random_lanes import draw_exploration
from tiltyard.core.policy.state.policy import Policy
from tiltyard.core.policy.state.standing import Standing
from tiltyard.errors import NoMatchup


def arena(models=5, prompts=4, **policy):
    standing = Standing(Policy(**policy), [f"m{k}" for k in range(models)], [f"p{k}" for k in range(prompts)])
    for model in range(models):
        standing.enable(model)
    return standing


def only(standing, *prompts):
    mask = np.zeros(len(standing.prompts), dtype=bool)
    mask[list(prompts)] = True
    return mask


@pytest.mark.parametrize("phase", [1, 4])
def test_no_rule_is_dropped_for_a_prompt_that_the_voter_cannot_judge(phase):
    """However often the voter has seen the only prompt, and whatever else is short of votes."""
    standing, rng = arena(phase=phase, window=10, settling=1), np.random.default_rng(1)
    for _ in range(60):
        choice = choose(standing, rng, session=1, judgeable=only(standing, 2))
        assert choice.prompt == 2
        assert "blind" not in choice.given_up
        standing.serve(choice.left, choice.right, choice.prompt, session=1)
        standing.vote(choice.left, choice.right, choice.prompt, 0)


def test_every_prompt_being_judgeable_is_no_restriction():
    standing = arena()
    everything = np.ones(len(standing.prompts), dtype=bool)
    one = choose(standing, np.random.default_rng(5), session=1, judgeable=everything)
    other = choose(standing, np.random.default_rng(5), session=1)
    assert one == other


def test_nothing_that_fits_is_said_plainly():
    standing = arena(prompts=2)
    standing.respond(0, 1, present=False)
    with pytest.raises(NoMatchup, match="judge"):
        choose(standing, np.random.default_rng(1), judgeable=only(standing))
    for model in range(1, 4):
        standing.respond(model, 1, present=False)
    with pytest.raises(NoMatchup, match="judge"):
        choose(standing, np.random.default_rng(1), judgeable=only(standing, 1))
    with pytest.raises(NoMatchup, match="enable models"):
        choose(arena(models=1), np.random.default_rng(1), judgeable=np.ones(4, dtype=bool))


def test_known_responses_come_last_among_what_the_voter_can_judge():
    standing, rng = arena(models=3, prompts=3), np.random.default_rng(2)
    judgeable = only(standing, 0, 1)
    told = [(model, 0) for model in range(3)]
    for _ in range(20):
        choice = choose(standing, rng, told=told, judgeable=judgeable)
        assert (choice.prompt, "blind" in choice.given_up) == (1, False)
    told += [(model, 1) for model in range(3)]
    for _ in range(20):
        choice = choose(standing, rng, told=told, judgeable=judgeable)
        assert choice.prompt in (0, 1)
        assert choice.given_up[-1] == "blind"


def test_models_without_a_response_that_fits_take_no_chances_from_the_others():
    """Model 0 answered the prompt alone with nobody, model 4 not at all: no draw begins or ends with them."""
    standing = arena(models=5, prompts=2)
    for model in (0, 4):
        standing.respond(model, 1, present=False)
    need = voter_need(standing, (), only(standing, 1))
    field = EligiblePairs.of(standing, standing.sessions.of(1), capped=False, depth=0, need=need)
    assert field.free.tolist() == [False, True, True, True, False]
    assert field.opponents(1).tolist() == [False, False, True, True, False]
    assert field.meets(1, 2)
    assert not field.meets(0, 1)


def test_pairs_that_share_only_other_prompts_do_not_meet():
    standing = arena(models=4, prompts=3)
    standing.respond(0, 1, present=False)
    standing.respond(1, 2, present=False)
    need = voter_need(standing, (), only(standing, 1, 2))
    need[0, 1] = need[1, 2] = -np.inf
    need[2, 1] = -np.inf
    field = EligiblePairs.of(standing, standing.sessions.of(1), capped=False, depth=0, need=need)
    assert not field.meets(0, 1)
    assert not field.opponents(0)[1]
    assert field.opponents(0)[2]


def test_propensities_are_those_of_the_restricted_choice():
    """The exploration lane: what was drawn so often has that probability, and the probabilities sum to one."""
    standing, rng = arena(models=4, prompts=5), np.random.default_rng(7)
    standing.respond(3, 1, present=False)
    need = voter_need(standing, (), only(standing, 1, 2))
    field = EligiblePairs.of(standing, standing.sessions.of(1), capped=False, depth=0, need=need)
    drawn, chances = Counter(), {}
    for _ in range(6000):
        draw = draw_exploration(field, rng)
        key = (frozenset((draw.one, draw.other)), draw.prompt)
        drawn[key] += 1
        chances[key] = draw.chance
    assert sum(chances.values()) == pytest.approx(1.0)
    for key, chance in chances.items():
        assert drawn[key] / 6000 == pytest.approx(chance, abs=4.5 * np.sqrt(chance / 6000))
