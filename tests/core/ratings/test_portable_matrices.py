"""Sums, products and inverses in a fixed order, against NumPy's and loops; and the fit that is made of them."""

import numpy as np
import pytest

from support.worlds import drawn
from tiltyard.core.battles import Kind
from tiltyard.core.ratings import newton
from tiltyard.core.ratings.online_bradley_terry import refit
from tiltyard.core.ratings.pairs import laplacians, pairs_from_points
from tiltyard.core.ratings.portable_functions import invert, subtract_products, sum_rows, weighted_sum


def spd(m, seed=0):
    root = np.random.default_rng(seed).normal(size=(m, m))
    return root @ root.T + np.eye(m)


@pytest.mark.parametrize("n", [1, 2, 3, 7, 32, 33])
def test_rows_are_added_by_halves(n):
    rows = np.random.default_rng(n).normal(size=(n, 4))

    def halved(part):
        if len(part) == 1:
            return part[0]
        half = (len(part) + 1) // 2
        paired = [one + part[half + k] if half + k < len(part) else one for k, one in enumerate(part[:half])]
        return halved(paired)

    assert sum_rows(rows.copy()).tolist() == halved(list(rows)).tolist()
    np.testing.assert_allclose(sum_rows(rows.copy()), rows.sum(axis=0), atol=1e-12)


def test_a_weighted_sum_of_no_rows_is_nought():
    assert weighted_sum(np.zeros(0), np.zeros((0, 3))).tolist() == [0.0, 0.0, 0.0]
    assert weighted_sum(np.array([2.0, 3.0]), np.eye(2)).tolist() == [2.0, 3.0]


@pytest.mark.parametrize("m", [1, 5, 150])
def test_products_are_subtracted_one_after_the_other(m):
    """At 150 models in several blocks."""
    rows = np.random.default_rng(m).normal(size=(9, m))
    matrix = spd(m)
    expected = matrix.copy()
    for row in rows:
        expected = expected - row[:, None] * row
    subtract_products(matrix, rows)
    np.testing.assert_array_equal(matrix, expected)


@pytest.mark.parametrize("m", [1, 2, 32, 33, 70])
def test_an_inverse_is_symmetric_and_that_of_lapack(m):
    matrix = spd(m)
    kept = matrix.copy()
    inverse = invert(matrix)
    np.testing.assert_array_equal(matrix, kept)
    np.testing.assert_array_equal(inverse, inverse.T)
    np.testing.assert_allclose(inverse, np.linalg.inv(matrix), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(
    ("m", "n", "start"),
    [(2, 3, "zero"), (2, 3, "far"), (6, 300, "opposite"), (6, 300, "far"), (40, 2000, "zero")],
)
def test_a_refit_is_newtons_fit_wherever_it_starts(m, n, start):
    """With a covariance that is far too wide, too: it is then computed anew, and steps that go too far are halved."""
    codes = drawn(m, n, seed=1)
    points = np.zeros((m, m))
    for a, b, kind in zip(codes.a, codes.b, codes.kind, strict=True):
        y = {Kind.WIN_A: 1.0, Kind.WIN_B: 0.0}.get(kind, 0.5)
        points[a, b] += y
        points[b, a] += 1.0 - y
    fit = newton.fit_pairs(pairs_from_points(points), prior_precision=0.25)
    begin = {"zero": np.zeros(m), "far": np.linspace(-9.0, 9.0, m), "opposite": -3.0 * fit.theta}[start]
    for covariance in (4.0 * np.eye(m), fit.bread + 4.0 / m):
        mean, found = refit(points, 4.0, begin, covariance)
        np.testing.assert_allclose(mean, fit.theta, atol=1e-8)
        np.testing.assert_allclose(found, fit.bread + 4.0 / m, atol=1e-8)
        assert abs(mean.sum()) < 1e-12


def test_laplacians_are_those_that_loops_make():
    rng = np.random.default_rng(1)
    a = rng.integers(0, 4, 30)
    b, cluster, value = (a + rng.integers(1, 4, 30)) % 4, rng.integers(0, 3, 30), rng.random(30)
    expected = np.zeros((5, 4, 4))
    for row in range(30):
        x = np.eye(4)[a[row]] - np.eye(4)[b[row]]
        expected[cluster[row]] += value[row] * np.outer(x, x)
    np.testing.assert_allclose(laplacians(a, b, value, cluster, (5, 4)), expected, atol=1e-12)
