"""Functions, sums and matrices of folded state in basic operations alone: the same bits on every machine.

Addition, multiplication, division and square root are rounded alike everywhere (IEEE 754), and Python and NumPy do
them one at a time. `exp`, `log` and `pow` of libraries are not: their last bit changes with the processor. Linear
algebra libraries are tuned to the processor and to the number of threads, and add in other orders: here every sum has
one order, that of its shape, and every product is rounded before it is added. A fold that uses what is here instead can
be continued, and verified, on another machine.
"""

from __future__ import annotations

import math

import numpy as np

from tiltyard.core.ratings.kernels.exponential import (
    LN_2_HIGH,
    LN_2_LOW,
    ROOT_TAILS,
    ROOTS,
    STEPS_PER_LOGIT,
    exp,
)
from tiltyard.foundation.arrays import Floats

#: The number of rows whose products are subtracted together. Reading a row of the matrix takes as many products,
#: and subtracting them together is faster than one by one.
PENDING_ROWS = 32
#: Numbers of the matrix that are worked on at once: they stay in the processor's cache.
_BLOCK_CELLS = 16_384
#: ln 10, the nearest number: points of Elo are 400 to a factor of ten.
LN_10 = 2.302585092994046
_ROOTS, _ROOT_TAILS = np.array(ROOTS), np.array(ROOT_TAILS)
_LN_2_HIGH, _LN_2_LOW = 32.0 * LN_2_HIGH, 32.0 * LN_2_LOW
#: e^x is nought below.
_LEAST_LOGITS = -746.0
#: Terms of the series of the logarithm: s is below 0.172, and s²³ below 10⁻¹⁷.
_LOG_TERM_COUNT = 11
#: Cody's rational approximations of erf and erfc on three intervals, highest power first: numerator, denominator.
_ERF_MIDDLE = (
    (
        1.85777706184603153e-1,
        3.16112374387056560e0,
        1.13864154151050156e2,
        3.77485237685302021e2,
        3.20937758913846947e3,
    ),
    (1.0, 2.36012909523441209e1, 2.44024637934444173e2, 1.28261652607737228e3, 2.84423683343917062e3),
)
_ERFC_NEAR = (
    (
        2.15311535474403846e-8,
        5.64188496988670089e-1,
        8.88314979438837594e0,
        6.61191906371416295e1,
        2.98635138197400131e2,
        8.81952221241769090e2,
        1.71204761263407058e3,
        2.05107837782607147e3,
        1.23033935479799725e3,
    ),
    (
        1.0,
        1.57449261107098347e1,
        1.17693950891312499e2,
        5.37181101862009858e2,
        1.62138957456669019e3,
        3.29079923573345963e3,
        4.36261909014324716e3,
        3.43936767414372164e3,
        1.23033935480374942e3,
    ),
)
_ERFC_FAR = (
    (
        1.63153871373020978e-2,
        3.05326634961232344e-1,
        3.60344899949804439e-1,
        1.25781726111229246e-1,
        1.60837851487422766e-2,
        6.58749161529837803e-4,
    ),
    (
        1.0,
        2.56852019228982242e0,
        1.87295284992346725e0,
        5.27905102951428412e-1,
        6.05183413124413191e-2,
        2.33520497626869185e-3,
    ),
)
_ROOT_OF_PI_INVERSE = 0.5641895835477563


def log(x: float) -> float:
    """The natural logarithm of a number above 0, wrong by less than 2 units in the last place.

    x = m·2^k with m between √½ and √2; ln m = 2·artanh s with s = (m − 1)/(m + 1), by its series.
    """
    m, k = math.frexp(x)
    if m < 0.7071067811865476:
        m, k = 2.0 * m, k - 1
    s = (m - 1.0) / (m + 1.0)
    square, rest = s * s, 0.0
    for n in range(_LOG_TERM_COUNT, 0, -1):
        rest = square * (1.0 / (2.0 * n + 1.0) + rest)
    return k * _LN_2_HIGH + (k * _LN_2_LOW + (2.0 * s + 2.0 * s * rest))


def logistic(x: float) -> float:
    """1 / (1 + e^−x), without overflow."""
    if x < 0.0:
        odds = exp(x)
        return odds / (1.0 + odds)
    return 1.0 / (1.0 + exp(-x))


