"""Is B better than A? By a judge, or by the scores that both carry: one function for the command line and for Python."""

from __future__ import annotations

import asyncio
import filecmp
import math
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, Unpack, get_args

from tiltyard.core.ratings.paired_difference import ABDecision
from tiltyard.errors import BadOption
from tiltyard.files.answer import LOG_STATUS_NOTE, UNREADABLE_SCORE_NOTE, Answer
from tiltyard.files.answer_formats.lm_eval import lower_is_better_metrics
from tiltyard.files.answers import answer_columns, drop_replaced_answers, open_runs
from tiltyard.files.input_address import shown_path
from tiltyard.foundation.option_names import option_name, refuse_unknown
from tiltyard.judges.providers.local_replies import ModelFunction
from tiltyard.report.ab_report import ABReport
from tiltyard.report.judging_sections import paid_text
from tiltyard.runs.ab_lead import DEFAULT_MARGIN_POINTS, ab_level
from tiltyard.settings.prices import PICODOLLARS_PER_USD, PriceEntry, read_prices
from tiltyard.settings.ready_tournaments import DEFAULT_RUBRIC, QuickJudge
from tiltyard.tournaments.ab_run import JudgedComparison, StopRule, compare_judged, write_ab_inputs
from tiltyard.tournaments.ab_scores import (
    NO_CLUSTERS,
    ScoreRule,
    clusters_of,
    common_scores,
    compare_scores,
    cost_ratios,
    lower_is_better,
    refuse_unknown_scores,
    score_table,
    without_copies,
)
from tiltyard.tournaments.answer_generation import PromptInputs, function_answers
from tiltyard.tournaments.inputs import read_values
from tiltyard.tournaments.python_tournament import (
    FollowedRun,
    Judge,
    JudgingOptions,
    named_judges,
    off_the_loop,
    several,
)
from tiltyard.tournaments.tournament_run import RunObserver

#: What answers are called that come from no file.
_UNNAMED = "these answers"
#: Tools whose ids name the data of a sample, so that its prompt may have been edited.
_DATA_SOURCES = frozenset({"promptfoo", "lm-eval"})
_SHOWN_CHARACTERS = 60

#: What a comparison is made for: until it is decided, or until B is not worse.
Goal = Literal["decide", "not-worse"]
#: How many scores or columns a message lists.
_LISTED_COUNT = 12
#: A file in any known format; answers, as values, as mappings with their fields, or as a frame; or a function that answers.
Side = str | os.PathLike[str] | Iterable[Answer | Mapping[str, Any]] | ModelFunction | Any


@dataclass(frozen=True, kw_only=True)
class ABSettings:
    """How models are compared: by ``judges``, or by the ``scores`` that both have."""

    judges: Sequence[QuickJudge] = ()
    rubrics: Sequence[str] = ()
    #: The scores that decide; every common one if none is named.
    scores: Sequence[str] = ()
    #: Scores that must not be worse, each with how much worse still counts as not worse.
    guards: Mapping[str, float] = field(default_factory=dict)
    #: The baseline's model and those of the candidates, in files of several models.
    model_a: str | None = None
    models_b: Sequence[str] = ()
    #: Differences up to this count as the same: points with a judge (20 by default), units of the score without.
    margin: float | None = None
    #: Whether lower is better of the scores that decide, and of which others; files of lm-evaluation-harness may say so.
    lower_is_better: bool = False
    lower: Sequence[str] = ()
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
    #: Whether a judge that calls nearly everything a tie may say that they are the same.
    ties_are_same: bool = False
    output_dir: Path = Path("runs")

    def __post_init__(self) -> None:
        if not all(0.0 <= margin < math.inf for margin in self.guards.values()):
            raise BadOption(f"{option_name('guard', dict(self.guards))}: expected margins of 0 or more")
        scored = {"score": self.scores, "lower_is_better": self.lower_is_better}
        of_guards = {} if self.guards else {"lower": self.lower, "bounds": self.bounds}
        for name, given in (scored | of_guards).items():
            if self.judges and given:
                raise BadOption(f"{option_name(name)} is for a comparison without {option_name('judge')}")
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
        needed = bool(self.rubrics) or self.ties_are_same or (self.budget_usd, self.fixed) != (None, None)
        if needed and not self.judges:
            names = ("rubric", "provider", "base_url", "budget_usd", "ties_are_same", "fixed")
            needing = [option_name(name) for name in names]
            raise BadOption(
                f"{', '.join(needing[:-1])} and {needing[-1]} need {option_name('judge', 'MODEL')}"
            )


