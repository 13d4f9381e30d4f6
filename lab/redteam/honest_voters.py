"""Honest voters: careful, lazy, with a preference for a side, fast, and fans of one model."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from lab.redteam.demo_content import ArenaContent
from tiltyard.core.battles import Kind

Floats = npt.NDArray[np.float64]

#: Kinds of voters and their shares of sessions.
VOTER_SHARES = {"careful": 0.6, "lazy": 0.2, "biased": 0.1, "fast": 0.05, "fan": 0.05}
_TIE_PROBABILITY, _BOTH_BAD_PROBABILITY, _SKIP_PROBABILITY = 0.13, 0.03, 0.03
#: How far voters differ about a model, what a fan adds for one, and what a biased voter adds for the left side.
_TASTE_LOGITS, _FAN_LOGITS, _SIDE_LOGITS = 0.3, 0.5, 0.5
_MEAN_SESSION_VOTES = 20
_SESSION_VOTES_LIMIT = 60
#: Sessions that vote at the same time.
_CONCURRENT_SESSION_COUNT = 20
#: Median seconds before a vote, and their spread as the deviation of the logarithm; a fast voter's.
_LOOK_SECONDS, _FAST_LOOK_SECONDS, _LOOK_RATIO = 18.0, 2.5, 0.5


def vote_honestly(
    content: ArenaContent, matchup: tuple[int, int, int], random: np.random.Generator, lean: float = 0.0
) -> Kind:
    """A careful vote on two models and a prompt; ``lean`` is a preference for the first, in logits."""
    other = random.random()
    if other < _TIE_PROBABILITY:
        return Kind.TIE
    if other < _TIE_PROBABILITY + _BOTH_BAD_PROBABILITY:
        return Kind.BOTH_BAD
    a, b, prompt = matchup
    gap = content.strength[a] - content.strength[b] + content.effect[a, prompt] - content.effect[b, prompt]
    return Kind.WIN_A if random.random() < 1.0 / (1.0 + math.exp(-gap - lean)) else Kind.WIN_B


@dataclass(slots=True, eq=False)
class HonestVoter:
    """One session of a person."""

    session: int
    kind: str
    #: What the person likes beyond what a response is worth, in logits by model.
    taste: Floats
    votes_left: int

    def decide(
        self, content: ArenaContent, matchup: tuple[int, int, int], random: np.random.Generator
    ) -> tuple[Kind | None, float]:
        """The vote, ``None`` to skip; and seconds before it."""
        fast = self.kind == "fast" or (self.kind == "lazy" and self.session % 2 == 0)
        seconds = (_FAST_LOOK_SECONDS if fast else _LOOK_SECONDS) * math.exp(random.normal(0.0, _LOOK_RATIO))
        if random.random() < _SKIP_PROBABILITY:
            return None, seconds
        if self.kind == "lazy":
            return Kind.WIN_A if random.random() < 0.5 else Kind.WIN_B, seconds
        a, b, _ = matchup
        known = len(self.taste)
        lean = (self.taste[a] if a < known else 0.0) - (self.taste[b] if b < known else 0.0)
        lean += _SIDE_LOGITS if self.kind == "biased" else 0.0
        return vote_honestly(content, matchup, random, lean), seconds


@dataclass(slots=True, eq=False)
class VoterStream:
    """People who come, vote for a while and leave, a few at a time."""

    content: ArenaContent
    random: np.random.Generator
    next_session: int = 1
    #: Every session so far, with its kind.
    kinds: dict[int, str] = field(default_factory=dict)
    _active: list[HonestVoter] = field(default_factory=list)

    def __iter__(self) -> Iterator[HonestVoter]:
        """Whoever votes next, without end."""
        while True:
            while len(self._active) < _CONCURRENT_SESSION_COUNT:
                self._active.append(self.arrive())
            place = int(self.random.integers(len(self._active)))
            voter = self._active[place]
            voter.votes_left -= 1
            if voter.votes_left <= 0:
                del self._active[place]
            yield voter

    def arrive(self) -> HonestVoter:
        """A new person."""
        names = list(VOTER_SHARES)
        kind = names[int(self.random.choice(len(names), p=list(VOTER_SHARES.values())))]
        taste = self.random.normal(0.0, _TASTE_LOGITS, len(self.content.models))
        if kind == "fan":
            taste[self.random.integers(len(taste))] += _FAN_LOGITS
        votes = min(int(self.random.geometric(1.0 / _MEAN_SESSION_VOTES)), _SESSION_VOTES_LIMIT)
        voter = HonestVoter(self.next_session, kind, taste, votes)
        self.kinds[voter.session] = kind
        self.next_session += 1
        return voter
