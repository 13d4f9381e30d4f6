"""Is B better than A? By a judge, or by the scores that both carry: one function for the command line and for Python."""

from __future__ import annotations

import asyncio
import filecmp
import os
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Unpack

import numpy as np

from tiltyard.core.ratings.comparison import (
    ABDecision,
    decide,
    paired_difference,
    prompts_needed,
)
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
from tiltyard.tournaments.ab_run import JudgedComparison, compare_judged, write_ab_inputs
from tiltyard.tournaments.python_tournament import (
    Judge,
    JudgingOptions,
    UnwatchedRun,
    named_judges,
    off_the_loop,
    several,
)
from tiltyard.tournaments.quick_inputs import answer_of
from tiltyard.tournaments.tournament_run import RunObserver

#: Scores of one model: metric → prompt → values of its repeats.
ScoreTable = Mapping[str, Mapping[str, list[float]]]

#: The score that is compared where there are several and none was chosen.
_MAIN_SCORE = "score"
#: From this value on, scores beside some that lie between 0 and 1 look like percentages.
_LARGE_SCORE_POINTS = 10.0
#: Tools whose ids name the data of a sample, so that its prompt may have been edited.
_DATA_SOURCES = frozenset({"promptfoo", "lm-eval"})
_SHOWN_CHARACTERS = 60

#: How many scores or columns a message lists.
_LISTED_COUNT = 12
#: A file in any known format, or answers, as values or as mappings with their fields.
Side = str | os.PathLike[str] | Iterable[Answer | Mapping[str, Any]]


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
    output_dir: Path = Path("runs")

    def __post_init__(self) -> None:
        if self.judges and self.score is not None:
            raise BadOption(f"{option_name('score')} is for a comparison without {option_name('judge')}")
        if self.judges and self.lower_is_better:
            raise BadOption(
                f"{option_name('lower_is_better')} is for a comparison without {option_name('judge')}"
            )
        if not self.judges and (self.rubrics or self.budget_usd is not None):
            needing = [option_name(name) for name in ("rubric", "provider", "base_url", "budget_usd")]
            raise BadOption(
                f"{', '.join(needing[:-1])} and {needing[-1]} need {option_name('judge', 'MODEL')}"
            )


class ABOptions(JudgingOptions, total=False):
    """Further options of a comparison: of scores, and of one with a judge."""

    lower_is_better: bool
    max_prompts: int


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

    ``a`` and ``b`` are files of answers or logs in any known format, or answers. The result has ``decision``
    (``better``, ``same``, ``worse`` or ``undecided``, said of B), the difference with its interval, and ``verdict``, a sentence.
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
    first, second = _named(a, b, read_a, read_b)
    if not settings.judges:
        first, second = drop_other_prompts(first, second, notes)
        tables = score_table(first), score_table(second)
        if tables[0].keys().isdisjoint(tables[1]):
            raise BadOption(_no_shared_score((a, b), tables, notes))
        names = first[0].model, second[0].model
        report = _by_scores(names, tables, settings, _lower_metrics(a) | _lower_metrics(b))
        return replace(report, notes=(*notes, *report.notes))
    inputs = write_ab_inputs(
        first,
        second,
        settings.judges,
        settings.rubrics,
        parent=settings.output_dir,
        budget_usd=settings.budget_usd,
        prices=settings.prices,
    )
    margin = DEFAULT_MARGIN_POINTS if settings.margin is None else settings.margin
    found = compare_judged(
        inputs, watch or UnwatchedRun(), margin=margin, max_prompts=settings.max_prompts, look=look
    )
    return replace(_by_judges(found), notes=tuple(notes))


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
        values = [answer_of(one, number) for number, one in enumerate(side, start=1)]
        name, found = "these answers", list(drop_replaced_answers(values))
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


