"""Arenas for matchmaking's tests: built in a line, lived in by made-up voters, seen with plain eyes."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations

import numpy as np

from tiltyard.core.battles import Kind
from tiltyard.core.policy.matchmaking.eligible_pairs import DrawnPair, EligiblePairs
from tiltyard.core.policy.matchmaking.lanes import Draws
from tiltyard.core.policy.matchmaking.matchmaker import Choice, choose
from tiltyard.core.policy.state.events import NO_SESSION
from tiltyard.core.policy.state.policy import Policy
from tiltyard.core.policy.state.session_memory import UNSEEN
from tiltyard.core.policy.state.standing import Standing
from tiltyard.core.policy.state.strengths import Strengths

#: A controller that never wakes: lanes alone are looked at.
ASLEEP = {"settling": 0, "tolerance_least": 1e9}


def arena(models: int, prompts: int, *, answered: np.ndarray | None = None, **policy) -> Standing:
    """All models enabled."""
    standing = Standing(
        Policy(**policy), [f"m{k}" for k in range(models)], [f"p{k}" for k in range(prompts)], answered
    )
    for model in range(models):
        standing.enable(model)
    return standing


def ranked(
    standing: Standing,
    rating: Sequence[float] | None = None,
    *,
    se: Sequence[float] | None = None,
    misorder: Sequence[float] | None = None,
) -> Standing:
    """With these strengths; code 0 leads unless told otherwise."""
    m = len(standing.models)
    standing.rank(
        Strengths(
            np.array([2000.0 - 10.0 * k for k in range(m)] if rating is None else rating, dtype=float),
            np.full(m, 60.0),
            np.array([50.0] * m if se is None else se, dtype=float),
            np.array([0.0] * m if misorder is None else misorder, dtype=float),
        )
    )
    return standing


def whole(standing: Standing) -> EligiblePairs:
    """The field of a voter who has seen nothing."""
    return EligiblePairs.of(standing, UNSEEN, capped=True, depth=0)


def free_to_meet(standing: Standing, model: int) -> set[int]:
    """Enabled models with a prompt in common, counted by hand."""
    answered = standing.cells.answered
    return {
        other
        for other in range(len(standing.models))
        if other != model
        and standing.enabled[model]
        and standing.enabled[other]
        and (answered[model] & answered[other]).any()
    }


def draw_once(
    lane: Callable[..., DrawnPair | Draws | None], arena_field: EligiblePairs, rng: np.random.Generator
) -> DrawnPair | None:
    """The first draw of a lane; `draw_coverage` has one only."""
    draws = lane(arena_field, rng)
    return next(draws, None) if isinstance(draws, Iterator) else draws


def drawn(
    lane: Callable[..., DrawnPair | Draws | None], arena_field: EligiblePairs, n: int, seed: int
) -> list[DrawnPair | None]:
    rng = np.random.default_rng(seed)
    return [draw_once(lane, arena_field, rng) for _ in range(n)]


def matchup(draw: DrawnPair) -> tuple[frozenset[int], int]:
    """What is served: two models in no order, and a prompt."""
    return frozenset((draw.one, draw.other)), draw.prompt


@dataclass
class Diary:
    """What was served, written down by somebody who knows nothing of the standing's own books."""

    choices: list[Choice] = field(default_factory=list)
    #: Prompts by pair, and matchups by session, in order.
    prompts: dict[frozenset[int], list[int]] = field(default_factory=lambda: defaultdict(list))
    sessions: dict[int, list[tuple[frozenset[int], int]]] = field(default_factory=lambda: defaultdict(list))
    attempts: Counter[tuple[frozenset[int], int]] = field(default_factory=Counter)

    def serve(self, choice: Choice, session: int = NO_SESSION) -> None:
        pair = frozenset((choice.left, choice.right))
        self.choices.append(choice)
        self.prompts[pair].append(choice.prompt)
        if session != NO_SESSION:
            self.sessions[session].append((pair, choice.prompt))

    def too_frequent(self, standing: Standing, pair: frozenset[int]) -> set[int]:
        """Prompts that would stand too often among the pair's last meetings."""
        one, other = pair
        shared = int((standing.cells.answered[one] & standing.cells.answered[other]).sum())
        last = Counter(self.prompts[pair][-standing.policy.meetings + 1 :])
        return {prompt for prompt, times in last.items() if times >= standing.policy.repeats_of(shared)}


