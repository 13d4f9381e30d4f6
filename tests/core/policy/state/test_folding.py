"""However a log is folded, the same bits come out."""

import json

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from support.arena_logs import Log, assert_same, caches, happen, in_bulk, logs, one_by_one
from support.sizes import sized
from tiltyard.core.policy.state.events import Event
from tiltyard.core.policy.state.policy import Policy
from tiltyard.core.policy.state.standing import Standing
from tiltyard.core.policy.validity.arena_fold import StateCheckpoint, restore, save


@given(logs())
@settings(max_examples=sized(15, 100))
def test_in_bulk_is_one_by_one(log):
    expected = one_by_one(log)
    assert_same(expected, in_bulk(log))
    assert_same(expected, in_bulk(log, least=10**9))


@given(logs(), st.randoms(use_true_random=False))
@settings(max_examples=sized(8, 40))
def test_a_standing_goes_on_from_a_checkpoint(log, random):
    place = random.randint(0, len(log.rows))
    saved = save(one_by_one(log, stop=place))
    through_json = StateCheckpoint(saved.arrays, json.loads(json.dumps(saved.values)))
    assert through_json.digest() == saved.digest()
    restored = restore(through_json)
    assert_same(restored, one_by_one(log, stop=place))
    assert_same(one_by_one(log, restored, start=place), one_by_one(log))
    assert save(restore(saved)).digest() == saved.digest()


@given(logs())
@settings(max_examples=sized(8, 40))
def test_what_is_kept_in_step_is_what_would_be_counted_afresh(log):
    standing = one_by_one(log)
    before = {name: value.copy() for name, value in caches(standing).items()}
    standing.cells.refresh()
    standing._roster_changed()
    for name, value in caches(standing).items():
        np.testing.assert_array_equal(value, before[name], err_msg=name)


@given(logs())
@settings(max_examples=sized(8, 40))
def test_what_is_due_is_never_out_of_date_however_often_one_asks(log):
    standing = log.standing()
    window = standing.window
    for row in log.rows:
        window.due()
        happen(standing, row)
        kept = window.due().target
        window._due = None
        np.testing.assert_array_equal(window.due().target, kept)
        empty = [epoch for epoch, (matchups, _) in window.matchups.items() if not matchups]
        assert empty in ([], [window.epoch]), "a roster whose matchups have all left is forgotten"


@given(logs(most=60), logs(most=60), st.integers(0, 2), st.integers(0, 2))
@settings(max_examples=sized(8, 40))
def test_a_widened_standing_is_one_that_was_wide_from_the_start(small, later, more_models, more_prompts):
    """The first log in its own universe, then widened, then the second log in the larger one."""
    models = tuple(f"m{k}" for k in range(max(len(small.models), len(later.models)) + more_models))
    prompts = tuple(f"p{k}" for k in range(max(len(small.prompts), len(later.prompts)) + more_prompts))
    more = (0, len(models) - len(small.models)), (0, len(prompts) - len(small.prompts))
    wide = Log(small.policy, models, prompts, np.pad(small.answered, more), small.rows + later.rows, {})
    narrow = Log(small.policy, small.models, small.prompts, small.answered, small.rows, {})
    standing = one_by_one(narrow)
    standing.widen(models, prompts)
    assert_same(one_by_one(wide, standing, start=len(small.rows)), one_by_one(wide))
    assert_same(standing, in_bulk(wide))


def test_codes_may_be_numpy_integers():
    plain, numpy = (Standing(Policy(), tuple("ab"), ("x",)) for _ in range(2))
    for standing, kind in ((plain, int), (numpy, np.int32)):
        standing.enable(kind(0))
        standing.enable(kind(1))
        standing.serve(kind(0), kind(1), kind(0), session=kind(7))
        standing.vote(kind(0), kind(1), kind(0), kind(1))
    assert_same(plain, numpy)


def test_an_expiry_that_comes_before_its_matchup_does_nothing():
    rows = [{"event": int(Event.EXPIRE), "serial": 0}]
    rows += [{"event": int(Event.SERVED), "a": 0, "b": 1, "prompt": 0, "lane": 0, "nominal": 0, "serial": 0}]
    log = Log(Policy(), tuple("ab"), ("x",), np.ones((2, 1), dtype=bool), rows, {})
    for standing in (one_by_one(log), in_bulk(log)):
        np.testing.assert_array_equal(standing.window.exposures[0], [1, 1])
    assert_same(one_by_one(log), in_bulk(log))
