import json
import math
from datetime import datetime
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.worlds import drawn, names, rows, table, told
from tiltyard.core.battles import Kind
from tiltyard.core.ratings import Glicko2, Glicko2State
from tiltyard.core.ratings.kernels.glicko2 import fold_votes
from tiltyard.core.ratings.pairs import Scoring
from tiltyard.errors import BadOption, CannotRate

POINTS = 173.7178
PLAIN = Glicko2(kernel="plain")
TEXTBOOK = Glicko2(initial_volatility=0.06, kernel="plain")


def rate_period(rating, rd, volatility, opponents, *, tau=0.5):
    """One model's rating period with any number of games, in the steps of Glickman (2013).

    ``opponents`` are (rating, RD, score). `Glicko2` is the case of one game per period.
    """
    mu, phi = (rating - 1500.0) / POINTS, rd / POINTS
    precision = gain = 0.0
    for other, other_rd, score in opponents:
        phi_j = other_rd / POINTS
        g = 1.0 / math.sqrt(1.0 + 3.0 * phi_j**2 / math.pi**2)
        e = 1.0 / (1.0 + math.exp(-g * (mu - (other - 1500.0) / POINTS)))
        precision += g * g * e * (1.0 - e)
        gain += g * (score - e)
    v = 1.0 / precision
    sigma = _volatility(v * gain, phi, v, volatility, tau)
    phi_new = 1.0 / math.sqrt(1.0 / (phi**2 + sigma**2) + 1.0 / v)
    return (mu + phi_new**2 * gain) * POINTS + 1500.0, phi_new * POINTS, sigma


def _volatility(delta, phi, v, sigma, tau):
    """Step 5: the root of f by the Illinois form of false position."""
    anchor = math.log(sigma**2)

    def f(x):
        ex = math.exp(x)
        d = phi**2 + v + ex
        return ex * (delta**2 - d) / (2.0 * d**2) - (x - anchor) / tau**2

    low = anchor
    if delta**2 > phi**2 + v:
        high = math.log(delta**2 - phi**2 - v)
    else:
        steps = 1
        while f(anchor - steps * tau) < 0:
            steps += 1
        high = anchor - steps * tau
    f_low, f_high = f(low), f(high)
    while abs(high - low) > 1e-9:
        middle = low + (low - high) * f_low / (f_high - f_low)
        f_middle = f(middle)
        if f_middle * f_high <= 0:
            low, f_low = high, f_high
        else:
            f_low /= 2.0
        high, f_high = middle, f_middle
    return math.exp(low / 2.0)


def test_the_example_of_the_paper():
    """Glickman, "Example of the Glicko-2 system" (2013); he rounds on the way."""
    opponents = [(1400.0, 30.0, 1.0), (1550.0, 100.0, 0.0), (1700.0, 300.0, 0.0)]
    rating, rd, volatility = rate_period(1500.0, 200.0, 0.06, opponents, tau=0.5)
    assert rating == pytest.approx(1464.06, abs=0.02)
    assert rd == pytest.approx(151.52, abs=0.005)
    assert volatility == pytest.approx(0.05999, abs=1e-5)


def volatility_equation(rating, rd, before, other, other_rd, score, tau, after):
    """f(ln σ²) of step 5 at the volatility found: nought at its root."""
    mu, phi, mu_j, phi_j = (
        (rating - 1500) / 173.7178,
        rd / 173.7178,
        (other - 1500) / 173.7178,
        other_rd / 173.7178,
    )
    g = 1.0 / np.sqrt(1.0 + 3.0 * phi_j**2 / np.pi**2)
    e = 1.0 / (1.0 + np.exp(-g * (mu - mu_j)))
    v = 1.0 / (g * g * e * (1.0 - e))
    delta = v * g * (score - e)
    ex = after**2
    d = phi**2 + v + ex
    return ex * (delta**2 - d) / (2.0 * d**2) - (np.log(ex) - np.log(before**2)) / tau**2