@dataclass
class Crowd:
    """Voters who know the models' strengths, skip some matchups and leave others to expire."""

    rng: np.random.Generator
    skill: np.ndarray
    skips: float = 0.0
    expires: float = 0.0
    dead: frozenset[int] = frozenset()
    waiting: list[int] = field(default_factory=list)

    @classmethod
    def of(cls, standing: Standing, seed: int, **habits) -> Crowd:
        rng = np.random.default_rng(seed)
        return cls(rng, rng.normal(0.0, 1.0, len(standing.models)), **habits)

    def answer(self, standing: Standing, choice: Choice, serial: int) -> bool:
        """End this matchup, or let it wait for its expiry; whether it came to a vote."""
        u = self.rng.random()
        if u < self.expires:
            self.waiting.append(serial)
        elif u < self.expires + self.skips:
            standing.skip()
        else:
            standing.vote(choice.left, choice.right, choice.prompt, self._kind(choice))
            return True
        if len(self.waiting) > 10:
            standing.expire(self.waiting.pop(int(self.rng.random() * len(self.waiting))))
        return False

    def _kind(self, choice: Choice) -> Kind:
        if choice.prompt in self.dead:
            return Kind.BOTH_BAD
        u = self.rng.random()
        if u < 0.23:
            return Kind.TIE if u < 0.16 else Kind.BOTH_BAD
        wins = 1.0 / (1.0 + np.exp(self.skill[choice.right] - self.skill[choice.left]))
        return Kind.WIN_A if self.rng.random() < wins else Kind.WIN_B


def believed(standing: Standing) -> Strengths:
    """Rough strengths from the record: what a rating would say, at no cost."""
    votes = standing.record.sum(axis=1) + 2.0
    rating = 1500.0 + 600.0 * (standing.record[:, 0] - standing.record[:, 1]) / votes
    spread = 350.0 / np.sqrt(votes)
    return Strengths(rating, np.maximum(spread, 30.0), spread, np.full(len(votes), 0.3))


def lived(
    standing: Standing,
    n: int,
    *,
    seed: int = 0,
    crowd: Crowd | None = None,
    diary: Diary | None = None,
    sessions: int = 0,
    at_once: int = 1,
    ranked_every: int = 50,
) -> Iterator[Choice]:
    """Serve ``n`` matchups and have them answered; each is handed out once it has been.

    ``at_once`` choices are made before the first of them is served.
    """
    rng = np.random.default_rng(seed)
    crowd = crowd or Crowd.of(standing, seed + 1)
    diary = Diary() if diary is None else diary
    for served in range(0, n, at_once):
        who = [int(rng.integers(sessions)) if sessions else NO_SESSION for _ in range(at_once)]
        for session, choice in [(session, choose(standing, rng, session=session)) for session in who]:
            serial = standing.serve(
                choice.left,
                choice.right,
                choice.prompt,
                lane=choice.lane,
                nominal=choice.nominal,
                session=session,
            )
            diary.serve(choice, session)
            if crowd.answer(standing, choice, serial):
                diary.attempts[frozenset((choice.left, choice.right)), choice.prompt] += 1
            yield choice
        if (served + at_once) % ranked_every < at_once:
            standing.rank(believed(standing))


def capped(standing: Standing) -> set[int]:
    """Models that one more exposure would bring above their guarded tolerance, by the policy's words."""
    window, policy = standing.window, standing.policy
    if window.served < policy.settling * int(standing.enabled.sum()):
        return set()
    found = set()
    for model, (due, exposures) in enumerate(zip(window.due().target, window.counted(), strict=True)):
        tolerance = max(0.12 * due, 2.0)
        if exposures + 1 > due + tolerance - min(max(0.02 * due, 1.0), tolerance / 2):
            found.add(model)
    return found


def beyond(standing: Standing) -> float:
    """By how many exposures the worst model lies outside tolerance; 0 if none does."""
    due, exposures = standing.window.due().target, standing.window.counted()
    outside = np.abs(exposures - due) - np.maximum(0.12 * due, 2.0)
    return max(0.0, float(outside[standing.enabled].max()) - 1e-9)


def cells_in_reach(
    standing: Standing, diary: Diary, *, among: set[int], last: Sequence[frozenset[int]], seen: set
) -> set[tuple[frozenset[int], int]]:
    """Every pair and prompt that the rules leave, looked for one by one."""
    answered = standing.cells.answered
    return {
        (pair, prompt)
        for pair in map(frozenset, combinations(sorted(among), 2))
        if pair not in last
        for prompt in np.flatnonzero(answered[min(pair)] & answered[max(pair)]).tolist()
        if (pair, prompt) not in seen and prompt not in diary.too_frequent(standing, pair)
    }
