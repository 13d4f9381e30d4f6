"""What limits the choice for one voter: what they can judge, what they were told, and which models rest."""

from collections import Counter

import numpy as np
import pytest

from support.sizes import sized
from tiltyard.core.policy.matchmaking.eligible_pairs import EligiblePairs, has_servable_pair, voter_need
from tiltyard.core.policy.matchmaking.lanes import exploration_draws
from tiltyard.core.policy.matchmaking.matchmaker import choose, fallback_fields
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
    for _ in range(30):
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


def test_propensities_are_those_of_the_restricted_choice():
    """The exploration lane: what was drawn so often has that probability, and the probabilities sum to one."""
    standing, rng = arena(models=4, prompts=5), np.random.default_rng(7)
    standing.respond(3, 1, present=False)
    need = voter_need(standing, (), only(standing, 1, 2))
    field = EligiblePairs.of(standing, standing.sessions.of(1), capped=False, depth=0, need=need)
    drawn, chances = Counter(), {}
    draws = sized(2500, 6000)
    for _ in range(draws):
        draw = next(exploration_draws(field, rng))
        key = (frozenset((draw.one, draw.other)), draw.prompt)
        drawn[key] += 1
        chances[key] = draw.chance
    assert sum(chances.values()) == pytest.approx(1.0)
    for key, chance in chances.items():
        assert drawn[key] / draws == pytest.approx(chance, abs=4.5 * np.sqrt(chance / draws))


# What a voter was told comes last: after every other rule of matchmaking was given up


def test_nothing_told_leaves_the_needs_as_they_are():
    standing = arena(4, 3)
    assert voter_need(standing, []) is standing.cells.need
    need = voter_need(standing, [(0, 1), (3, 2)])
    assert need[0, 1] == need[3, 2] == -np.inf
    assert np.isfinite(standing.cells.need).all()
    assert has_servable_pair(need)
    assert not has_servable_pair(need[:1])


@pytest.mark.parametrize("phase", [1, 4])
def test_the_last_unknown_pair_is_served_whatever_it_costs(phase):
    """By then the pair was just seen, on this prompt, and too often; both models have had their share."""
    standing = arena(4, 3, phase=phase, window=10, settling=1)
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
    standing = arena(4, 3, phase=phase)
    told = [(model, prompt) for model in range(4) for prompt in range(3) if model]
    choice = choose(standing, np.random.default_rng(1), session=1, told=told)
    assert choice.given_up[-1] == "blind"
    assert choose(standing, np.random.default_rng(1), session=1).given_up == ()


def test_told_responses_of_a_model_that_has_had_its_share_are_no_pair():
    """The only unknown pair is over its share: the capped fields are passed over, the others come."""
    standing = arena(4, 3, window=10, settling=1)
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
    standing = arena(4, 3, phase=phase)
    told = [(model, prompt) for model in range(4) for prompt in range(3) if prompt or model > 1]
    found = fallback_fields(standing, standing.sessions.of(1), told)
    assert [relaxed for field, relaxed in found if field.repeats] == [given_up]


# Models that cannot answer at present are passed over, and never served, whatever else is given up


def test_needs_of_resting_models_are_none():
    standing = arena(5, 2)
    need = voter_need(standing, [], None, [1, 3])
    assert (need[[1, 3]] == -np.inf).all()
    assert np.isfinite(need[[0, 2, 4]]).all()
    assert np.isfinite(standing.cells.need).all()


@pytest.mark.parametrize(("phase", "free_prompts"), [(1, True), (4, False), (4, True)])
def test_who_rests_is_not_served_and_the_others_all_are(phase, free_prompts):
    standing, rng = (
        arena(5, 2, phase=phase, free_prompts=free_prompts, window=20, settling=1),
        np.random.default_rng(2),
    )
    met = Counter()
    for k in range(80):
        choice = choose(
            standing,
            rng,
            session=k % 3,
            judgeable=np.array([True, False]),
            resting=[0, 2],
            told=[(1, 0)][: k % 2],
        )
        standing.serve(choice.left, choice.right, choice.prompt, session=k % 3, serial=k)
        assert choice.prompt == 0
        assert 0 < choice.propensity <= 1
        met.update((choice.left, choice.right))
    assert set(met) == {1, 3, 4}
    assert min(met.values()) > 12


def test_with_one_model_left_the_voter_is_told_to_come_back():
    with pytest.raises(NoMatchup, match="few minutes"):
        choose(arena(3, 2), np.random.default_rng(1), resting=[0, 1])