class ABOptions(JudgingOptions, total=False):
    """Further options of a comparison: of scores, and of one with a judge."""

    #: Scores that must not be worse, each with its margin, or their names.
    guard: Mapping[str, float] | str | Sequence[str]
    #: The baseline's model and the candidates', in files of several models.
    a: str
    b: str | Sequence[str]
    lower_is_better: bool
    #: Further scores of which lower is better.
    lower: str | Sequence[str]
    max_prompts: int
    fixed: int
    goal: Goal
    bounds: tuple[float, float]
    cluster: str
    ties_are_same: bool
    #: What functions are asked, and their version: a new one is asked again.
    prompts: PromptInputs
    model_version: str


def ab(
    base: Side,
    /,
    *candidates: Side,
    judge: Judge | Sequence[Judge] = (),
    score: str | Sequence[str] = (),
    margin: float | None = None,
    **options: Unpack[ABOptions],
) -> ABReport:
    """Is B better than A? By the scores that both carry, or by a judge that is asked until it is decided.

    ``base`` and each candidate are files of answers or logs in any known format, folders of several runs, answers,
    mappings, frames, or functions, which are asked the ``prompts``. Without a candidate, the file has several models,
    and ``a="X", b="Y"`` name them. The result has ``decision`` (``better``, ``not worse``, ``same``, ``worse`` or
    ``undecided``, said of B; ``cannot tell`` of the judge; ``guard failed``), the difference with its interval, and ``verdict``, a sentence. With several scores, guards or candidates,
    its ``comparisons`` has each of them.
    """
    refuse_unknown("ab", options, ABOptions)
    guard = options.get("guard", {})
    own = {one.name for one in fields(ABSettings)} - {"lower", "prices", "output_dir"}
    plain: dict[str, Any] = {name: value for name, value in options.items() if name in own}
    settings = ABSettings(
        judges=named_judges(judge, options),
        rubrics=several(options.get("rubric", ())),
        scores=several(score),
        guards=guard if isinstance(guard, Mapping) else dict.fromkeys(several(guard), 0.0),
        model_a=options.get("a"),
        models_b=several(options.get("b", ())),
        margin=margin,
        lower=several(options.get("lower", ())),
        prices=read_prices(options.get("prices", {})),
        output_dir=Path(options.get("output_dir", "runs")),
        **plain,
    )
    watch = FollowedRun(options.get("progress"))
    return off_the_loop(lambda: compare_ab(_answered((base, *candidates), options, watch), settings, watch))


async def ab_async(
    base: Side,
    /,
    *candidates: Side,
    judge: Judge | Sequence[Judge] = (),
    score: str | Sequence[str] = (),
    margin: float | None = None,
    **options: Unpack[ABOptions],
) -> ABReport:
    """The same as `ab`, without blocking the event loop."""
    asked = partial(ab, base, *candidates, judge=judge, score=score, margin=margin, **options)
    return await asyncio.to_thread(asked)


def _answered(sides: Sequence[Side], options: ABOptions, watch: RunObserver) -> Sequence[Side]:
    """The sides, with the answers of those that are functions to the prompts, or else to those of the other sides."""
    functions, version = [side for side in sides if callable(side)], options.get("model_version")
    if bool(functions) != (version is not None) or (not functions and "prompts" in options):
        raise BadOption(
            "model_version and a function that answers need each other; prompts are for functions"
        )
    if version is None:
        return sides
    others = (one for side in sides if not callable(side) for one in _read(side, []) if one.comparable)
    prompts = options.get("prompts") or {one.prompt_id: one.to_dict() for one in others}.values()
    answers = iter(function_answers(functions, prompts, version, watch))
    return [next(answers) if callable(side) else side for side in sides]


