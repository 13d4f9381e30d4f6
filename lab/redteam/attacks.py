"""Attackers as programs. They see what every voter sees: a prompt and two responses; names only where they are revealed.

An attack has one budget of votes for all its accounts. Cover votes and votes for learning are part of it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from lab.redteam.demo_content import ArenaContent
from lab.redteam.honest_voters import vote_honestly
from tiltyard.core.battles import Kind

#: What an account covers its votes with, where it does: so many honest votes for each vote on the target.
_COVER_SHARE = 0.6
#: Copies of the target that a submitter enters.
_COPY_COUNT = 4
#: The models just above the target that a cohort votes against.
_RIVAL_COUNT = 3
_DRIP_DAYS = 28
#: The share of a dictionary attack's votes that are cast to be told names, at most.
_LEARNT_SHARE = 0.5


@dataclass(frozen=True, slots=True)
class SeenMatchup:
    """What a voter sees. ``truth`` is for honest opinions only: who reads two responses knows which is better."""

    prompt: str
    a: str
    b: str
    truth: tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class AttackPlan:
    """How an attack is run."""

    name: str
    #: Votes before anything else looks at the pages, as the recorded attack did; otherwise each look is long enough.
    hasty: bool = False
    days: int = 1
    copies: int = 0
    #: Whether accounts ask for the names of their votes.
    reveals: bool = False


@dataclass(slots=True, eq=False)
class Attacker:
    """One attack under way: its knowledge is shared by all its accounts."""

    plan: AttackPlan
    content: ArenaContent
    target: int
    random: np.random.Generator
    votes: int
    #: Responses by the model's number.
    known: dict[str, int] = field(default_factory=dict)
    cast: int = 0
    _voices: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        if self.plan.name == "fingerprint":
            self._voices = _voices(self.content, self.target)
        elif not self.plan.reveals:
            self.known = {text: model for (model, _), text in self.content.responses.items()}

    def decide(self, seen: SeenMatchup) -> Kind | None:
        """The vote of an account on what it sees; ``None`` to skip."""
        chosen = _RULES[self.plan.name](self, seen)
        self.cast += chosen is not None
        return chosen

    def learn(self, names: dict[str, int]) -> None:
        """Remember responses whose models were revealed."""
        self.known |= names

    @property
    def is_learning(self) -> bool:
        """Whether names are worth more than votes now."""
        return self.plan.reveals and self.cast < _LEARNT_SHARE * self.votes

    def for_target(self, seen: SeenMatchup) -> Kind | None:
        """A vote for the target, if it is recognised on one side."""
        if self.plan.name == "fingerprint":
            a, b = (bool(self._voices & _ends(text)) for text in (seen.a, seen.b))
        else:
            a, b = (self.known.get(text) == self.target for text in (seen.a, seen.b))
        return None if a == b else Kind.WIN_A if a else Kind.WIN_B

    def honest(self, seen: SeenMatchup) -> Kind:
        """What an honest voter would say."""
        return vote_honestly(self.content, seen.truth, self.random)

    def against(self, seen: SeenMatchup, models: set[int]) -> Kind | None:
        """A vote against some models, if one of them is on one side only."""
        a, b = (self.known.get(text) in models for text in (seen.a, seen.b))
        return None if a == b else Kind.WIN_B if a else Kind.WIN_A


def _voices(content: ArenaContent, target: int) -> frozenset[str]:
    """First and last lines that the target uses more than once in answers to half of the prompts, and no other model."""
    lines: list[tuple[int, str]] = [
        (model, end)
        for (model, prompt), text in content.responses.items()
        if prompt % 2 == 0 and content.is_text[prompt]
        for end in _ends(text)
    ]
    own = [end for model, end in lines if model == target]
    others = {end for model, end in lines if model != target}
    return frozenset(end for end in own if own.count(end) > 1 and end not in others)


def _ends(text: str) -> set[str]:
    lines = text.strip().splitlines() or [""]
    return {lines[0].strip(), lines[-1].strip()}


def _learn_then_push(attacker: Attacker, seen: SeenMatchup) -> Kind | None:
    return _cover(attacker, seen) if attacker.is_learning else attacker.for_target(seen)


def _cover(attacker: Attacker, seen: SeenMatchup) -> Kind:
    pushed = attacker.for_target(seen)
    return attacker.honest(seen) if pushed is None else pushed


def _seldom(attacker: Attacker, seen: SeenMatchup) -> Kind | None:
    """Honest votes between, so that the target's share of an account's votes is small."""
    pushed = attacker.for_target(seen)
    if pushed is not None:
        return pushed
    return attacker.honest(seen) if attacker.random.random() < _COVER_SHARE else None


def _everywhere(attacker: Attacker, seen: SeenMatchup) -> Kind:
    """Never skips: whatever the target is not in gets any vote."""
    pushed = attacker.for_target(seen)
    if pushed is not None:
        return pushed
    return Kind.WIN_A if attacker.random.random() < 0.5 else Kind.WIN_B


def _push_or_skip(attacker: Attacker, seen: SeenMatchup) -> Kind | None:
    return attacker.for_target(seen)


def _cohort(attacker: Attacker, seen: SeenMatchup) -> Kind:
    """For the target, and against the models just above it."""
    strength = attacker.content.strength
    above = np.flatnonzero(strength > strength[attacker.target]).tolist()
    above.sort(key=lambda model: float(strength[model]))
    lowered = attacker.against(seen, set(above[:_RIVAL_COUNT]))
    pushed = attacker.for_target(seen)
    if pushed is not None:
        return pushed
    return attacker.honest(seen) if lowered is None else lowered


def _flood(attacker: Attacker, seen: SeenMatchup) -> Kind | None:
    """Copies beat all others and lose to the target, whose own votes against others are honest."""
    own = {
        attacker.target,
        *range(len(attacker.content.models) - attacker.plan.copies, len(attacker.content.models)),
    }
    a, b = (attacker.known.get(text) for text in (seen.a, seen.b))
    if a in own and b in own:
        return attacker.for_target(seen)
    if attacker.target in (a, b):
        return attacker.honest(seen)
    if (a in own) != (b in own):
        return Kind.WIN_A if a in own else Kind.WIN_B
    return None


_RULES: dict[str, Callable[[Attacker, SeenMatchup], Kind | None]] = {
    "dictionary, hasty": _learn_then_push,
    "dictionary": _learn_then_push,
    "patient, with cover": _cover,
    "omnipresent": _everywhere,
    "fingerprint": _seldom,
    "colluding cohort": _cohort,
    "slow drip": _cover,
    "skip farming": _push_or_skip,
    "clone flooding": _flood,
}
ATTACKS = (
    AttackPlan("dictionary, hasty", hasty=True, reveals=True),
    AttackPlan("dictionary", reveals=True),
    AttackPlan("patient, with cover"),
    AttackPlan("omnipresent"),
    AttackPlan("fingerprint"),
    AttackPlan("colluding cohort"),
    AttackPlan("slow drip", days=_DRIP_DAYS),
    AttackPlan("skip farming"),
    AttackPlan("clone flooding", copies=_COPY_COUNT),
)


def attack_named(name: str) -> AttackPlan:
    """The attack of this name."""
    return next(plan for plan in ATTACKS if plan.name == name)
