"""Compares two models with a judge, a few prompts at a time, until it is decided.

The prompts are taken in an order drawn by their hash. After each step the confidence sequence of the second model's lead is
looked at; because it holds at all looks at once, the first one that decides may end the run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import chain, islice
from pathlib import Path

import numpy as np

from tiltyard.core.judging.canaries import JudgeProof
from tiltyard.core.judging.power_analysis import expected_precision
from tiltyard.core.judging.verdict import QuestionState
from tiltyard.core.ratings.findings import Finding
from tiltyard.core.ratings.paired_difference import (
    MIN_SEQUENCE_PROMPTS,
    ABDecision,
    PairedDifference,
    decide,
    prompts_needed,
)
from tiltyard.errors import BadOption
from tiltyard.files.answer import Answer
from tiltyard.judges.ledger import Ledger
from tiltyard.report.run_documents import ActualCosts
from tiltyard.runs.ab_lead import (
    AB_MODE,
    RESTS_ON_JUDGE,
    SCALE_POINTS,
    JudgeEvidence,
    ab_difference,
    ab_level,
    ab_mode,
    planned_prompts,
    points,
    slot_findings,
    slot_preference,
)
from tiltyard.runs.tournament_files import read_run_documents
from tiltyard.settings.model_endpoints import PYTHON
from tiltyard.settings.prices import PriceEntry, format_dollars
from tiltyard.settings.ready_tournaments import DEFAULT_RUBRIC, QuickJudge, quick_document
from tiltyard.settings.tournament_config import shipped_rubric
from tiltyard.settings.tournament_sections import PromptSelection
from tiltyard.tournaments.inputs import CONFIG_NAME, quick_folder, write_quick_inputs
from tiltyard.tournaments.tournament_plan import make_plan
from tiltyard.tournaments.tournament_run import (
    JudgedTournament,
    PreparedRun,
    RunObserver,
    RunRequest,
    judge_tournament,
    prepare_run,
)

#: The default rubric, in the folder of a comparison whose answers have references.
_RUBRIC_FILE = f"{DEFAULT_RUBRIC}.txt"
#: The share of prompts that is added after each look.
_STEP_RATIO = 0.1


@dataclass(frozen=True)
class ABInputs:
    """The files of a comparison, written to a folder of their own."""

    folder: Path
    name_a: str
    name_b: str
    prompts: int

    @property
    def config(self) -> Path:
        return self.folder / CONFIG_NAME

    @property
    def run(self) -> Path:
        return self.folder / "run"


@dataclass(frozen=True, slots=True)
class StopRule:
    """What ends a comparison, and what its interval rests on."""

    #: Differences up to this, in rating points, count as the same.
    margin: float
    #: Whether it ends once the second model is not worse by more than the margin.
    at_not_worse: bool = False
    #: One look at this many prompts, instead of looks until it is decided.
    fixed: int | None = None
    max_prompts: int | None = None
    #: What each prompt comes in, such as its passage.
    clusters: Mapping[str, str] | None = None
    #: Of how many comparisons this is one: their intervals hold all at once.
    comparisons: int = 1
    #: Whether ties alone may say that they are the same.
    ties_are_same: bool = False

    def looks(self, prompts: int) -> Iterator[int]:
        """How many of the prompts are judged at each look."""
        if self.fixed is not None:
            return iter([min(self.fixed, prompts)])
        return look_sizes(min(prompts, self.max_prompts or prompts))

    def planned(self, prompts: int) -> int | None:
        """Where the sequence is narrowest; ``None`` for one look."""
        return None if self.fixed is not None else planned_prompts(prompts)

    def ends(self, decision: ABDecision) -> bool:
        """Whether no more prompts are needed."""
        if decision is ABDecision.NOT_WORSE:
            return self.at_not_worse
        return decision is not ABDecision.UNDECIDED


@dataclass(frozen=True, slots=True)
class JudgedComparison:
    """How far the second model leads by the judge's verdicts, in rating points."""

    inputs: ABInputs
    #: The mean score of the second model, minus a half.
    difference: PairedDifference
    decision: ABDecision
    margin: float
    #: Prompts that were judged, and that would decide; ``None`` if no sensible number would, or it is decided.
    judged: int
    needed: int | None
    #: Picodollars that were spent; ``None`` if a price is unknown.
    spent: int | None
    #: Of these, for calls whose replies arrived.
    answered: int | None
    judges: tuple[str, ...]
    #: Why judging stopped, if it did, and whether that is because a judge is unusable.
    failures: tuple[str, ...]
    unusable: str | None
    #: Questions by state, and the first error message of each state.
    states: Counter[str]
    problems: tuple[str, ...]
    #: How many spoilt answers the judges found; and what saying that they are the same rests on, where it is said.
    proofs: tuple[JudgeProof, ...] = ()
    evidence: JudgeEvidence | None = None
    #: Why it cannot be said that they are the same, although the interval is within the margin.
    doubt: str | None = None
    #: What judging the first prompt may cost, in picodollars; ``None`` if a price is unknown.
    first_match: int | None = None
    #: What the run says of the judges, and what it cost; known at the end.
    findings: tuple[Finding, ...] = ()
    costs: ActualCosts | None = None
    #: Prompts whose reference answer the judge is shown, and all prompts.
    references: tuple[int, int] = (0, 0)

    @property
    def lead(self) -> tuple[float, float, float]:
        """The lead and its interval, in points; infinite where nothing can be said."""
        found = self.difference
        return points(found.mean), points(found.low), points(found.high)

    @property
    def stop_reason(self) -> str | None:
        """Why judging ended before it was decided, and what to do; ``None`` if the prompts were used up."""
        if self.unusable:
            return None
        if self.failures or self.states["provider_error"] or self.states["lost"]:
            return "calls to the judge failed; once the cause is removed, run the command again to resume"
        if not self.states["unasked"]:
            return None
        if not self.judged and not self.spent and self.first_match is not None:
            least = format_dollars(self.first_match)
            return f"the budget covers no prompt: the two calls of the first may cost up to {least}, less with --max-tokens"
        return (
            "the rest of the budget does not cover the worst case of another prompt; run the command again with a "
            "higher --budget-usd to resume"
        )

    @property
    def more_usd(self) -> str | None:
        """What the prompts that are still needed would cost, by what answered calls cost so far."""
        if self.needed is None or not self.answered or not self.judged:
            return None
        return format_dollars(self.answered * max(self.needed - self.judged, 0) // self.judged)


def write_ab_inputs(
    sides: tuple[Sequence[Answer], Sequence[Answer]],
    judges: Sequence[QuickJudge],
    rubrics: Sequence[str],
    *,
    parent: Path,
    budget_usd: float | None = None,
    prices: Mapping[str, PriceEntry] | None = None,
    rule: StopRule,
) -> ABInputs:
    """Write configuration, prompts and answers. The same inputs have the same folder, so that a run is resumed.

    Without a rubric the judge is shown the reference answers that there are.

    What a prompt comes in by the ``rule`` is its category in the run, whose ratings are clustered by it.
    """
    first, second = ({one.prompt_id: one for one in side if one.comparable} for side in sides)
    shared = [prompt for prompt in first if prompt in second]
    if not shared:
        raise BadOption("no prompt has a response in both files: prompts are paired by their id")
    name_a, name_b = first[shared[0]].model, second[shared[0]].model
    document = quick_document(
        [name_a, name_b],
        judges,
        rubrics,
        mode=ab_mode(rule.comparisons),
        budget_usd=budget_usd,
        prices=prices,
    )
    document["checks"] = dict.fromkeys(("identical", "truncated", "garbage", "repeats"), 0)
    answers = [one for prompt in shared for one in (first[prompt], second[prompt])]
    if rule.clusters is not None:
        document["ratings"] = {"cluster": "category"}
        answers = [replace(one, category=rule.clusters[one.prompt_id]) for one in answers]
    shown = not rubrics and any(first[prompt].gold for prompt in shared)
    if shown:
        document["rubrics"] = {DEFAULT_RUBRIC: {"path": _RUBRIC_FILE}}
    folder = quick_folder(parent, AB_MODE, document, answers)
    write_quick_inputs(folder, document, answers)
    if shown:
        rubric = replace(shipped_rubric(DEFAULT_RUBRIC), gold=True)
        (folder / _RUBRIC_FILE).write_text(rubric.file_text(), encoding="utf-8")
    return ABInputs(folder, name_a, name_b, len(shared))


def compare_judged(
    inputs: ABInputs,
    watch: RunObserver,
    rule: StopRule,
    look: Callable[[JudgedComparison], None] = lambda _found: None,
) -> JudgedComparison:
    """Judge until it is decided, the prompts or the budget are used up, or the judge cannot be used.

    ``look`` is called with the result of every look.
    """
    whole = prepare_run(RunRequest(config_path=inputs.config, mode=ab_mode(rule.comparisons)))
    sizes = list(rule.looks(inputs.prompts))
    if rule.fixed is not None and sizes[0] > 1:
        watch.note(fixed_power(sizes[0], ab_level(rule.comparisons)))
    seats = whole.seats
    for size in sizes:
        # The run on the first ``size`` prompts, which is resumed as the whole.
        mode = replace(whole.mode, prompts=PromptSelection.model_validate({"n": size}))
        plan = replace(make_plan(whole.config, mode, whole.inputs, whole.seats), free_ties=True)
        part = replace(whole, mode=mode, plan=plan, whole_plan=whole.plan.sha256)
        # A run closes its providers.
        with judge_tournament(
            part.with_seats([replace(seat, provider=seat.reopen()) for seat in seats]),
            watch,
            output_dir=inputs.run,
        ) as judged:
            seats = tuple(judged.judges)
            found = _compared(inputs, judged, whole, rule)
            look(found)
            # Writing the folder takes longer than a look; a run that is killed before is resumed from the ledger.
            # Asking more is of no use once the budget is used up, calls fail, or the judge follows the slot.
            stopped = bool(found.failures) or found.states["unasked"] > 0
            if size >= sizes[-1] or rule.ends(found.decision) or stopped:
                finished = judged.write(watch)
                break
    diagnostics, costs = read_run_documents(finished.out)
    findings = tuple(Finding.from_dict(one) for one in diagnostics["findings"])
    return replace(found, findings=findings, costs=costs["actual"], references=_references(whole))


def _references(whole: PreparedRun) -> tuple[int, int]:
    """The prompts whose reference answer is shown, and all of them; functions are shown none."""
    shown = any(one.gold for one in whole.inputs.rubrics.values())
    reading = any(seat.settings.provider != PYTHON for seat in whole.seats)
    prompts = whole.plan.prompts
    return sum(one.gold is not None for one in prompts) if shown and reading else 0, len(prompts)


def fixed_power(prompts: int, level: float) -> str:
    """What one look at this many prompts can tell."""
    precision = expected_precision(np.array([[0, prompts], [prompts, 0]]), prompts, level=level)
    assert precision is not None
    return (
        f"One look at {prompts:,} prompts: a difference of {precision.detectable:.0f} points is found with "
        f"{precision.power:.0%} power, if {precision.assumptions.tie_rate:.0%} are ties"
    )


def look_sizes(most: int) -> Iterator[int]:
    """The number of prompts at each look."""
    size = min(MIN_SEQUENCE_PROMPTS, most)
    while True:
        yield size
        if size >= most:
            return
        size = min(size + max(10, round(_STEP_RATIO * size)), most)


def _compared(
    inputs: ABInputs, judged: JudgedTournament, whole: PreparedRun, rule: StopRule
) -> JudgedComparison:
    planned, margin = rule.planned(inputs.prompts), rule.margin
    level = ab_level(rule.comparisons)
    found = ab_difference(judged.run.battles(), inputs.name_b, planned, clusters=rule.clusters, level=level)
    decision = decide(points(found.low), points(found.high), margin)
    evidence, doubt = None, None
    if rule.fixed is not None and judged.readings.states["unasked"]:
        # The look was planned for all of them.
        decision = ABDecision.UNDECIDED
    if decision in RESTS_ON_JUDGE:
        run = judged.run
        rows = chain.from_iterable(map(run.judged, run.dimensions))
        evidence = JudgeEvidence.of(judged.proofs, rows, run.battles())
        doubt = slot_preference(slot_findings(run)) or evidence.doubt(ties_are_same=rule.ties_are_same)
        decision = decision if doubt is None else ABDecision.CANNOT_TELL
    score_margin = 1.0 / (1.0 + 10.0 ** (-margin / SCALE_POINTS)) - 0.5
    with closing(Ledger(whole.databases.ledger)) as ledger:
        row = ledger.run(judged.run.run_id)
        lost = sum(
            one.cost or 0 for one in ledger.attempts(judged.run.run_id) if one.state == QuestionState.LOST
        )
    priced = all(seat.price is not None for seat in whole.seats)
    # The worst case of both orders of a prompt.
    priced_plan = whole.with_seats(judged.judges).plan
    worst = [request.worst for request in islice(priced_plan.requests(0, len(priced_plan)), 2)]
    return JudgedComparison(
        inputs=inputs,
        difference=found,
        decision=decision,
        margin=margin,
        judged=found.prompts,
        needed=prompts_needed(found, score_margin, planned=planned, not_worse=rule.at_not_worse)
        if decision is ABDecision.UNDECIDED
        else None,
        spent=row.spent if priced else None,
        answered=row.spent - lost if priced else None,
        judges=tuple(seat.name for seat in judged.judges),
        failures=() if judged.sat is None else tuple(judged.sat.failures.values()),
        unusable=None if judged.sat is None else judged.sat.unusable,
        states=judged.readings.states,
        problems=tuple(judged.readings.problems.values()),
        proofs=judged.proofs,
        evidence=evidence,
        doubt=doubt,
        first_match=None if None in worst else sum(cost or 0 for cost in worst),
    )