@dataclass(frozen=True, slots=True)
class _ModelAnswers:
    """The answers of one model, and the side that they were read from."""

    side: Side
    answers: list[Answer]


@dataclass(frozen=True, slots=True)
class _Pair:
    """The baseline and a candidate, how their scores are compared, and what to know of them."""

    first: list[Answer]
    second: list[Answer]
    rules: list[ScoreRule]
    notes: list[str]


def compare_ab(
    sides: Sequence[Side],
    settings: ABSettings,
    watch: RunObserver | None = None,
    look: Callable[[JudgedComparison], None] = lambda _found: None,
) -> ABReport:
    """Compare candidates with the first side; ``look`` is called with the result of every look of a judged comparison.

    All intervals hold at once: by Bonferroni's rule, each has a share of the 5 % at which one may miss.
    """
    notes: list[str] = []
    chosen = _chosen_models(sides, settings, notes)
    base, *candidates = _named(chosen)
    pairs = [_pair(base, one, settings, notes) for one in candidates]
    count = sum(len(pair.rules) + bool(settings.judges) for pair in pairs)
    found: list[ABReport] = []
    spent = 0
    for number, pair in enumerate(pairs):
        reports: list[ABReport] = []
        if settings.judges:
            budget = settings.budget_usd
            if budget is not None:
                # What earlier candidates left over is for the later ones.
                budget = max(budget - spent / PICODOLLARS_PER_USD, 0.0) / (len(pairs) - number)
            judged = _judged(pair, replace(settings, budget_usd=budget), count, watch or FollowedRun(), look)
            spent += judged.spent or 0
            reports.append(_by_judges(judged))
        rules = [replace(rule, level=ab_level(count)) for rule in pair.rules]
        reports += [compare_scores(pair.first, pair.second, rule) for rule in rules]
        # Prices are of the models' own names.
        own = chosen[0].answers, chosen[number + 1].answers
        costs = cost_ratios(*own, settings.cluster, settings.prices)
        found += [replace(one, costs=costs) for one in reports]
        notes += [f"{pair.second[0].model}: {note}" if len(pairs) > 1 else note for note in pair.notes]
    for one in found:
        said = [*one.notes, *([one.unpaired] if count > 1 and one.unpaired else [])]
        notes += [f"{one.name_b}, {one.unit}: {note}" if count > 1 else note for note in said]
    return replace(ABReport.combined(found), notes=tuple(notes))


def _pair(
    base: _ModelAnswers, candidate: _ModelAnswers, settings: ABSettings, read_notes: Sequence[str]
) -> _Pair:
    """The two, by the scores that both have; `BadOption` if they have none, or lack one that was named."""
    notes = list(_sameness(base, candidate))
    if settings.judges and not settings.guards:
        return _Pair(base.answers, candidate.answers, [], notes)
    first, second = drop_other_prompts(base.answers, candidate.answers, notes)
    known = common_scores(first, second)
    if not known:
        raise BadOption(_no_shared_score((base.side, candidate.side), (first, second), (*read_notes, *notes)))
    refuse_unknown_scores(
        known, {"score": settings.scores, "guard": settings.guards, "lower": settings.lower}
    )
    deciding = settings.scores or [name for name in known if name not in settings.guards]
    if settings.judges:
        deciding = []
    elif not deciding:
        raise BadOption(f"{option_name('guard')}: no other score is left to compare")
    lower_metrics = {*settings.lower, *_lower_metrics(base.side), *_lower_metrics(candidate.side)}
    if len(deciding) > 1 and not settings.scores:
        lower = {name for name in deciding if lower_is_better(name, lower_metrics)}
        distinct = without_copies(deciding, lower, first, second)
        deciding = list(distinct)
        notes += [
            f"{', '.join((name, *same))}: equal in every sample, compared once"
            for name, same in distinct.items()
            if same
        ]
    if len(deciding) > 1 and not settings.scores:
        notes.append(f"compared by every common score, {', '.join(deciding)}; {option_name('score')} chooses")
    margins = [(name, settings.margin, False) for name in deciding]
    rules = [
        ScoreRule(
            name,
            margin,
            lower_is_better=lower_is_better(name, lower_metrics) or (settings.lower_is_better and not guard),
            at_not_worse=guard or settings.goal == "not-worse",
            bounds=settings.bounds,
            cluster=settings.cluster,
            guard=guard,
        )
        for name, margin, guard in (*margins, *((*one, True) for one in settings.guards.items()))
    ]
    return _Pair(first, second, rules, notes)


