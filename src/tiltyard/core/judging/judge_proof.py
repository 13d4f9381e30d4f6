"""The proof that a judge can tell answers apart: how many spoilt answers it found."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tiltyard.core.judging.canaries import MIN_PROOF_COUNT, SPOILT_KINDS, missed_kinds
from tiltyard.core.judging.judged_question import JudgedQuestion
from tiltyard.core.judging.verdict_groups import passes


@dataclass(frozen=True, slots=True)
class JudgeProof:
    """How many spoilt answers a judge found in one dimension."""

    judge: str
    dimension: str
    #: By kind: those that it found, and all of them. One without a verdict is not found.
    kinds: Mapping[str, tuple[int, int]]
    #: Whether an earlier proof is kept, so that few were planted.
    kept: bool = False

    @property
    def found(self) -> int:
        return sum(found for found, _ in self.kinds.values())

    @property
    def asked(self) -> int:
        return sum(asked for _, asked in self.kinds.values())

    @property
    def holds(self) -> bool:
        """Whether it found enough; two that it misses void a kept proof."""
        if self.kept:
            return self.asked > 0 and self.asked - self.found <= 1
        return self.asked >= MIN_PROOF_COUNT and not missed_kinds(self.kinds)

    @property
    def not_made(self) -> tuple[str, ...]:
        """The kinds that could not be made of these answers."""
        return tuple(kind.value for kind in SPOILT_KINDS if kind.value not in self.kinds)


def judge_proofs(judged: Iterable[JudgedQuestion], *, kept: bool = False) -> tuple[JudgeProof, ...]:
    """What each judge made of the spoilt answers; other questions are passed over."""
    counts: dict[tuple[str, str], dict[str, tuple[int, int]]] = {}
    for one in judged:
        if one.question.purpose in SPOILT_KINDS:
            kinds = counts.setdefault((one.question.judge, one.question.dimension), {})
            found, asked = kinds.get(one.question.purpose.value, (0, 0))
            kinds[one.question.purpose.value] = found + (passes(one) is True), asked + 1
    return tuple(JudgeProof(*place, kinds, kept) for place, kinds in counts.items())
