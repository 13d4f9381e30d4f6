"""The log of votes: every vote in its order, with its voter, in few bytes."""

import numpy as np
import pytest

from tiltyard.core.battles import Kind
from tiltyard.core.policy.state.events import NO_FREE_PROMPT, NO_SESSION, Event, Events
from tiltyard.core.policy.state.policy import Policy
from tiltyard.core.policy.state.standing import NEVER_ARRIVED_VOTES, Standing
from tiltyard.core.policy.state.vote_log import VoteLog
from tiltyard.core.policy.validity.arena_fold import restore, save
from tiltyard.errors import BadOption


def some(n, seed=0):
    rng = np.random.default_rng(seed)
    a = rng.integers(0, 3, n)
    return a, (a + 1) % 3, rng.integers(0, 5, n), rng.integers(-1, 9, n), rng.integers(0, 4, n)


@pytest.mark.parametrize("n", [0, 1, 256, 257, 2000])
def test_one_by_one_and_together_are_the_same_columns(n):
    one, together = VoteLog(), VoteLog()
    for vote in zip(*(column.tolist() for column in some(n)), strict=True):
        one.add(*vote)
    half = n // 2
    together.add_many(*(column[:half] for column in some(n)))
    together.add_many(*(column[half:] for column in some(n)))
    assert len(one) == len(together) == n
    for name, column in one.columns().items():
        assert column.tolist() == together.columns()[name].tolist(), name
    again = VoteLog.of(one.columns())
    assert all((again.columns()[name] == column).all() for name, column in one.columns().items())


def test_a_vote_takes_at_most_27_bytes():
    log = VoteLog()
    for vote in zip(*(column.tolist() for column in some(5000)), strict=True):
        log.add(*vote)
    assert sum(column.base.nbytes for column in log.columns().values()) <= 27 * len(log)


def test_a_table_names_models_prompts_and_voters_as_far_as_they_are_known():
    log = VoteLog()
    log.add(0, 1, 2, 7, Kind.WIN_A)
    log.add(1, 0, 2, NO_SESSION, Kind.TIE)
    log.add(1, 0, 0, 7, Kind.WIN_B)
    table = log.table(["zoe", "abe"], ["p", "q", "r"])
    battles = table.log()
    assert table.models == ("abe", "zoe")
    assert battles.a.tolist() == [1, 0, 0]
    assert battles.kind.tolist() == [Kind.WIN_A, Kind.TIE, Kind.WIN_B]
    assert (battles.prompt == battles.prompt[0]).tolist() == [True, True, False]
    assert (battles.voter == battles.voter[0]).tolist() == [True, False, True]
    assert battles.voter[1] == 0
    assert len(log.table(["zoe", "abe"], ["p", "q", "r"], 2).log()) == 2
    log = VoteLog()
    for prompt in (7, 7, 2**32 - 1):
        log.add(0, 1, prompt, 1, Kind.WIN_A)
    assert log.table(["a", "b"], None).log().prompt.tolist() == [7, 7, 2**32 - 1]
    log = VoteLog()
    log.add(0, 1, 0, NO_SESSION, Kind.WIN_A)
    assert log.table(["a", "b"], ["p"]).log().voter is None


def test_a_standing_that_forgot_its_votes_counts_on_without_them():
    standing = Standing(Policy(), ["a", "b"], ["p"])
    standing.vote(0, 1, 0, Kind.WIN_A, 4)
    assert restore(save(standing)).vote_log.columns()["session"].tolist() == [4]
    standing.forget_votes()
    standing.vote(0, 1, 0, Kind.WIN_A)
    standing.fold(Events.of([{"event": Event.VOTE, "a": 0, "b": 1}] * 100))
    assert standing.votes == 102
    assert restore(save(standing)).vote_log is None


@pytest.mark.parametrize("bulk", [0, 200])
def test_a_model_arrives_when_it_is_first_enabled(bulk):
    standing = Standing(Policy(), ["a", "b", "c", "d"], ["p"])
    vote = {"event": Event.VOTE, "a": 0, "b": 1}
    rows = [{"event": Event.ENABLE, "a": 0}, {"event": Event.ENABLE, "a": 1}, vote, vote]
    rows += [{"event": Event.ENABLE, "a": 2}, vote, {"event": Event.RETIRE, "a": 2}, vote]
    rows += [{"event": Event.ENABLE, "a": 2}, *([vote] * bulk)]
    standing.fold(Events.of(rows))
    assert standing.arrived.tolist() == [0, 0, 2, NEVER_ARRIVED_VOTES]
    standing.widen(["a", "b", "c", "d", "e"], ["p"])
    assert standing.arrived.tolist() == [0, 0, 2, NEVER_ARRIVED_VOTES, NEVER_ARRIVED_VOTES]
    assert restore(save(standing)).arrived.tolist() == standing.arrived.tolist()


# Prompts that voters write: categories are served and covered, prompts are compared on.


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