def _judged(
    pair: _Pair,
    settings: ABSettings,
    comparisons: int,
    watch: RunObserver,
    look: Callable[[JudgedComparison], None],
) -> JudgedComparison:
    first, second = pair.first, pair.second
    clusters = None
    if settings.cluster not in {None, NO_CLUSTERS}:
        prompts = {one.prompt_id for one in first} & {one.prompt_id for one in second}
        clusters = clusters_of((*first, *second), prompts, settings.cluster or "")
    rule = StopRule(
        margin=DEFAULT_MARGIN_POINTS if settings.margin is None else settings.margin,
        at_not_worse=settings.goal == "not-worse",
        fixed=settings.fixed,
        max_prompts=settings.max_prompts,
        clusters=clusters,
        comparisons=comparisons,
        ties_are_same=settings.ties_are_same,
    )
    inputs = write_ab_inputs(
        (first, second),
        settings.judges,
        settings.rubrics,
        parent=settings.output_dir,
        budget_usd=settings.budget_usd,
        prices=settings.prices,
        rule=rule,
    )
    return compare_judged(inputs, watch, rule, look)


def _chosen_models(sides: Sequence[Side], settings: ABSettings, notes: list[str]) -> list[_ModelAnswers]:
    """The baseline and the candidates: the models of their files, or those that were named in them."""
    base, *others = [_ModelAnswers(side, _read(side, notes)) for side in sides]
    chosen = [_of_model(base, settings.model_a, "a")]
    rest: Sequence[str | None] = [None]
    if not others:
        rest = sorted({one.model for one in base.answers} - {chosen[0].answers[0].model})
        if not rest:
            raise BadOption(
                f"{_shown(base.side)}: has the answers of one model; name the candidate's file too"
            )
    chosen += [
        _of_model(other, name, "b") for other in others or [base] for name in settings.models_b or rest
    ]
    return chosen


def _of_model(found: _ModelAnswers, model: str | None, option: str) -> _ModelAnswers:
    models = sorted({answer.model for answer in found.answers})
    if model is None and len(models) > 1:
        raise BadOption(
            f"{_shown(found.side)}: has answers of several models ({', '.join(models[:_LISTED_COUNT])}); "
            f"choose one with {option_name(option, 'MODEL')}"
        )
    if model is not None and model not in models:
        raise BadOption(
            f"{option_name(option, model)}: {_shown(found.side)} has no such model; "
            f"it has {', '.join(models[:_LISTED_COUNT])}"
        )
    return replace(found, answers=[one for one in found.answers if model in (None, one.model)])


def _read(side: Side, notes: list[str]) -> list[Answer]:
    """The answers of a file, of values, or of a folder, whose files may be several runs of the same samples."""
    found: list[Answer] = []
    if isinstance(side, str | os.PathLike):
        repeats: Counter[tuple[str, str]] = Counter()
        for source in open_runs(side):
            # The answers of a further run are further repeats: they replace none of another run.
            before = repeats.copy()
            for one in drop_replaced_answers(source.answers()):
                place = one.model, one.prompt_id
                found.append(replace(one, repeat=one.repeat + before[place]))
                repeats[place] = max(repeats[place], found[-1].repeat + 1)
            notes += [
                f"{source.path}: {reason}"
                if reason.startswith(LOG_STATUS_NOTE)
                else f"{source.path}: {count:,} left out: {reason}"
                for reason, count in source.notes
            ]
    else:
        found = read_values(side, _shown(side))
    if not found:
        raise BadOption("; ".join((f"{_shown(side)}: has no answers", *notes)))
    return found


