"""Sums and matrices in basic operations alone and in a fixed order: the same bits on every machine.

Linear algebra libraries are tuned to the processor and to the number of threads, and add in other orders. Here
every sum has one order, that of its shape, and every product is rounded before it is added.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

__all__ = ["PENDING_ROWS", "invert", "subtract_products", "sum_rows", "weighted_sum"]

Floats = npt.NDArray[np.float64]

#: The number of rows whose products are subtracted together. Reading a row of the matrix takes as many products,
#: and subtracting them together is faster than one by one.
PENDING_ROWS = 32
#: Numbers of the matrix that are worked on at once: they stay in the processor's cache.
_BLOCK_CELLS = 16_384


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
