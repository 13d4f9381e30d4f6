"""Is B better than A? By a judge, or by the scores that both carry: one function for the command line and for Python."""

from __future__ import annotations

import asyncio
import filecmp
import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, Unpack, get_args

from tiltyard.core.ratings.paired_difference import ABDecision
from tiltyard.errors import BadOption
from tiltyard.files.answer import LOG_STATUS_NOTE, UNREADABLE_SCORE_NOTE, Answer
from tiltyard.files.answer_formats.lm_eval import lower_is_better_metrics
from tiltyard.files.answers import answer_columns, drop_replaced_answers, open_answers
from tiltyard.files.input_address import shown_path
from tiltyard.foundation.option_names import option_name, refuse_unknown
from tiltyard.report.ab_report import ABReport
from tiltyard.runs.ab_lead import DEFAULT_MARGIN_POINTS
from tiltyard.settings.prices import PriceEntry, format_dollars, read_prices
from tiltyard.settings.ready_tournaments import QuickJudge
from tiltyard.tournaments.ab_costs import cost_ratios
from tiltyard.tournaments.ab_run import JudgedComparison, StopRule, compare_judged, write_ab_inputs
from tiltyard.tournaments.ab_scores import (
    NO_CLUSTERS,
    ScoreRule,
    ScoreTable,
    clusters_of,
    compare_scores,
    score_table,
)
from tiltyard.tournaments.python_tournament import (
    Judge,
    JudgingOptions,
    UnwatchedRun,
    named_judges,
    off_the_loop,
    several,
)
from tiltyard.tournaments.quick_inputs import read_values
from tiltyard.tournaments.tournament_run import RunObserver

#: Tools whose ids name the data of a sample, so that its prompt may have been edited.
_DATA_SOURCES = frozenset({"promptfoo", "lm-eval"})
_SHOWN_CHARACTERS = 60

#: What a comparison is made for: until it is decided, or until B is not worse.
Goal = Literal["decide", "not-worse"]
#: How many scores or columns a message lists.
_LISTED_COUNT = 12
#: A file in any known format, or answers, as values, as mappings with their fields, or as a frame.
Side = str | os.PathLike[str] | Iterable[Answer | Mapping[str, Any]] | Any


@dataclass(frozen=True, kw_only=True)
class ABSettings:
    """How two models are compared: by ``judges``, or by a ``score`` that both have."""

    judges: Sequence[QuickJudge] = ()
    rubrics: Sequence[str] = ()
    score: str | None = None
    #: Differences up to this count as the same: points with a judge (20 by default), units of the score without.
    margin: float | None = None
    #: Whether lower scores are better; files of lm-evaluation-harness may say so themselves.
    lower_is_better: bool = False
    budget_usd: float | None = None
    prices: Mapping[str, PriceEntry] = field(default_factory=dict)
    max_prompts: int | None = None
    #: With a judge, one look at this many prompts.
    fixed: int | None = None
    #: Whether it is enough that B is not worse.
    goal: Goal = "decide"
    #: The least and the greatest value of the score.
    bounds: tuple[float, float] | None = None
    #: A field of the answers by which prompts belong together.
    cluster: str | None = None
    output_dir: Path = Path("runs")

    def __post_init__(self) -> None:
        if self.judges and self.score is not None:
            raise BadOption(f"{option_name('score')} is for a comparison without {option_name('judge')}")
        if self.judges and self.lower_is_better:
            raise BadOption(
                f"{option_name('lower_is_better')} is for a comparison without {option_name('judge')}"
            )
        if self.judges and self.bounds is not None:
            raise BadOption(f"{option_name('bounds')} is for a comparison without {option_name('judge')}")
        if self.bounds is not None and not -math.inf < self.bounds[0] < self.bounds[1] < math.inf:
            raise BadOption(
                f"{option_name('bounds')} is {self.bounds}; expected two numbers, the lower one first"
            )
        if self.goal not in get_args(Goal):
            raise BadOption(f"{option_name('goal', self.goal)}: expected {' or '.join(get_args(Goal))}")
        if self.goal == "not-worse" and not self.judges and self.margin is None:
            raise BadOption(
                f"{option_name('goal', self.goal)} needs {option_name('margin')}: how much worse still counts as not worse"
            )
        if self.fixed is not None and self.max_prompts is not None:
            raise BadOption(f"{option_name('fixed')} and {option_name('max_prompts')}: choose one of them")
        if not self.judges and (self.rubrics or self.budget_usd is not None or self.fixed is not None):
            needing = [
                option_name(name) for name in ("rubric", "provider", "base_url", "budget_usd", "fixed")
            ]
            raise BadOption(
                f"{', '.join(needing[:-1])} and {needing[-1]} need {option_name('judge', 'MODEL')}"
            )