def logistic_each(x: Floats) -> Floats:
    """`logistic` of every number, with the same bits."""
    odds = _exp_each(np.maximum(-np.abs(x), _LEAST_LOGITS))
    return np.where(x < 0.0, odds, 1.0) / (1.0 + odds)


def _exp_each(x: Floats) -> Floats:
    """`exp` of every number up to 0, step by step."""
    steps = np.floor(x * STEPS_PER_LOGIT + 0.5)
    r = (x - steps * LN_2_HIGH) - steps * LN_2_LOW
    rest = r * (1.0 / 720.0)
    for divisor in (120.0, 24.0, 6.0, 2.0):
        rest += 1.0 / divisor
        rest *= r
    rest *= r
    rest += r
    k = steps.astype(np.int64)
    root = _ROOTS[k & 31]
    return np.asarray(np.ldexp(root + (_ROOT_TAILS[k & 31] + root * rest), k >> 5))


def normal_cdf(x: float) -> float:
    """P(a standard normal number is below x), by W. J. Cody, Mathematics of Computation 23 (1969)."""
    y = abs(x) * 0.7071067811865476
    if y <= 0.46875:
        return 0.5 + 0.5 * (x * 0.7071067811865476) * _ratio(_ERF_MIDDLE, y * y)
    if y <= 4.0:
        tail = exp(-y * y) * _ratio(_ERFC_NEAR, y)
    else:
        inverse = 1.0 / (y * y)
        tail = exp(-y * y) / y * (_ROOT_OF_PI_INVERSE - inverse * _ratio(_ERFC_FAR, inverse))
    return 0.5 * tail if x < 0.0 else 1.0 - 0.5 * tail


def _ratio(rational: tuple[tuple[float, ...], tuple[float, ...]], x: float) -> float:
    """A ratio of two polynomials."""
    values = []
    for coefficients in rational:
        value = 0.0
        for coefficient in coefficients:
            value = value * x + coefficient
        values.append(value)
    return values[0] / values[1]


def sum_rows(rows: Floats) -> Floats:
    """The sum of all rows, at least one: halves are added to halves. ``rows`` is used up."""
    n = len(rows)
    while n > 1:
        half = (n + 1) // 2
        rows[: n - half] += rows[half:n]
        n = half
    return np.asarray(rows[0])


def weighted_sum(weights: Floats, rows: Floats) -> Floats:
    """Σ weights[t]·rows[t]; nought if there are no rows."""
    if not len(rows):
        return np.zeros(rows.shape[1])
    products = np.empty_like(rows)
    products[...] = weights[:, None]
    products *= rows
    return sum_rows(products)


def subtract_products(matrix: Floats, rows: Floats) -> None:
    """Subtract the product of each row with itself from a symmetric matrix, in place, row after row."""
    size, start = len(matrix), 0
    while start < size:
        stop = min(start + max(_BLOCK_CELLS // (size - start), 1), size)
        block = matrix[start:stop, start:].copy()
        products, factors = np.empty_like(block), np.empty_like(block)
        for row in rows:
            # Copied first: NumPy multiplies whole arrays much faster than rows by one number each.
            products[...] = row[start:]
            factors[...] = row[start:stop, None]
            products *= factors
            block -= products
        matrix[start:stop, start:] = block
        matrix[stop:, start:stop] = block[:, stop - start :].T
        start = stop


def invert(matrix: Floats) -> Floats:
    """The inverse of a symmetric positive definite matrix, by sweeping one variable after the other.

    A sweep of variable k with the row v and the pivot d = v_k turns Σ_ij into Σ_ij − v_i·v_j/d, the row into v/d and
    the pivot into −1/d; after all sweeps the matrix is minus the inverse (Goodnight, The American Statistician 33,
    1979). Products are collected in ``pending`` and subtracted together.
    """
    swept = matrix.copy()
    pending = np.zeros((PENDING_ROWS, len(swept)))
    n = 0
    for k in range(len(swept)):
        row = swept[k] - weighted_sum(pending[:n, k], pending[:n])
        pivot = float(row[k])
        pending[:n, k] = 0.0
        np.multiply(row, 1.0 / math.sqrt(pivot), out=pending[n])
        pending[n, k] = 0.0
        n += 1
        row /= pivot
        row[k] = -1.0 / pivot
        swept[k] = swept[:, k] = row
        if n == PENDING_ROWS:
            subtract_products(swept, pending)
            n = 0
    subtract_products(swept, pending[:n])
    return -swept
