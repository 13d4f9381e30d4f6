"""Bare kernels: how little CPU time each case can take, on ready arrays and without Tiltyard.

`python bench/bare.py [CASE ...] --data DIR` prints one JSON line a case. The kernels check nothing
and keep no names: a floor to compare with, not a way to rate models.
Compiling (numba) is not counted: every case runs once before it is timed.
"""

from __future__ import annotations

from collections.abc import Callable
from math import exp, log, pi, sqrt
from pathlib import Path

import numba
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from scipy.linalg.lapack import dposv

from bare_style import style_control
from timing import (
    ELO_K,
    ELO_PER_LOGIT,
    PERMUTATIONS,
    REFITS,
    TAU,
    Floats,
    asked,
    load,
    repeat,
    report,
)

Codes = NDArray[np.int32]
Outcomes = NDArray[np.uint8]
Counts = NDArray[np.int64]

PRECISION = 1e-8  # of every fit, in logits
OUTCOMES = ("model_a", "model_b", "tie")
SHARE_OF_A = (1.0, 0.0, 0.5)
SEED = 88_172_645_463_325_252

compiled = numba.njit(error_model="numpy")


@compiled
def count_cells(a: Codes, b: Codes, winner: Outcomes, models: int) -> NDArray[np.int32]:
    """Battles by (model a, model b, winner code); the last axis is padded to four."""
    cells = np.zeros(models * models * 4, np.int32)
    for i in range(a.size):
        # Unsigned indices spare the test for a negative one.
        pair = np.uint32(a[i]) * np.uint32(models) + np.uint32(b[i])
        cells[pair * np.uint32(4) + np.uint32(winner[i])] += 1
    return cells.reshape(models, models, 4)


def wins_and_ties(cells: NDArray[np.int32]) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Wins of row over column; ties of row with column, above the diagonal only."""
    ties = cells[..., 2]
    return cells[..., 0] + cells[..., 1].T, np.triu(ties + ties.T)


def newton(wins: NDArray[np.number], ties: NDArray[np.number], start: Floats | None = None) -> Floats:
    """Bradley-Terry ratings in logits, ties counting half a win each."""
    points = wins + 0.5 * (ties + ties.T)
    played = points + points.T
    won = points.sum(1)
    ratings = np.log(won / points.sum(0)) if start is None else start
    diagonal = np.arange(ratings.size)
    while True:
        chance = 1.0 / (1.0 + np.exp(ratings - ratings[:, None]))
        expected = played * chance
        hessian = expected * (chance - 1.0)
        hessian[diagonal, diagonal] -= hessian.sum(1)
        # Ratings are free up to a constant: adding 1 everywhere pins it without moving the fit.
        _, step, _ = dposv((hessian + 1.0).T, won - expected.sum(1), overwrite_a=1)
        ratings = ratings + step
        if np.abs(step).max() ** 2 < PRECISION:  # Newton squares the error
            return ratings


def bradley_terry(a: Codes, b: Codes, winner: Outcomes, models: int) -> Floats:
    return newton(*wins_and_ties(count_cells(a, b, winner, models)))


def bradley_terry_from_parquet(path: Path) -> Floats:
    """The same from names in a Parquet file, ratings in the order of the sorted names."""
    columns = ["model_a", "model_b", "winner"]
    table = pq.read_table(path, columns=columns, read_dictionary=columns, use_threads=False)
    batches = table.to_batches()
    found = {name for batch in batches for name in batch[0].dictionary.to_pylist()}
    found |= {name for batch in batches for name in batch[1].dictionary.to_pylist()}
    code = {name: at for at, name in enumerate(sorted(found))}
    outcome = {name: at for at, name in enumerate(OUTCOMES)}
    cells = np.zeros((len(code), len(code), 4), np.int32)
    for batch in batches:
        a, b = (recoded(batch[column], code).astype(np.int32) for column in (0, 1))
        cells += count_cells(a, b, recoded(batch[2], outcome).astype(np.uint8), len(code))
    return newton(*wins_and_ties(cells))


def recoded(column: pa.DictionaryArray, code: dict[str, int]) -> NDArray[np.int64]:
    return np.array([code[word] for word in column.dictionary.to_pylist()])[column.indices.to_numpy()]


@compiled
def poisson(counts: Counts, draws: int, rng: np.random.Generator) -> Floats:
    """Poisson draws around small whole means, by looking up one uniform in each mean's table."""
    top = counts.max()
    table = np.ones((top + 1, 4 * top + 20))
    for mean in range(1, top + 1):
        chance = exp(-float(mean))
        reached = chance
        for drawn in range(table.shape[1] - 1):
            table[mean, drawn] = reached
            chance *= mean / (drawn + 1)
            reached += chance
    out = np.empty((draws, counts.size))
    for draw in range(draws):
        for i in range(counts.size):
            row = table[counts[i]]
            uniform = rng.random()
            drawn = 0
            while uniform > row[drawn]:
                drawn += 1
            out[draw, i] = drawn
    return out


def bootstrap(a: Codes, b: Codes, winner: Outcomes, models: int, refits: int) -> Floats:
    """Count, fit, then refit to Poisson-drawn cells, each refit started at the fit."""
    cells = np.stack(wins_and_ties(count_cells(a, b, winner, models)))
    ratings = newton(*cells)
    filled = np.flatnonzero(cells)
    drawn = poisson(cells.ravel()[filled].astype(np.int64), refits, np.random.default_rng(SEED))
    resampled = np.zeros(cells.shape)
    fits = np.empty((refits, models))
    for refit in range(refits):
        resampled.flat[filled] = drawn[refit]
        fits[refit] = newton(*resampled, start=ratings)
    return fits


