"""How far the second of two models leads by a judge's battles, and whether its verdicts may say that they are the same."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

import numpy as np

from tiltyard.core.battles import Battle, Label, Outcome
from tiltyard.core.judging.diagnostics import VerdictObserver, list_judge_findings
from tiltyard.core.ratings.findings import Finding
from tiltyard.core.ratings.paired_difference import (
    MIN_SEQUENCE_PROMPTS,
    ABDecision,
    PairedDifference,
    paired_difference,
)
from tiltyard.runs.judged_run import JudgedRun

#: The mode of a tournament that `tiltyard ab` runs; ``ab-3`` if it is one of three comparisons.
AB_MODE = "ab"
#: How far apart two models may be, in points, and still count as the same.
DEFAULT_MARGIN_POINTS = 20.0
#: The sequence is narrowest at about so many prompts: between those that gaps of 40 and of 80 points need.
PLANNED_PROMPTS = 500
#: What is only said if the judge can tell answers apart: ties alone would say it too.
RESTS_ON_JUDGE = frozenset({ABDecision.SAME, ABDecision.NOT_WORSE})
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
            observer.add(judged.question, judged.state, judged.verdict)
    return list_judge_findings(observer.diagnostics(run.judge_families))


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


def _leads(battles: Iterable[Battle], name_b: str) -> dict[str, float]:
    """For each judged prompt, the second model's score minus a half; several dimensions are averaged."""
    by_prompt: dict[str, list[float]] = {}
    for battle in battles:
        value = _LEADS.get(battle.winner, 0.0) / (2.0 if battle.label is Label.LEAN else 1.0)
        lead = value if battle.model_b == name_b else -value
        by_prompt.setdefault(battle.question_id or "", []).append(lead)
    return {prompt: float(np.mean(leads)) for prompt, leads in by_prompt.items()}
