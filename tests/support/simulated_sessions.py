"""Sessions with matchups, votes and times, for tests of voters."""

import numpy as np

from tiltyard.core.integrity.session_groups import ShownMatchups
from tiltyard.core.integrity.voter_tests import SessionVotes

MODELS = 6
STRENGTH = np.linspace(2.0, -2.0, MODELS)


def shown(sessions, each, seed=1, *, skip=0.15, first=0, seconds=None):
    """Matchups of people: random pairs, skips and times."""
    random = np.random.default_rng(seed)
    n = sessions * each
    session = first + np.repeat(np.arange(sessions), each)
    a = random.integers(MODELS, size=n)
    b = (a + random.integers(1, MODELS, size=n)) % MODELS
    voted = random.random(n) >= skip
    took = np.exp(random.normal(2.4, 0.6, n)) if seconds is None else seconds
    ended = np.tile(1e6 * random.random(sessions)[:, None], (1, each)) + took.reshape(sessions, each).cumsum(
        axis=1
    )
    ended = ended.reshape(-1)
    return ShownMatchups(session, a, b, voted, np.zeros(n, dtype=bool), ended - took, ended)


def joined(*parts):
    names = ("session", "a", "b", "voted", "hasty", "served", "ended")
    return ShownMatchups(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))


def voted(sessions, each, seed=1, *, first=0, liked=0, more=0.0):
    """Votes of people who mostly agree with the strengths, and may like one model more."""
    strength = STRENGTH + more * (np.arange(MODELS) == liked)
    random = np.random.default_rng(seed)
    n = sessions * each
    a = random.integers(MODELS, size=n)
    b = (a + random.integers(1, MODELS, size=n)) % MODELS
    score = (random.random(n) < 1.0 / (1.0 + np.exp(strength[b] - strength[a]))).astype(float)
    return SessionVotes(first + np.repeat(np.arange(sessions), each), a, b, score)
