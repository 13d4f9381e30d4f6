"""The coverage heatmap: prompts and opponents by deficit, of bounded size."""

import numpy as np
from hypothesis import given

from support.told_arenas import BAD, A, arena, arenas, strengthen
from tiltyard.core.policy.state.policy import Policy
from tiltyard.core.policy.validity.model_record import coverage_heatmap, opponent_deficits, prompt_deficits

POLICY = Policy(contenders=1)


def example():
    """m2 of four: a full prompt, a half one, an exhausted one, an empty one; m3 is retired."""
    votes = [(2, 0, 0, A)] * 2 + [(2, 1, 1, A)] + [(2, 1, 2, BAD)] * 6
    standing = arena(5, 4, votes, policy=POLICY, retired=[3])
    return strengthen(standing, [1700, 1600, 1400, 1450, 1500])


def test_deficits_follow_the_floors_of_prompts_bands_and_neighbours():
    assert prompt_deficits(example(), 2).tolist() == [0.0, 0.5, 0.0, 1.0]
    standing = strengthen(example(), [1300, 1600, 1700, 1450, 1500])
    assert prompt_deficits(standing, 2).tolist() == [0.5, 0.75, 1.0, 1.0]
    # Order m0, m1, m4, m2: m4 is m2's neighbour.
    assert opponent_deficits(example(), 2).tolist()[:2] == [0.0, 0.5]
    assert opponent_deficits(example(), 2)[4] == 1.0
    assert np.isnan(opponent_deficits(example(), 2)[[2, 3]]).all()
    standing = strengthen(example(), [1410, 1600, 1400, 1450, 1500])
    assert opponent_deficits(standing, 2)[0] == 1.0 - 1 / 6
    standing = strengthen(arena(2, 2, [(0, 1, k % 2, BAD) for k in range(36)]), [1600, 1500])
    assert opponent_deficits(standing, 0)[1] == 0.0


def test_the_largest_deficits_come_first_and_what_is_left_out_is_counted():
    found = coverage_heatmap(example(), 2, most_prompts=2, most_opponents=2)
    assert found.prompts == (3, 1)
    assert found.opponents == (4, 1)
    assert found.prompt_deficit == (1.0, 0.5)
    assert found.opponent_deficit == (1.0, 0.5)
    assert found.deficit == ((1.0, 0.75), (0.75, 0.5))
    assert found.votes == ((0, 0), (0, 1))
    assert (found.prompts_left_out, found.opponents_left_out) == (2, 1)


def test_models_that_cannot_meet_on_a_prompt_have_no_cell():
    answered = np.ones((3, 2), dtype=bool)
    answered[1, 0] = False
    found = coverage_heatmap(arena(3, 2, answered=answered), 0)
    column = found.opponents.index(1)
    assert found.deficit[found.prompts.index(0)][column] is None
    assert found.deficit[found.prompts.index(1)][column] is not None


def test_a_model_alone_has_an_empty_map():
    found = coverage_heatmap(arena(1, 3), 0)
    assert (found.prompts, found.opponents, found.deficit) == ((), (), ())


@given(arenas())
def test_deficits_lie_within_0_and_1_and_votes_are_those_of_the_pair(standing):
    for model in range(len(standing.models)):
        found = coverage_heatmap(standing, model, most_prompts=3, most_opponents=2)
        assert len(found.prompts) <= 3
        assert len(found.opponents) <= 2
        for line in found.deficit:
            assert all(value is None or 0.0 <= value <= 1.0 for value in line)
        whole = coverage_heatmap(standing, model)
        for column, other in enumerate(whole.opponents):
            told = sum(line[column] for line in whole.votes)
            assert told <= standing.meetings.attempts[model, other]
