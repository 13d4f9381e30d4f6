"""What a vote costs the online Bradley–Terry filter, and what a cheaper one would lose: `python bench/online.py`.

Three tables in Markdown, in under a minute. CPU time, one thread, the best of several runs.

The cheaper filter, *stale*, keeps the precision (four cells change with a vote) and inverts it every
k votes; between inversions the mean moves by columns of the last covariance. It is here only to be
measured: what Tiltyard does is exact, at about the same price.
"""

from __future__ import annotations

import argparse
import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from tiltyard.core.battles import CodedBattles, Kind
from tiltyard.core.ratings import newton, online_bradley_terry
from tiltyard.core.ratings.online_bradley_terry import OnlineBradleyTerry, OnlineState
from tiltyard.core.ratings.portable_functions import logistic
from timing import one_thread, repeat

Floats = NDArray[np.float64]

UNIT = 400.0 / math.log(10.0)
FILTER, REFITTED = OnlineBradleyTerry(refit_after=None), OnlineBradleyTerry()


def votes(m: int, n: int, seed: int = 0) -> CodedBattles:
    """Uniform pairs of models of SD 200 points, 16 % ties."""
    rng = np.random.default_rng(seed)
    strength = rng.normal(0.0, 200.0 / UNIT, m)
    a = rng.integers(0, m, n)
    b = (a + rng.integers(1, m, n)) % m
    kind = np.where(rng.random(n) < expit(strength[a] - strength[b]), Kind.WIN_A, Kind.WIN_B)
    kind = np.where(rng.random(n) < 0.16, Kind.TIE, kind)
    return CodedBattles(a.astype(np.uint16), b.astype(np.uint16), kind.astype(np.uint8))


def folded(method: OnlineBradleyTerry, codes: CodedBattles, m: int) -> OnlineState:
    state = method.initial(m)
    method.fold_many(state, codes)
    return state


@dataclass(slots=True, eq=False)
class Stale:
    """The filter with a covariance that is inverted anew every ``k`` votes."""

    mean: Floats
    covariance: Floats
    precision: Floats
    k: int

    @classmethod
    def of(cls, m: int, k: int) -> Stale:
        variance = (350.0 / UNIT) ** 2
        return cls(np.zeros(m), np.eye(m) * variance, np.eye(m) / variance, k)

    def fold(self, a: int, b: int, y: float) -> None:
        s = self.covariance[a] - self.covariance[b]
        v = float(s[a] - s[b])
        p = logistic(online_bradley_terry._mode(float(self.mean[a] - self.mean[b]), v, y))
        self.mean += s * (y - p)
        h, precision = p * (1.0 - p), self.precision
        precision[a, a] += h
        precision[b, b] += h
        precision[a, b] -= h
        precision[b, a] -= h

    def refresh(self) -> None:
        factor = newton.cholesky(self.precision)
        assert factor is not None
        self.covariance = newton.inverse_of(factor)

    def fold_many(self, codes: CodedBattles) -> None:
        """All votes, and not the last refresh: that is when a stale covariance is stalest."""
        score = np.array([1.0, 0.0, 0.5])[codes.kind].tolist()
        for t, (a, b, y) in enumerate(zip(codes.a.tolist(), codes.b.tolist(), score, strict=True)):
            if t and t % self.k == 0:
                self.refresh()
            self.fold(a, b, y)


def micros(seconds: list[float], times: int) -> str:
    return f"{1e6 * min(seconds) / times:,.1f}"


