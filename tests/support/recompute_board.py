"""Recompute an arena's board from the table with voters: ``python recompute_board.py voters.jsonl board.json``."""

import json
import sys
from pathlib import Path

import numpy as np
from scipy.optimize import root
from scipy.special import expit
from scipy.stats import t as student

lines, board = Path(sys.argv[1]).read_text().splitlines(), json.loads(Path(sys.argv[2]).read_text())
battles = list(map(json.loads, lines))
names = sorted(row["model"] for row in board["rows"])
points = {"model_a": 1.0, "model_b": 0.0, "tie": 0.5}
rated = [battle for battle in battles if battle["winner"] in points]
y, m = np.array([points[battle["winner"]] for battle in rated]), len(names)
a, b = (np.array([names.index(battle[side]) for battle in rated]) for side in ("model_a", "model_b"))
ways = [
    np.unique([battle[key] for battle in rated], return_inverse=True)[1] for key in ("question_id", "voter")
]

# No prompt and no voter weighs more than the cap.
weight, cap = np.ones(len(y)), board["method"]["cross_check"]["max_share"]
for way in ways * 20:
    sums, limit = np.bincount(way, weight), max(cap, 1.3 / (way.max() + 1))
    if sums.max() > 1.001 * limit * sums.sum():
        kept = sums.copy()
        for _ in range(10_000):
            kept = np.minimum(sums, limit * kept.sum())
        weight = weight * (kept / sums)[way]
weight = np.ldexp(np.rint(np.ldexp(np.frexp(weight)[0], 16)), np.frexp(weight)[1] - 16)

# Bradley–Terry, and how far each cluster pulls it.
unit, X, V, dof = 400.0 / np.log(10.0), np.eye(m)[a] - np.eye(m)[b], [], []
theta = root(lambda x: X.T @ (weight * (y - expit(X @ x))) - x.sum(), np.zeros(m), tol=1e-13).x
residual, info = weight * (y - expit(X @ theta)), weight * expit(X @ theta) * expit(-X @ theta)
bread, phi = np.linalg.pinv(X.T @ (X * info[:, None]), rcond=1e-9), (residual**2).sum() / info.sum()
for way in ways:
    n = way.max() + 1
    A = np.array([X[way == c].T @ (X[way == c] * info[way == c, None]) for c in range(n)])
    g = np.array([X[way == c].T @ residual[way == c] for c in range(n)])
    shift = np.array([np.linalg.pinv(A.sum(axis=0) - A[c], rcond=1e-9) @ g[c] for c in range(n)])
    V.append((n - 1) / n * shift.T @ shift)
    one, two = np.einsum("ik,cik->ck", bread, A @ bread), ((A @ bread) ** 2).sum(axis=1)
    part = phi * one + max((np.trace(V[-1]) - phi * one.sum()) / two.sum(), 0.0) * two
    dof.append(part.sum(axis=0) ** 2 / (part**2).sum(axis=0) - 1.0)
cells = np.unique(ways[0] * len(y) + ways[1], return_inverse=True)[1]
overlap = np.array([np.bincount(cells, column * residual) for column in X.T])
V.append(V[0] + V[1] - bread @ overlap @ overlap.T @ bread)
nu, rating = np.minimum(*dof), 1500.0 + unit * theta
half = unit * np.sqrt(np.max([np.diag(v) for v in V], axis=0)) * student.ppf(0.975, nu)

# What is settled: alpha is shared by arrival, and a sequence that may be looked at again.
alpha, arrived = (
    board["method"]["policy"]["settled_alpha"],
    {row["model"]: row["arrived"] for row in board["rows"]},
)
founders, place = sum(votes == 0 for votes in arrived.values()), np.empty(m)
place[[names.index(name) for name in sorted(names, key=arrived.get)]] = np.arange(1, m + 1)
later = 0.2 * alpha * founders / (place * np.maximum(place - 1, 1) ** 2)
share = np.where(place <= founders, 1.6 * alpha / (founders * (founders - 1)), later)
level, above, nu = np.minimum(share[:, None], share), np.zeros((m, m), bool), np.minimum(nu[:, None], nu)
variance = unit**2 * np.max([np.diag(v)[:, None] + np.diag(v) - 2.0 * v for v in V], axis=0) + np.eye(m)
for _ in range(m * m if len(battles) >= 300 else 0):
    r, left = 0.08 * variance / 625.0, 1.0 - level[above].sum() / alpha / 2.0
    z2 = (1.0 + r) * (2.0 * np.log(left / level) + np.log1p(1.0 / r))
    width = np.sqrt(variance * nu * np.expm1(np.minimum(z2 / (nu + 1.0), 50.0)))
    above |= (rating[:, None] - rating > width) & (nu >= 3.0)
    above |= above @ above
shown = [names.index(row["model"]) for row in board["rows"] if row["rank"]]
above, n = above[np.ix_(shown, shown)], len(shown)
tier = 1 + np.cumsum([0, *(above[:k, k:].all() for k in range(1, n))])
for k, model in enumerate(shown):
    ranks = 1 + above[:, k].sum(), n - above[k].sum(), tier[k]
    numbers = [float(x) for x in (rating[model], half[model], *ranks)]
    sys.stdout.write(json.dumps([names[model], *numbers]) + "\n")