@compiled
def elo(a: Codes, b: Codes, winner: Outcomes, models: int, permutations: int) -> Floats:
    """Final Elo ratings of each permutation; the shuffle runs just ahead of the updates.

    Fisher-Yates with xorshift64 and a multiply for the bound, whose bias is n / 2**32.
    """
    packed = ((a.astype(np.uint32) << 16) | (b.astype(np.uint32) << 2) | winner).astype(np.uint32)
    share_of_a = np.array(SHARE_OF_A)
    n = packed.size
    k = ELO_K / ELO_PER_LOGIT
    random = np.uint64(SEED)
    out = np.empty((permutations, models))
    for permutation in range(permutations):
        ratings = np.zeros(models)  # in logits
        for i in range(n):
            random ^= random << np.uint64(13)
            random ^= random >> np.uint64(7)
            random ^= random << np.uint64(17)
            j = i + ((random >> np.uint64(32)) * np.uint64(n - i) >> np.uint64(32))
            battle = packed[j]
            packed[j] = packed[i]
            packed[i] = battle
            p = battle >> np.uint32(16)
            q = (battle >> np.uint32(2)) & np.uint32(0x3FFF)
            chance = 1.0 / (1.0 + exp(ratings[q] - ratings[p]))
            gain = k * (share_of_a[battle & np.uint32(3)] - chance)
            ratings[p] += gain
            ratings[q] -= gain
        out[permutation] = ratings * ELO_PER_LOGIT
    return out


@compiled
def glicko2_side(state: Floats, rival_mu: float, g: float, score: float) -> tuple[float, ...]:
    """One side's (mu, phi squared, sigma squared, its log) after one game; Glickman (2022), steps 3-7."""
    mu, phi2, sigma2, a = state[0], state[1], state[2], state[3]
    chance = 1.0 / (1.0 + exp(g * (rival_mu - mu)))
    information = g * g * chance * (1.0 - chance)
    pull = g * (score - chance)
    spread = phi2 + 1.0 / information
    delta2 = (pull / information) ** 2
    x = a
    while True:  # Newton for step 5's f(x) = 0
        inverse = 1.0 / (spread + sigma2)
        half = 0.5 * sigma2 * inverse * inverse
        excess = delta2 - spread - sigma2
        f = half * excess - (x - a) / TAU**2
        slope = half * (excess * (1.0 - 2.0 * sigma2 * inverse) - sigma2) - 1.0 / TAU**2
        step = f / slope
        x -= step
        if abs(step) < 1e-3:  # the error left is below 1e-9, and the series below is exact to rounding
            break
        sigma2 = exp(x)
    sigma2 *= 1.0 - step * (1.0 - step * (1.0 / 2 - step * (1.0 / 6 - step / 24)))
    phi2 += sigma2
    phi2 /= 1.0 + phi2 * information
    return mu + phi2 * pull, phi2, sigma2, x


@compiled
def glicko2(a: Codes, b: Codes, winner: Outcomes, models: int) -> Floats:
    """Every vote a rating period of its own for its two models."""
    states = np.empty((models, 4))
    states[:] = np.array([0.0, (350 / 173.7178) ** 2, 0.06**2, log(0.06**2)])
    for i in range(a.size):
        p, q = np.uint32(a[i]), np.uint32(b[i])
        share = SHARE_OF_A[winner[i]]
        g_p = 1.0 / sqrt(1.0 + 3.0 / pi**2 * states[p, 1])
        g_q = 1.0 / sqrt(1.0 + 3.0 / pi**2 * states[q, 1])
        after_p = glicko2_side(states[p], states[q, 0], g_q, share)
        after_q = glicko2_side(states[q], states[p, 0], g_p, 1.0 - share)
        for part in range(4):
            states[p, part] = after_p[part]
            states[q, part] = after_q[part]
    return states


def work_of(case: str, data: Path) -> tuple[Callable[[], object], int]:
    """What to time for a case, and how many battles (for Elo, updates) it rates."""
    if case in ("read", "bt-names"):
        path = data / "large.parquet"
        rows = pq.read_metadata(path).num_rows
        if case == "bt-names":
            return lambda: bradley_terry_from_parquet(path), rows
        columns = ["model_a", "model_b", "winner", "question_id"]
        return lambda: pq.read_table(path, columns=columns, use_threads=False), rows
    battles = load(data, "medium" if case in ("bootstrap", "elo") else "large")
    votes = (battles["a"], battles["b"], battles["winner"])
    models, n = len(battles["names"]), len(battles["a"])
    if case == "bt":
        return lambda: bradley_terry(*votes, models), n
    if case == "bootstrap":
        return lambda: bootstrap(*votes, models, REFITS), n
    if case == "elo":
        return lambda: elo(*votes, models, PERMUTATIONS), n * PERMUTATIONS
    if case == "glicko2":
        return lambda: glicko2(*votes, models), n
    return lambda: style_control((*votes, battles["style"]), models), n


def main() -> None:
    cases, data = asked(["bt", "bt-names", "bootstrap", "elo", "glicko2", "style", "read"])
    for case in cases:
        work, n = work_of(case, data)
        result = work()
        if case in ("bt", "style"):
            models = len(load(data, "large")["names"])
            np.save(data / f"exact-{case}.npy", result[:models] * ELO_PER_LOGIT)
        version = f"pyarrow {pa.__version__}" if case == "read" else f"numba {numba.__version__}"
        report(peer="bare", version=version, case=case, n=n, runs=repeat(work, most=9, budget=20.0))


if __name__ == "__main__":
    main()