class ABOptions(JudgingOptions, total=False):
    """Further options of a comparison: of scores, and of one with a judge."""

    lower_is_better: bool
    max_prompts: int
    fixed: int
    goal: Goal
    bounds: tuple[float, float]
    cluster: str


def ab(
    a: Side,
    b: Side,
    *,
    judge: Judge | Sequence[Judge] = (),
    score: str | None = None,
    margin: float | None = None,
    **options: Unpack[ABOptions],
) -> ABReport:
    """Is B better than A? By the scores that both carry, or by a judge that is asked until it is decided.

    ``a`` and ``b`` are files of answers or logs in any known format, answers, mappings, or frames. The result has ``decision`` (``better``,
    ``not worse``, ``same``, ``worse`` or ``undecided``, said of B; ``cannot tell`` of the judge), the difference with its
    interval, and ``verdict``, a sentence.
    """
    refuse_unknown("ab", options, ABOptions)
    settings = ABSettings(
        judges=named_judges(judge, options),
        rubrics=several(options.get("rubric", ())),
        score=score,
        margin=margin,
        lower_is_better=options.get("lower_is_better", False),
        budget_usd=options.get("budget_usd"),
        prices=read_prices(options.get("prices", {})),
        max_prompts=options.get("max_prompts"),
        fixed=options.get("fixed"),
        goal=options.get("goal", "decide"),
        bounds=options.get("bounds"),
        cluster=options.get("cluster"),
        output_dir=Path(options.get("output_dir", "runs")),
    )
    return off_the_loop(partial(compare_ab, a, b, settings))


async def ab_async(
    a: Side,
    b: Side,
    *,
    judge: Judge | Sequence[Judge] = (),
    score: str | None = None,
    margin: float | None = None,
    **options: Unpack[ABOptions],
) -> ABReport:
    """The same as `ab`, without blocking the event loop."""
    return await asyncio.to_thread(partial(ab, a, b, judge=judge, score=score, margin=margin, **options))


def compare_ab(
    a: Side,
    b: Side,
    settings: ABSettings,
    watch: RunObserver | None = None,
    look: Callable[[JudgedComparison], None] = lambda _found: None,
) -> ABReport:
    """Compare two sides; ``look`` is called with the result of every look of a judged comparison."""
    notes: list[str] = []
    read_a, read_b = _read(a, notes), _read(b, notes)
    notes += _sameness(a, b, read_a, read_b)
    costs = cost_ratios(read_a, read_b, settings.cluster, settings.prices)
    first, second = _named(a, b, read_a, read_b)
    if not settings.judges:
        first, second = drop_other_prompts(first, second, notes)
        tables = score_table(first), score_table(second)
        if tables[0].keys().isdisjoint(tables[1]):
            raise BadOption(_no_shared_score((a, b), tables, notes))
        score_rule = ScoreRule(
            settings.score,
            settings.margin,
            settings.lower_is_better,
            settings.goal == "not-worse",
            settings.bounds,
            settings.cluster,
        )
        report = compare_scores(first, second, score_rule, _lower_metrics(a) | _lower_metrics(b))
        return replace(report, notes=(*notes, *report.notes), costs=costs)
    clusters = None
    if settings.cluster not in {None, NO_CLUSTERS}:
        prompts = {one.prompt_id for one in first} & {one.prompt_id for one in second}
        clusters = clusters_of((*first, *second), prompts, settings.cluster or "")
    inputs = write_ab_inputs(
        (first, second),
        settings.judges,
        settings.rubrics,
        parent=settings.output_dir,
        budget_usd=settings.budget_usd,
        prices=settings.prices,
        clusters=clusters,
    )
    rule = StopRule(
        margin=DEFAULT_MARGIN_POINTS if settings.margin is None else settings.margin,
        at_not_worse=settings.goal == "not-worse",
        fixed=settings.fixed,
        max_prompts=settings.max_prompts,
        clusters=clusters,
    )
    found = compare_judged(inputs, watch or UnwatchedRun(), rule, look)
    return replace(_by_judges(found), notes=tuple(notes), costs=costs)


def _read(side: Side, notes: list[str]) -> list[Answer]:
    if isinstance(side, str | os.PathLike):
        source = open_answers(side)
        name = source.path
        found = list(drop_replaced_answers(source.answers()))
        notes += [
            f"{name}: {reason}"
            if reason.startswith(LOG_STATUS_NOTE)
            else f"{name}: {count:,} left out: {reason}"
            for reason, count in source.notes
        ]
    else:
        name = "these answers"
        found = read_values(side, name)
    models = sorted({answer.model for answer in found})
    if len(models) > 1:
        raise BadOption(
            f"{name}: has answers of several models ({', '.join(models[:5])}); give each model a file of its own"
        )
    if not found:
        raise BadOption(f"{name}: has no answers")
    return found


