"""Compares the scores that two files carry, sample by sample, without a judge."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from tiltyard.core.ratings.paired_difference import (
    ABDecision,
    PairedDifference,
    decide,
    paired_difference,
    prompts_needed,
)
from tiltyard.errors import BadOption
from tiltyard.files.answers import Answer
from tiltyard.foundation.option_names import option_name

#: Scores of one model: metric → prompt → values of its repeats.
ScoreTable = Mapping[str, Mapping[str, list[float]]]

#: The score that is compared where there are several and none was chosen.
_MAIN_SCORE = "score"
#: From this value on, scores beside some that lie between 0 and 1 look like percentages.
_LARGE_SCORE_POINTS = 10.0
#: Tools whose ids name the data of a sample, so that its prompt may have been edited.
_DATA_SOURCES = frozenset({"promptfoo", "lm-eval"})
_SHOWN_CHARACTERS = 60


@dataclass(frozen=True, slots=True)
class ScoreComparison:
    """The scores of two models on the samples that both have."""

    score: str
    mean_a: float
    mean_b: float
    difference: PairedDifference
    decision: ABDecision
    #: Samples that only one of them has.
    only_a: int
    only_b: int
    #: Samples that would decide; ``None`` if that is unknown, or it is decided.
    needed: int | None
    #: What a reader of the numbers should know.
    notes: tuple[str, ...]


def shared_scores(a: ScoreTable, b: ScoreTable) -> list[str]:
    """Metrics that both have."""
    return [name for name in a if name in b]


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
    other = [name for name in shared if _asks_otherwise(a[name], b[name])]
    if not other or _is_edited([(a[name], b[name]) for name in other]):
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


def _asks_otherwise(a: Answer, b: Answer) -> bool:
    return a.prompt.strip() != b.prompt.strip() and a.source not in _DATA_SOURCES


def _is_edited(pairs: Sequence[tuple[Answer, Answer]]) -> bool:
    """Whether the prompts of the same samples were edited: all targets are known, various and the same."""
    return (
        all(a.gold is not None and a.gold == b.gold for a, b in pairs) and len({a.gold for a, _ in pairs}) > 1
    )


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


def compare_scores(
    a: ScoreTable,
    b: ScoreTable,
    score: str,
    *,
    margin: float | None = None,
    level: float = 0.95,
    lower_is_better: bool = False,
) -> ScoreComparison:
    """The mean difference of the second model's scores to the first's; repeats of a sample are averaged first."""
    both = [prompt for prompt in a[score] if prompt in b[score]]
    if not both:
        raise BadOption(
            f"no sample has the score {score} in both files: samples are paired by their id; "
            "are these logs of the same task?"
        )
    left = np.array([np.mean(a[score][prompt]) for prompt in both])
    right = np.array([np.mean(b[score][prompt]) for prompt in both])
    values = [[value for values in table[score].values() for value in values] for table in (a, b)]
    least, most = min(map(min, values)), max(map(max, values))
    found = paired_difference(right - left, most - least, level=level)
    if least >= 0.0 and most <= 1.0:
        found = replace(found, low=max(found.low, -1.0), high=min(found.high, 1.0))
    ends = (-found.high, -found.low) if lower_is_better else (found.low, found.high)
    decision = decide(*ends, margin)
    return ScoreComparison(
        score=score,
        mean_a=float(left.mean()),
        mean_b=float(right.mean()),
        difference=found,
        decision=decision,
        only_a=len(a[score]) - len(both),
        only_b=len(b[score]) - len(both),
        needed=prompts_needed(found, margin) if decision is ABDecision.UNDECIDED else None,
        notes=(*_repeat_note(a[score], b[score], both), *_scale_note(*values)),
    )


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