def folded(rating, rd, volatility, other, other_rd, score, tau):
    """Rating, RD and volatility of the first of two models after one vote."""
    mu, phi2 = (np.array([rating, other]) - 1500.0) / POINTS, (np.array([rd, other_rd]) / POINTS) ** 2
    sigma2 = np.full(2, volatility**2)
    fold_votes(np.array([0]), np.array([1]), np.array([score]), mu, phi2, sigma2, tau, 0.0)
    return 1500.0 + POINTS * mu[0], POINTS * np.sqrt(phi2[0]), np.sqrt(sigma2[0])


@given(
    rating=st.floats(500.0, 2500.0),
    rd=st.floats(10.0, 350.0),
    volatility=st.floats(0.001, 0.2),
    other=st.floats(500.0, 2500.0),
    other_rd=st.floats(10.0, 350.0),
    score=st.sampled_from([0.0, 0.25, 0.5, 1.0]),
    tau=st.floats(0.2, 1.2),
)
def test_one_vote_is_a_period_of_one_game(rating, rd, volatility, other, other_rd, score, tau):
    period = rate_period(rating, rd, volatility, [(other, other_rd, score)], tau=tau)
    after = folded(rating, rd, volatility, other, other_rd, score, tau)
    np.testing.assert_allclose(after, period, rtol=1e-8)
    equation = volatility_equation(rating, rd, volatility, other, other_rd, score, tau, after[2])
    assert equation == pytest.approx(0.0, abs=1e-8)


@pytest.mark.parametrize(("volatility", "tau"), [(100.0, 3.0), (100.0, 30.0), (1e-9, 0.5), (5.0, 5.0)])
def test_the_volatility_is_found_far_from_where_it_started(volatility, tau):
    _, _, after = rate_period(1500.0, 50.0, volatility, [(1500.0, 50.0, 1.0)], tau=tau)
    assert volatility_equation(1500.0, 50.0, volatility, 1500.0, 50.0, 1.0, tau, after) == pytest.approx(
        0.0, abs=1e-8
    )
    assert folded(1500.0, 50.0, volatility, 1500.0, 50.0, 1.0, tau)[2] == pytest.approx(after, rel=1e-8)


@pytest.mark.parametrize(
    "method", [PLAIN, TEXTBOOK, Glicko2(tau=1.0, initial_volatility=0.1, kernel="plain")]
)
def test_folding_is_the_paper_vote_by_vote(method):
    codes = drawn(5, 300, 3, judged=True)
    codes.kind[::50] = Kind.BOTH_BAD
    result = method(table(codes))
    state = [(method.start, method.initial_rd, method.initial_volatility)] * 5
    score = Scoring().of(codes)
    for vote in np.flatnonzero(~np.isnan(score)):
        a, b, y = int(codes.a[vote]), int(codes.b[vote]), float(score[vote])
        one, other = state[a], state[b]
        state[a] = rate_period(*one, [(*other[:2], y)], tau=method.tau)
        state[b] = rate_period(*other, [(*one[:2], 1.0 - y)], tau=method.tau)
    rating, rd, volatility = np.array(state).T
    np.testing.assert_allclose(result.rating, rating, rtol=0, atol=1e-5)
    np.testing.assert_allclose(result.extras["rd"], rd, rtol=0, atol=1e-5)
    np.testing.assert_allclose(result.extras["volatility"], volatility, rtol=1e-7)


@pytest.mark.parametrize("volatility", [0.06, 0.003])
def test_elote_agrees_vote_by_vote(volatility):
    from elote import Glicko2Competitor

    class Exact(Glicko2Competitor):
        _epsilon = 1e-13

    codes = drawn(6, 400, 4)
    players = [Exact(initial_volatility=volatility) for _ in range(6)]
    moment = datetime(2024, 1, 1)
    for a, b, kind in zip(codes.a, codes.b, codes.kind, strict=True):
        if kind == Kind.TIE:
            players[a].tied(players[b], match_time=moment)
        else:
            winner, loser = (a, b) if kind == Kind.WIN_A else (b, a)
            players[winner].beat(players[loser], match_time=moment)
    result = Glicko2(initial_volatility=volatility, kernel="plain")(table(codes))
    np.testing.assert_allclose(result.rating, [player.rating for player in players], rtol=0, atol=1e-5)
    np.testing.assert_allclose(result.extras["rd"], [player.rd for player in players], rtol=0, atol=1e-5)
    volatilities = [player.volatility for player in players]
    np.testing.assert_allclose(result.extras["volatility"], volatilities, rtol=0, atol=1e-8)