def _sameness(a: Side, b: Side, first: list[Answer], second: list[Answer]) -> Iterator[str]:
    paths = [Path(side) for side in (a, b) if isinstance(side, str | os.PathLike)]
    files = [path for path in paths if path.is_file()]
    if len(files) == 2 and filecmp.cmp(files[0], files[1], shallow=False):
        yield "A and B are the same file"
    elif first == second:
        yield "A and B have the same answers"


def _no_shared_score(
    sides: tuple[Side, Side], tables: tuple[ScoreTable, ScoreTable], notes: Sequence[str]
) -> str:
    """What scores there are, what could not be read, and what to do."""
    said = ["the files have no score in common"]
    for name, side, table in zip("AB", sides, tables, strict=True):
        scores = ", ".join(list(table)[:_LISTED_COUNT])
        columns = () if scores or not isinstance(side, str | os.PathLike) else answer_columns(side)
        listed = f" (its columns: {', '.join(columns[:_LISTED_COUNT])})" if columns else ""
        said.append(f"{name} has {scores or 'no scores'}{listed}")
    said += [note for note in notes if UNREADABLE_SCORE_NOTE in note]
    advice = f"call a column score or scores.NAME, or let a model judge, with {option_name('judge', 'MODEL')}"
    return f"{'; '.join(said)}; {advice}"


def _named(a: Side, b: Side, first: list[Answer], second: list[Answer]) -> tuple[list[Answer], list[Answer]]:
    """The models' names; those of the files if both are the same model, as for two prompts or settings."""
    if first[0].model != second[0].model:
        return first, second
    stems = [
        Path(shown_path(side)).stem if isinstance(side, str | os.PathLike) else first[0].model
        for side in (a, b)
    ]
    names = stems if stems[0] != stems[1] else [f"A {stems[0]}", f"B {stems[1]}"]
    return (
        [replace(one, model=names[0]) for one in first],
        [replace(one, model=names[1]) for one in second],
    )


def _lower_metrics(side: Side) -> frozenset[str]:
    """The metrics of which a file says itself that lower is better."""
    return lower_is_better_metrics(Path(side)) if isinstance(side, str | os.PathLike) else frozenset()


def _by_judges(found: JudgedComparison) -> ABReport:
    lead, low, high = found.lead
    undecided = found.decision is ABDecision.UNDECIDED
    unanswered = ("unasked", "provider_error", "lost")
    stopped = bool(found.failures or any(found.states[state] for state in unanswered))
    return ABReport(
        name_a=found.inputs.name_a,
        name_b=found.inputs.name_b,
        decision=(ABDecision.CANNOT_TELL if undecided and found.unusable else found.decision).value,
        basis="judge",
        unit="points",
        difference=lead,
        low=low,
        high=high,
        level=found.difference.level,
        compared=found.judged,
        margin=found.margin,
        more=None if found.needed is None else max(found.needed - found.judged, 1),
        more_usd=found.more_usd,
        details={
            "judges": ", ".join(found.judges),
            "spent": None if found.spent is None else format_dollars(found.spent),
            "run": str(found.inputs.run),
        },
        stopped=stopped,
        reason=found.slot_preference or found.unusable or found.stop_reason,
        findings=found.findings,
        problems=tuple(dict.fromkeys((*found.failures, *found.problems))),
    )


def drop_other_prompts(
    first: Sequence[Answer], second: Sequence[Answer], notes: list[str]
) -> tuple[list[Answer], list[Answer]]:
    """Leave out samples that have one id and two prompts; if these are most, the files are of different tasks."""
    a, b = ({one.prompt_id: one for one in side if one.prompt} for side in (first, second))
    shared = [name for name in a if name in b]
    other = [
        name
        for name in shared
        if a[name].prompt.strip() != b[name].prompt.strip() and a[name].source not in _DATA_SOURCES
    ]
    # The prompts of the same samples were edited if all targets are known, various and the same.
    known = all(a[name].gold is not None and a[name].gold == b[name].gold for name in other)
    if not other or (known and len({a[name].gold for name in other}) > 1):
        return list(first), list(second)
    if 2 * len(other) > len(shared):
        texts = " and ".join(repr(side[other[0]].prompt[:_SHOWN_CHARACTERS]) for side in (a, b))
        raise BadOption(
            f"{len(other):,} of {len(shared):,} samples have the same id, but different prompts, such as "
            f"{other[0]}: {texts}; are these files of the same task?"
        )
    things, verb = ("sample has", "was") if len(other) == 1 else ("samples have", "were")
    notes.append(f"{len(other):,} {things} different prompts in A and B and {verb} left out")
    dropped = frozenset(other)
    left, right = ([one for one in side if one.prompt_id not in dropped] for side in (first, second))
    return left, right
