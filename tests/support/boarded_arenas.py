"""Small arenas with ratings set by hand."""

import numpy as np

from tiltyard.core.battles import Kind
from tiltyard.core.policy.state.policy import Policy
from tiltyard.core.policy.state.standing import Standing
from tiltyard.core.policy.state.strengths import Strengths

A, B, TIE, BAD = Kind.WIN_A, Kind.WIN_B, Kind.TIE, Kind.BOTH_BAD


def arena(rating, votes=(), *, rd=60.0, prompts=6, retired=(), names=None, **policy):
    m = len(rating)
    names = [f"m{k}" for k in range(m)] if names is None else names
    standing = Standing(Policy(**policy), names, [f"p{k}" for k in range(prompts)])
    for model in range(m):
        standing.enable(model)
    for a, b, prompt, kind in votes:
        standing.serve(a, b, prompt)
        standing.vote(a, b, prompt, kind)
    for model in retired:
        standing.retire(model)
    rds = np.broadcast_to(np.asarray(rd, dtype=float), (m,)).copy()
    standing.rank(Strengths(np.array(rating, dtype=float), rds, rds, np.full(m, 0.5)))
    return standing


def settled(n=7, rating=(1700, 1600, 1500), **policy):
    """Three models that have met often enough for everything."""
    votes = [(a, b, p, A) for _ in range(n) for a in range(3) for b in range(a + 1, 3) for p in range(6)]
    return arena(rating, votes, **policy)


def noisy(seed, strengths, n=4000, prompts=40, rating=None, **rest):
    """Votes drawn from known strengths, in logits; the ratings shown may say something else."""
    rng = np.random.default_rng(seed)
    strengths = np.asarray(strengths, dtype=float)
    m = len(strengths)
    a = rng.integers(0, m, n)
    b = (a + rng.integers(1, m, n)) % m
    p = rng.integers(0, prompts, n)
    wins = rng.random(n) < 1.0 / (1.0 + np.exp(strengths[b] - strengths[a]))
    kind = np.where(rng.random(n) < 0.2, rng.integers(2, 4, n), np.where(wins, A, B))
    votes = list(zip(a.tolist(), b.tolist(), p.tolist(), kind.tolist(), strict=True))
    rating = 1500 + 174 * strengths if rating is None else rating
    return arena(rating, votes, prompts=prompts, **rest)
