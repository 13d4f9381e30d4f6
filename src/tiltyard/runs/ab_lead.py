"""How far the second of two models leads by a judge's battles, and whether its verdicts may say that they are the same."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from tiltyard.core.battles import Battle, Label, Outcome
from tiltyard.core.judging.canaries import MIN_PROOF_COUNT, JudgeProof
from tiltyard.core.judging.diagnostics.judge_diagnostics import VerdictObserver, list_judge_findings
from tiltyard.core.judging.judged_question import JudgedQuestion
from tiltyard.core.ratings.findings import Finding
from tiltyard.core.ratings.paired_difference import (
    MIN_SEQUENCE_PROMPTS,
    ABDecision,
    PairedDifference,
    paired_difference,
)
from tiltyard.foundation.option_names import option_name
from tiltyard.runs.tournament_manifest import JudgedRun

#: The mode of a tournament that `tiltyard ab` runs; ``ab-3`` if it is one of three comparisons.
AB_MODE = "ab"
#: How far apart two models may be, in points, and still count as the same.
DEFAULT_MARGIN_POINTS = 20.0
#: The sequence is narrowest at about so many prompts: between those that gaps of 40 and of 80 points need.
PLANNED_PROMPTS = 500
#: What is only said if the judge can tell answers apart: ties alone would say it too.
RESTS_ON_JUDGE = frozenset({ABDecision.SAME, ABDecision.NOT_WORSE})
#: With more ties than this among answers that differ, a judge may see no difference but the plainest.
_TIE_SHARE = 0.9
#: Points of a rating per unit of log odds to the base 10.
SCALE_POINTS = 400.0
#: What an outcome means for the model that is named second; a win in one order and a tie in the other is half a lead.
_LEADS = {Outcome.MODEL_A: -0.5, Outcome.MODEL_B: 0.5}


def ab_mode(comparisons: int) -> str:
    """The mode of a run that is one of so many comparisons."""
    return AB_MODE if comparisons == 1 else f"{AB_MODE}-{comparisons}"


def ab_comparisons(mode: str) -> int | None:
    """Of how many comparisons a run of this mode is one; ``None`` if it is no comparison."""
    name, _, count = mode.partition("-")
    if name != AB_MODE or not (count.isdecimal() or mode == AB_MODE):
        return None
    return max(int(count or 1), 1)


def ab_level(comparisons: int) -> float:
    """The level of each interval at which all of them hold at once with 95 %, by Bonferroni's rule."""
    return 1.0 - 0.05 / comparisons


def points(score: float) -> float:
    """The rating difference at which a model scores a half plus this."""
    if not -0.5 < score < 0.5:
        return math.copysign(math.inf, score)
    return SCALE_POINTS * math.log10((0.5 + score) / (0.5 - score))


def planned_prompts(prompts: int) -> int:
    """The number of prompts at which the sequence is narrowest, if there are ``prompts`` in all."""
    return min(PLANNED_PROMPTS, max(prompts, MIN_SEQUENCE_PROMPTS))


def ab_difference(
    battles: Iterable[Battle],
    name_b: str,
    planned: int | None,
    *,
    clusters: Mapping[str, str] | None = None,
    level: float = 0.95,
) -> PairedDifference:
    """The mean score of the second model minus a half, with its interval: a confidence sequence if it is ``planned``.

    ``clusters`` has what each prompt comes in, such as its passage.
    """
    leads = _leads(battles, name_b)
    numbers = None
    if clusters is not None:
        _, numbers = np.unique([clusters[prompt] for prompt in leads], return_inverse=True)
    values = np.array(list(leads.values()))
    return paired_difference(values, 0.5, level=level, planned=planned, clusters=numbers)


def slot_findings(run: JudgedRun) -> tuple[Finding, ...]:
    """What the verdicts so far say of the judges and the order of the responses; their texts are not looked at."""
    observer = VerdictObserver()
    for dimension in run.dimensions:
        for judged in run.judged(dimension):
            if not judged.free:
                observer.add(judged.question, judged.state, judged.verdict)
    return list_judge_findings(observer.diagnostics(run.draft.judge_families))