def _by_scores(
    names: tuple[str, str],
    tables: tuple[ScoreTable, ScoreTable],
    settings: ABSettings,
    lower_metrics: Collection[str],
) -> ABReport:
    """The mean difference of the second model's scores to the first's; repeats of a sample are averaged first."""
    known = [name for name in tables[0] if name in tables[1]]
    score = choose_score(known, settings.score)
    lower = settings.lower_is_better or lower_is_better(score, lower_metrics)
    others = ", ".join(name for name in known if name != score)
    notes = []
    if others and settings.score is None:
        notes.append(f"compared by {score}; choose another with {option_name('score')}: {others}")
    a, b = tables[0][score], tables[1][score]
    both = [prompt for prompt in a if prompt in b]
    if not both:
        raise BadOption(
            f"no sample has the score {score} in both files: samples are paired by their id; "
            "are these logs of the same task?"
        )
    left, right = (np.array([np.mean(side[prompt]) for prompt in both]) for side in (a, b))
    values = [[value for repeats in side.values() for value in repeats] for side in (a, b)]
    least, most = min(map(min, values)), max(map(max, values))
    found = paired_difference(right - left, most - least)
    if least >= 0.0 and most <= 1.0:
        found = replace(found, low=max(found.low, -1.0), high=min(found.high, 1.0))
    ends = (-found.high, -found.low) if lower else (found.low, found.high)
    decision = decide(*ends, settings.margin)
    needed = prompts_needed(found, settings.margin) if decision is ABDecision.UNDECIDED else None
    return ABReport(
        name_a=names[0],
        name_b=names[1],
        decision=decision.value,
        basis="scores",
        unit=score,
        difference=found.mean,
        low=found.low,
        high=found.high,
        level=found.level,
        compared=found.prompts,
        margin=settings.margin,
        more=None if needed is None else max(needed - found.prompts, 1),
        details={
            "mean_a": float(left.mean()),
            "mean_b": float(right.mean()),
            "only_in_a": len(a) - len(both),
            "only_in_b": len(b) - len(both),
        },
        lower_is_better=lower,
        notes=(*notes, *_repeat_note(a, b, both), *_scale_note(*values)),
    )


def _by_judges(found: JudgedComparison) -> ABReport:
    lead, low, high = found.lead
    stopped = bool(found.failures or found.states["unasked"] or found.states["provider_error"])
    return ABReport(
        name_a=found.inputs.name_a,
        name_b=found.inputs.name_b,
        decision=found.decision.value,
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
        unusable=found.unusable or found.slot_preference,
        reason=found.slot_preference or (None if found.unusable else found.stop_reason),
        findings=found.findings,
        problems=tuple(dict.fromkeys((*found.failures, *found.problems))),
    )


def score_table(answers: Iterable[Answer]) -> ScoreTable:
    """The scores of a file, by metric and sample."""
    table: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for answer in answers:
        for name, value in answer.scores.items():
            table[name][answer.prompt_id].append(value)
    return table


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


def choose_score(known: Collection[str], wanted: str | None) -> str:
    """The score to compare: the wanted one, the only one, or the one that is called ``score``."""
    if wanted is None and (len(known) == 1 or _MAIN_SCORE in known):
        return _MAIN_SCORE if _MAIN_SCORE in known else next(iter(known))
    if wanted is None or wanted not in known:
        which = (
            f"{option_name('score', wanted)}: no such score in both"
            if wanted
            else f"several scores; choose one with {option_name('score')}"
        )
        raise BadOption(f"{which}: {', '.join(known)}")
    return wanted


def lower_is_better(score: str, metrics: Collection[str]) -> bool:
    """Whether a score is one of these metrics, with any filter or part."""
    return score in metrics or score.partition(",")[0].partition("/")[0] in metrics


def _repeat_note(
    a: Mapping[str, list[float]], b: Mapping[str, list[float]], both: Collection[str]
) -> Iterator[str]:
    repeated = sum(len(a[prompt]) > 1 or len(b[prompt]) > 1 for prompt in both)
    if repeated:
        yield f"{repeated:,} {'sample has' if repeated == 1 else 'samples have'} repeats; they were averaged"


def _scale_note(a: Collection[float], b: Collection[float]) -> Iterator[str]:
    """Between 0 and 1 on one side, and up to 100 on the other."""
    low, high = sorted((max(a), max(b)))
    if all(value >= 0.0 for value in (*a, *b)) and low <= 1.0 and _LARGE_SCORE_POINTS <= high <= 100.0:
        yield (
            f"the scores of A are between {min(a):g} and {max(a):g}, those of B between {min(b):g} and {max(b):g}: "
            "their scales seem to differ"
        )
