"""Small arenas, told vote by vote, and drawn ones for properties."""

import numpy as np
from hypothesis import strategies as st

from tiltyard.core.battles import Kind
from tiltyard.core.policy.state.policy import Policy
from tiltyard.core.policy.state.standing import Standing
from tiltyard.core.policy.state.strengths import Strengths

A, B, TIE, BAD = Kind.WIN_A, Kind.WIN_B, Kind.TIE, Kind.BOTH_BAD


def arena(models, prompts, votes=(), *, policy=None, answered=None, retired=()):
    """Models and prompts by number, all enabled but the retired; votes are (a, b, prompt, kind)."""
    standing = Standing(
        policy or Policy(), [f"m{k}" for k in range(models)], [f"p{k}" for k in range(prompts)], answered
    )
    for model in range(models):
        standing.enable(model)
    cast(standing, votes)
    for model in retired:
        standing.retire(model)
    return standing


def cast(standing, votes):
    for a, b, prompt, kind in votes:
        standing.serve(a, b, prompt)
        standing.vote(a, b, prompt, kind)


def strengthen(standing, rating, rd=60.0):
    """Rank by these ratings and RDs."""
    rating = np.asarray(rating, dtype=np.float64)
    rd = np.broadcast_to(np.asarray(rd, dtype=np.float64), rating.shape).copy()
    standing.rank(Strengths(rating, rd, rd, np.full(len(rating), 0.5)))
    return standing


def uniform_votes(models, prompts, n, seed=0, shares=(0.4, 0.37, 0.16, 0.07)):
    """Votes on pairs and prompts drawn evenly."""
    rng = np.random.default_rng(seed)
    a = rng.integers(0, models, n)
    b = (a + rng.integers(1, models, n)) % models
    kinds = rng.choice(4, n, p=shares)
    return list(
        zip(a.tolist(), b.tolist(), rng.integers(0, prompts, n).tolist(), kinds.tolist(), strict=True)
    )


def full_votes(models, prompts, each):
    """Every pair on every prompt, ``each`` times; the lower code wins."""
    return [
        (a, b, p, A)
        for _ in range(each)
        for a in range(models)
        for b in range(a + 1, models)
        for p in range(prompts)
    ]


@st.composite
def votes_of(draw, models, prompts, most=60):
    """Any votes among so many models and prompts."""
    if models < 2:
        return []
    pair = st.tuples(st.integers(0, models - 1), st.integers(0, models - 1)).filter(lambda x: x[0] != x[1])
    vote = st.tuples(pair, st.integers(0, prompts - 1), st.sampled_from([A, B, TIE, BAD]))
    return [(*two, on, kind) for two, on, kind in draw(st.lists(vote, max_size=most))]


@st.composite
def arenas(draw):
    """Arenas of 0 to 5 models and 1 to 4 prompts, with gaps, retirements and any strengths."""
    models, prompts = draw(st.integers(0, 5)), draw(st.integers(1, 4))
    answered = np.array(
        draw(
            st.lists(
                st.lists(st.booleans(), min_size=prompts, max_size=prompts), min_size=models, max_size=models
            )
        ),
        dtype=bool,
    ).reshape(models, prompts)
    if draw(st.booleans()):
        answered[:] = True
    retired = draw(st.sets(st.integers(0, models - 1), max_size=2)) if models else ()
    policy = Policy(
        adjacent_votes=draw(st.sampled_from([2, 12])),
        adjacent_attempts=6,
        established_votes=draw(st.sampled_from([0, 2, 80])),
        established_coverage=draw(st.sampled_from([0.0, 0.8])),
    )
    standing = arena(
        models, prompts, draw(votes_of(models, prompts)), policy=policy, answered=answered, retired=retired
    )
    rating = draw(st.lists(st.floats(500, 2500), min_size=models, max_size=models))
    rd = draw(st.lists(st.sampled_from([30.0, 74.0, 75.0, 90.0, 350.0]), min_size=models, max_size=models))
    return strengthen(standing, rating, rd)
