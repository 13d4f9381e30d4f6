"""The rater: Glicko-2, online Bradley–Terry and Elo after every vote."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.sizes import sized
from tiltyard.core.battles import CodedBattles, Kind
from tiltyard.core.policy.state.rating_fold import Rater, RaterSettings
from tiltyard.core.policy.state.strengths import Strengths
from tiltyard.core.ratings.glicko2 import Glicko2
from tiltyard.errors import BadOption

MODELS = 5

votes = st.lists(
    st.tuples(st.integers(0, MODELS - 1), st.integers(1, MODELS - 1), st.sampled_from(list(Kind))),
    max_size=60,
).map(lambda rows: [(a, (a + step) % MODELS, kind) for a, step, kind in rows])


def codes(rows):
    a, b, kind = (np.array([row[k] for row in rows], dtype=np.int64) for k in range(3))
    return CodedBattles(a, b, kind.astype(np.uint8))


def folded(rows, rater=None):
    rater = rater or Rater(RaterSettings(), MODELS)
    for a, b, kind in rows:
        rater.vote(a, b, kind)
    return rater


@given(rows=votes, stop=st.integers(0, 60))
@settings(max_examples=sized(12, 60), deadline=None)
def test_one_by_one_in_bulk_and_from_a_checkpoint_are_the_same_bits(rows, stop):
    one = folded(rows).to_dict()
    bulk = Rater(RaterSettings(), MODELS)
    bulk.fold(codes(rows))
    assert bulk.to_dict() == one
    saved = json.loads(json.dumps(folded(rows[:stop]).to_dict()))
    assert folded(rows[stop:], Rater.from_dict(RaterSettings(), saved)).to_dict() == one


@given(rows=votes)
@settings(max_examples=sized(8, 40), deadline=None)
def test_glicko_2_is_the_methods_own_fold(rows):
    method = Glicko2(kernel="plain")
    names = tuple("abcde")
    expected = method.fold(method.initial(names), codes(rows))
    state = folded(rows).glicko2(names)
    for name in ("mu", "phi2", "sigma2"):
        assert np.array_equal(getattr(state, name), getattr(expected, name))
    assert (state.models, state.votes, state.kernel) == (names, len(rows), "plain")


@given(rows=votes)
@settings(max_examples=sized(8, 40), deadline=None)
def test_elo_is_the_textbook_with_k_16_and_both_bad_is_a_loss_to_1500(rows):
    elo = [1500.0] * MODELS
    for a, b, kind in rows:
        score = {Kind.WIN_A: 1.0, Kind.WIN_B: 0.0, Kind.LEAN_A: 0.75, Kind.LEAN_B: 0.25}.get(kind.plain, 0.5)
        if kind is Kind.BOTH_BAD:
            elo = [
                r - 16.0 / (1.0 + 10.0 ** ((1500.0 - r) / 400.0)) * (k in (a, b)) for k, r in enumerate(elo)
            ]
        else:
            change = 16.0 * (score - 1.0 / (1.0 + 10.0 ** ((elo[b] - elo[a]) / 400.0)))
            elo[a], elo[b] = elo[a] + change, elo[b] - change
    assert np.allclose(folded(rows).elo, elo, rtol=0.0, atol=1e-9)


def test_both_bad_worked_by_hand():
    # Both lose half of K at 1500; a winner of 1508 then loses 16 / (1 + 10^(−8/400)), and 1492 a little less.
    elo = folded([(0, 1, Kind.BOTH_BAD), (2, 3, Kind.WIN_A), (2, 3, Kind.BOTH_BAD)]).elo
    assert elo.round(6).tolist() == [1492.0, 1492.0, 1499.815826, 1484.184174, 1500.0]
    # A judge's flag is beside its verdict, which is what counts.
    assert folded([(0, 1, Kind.WIN_B_FLAGGED)]).elo.tolist() == folded([(0, 1, Kind.WIN_B)]).elo.tolist()


def test_misorder_is_the_larger_of_the_two_neighbours_of_the_first_places():
    rater = folded([(0, 1, Kind.WIN_A), (1, 2, Kind.TIE), (2, 3, Kind.WIN_A), (0, 4, Kind.WIN_A)] * 6)
    enabled = np.array([True, True, True, True, False])
    strengths = rater.strengths(enabled)
    order = strengths.order(enabled)
    wrong = rater.online.misorder(order[:-1], order[1:])
    for place, model in enumerate(order):
        around = [wrong[k] for k in (place - 1, place) if 0 <= k < len(wrong)]
        assert strengths.misorder[model] == max(around)
    assert strengths.misorder[4] == 0.0
    strengths = folded([(0, 1, Kind.WIN_A)] * 3).strengths(np.ones(MODELS, dtype=bool), neighbours=1)
    assert np.count_nonzero(strengths.misorder) == 2


@pytest.mark.parametrize("enabled", [0, 1])
def test_without_neighbours_nobody_is_misordered(enabled):
    among = np.arange(MODELS) < enabled
    assert not Rater(RaterSettings(), MODELS).strengths(among).misorder.any()


def test_newcomers_start_as_everybody_did_unless_they_are_planted():
    rows = [(0, 1, Kind.WIN_A), (1, 2, Kind.TIE), (2, 0, Kind.WIN_B)] * 4
    small = folded(rows, Rater(RaterSettings(), 3))
    small.widen(MODELS)
    large = folded(rows)
    assert small.glicko2(()).rating.tolist() == large.glicko2(()).rating.tolist()
    assert small.elo.tolist() == large.elo.tolist()
    small.vote(3, 4, Kind.WIN_A)
    assert small.online.rating[3] > small.online.rating[4]
    rater = Rater(RaterSettings(), 3)
    rater.start_at_rating(1, 1100.0)
    assert math.isclose(rater.glicko2(()).rating[1], 1100.0)


def test_only_the_plain_kernel_folds_single_votes():
    with pytest.raises(BadOption, match="plain"):
        RaterSettings(glicko2=Glicko2(kernel="compiled"))


def test_four_hundred_points_are_odds_of_ten_to_one_and_no_gap_overflows():
    strengths = replace(Strengths.unknown(3), rating=np.array([1900.0, 1500.0, -1e9]))
    np.testing.assert_allclose(strengths.expected(0), [0.5, 10 / 11, 1.0])
    np.testing.assert_allclose(strengths.expected(1), [1 / 11, 0.5, 1.0])