def test_the_compiled_kernel_gives_the_same_numbers():
    world = table(drawn(8, 2000, 5, judged=True))
    plain, fast = PLAIN(world), Glicko2(kernel="compiled")(world)
    assert (plain.extras["kernel"], fast.extras["kernel"]) == ("plain", "compiled")
    np.testing.assert_allclose(fast.rating, plain.rating, rtol=0, atol=1e-9)
    np.testing.assert_allclose(fast.extras["rd"], plain.extras["rd"], rtol=0, atol=1e-9)
    np.testing.assert_allclose(fast.extras["volatility"], plain.extras["volatility"], rtol=1e-9)


# State in, state out


@pytest.mark.parametrize("kernel", ["plain", "compiled"])
@given(stops=st.lists(st.integers(0, 120), max_size=4))
def test_a_fold_may_stop_anywhere_be_saved_and_go_on_to_the_same_bits(kernel, stops):
    codes, method = drawn(4, 120, 6), Glicko2(kernel=kernel)
    whole = method.fold(method.initial(names(4)), codes)
    state = method.initial(names(4))
    for first, until in pairwise([0, *sorted(stops), 120]):
        state = method.fold(state, rows(codes, np.arange(first, until)))
        state = Glicko2State.from_dict(json.loads(json.dumps(state.to_dict())))
    assert state.votes == whole.votes == 120
    for name in ("rating", "rd", "volatility"):
        np.testing.assert_array_equal(getattr(state, name), getattr(whole, name))


def test_a_state_goes_on_with_its_own_kernel_only():
    state = PLAIN.initial(names(4))
    with pytest.raises(CannotRate, match="plain kernel"):
        Glicko2(kernel="compiled").fold(state, drawn(4))
    assert Glicko2().fold(state, drawn(4)).kernel == "plain"


def test_the_table_is_folded_as_its_log():
    world = table(drawn(4))
    result = PLAIN(world)
    state = PLAIN.fold(PLAIN.initial(world.models), world.log())
    np.testing.assert_array_equal(result.rating, state.rating)
    np.testing.assert_array_equal(result.extras["state"].rd, state.rd)
    np.testing.assert_array_equal(state.conservative(), state.rating - 2.0 * state.rd)
    assert (result.interval, result.uncertainty) == (None, None)


def test_the_deviation_shrinks_and_stops_at_its_floor():
    codes = drawn(3, 600)
    free, held = (Glicko2(rd_floor=floor, kernel="plain")(table(codes)).extras["rd"] for floor in (0.0, 60.0))
    assert (free < 60.0).all()
    assert (held >= 60.0).all()
    assert held.min() == pytest.approx(60.0)


def test_dropped_ties_leave_those_who_only_tied_unrated():
    result = Glicko2(ties="drop")(told("a>b b=c*40"))
    assert np.isnan(result.rating[2])
    assert result.group.tolist() == [0, 0, -1]


@pytest.mark.parametrize(
    "options",
    [
        {"initial_rd": 0},
        {"initial_volatility": 0},
        {"tau": 0},
        {"rd_floor": -1},
        {"ties": "half-win"},
        {"lean": 2},
    ],
)
def test_options_that_make_no_sense_are_refused(options):
    with pytest.raises(BadOption):
        Glicko2(**options)


def test_weights_have_no_place_here_and_that_is_said():
    worlds = ({}, {"soft": True}, {"weighted": True})
    plain, stated, weighted = (PLAIN(table(drawn(4, 60, 9, **world))).findings for world in worlds)
    assert "weights-ignored" not in {finding.name for finding in (*plain, *stated)}
    assert "weights-ignored" in {finding.name for finding in weighted}
