"""The smallest arenas, the hostile calls, and what is refused."""

import numpy as np
import pytest

from support.arena_logs import assert_same
from tiltyard.core.battles import Kind
from tiltyard.core.policy.state import standing
from tiltyard.core.policy.state.events import NO_SESSION, Event, Events
from tiltyard.core.policy.state.pair_counts import PairCells, pair_key, unpack_pair_key
from tiltyard.core.policy.state.policy import Policy
from tiltyard.core.policy.state.standing import Standing
from tiltyard.core.policy.validity.fold_state import restore, save
from tiltyard.errors import BadOption


def arena(models="ab", prompts="x", **policy):
    standing = Standing(Policy(**policy), tuple(models), tuple(prompts))
    for code in range(len(models)):
        standing.enable(code)
    return standing


def test_nobody_and_nothing_is_a_standing_too():
    empty = Standing(Policy(), (), ())
    assert_same(restore(save(empty)), empty)
    empty.fold(Events.of([]))
    empty.widen(("a", "b"), ("x",))
    assert empty.cells.coverage().shape == (2,)
    assert np.isnan(empty.cells.coverage()).all()
    assert_same(empty, Standing(Policy(), ("a", "b"), ("x",), np.zeros((2, 1), dtype=bool)))


@pytest.mark.parametrize("serial", [-(10**9), -1, 0, 4, 10**9])
def test_an_expiry_of_what_the_window_does_not_hold_changes_nothing(serial):
    standing = arena(window=3)
    for _ in range(4):
        standing.serve(0, 1, 0)
    standing.expire(serial)
    np.testing.assert_array_equal(standing.window.exposures[0], [3, 3])


def test_enabling_twice_opens_one_epoch():
    standing = arena()
    epoch = standing.window.epoch
    standing.enable(0)
    standing.respond(0, 0)
    assert standing.window.epoch == epoch


def test_a_pair_has_one_key_from_both_sides_at_any_width():
    for one, other in ((0, 1), (5, 3), (2**20 - 2, 2**20 - 1)):
        assert pair_key(one, other) == pair_key(other, one)
        assert unpack_pair_key(pair_key(one, other)) == (min(one, other), max(one, other))
    assert pair_key(np.int32(5000), np.int32(4000)) == pair_key(5000, 4000)


def columns(prompts, tally):
    return tuple(np.array(column, dtype=np.uint32).tobytes() for column in (prompts, tally))


def test_cells_of_a_pair_are_made_of_columns_and_laid_out():
    cells = PairCells()
    cells.put(*columns([1, 4], [[1, 0, 0, 0], [0, 2, 0, 1]]))
    assert cells.attempts()[1].tolist() == [1, 3]
    assert cells.least() == 1
    assert cells.vote(2, 0) == (True, 0)
    assert cells.vote(4, 0) == (False, 3)
    assert cells.prompts.tolist() == [1, 2, 4]
    cells = PairCells()
    assert cells.dense_attempts(16) is None
    for prompt in (3, 1, 3):
        cells.vote(prompt, 0)
    assert cells.dense_attempts(16).tolist() == [0, 1, 0, 2] + [0] * 12
    cells.vote(15, 3)
    assert cells.dense_attempts(16).tolist() == [0, 1, 0, 2] + [0] * 11 + [1]
    cells.vote(20, 2)
    assert cells.dense_attempts(24).tolist() == [0, 1, 0, 2] + [0] * 11 + [1] + [0] * 4 + [1] + [0] * 3
    cells.put(*columns([0, 5], [[1, 0, 0, 0], [0, 2, 1, 0]]))
    assert cells.dense_attempts(8).tolist() == [1, 0, 0, 0, 0, 3, 0, 0]


def test_an_unknown_kind_of_vote_is_refused_and_never_a_tie():
    for kind in (-1, 13):
        with pytest.raises(KeyError):
            arena().vote(0, 1, 0, kind)
    votes = Events.of([{"event": Event.VOTE, "b": 1, "kind": 13}] * standing._BULK_EVENTS)
    with pytest.raises(IndexError):
        arena().fold(votes)


def test_who_has_answered_what_must_fit():
    with pytest.raises(BadOption, match="answered has shape"):
        Standing(Policy(), tuple("ab"), ("x",), np.ones((1, 1), dtype=bool))


@pytest.mark.parametrize(
    ("models", "prompts"), [("a", "xy"), ("ba", "xy"), ("abc", "x"), ("abc", "yx"), ("", "")]
)
def test_a_standing_never_shrinks_or_renames(models, prompts):
    with pytest.raises(BadOption, match="can only grow"):
        arena("ab", "xy").widen(tuple(models), tuple(prompts))


def test_runs_of_events_are_joined_end_to_end():
    assert len(Events.joined([])) == 0
    one = Events.of([{"event": Event.SKIP}, {"event": Event.EXPIRE, "serial": 4}])
    both = Events.joined([one, one[1:]])
    assert both.serial.tolist() == [0, 4, 4]
    assert both.session.tolist() == [NO_SESSION] * 3
    assert [row["event"] for row in both.rows()] == [Event.SKIP, Event.EXPIRE, Event.EXPIRE]


def test_a_checkpoint_is_a_copy():
    standing = arena()
    saved = save(standing)
    before = saved.digest()
    standing.serve(0, 1, 0)
    standing.vote(0, 1, 0, Kind.WIN_A)
    standing.strengths.rating[:] = 0.0
    assert saved.digest() == before
    assert save(standing).digest() != before


def test_a_window_names_the_matchups_that_it_counts():
    window = arena("abc", window=200).window
    for serial in (5, 3, 9):
        window.serve(0, 1, contender=False, serial=serial)
    window.expire(3)
    window.expire(4)
    assert sorted(window.serials().tolist()) == [5, 9]