def _shown(side: Side) -> str:
    return shown_path(side) if isinstance(side, str | os.PathLike) else _UNNAMED


def _sameness(base: _ModelAnswers, candidate: _ModelAnswers) -> Iterator[str]:
    paths = [Path(side) for side in (base.side, candidate.side) if isinstance(side, str | os.PathLike)]
    files = [path for path in paths if path.is_file()]
    both = list(zip(base.answers, candidate.answers, strict=False))
    if len(base.answers) == len(candidate.answers) and all(a == replace(b, model=a.model) for a, b in both):
        identical = len(files) == 2 and filecmp.cmp(files[0], files[1], shallow=False)
        yield "A and B are the same file" if identical else "A and B have the same answers"


def _no_shared_score(
    sides: tuple[Side, Side], answers: tuple[Sequence[Answer], Sequence[Answer]], notes: Sequence[str]
) -> str:
    """What scores there are, what could not be read, and what to do."""
    said = ["the files have no score in common"]
    for name, side, found in zip("AB", sides, answers, strict=True):
        scores = ", ".join(list(score_table(found))[:_LISTED_COUNT])
        columns = () if scores or not isinstance(side, str | os.PathLike) else answer_columns(side)
        listed = f" (its columns: {', '.join(columns[:_LISTED_COUNT])})" if columns else ""
        said.append(f"{name} has {scores or 'no scores'}{listed}")
    said += [note for note in notes if UNREADABLE_SCORE_NOTE in note]
    advice = f"call a column score or scores.NAME, or let a model judge, with {option_name('judge', 'MODEL')}"
    return f"{'; '.join(said)}; {advice}"


def _named(chosen: Sequence[_ModelAnswers]) -> list[_ModelAnswers]:
    """The models' names; those of the files where two have the same, as for two prompts or settings."""
    models = [one.answers[0].model for one in chosen]
    names = [
        Path(shown_path(one.side)).stem
        if models.count(model) > 1 and isinstance(one.side, str | os.PathLike)
        else model
        for one, model in zip(chosen, models, strict=True)
    ]
    names = [f"{chr(ord('A') + k)} {name}" if names.count(name) > 1 else name for k, name in enumerate(names)]
    # Values without a column of models have no name but their letter.
    names = [name.removesuffix(f" {_UNNAMED}") for name in names]
    return [
        one
        if name == model
        else replace(one, answers=[replace(answer, model=name) for answer in one.answers])
        for one, name, model in zip(chosen, names, models, strict=True)
    ]


def _lower_metrics(side: Side) -> frozenset[str]:
    """The metrics of which a file says itself that lower is better."""
    return lower_is_better_metrics(Path(side)) if isinstance(side, str | os.PathLike) else frozenset()


def _by_judges(found: JudgedComparison) -> ABReport:
    assert found.costs is not None
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
            "spent": paid_text(found.costs),
            "known_usd": found.costs["known_usd"],
            "at_most_usd": found.costs["at_most_usd"],
            "run": str(found.inputs.run),
            "spoilt_answers": sum(proof.asked for proof in found.proofs),
            "spoilt_answers_found": sum(proof.found for proof in found.proofs),
            "tie_share": None if found.evidence is None else found.evidence.tie_share,
        },
        stopped=stopped,
        evidence=None if found.evidence is None else str(found.evidence),
        reason=found.doubt or found.unusable or found.stop_reason,
        findings=found.findings,
        notes=tuple(_notes(found)),
        problems=tuple(dict.fromkeys((*found.failures, *found.problems))),
    )


def _notes(found: JudgedComparison) -> Iterator[str]:
    """How many reference answers the judge was shown, and which kinds of spoilt answers there are none of."""
    count, prompts = found.references
    if count:
        yield (
            f"the judge is shown the reference answer to {count:,} of {prompts:,} prompts; "
            f"{option_name('rubric', DEFAULT_RUBRIC)} shows none"
        )
    kinds = dict.fromkeys(kind for proof in found.proofs if not proof.kept for kind in proof.not_made)
    if kinds:
        yield f"of these answers no spoilt ones of some kinds could be made: {', '.join(kinds)}"


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
