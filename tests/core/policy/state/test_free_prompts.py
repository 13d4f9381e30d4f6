"""Prompts that voters write: categories are served and covered, prompts are compared on."""

import numpy as np
import pytest

from tiltyard.core.battles import Kind
from tiltyard.core.policy.state.events import NO_FREE_PROMPT, Event, Events
from tiltyard.core.policy.state.policy import Policy
from tiltyard.core.policy.state.standing import Standing
from tiltyard.core.policy.validity.fold_state import restore, save
from tiltyard.errors import BadOption

FREE = Policy(free_prompts=True)


def arena(categories=("any", "coding"), models=3):
    standing = Standing(FREE, [f"m{k}" for k in range(models)], categories)
    for model in range(models):
        standing.enable(model)
    return standing


def test_a_column_that_is_not_given_names_no_prompt():
    given = Events.of(
        [{"event": Event.VOTE, "prompt": 1}, {"event": Event.VOTE, "free_prompt": 4, "prompt": 1}]
    )
    assert given.free_prompt.tolist() == [NO_FREE_PROMPT, 4]
    assert given.compared_on.tolist() == [1, 4]
    columns = {name: getattr(given, name) for name in Events.__slots__ if name != "free_prompt"}
    bare = Events(**columns)
    assert bare.free_prompt.tolist() == [NO_FREE_PROMPT] * 2
    assert Events.joined([bare, given[1:]]).free_prompt.tolist() == [0, 0, 4]


def test_a_policy_with_free_prompts_is_written_and_asks_for_as_many_prompts():
    assert "free_prompts" not in Policy().to_dict()
    assert FREE.to_dict()["free_prompts"] is True
    assert Policy(**FREE.to_dict()) == FREE
    assert Policy(**Policy().to_dict()) == Policy()
    standing = Standing(Policy(), ["a", "b"], ["p"])
    assert standing.prompt_meetings is standing.meetings
    assert standing.compared_prompts == ("p",)
    standing = arena(["any"])
    assert standing.prompts_needed(0, 1) == 6
    standing.retire(1)
    assert standing.prompts_needed(0, 1) == 0


@pytest.mark.parametrize(("number", "bulk"), [(0, 1), (-1, 200), (2**32, 200)])
def test_a_vote_without_its_prompt_is_refused_before_anything_is_counted(number, bulk):
    standing = arena()
    before = save(standing).digest()
    vote = {"event": Event.VOTE, "a": 0, "b": 1}
    with pytest.raises(BadOption, match=str(number)):
        standing.fold(Events.of([vote | {"free_prompt": 1}] * (bulk - 1) + [vote | {"free_prompt": number}]))
    with pytest.raises(BadOption, match="number"):
        standing.vote(0, 1, 0, Kind.WIN_A, free_prompt=number)
    assert save(standing).digest() == before


def test_more_models_and_categories_may_come():
    standing = arena()
    standing.vote(0, 1, 1, Kind.WIN_A, free_prompt=5)
    standing.widen(["m0", "m1", "m2", "m3"], ["any", "coding", "prose"])
    standing.enable(3)
    standing.respond(3, 2)
    standing.vote(3, 1, 2, Kind.WIN_A, free_prompt=5)
    again = restore(save(standing))
    for counts in (standing.prompt_meetings, again.prompt_meetings):
        assert counts.prompts[3, 1] == counts.prompts[0, 1] == 1
    assert np.array_equal(again.prompt_meetings.attempts, standing.meetings.attempts)