def slot_preference(findings: Iterable[Finding]) -> str | None:
    """Why the verdicts cannot say that two models are the same: they follow the slot; ``None`` if they do not.

    A match that flips with the order counts as a tie, so a judge that always names one slot makes any two models equal.
    """
    named = {
        (finding.name, finding.values["judge"]): finding.values
        for finding in reversed(list(findings))
        if finding.name in {"flips-often", "slot-preference"}
    }
    for (name, judge), flips in named.items():
        slot = named.get(("slot-preference", judge))
        if name == "flips-often" and slot is not None:
            flipped = round(flips["share"] * flips["trials"])
            return (
                f"the judge {judge} prefers the {slot['case']} slot: {flipped:,} of {flips['trials']:,} matches flip "
                "with the order"
            )
    return None


@dataclass(frozen=True, slots=True)
class JudgeEvidence:
    """What it rests on that two models are the same: spoilt answers that the judges found, and their ties."""

    proofs: tuple[JudgeProof, ...]
    #: Battles between answers that differ, and how many of these are ties.
    differing: int
    tied: int

    @classmethod
    def of(
        cls, proofs: Iterable[JudgeProof], judged: Iterable[JudgedQuestion], battles: Iterable[Battle]
    ) -> JudgeEvidence:
        """From all questions and battles of two models."""
        free = {(one.question.dimension, one.question.prompt_id) for one in judged if one.free}
        asked = [one for one in battles if (one.dimension, one.question_id) not in free]
        return cls(tuple(proofs), len(asked), sum(one.winner not in _LEADS for one in asked))

    @property
    def tie_share(self) -> float:
        return self.tied / max(self.differing, 1)

    def doubt(self, *, ties_are_same: bool = False) -> str | None:
        """Why the verdicts cannot say that two models are the same; ``None`` if they can."""
        if not self.differing:
            return None
        failed = next((proof for proof in self.proofs if not proof.holds), None)
        if failed is None and self.proofs:
            if ties_are_same or self.tie_share <= _TIE_SHARE:
                return None
            accepts = option_name("ties_are_same", True)
            return f"{self.tie_share:.0%} of the answers that differ are ties, too many to mean the same; {accepts} accepts them"
        if failed is None or (failed.asked < MIN_PROOF_COUNT and not failed.kept):
            planted = 0 if failed is None else failed.asked
            needed = f"without an earlier proof {MIN_PROOF_COUNT} are needed"
            return (
                f"{planted} spoilt answers were planted, and {needed}: run the command again, or add prompts"
            )
        kinds = ", ".join(f"{kind} {found} of {asked}" for kind, (found, asked) in failed.kinds.items())
        return (
            f"the judge {failed.judge} found only {failed.found} of {failed.asked} spoilt answers ({kinds})"
        )

    def __str__(self) -> str:
        if not self.differing:
            return "no answer differs"
        found, asked = (sum(getattr(one, name) for one in self.proofs) for name in ("found", "asked"))
        earlier = " beside an earlier proof" if any(one.kept for one in self.proofs) else ""
        return f"{found} of {asked} spoilt answers found{earlier}, {self.tie_share:.0%} ties"


def _leads(battles: Iterable[Battle], name_b: str) -> dict[str, float]:
    """For each judged prompt, the second model's score minus a half; several dimensions are averaged."""
    by_prompt: dict[str, list[float]] = {}
    for battle in battles:
        value = _LEADS.get(battle.winner, 0.0) / (2.0 if battle.label is Label.LEAN else 1.0)
        lead = value if battle.model_b == name_b else -value
        by_prompt.setdefault(battle.question_id or "", []).append(lead)
    return {prompt: float(np.mean(leads)) for prompt, leads in by_prompt.items()}