def costs(m: int) -> str:
    """One row: µs of each thing."""
    n = max(4 * m, 2000)
    codes = votes(m, n)
    a, b, kind = codes.a.tolist(), codes.b.tolist(), codes.kind.tolist()
    state = folded(FILTER, votes(m, 10 * m, 1), m)
    i = np.arange(10) % m
    j = (i + 1) % m

    def one_by_one() -> None:
        for vote in zip(a, b, kind, strict=True):
            FILTER.fold(state, *vote)

    def settled() -> None:
        for _ in range(20):
            state.n_held = len(state.held)
            online_bradley_terry._settle(state)

    single, bulk = repeat(one_by_one, 5), repeat(lambda: FILTER.fold_many(state, codes), 5)
    state.n_held = len(state.held) // 2
    asked = repeat(lambda: [state.misorder(i, j) for _ in range(1000)], 5)
    errors = repeat(lambda: [state.se for _ in range(1000)], 5)
    copy = state.widened(m)
    refit = repeat(lambda: online_bradley_terry._refit(copy), 5)
    copy.held[:] = 0.0
    settle = repeat(settled, 5)
    with_refits = (min(single) / n + min(refit) / (REFITTED.refit_after * m)) * 1e6
    stale = Stale.of(m, n)
    stale_fold, refresh = repeat(lambda: stale.fold_many(codes), 5), repeat(stale.refresh, 5)
    cells = [
        f"{m:,}",
        micros(single, n),
        micros(bulk, n),
        f"{with_refits:,.1f}",
        micros(settle, 20),
        micros(refit, 1),
        micros(asked, 1000),
        micros(errors, 1000),
        micros(stale_fold, n),
        micros(refresh, 1),
    ]
    return "| " + " | ".join(cells) + " |"


def apart(mean: Floats, se: Floats, exact_mean: Floats, exact_se: Floats) -> str:
    """Distance of means in standard errors (root mean square, largest), and of the errors themselves."""
    z = UNIT * (mean - exact_mean) / exact_se
    return (
        f"{np.sqrt(np.mean(z * z)):.4f} | {np.abs(z).max():.3f} | {100 * (np.mean(se / exact_se) - 1):+.1f} %"
    )


def staleness(m: int, n: int, ks: tuple[int, ...]) -> list[str]:
    codes = votes(m, n)
    exact = folded(FILTER, codes, m)
    lines = []
    for k in ks:
        stale = Stale.of(m, k)
        seconds = repeat(lambda stale=stale: stale.fold_many(codes), 1)
        variance = np.diag(stale.covariance) - exact.prior_variance / m
        row = apart(stale.mean, UNIT * np.sqrt(variance), exact.mean, exact.se)
        lines.append(f"| {m:,} | {n:,} | {k:,} | {row} | {micros(seconds, n)} |")
    seconds = repeat(lambda: folded(FILTER, codes, m), 1)
    lines.append(f"| {m:,} | {n:,} | exact | 0 | 0 | 0 | {micros(seconds, n)} |")
    return lines


def against_batch(m: int, per_model: int) -> list[str]:
    """How far the filter, and the filter refitted, stand from the batch fit just before a refit."""
    lines = []
    for name, method in (("filter", FILTER), ("refitted", REFITTED)):
        state = folded(method, votes(m, per_model * m - 1), m)
        batch = state.widened(m)
        online_bradley_terry._refit(batch)
        row = apart(state.mean, state.se, batch.mean, batch.se)
        lines.append(f"| {name} | {m:,} | {per_model} | {row} |")
    return lines


def main() -> None:
    one_thread()
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", type=int, nargs="*", default=[20, 100, 1000])
    options = parser.parse_args()
    print(
        "µs of CPU. *With refits*: one vote, its share of a fit from the sums every "
        f"{REFITTED.refit_after} votes for each model included. Settling comes every 32 votes and is in every fold.\n"
    )
    print(
        "| models | one vote | in bulk | with refits | settle | refit | misorder of 10 | se of all ", end=""
    )
    print("| stale vote | stale refresh |\n|" + "--:|" * 10)
    for m in options.models:
        print(costs(m), flush=True)
    columns = "rms distance (se) | largest | se"
    print(f"\nStale against exact.\n\n| models | votes | k | {columns} | µs a vote |\n|" + "--:|" * 7)
    for m, n in ((100, 10_000), (1000, 20_000)):
        if m in options.models:
            print("\n".join(staleness(m, n, (100, 500, 1000, 2000, 5000))), flush=True)
    print(f"\nAgainst the batch fit.\n\n| | models | votes a model | {columns} |\n|---|" + "--:|" * 5)
    for m in options.models:
        for per_model in (5, 20, 100) if m < 1000 else (5, 20):
            print("\n".join(against_batch(m, per_model)), flush=True)


if __name__ == "__main__":
    main()
