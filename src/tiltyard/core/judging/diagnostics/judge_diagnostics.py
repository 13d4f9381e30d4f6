"""Shares of a judge: flips, slots, lengths, lists, families, repeats and canaries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypedDict

import numpy as np
import numpy.typing as npt

from tiltyard.core.battles.outcome import Label
from tiltyard.core.judging.diagnostics.verdict_rows import (
    LABELS,
    Ints,
    VerdictPairs,
    VerdictRows,
    pair_orders,
)
from tiltyard.core.judging.proportions import (
    ShareDocument,
    ShareEstimate,
    estimate_share,
    share_difference,
)
from tiltyard.core.judging.question import QuestionPurpose
from tiltyard.core.judging.verdict import QuestionState

__all__ = ["NO_FAMILY", "JudgeDiagnostics", "JudgeDocument", "JudgeObservations", "diagnose"]

Flags = npt.NDArray[np.bool_]

#: The family of a judge that has none, or whose family fields no model.
NO_FAMILY = -2


class JudgeDocument(TypedDict):
    """The diagnostics of one judge, as written in `diagnostics.json`."""

    judge_model: str
    dimension: str | None
    questions: int
    states: dict[str, int]
    labels: dict[str, int]
    both_bad: int
    flips: ShareDocument | None
    inconsistent: ShareDocument | None
    first_slot: ShareDocument | None
    longer_wins: ShareDocument | None
    lists_win: ShareDocument | None
    own_family: ShareDocument | None
    own_family_by_others: ShareDocument | None
    own_family_excess: ShareDocument | None
    self_agreement: ShareDocument | None
    identical: ShareDocument | None
    truncated: ShareDocument | None
    garbage: ShareDocument | None


@dataclass(frozen=True, slots=True)
class JudgeDiagnostics:
    """What one judge's verdicts say of it: in one dimension or, where that is ``None``, in all together.

    Each share is ``None`` where there is nothing to say. Intervals are clustered by prompt, over
    all dimensions of it. A verdict is decisive if its step chooses a slot, whatever it says of both_bad.
    """

    judge: str
    dimension: str | None
    #: Questions of all purposes, by the state in which they ended.
    states: Mapping[QuestionState, int]
    #: Matches with a verdict in both orders, by what they were reconciled to.
    labels: Mapping[Label, int]
    #: Matches that both orders called both bad; they are among the labels too.
    both_bad: int
    #: Opposite winners, among matches decisive in both orders.
    flips: ShareEstimate | None
    #: Opposite winners, among all matches with both orders.
    inconsistent: ShareEstimate | None
    #: Slot A, among matches with opposite winners; 0.5 is no preference. The others choose each slot once, so they
    #: say nothing of it.
    first_slot: ShareEstimate | None
    #: Won by the longer response, among wins and leans with different lengths.
    longer_wins: ShareEstimate | None
    #: Won by the response with more list items, among wins and leans where they differ.
    lists_win: ShareEstimate | None
    #: Won by the judge's own family, among wins and leans where exactly one side is known to be of it.
    own_family: ShareEstimate | None
    #: The same matches in the eyes of judges of other families.
    own_family_by_others: ShareEstimate | None
    #: The judge's share less the others', on matches that both decided.
    own_family_excess: ShareEstimate | None
    #: Repeats that chose as the first asking did: A, B or neither.
    self_agreement: ShareEstimate | None
    #: Canaries passed. Two identical responses: neither chosen. A spoilt copy: the whole one chosen.
    identical: ShareEstimate | None
    truncated: ShareEstimate | None
    garbage: ShareEstimate | None

    @property
    def questions(self) -> int:
        return sum(self.states.values())

    def to_dict(self) -> JudgeDocument:
        return {
            "judge_model": self.judge,
            "dimension": self.dimension,
            "questions": self.questions,
            "states": {state.value: self.states.get(state, 0) for state in QuestionState},
            "labels": {label.value: self.labels.get(label, 0) for label in LABELS},
            "both_bad": self.both_bad,
            "flips": _written(self.flips),
            "inconsistent": _written(self.inconsistent),
            "first_slot": _written(self.first_slot),
            "longer_wins": _written(self.longer_wins),
            "lists_win": _written(self.lists_win),
            "own_family": _written(self.own_family),
            "own_family_by_others": _written(self.own_family_by_others),
            "own_family_excess": _written(self.own_family_excess),
            "self_agreement": _written(self.self_agreement),
            "identical": _written(self.identical),
            "truncated": _written(self.truncated),
            "garbage": _written(self.garbage),
        }


def _written(share: ShareEstimate | None) -> ShareDocument | None:
    return None if share is None else share.to_dict()


class Trials(NamedTuple):
    """Single trials: the prompt of each, and whether it was a hit."""

    prompt: Ints
    hit: Flags


@dataclass(frozen=True, slots=True, eq=False)
class JudgeObservations:
    """All that was seen of one judge in one dimension."""

    states: Mapping[QuestionState, int]
    rows: VerdictRows
    pairs: VerdictPairs

    @classmethod
    def of(cls, states: Mapping[QuestionState, int], rows: VerdictRows) -> JudgeObservations:
        return cls(states, rows, pair_orders(rows))


def diagnose(
    seen: Mapping[tuple[str, str], JudgeObservations], own: Mapping[str, int], level: float
) -> tuple[JudgeDiagnostics, ...]:
    """Diagnostics of every judge, and of every judge and dimension."""
    found: list[JudgeDiagnostics] = []
    for judge in sorted({judge for judge, _ in seen}):
        dimensions = sorted(dimension for name, dimension in seen if name == judge)
        trials = {dimension: _trials(seen, judge, dimension, own) for dimension in dimensions}
        for chosen in (None, *dimensions):
            parts = [chosen] if chosen is not None else dimensions
            found.append(
                _one(
                    judge,
                    chosen,
                    [seen[judge, part] for part in parts],
                    [trials[part] for part in parts],
                    level,
                )
            )
    return tuple(found)


def _one(
    judge: str,
    dimension: str | None,
    parts: Sequence[JudgeObservations],
    trials: Sequence[Mapping[str, Trials]],
    level: float,
) -> JudgeDiagnostics:
    states = {state: sum(part.states.get(state, 0) for part in parts) for state in QuestionState}
    labels = np.bincount(np.concatenate([part.pairs.label for part in parts]), minlength=len(LABELS))
    shares = {name: _share([part[name] for part in trials], level) for name in trials[0]}
    ours, others = shares.pop("own_family_shared"), shares["own_family_by_others"]
    return JudgeDiagnostics(
        judge=judge,
        dimension=dimension,
        states=states,
        labels=dict(zip(LABELS, labels.tolist(), strict=True)),
        both_bad=sum(int(part.pairs.both_bad.sum()) for part in parts),
        own_family_excess=None if ours is None or others is None else share_difference(ours, others),
        **shares,
    )


def _share(parts: Sequence[Trials], level: float) -> ShareEstimate | None:
    prompt = np.concatenate([part.prompt for part in parts])
    hit = np.concatenate([part.hit for part in parts])
    size = int(prompt.max(initial=-1)) + 1
    trials = np.bincount(prompt, minlength=size)
    return estimate_share(np.bincount(prompt[hit], minlength=size), trials, level)


def _trials(
    seen: Mapping[tuple[str, str], JudgeObservations], judge: str, dimension: str, own: Mapping[str, int]
) -> dict[str, Trials]:
    rows, pairs = seen[judge, dimension].rows, seen[judge, dimension].pairs
    flipped = pairs.where(pairs.inconsistent)
    twice = pairs.where(pairs.decided_twice)
    won = pairs.where(pairs.winner != 0)
    long, listed = won.where(won.longer != 0), won.where(won.lists != 0)
    return {
        "flips": Trials(twice.prompt, twice.inconsistent),
        "inconsistent": Trials(pairs.prompt, pairs.inconsistent),
        "first_slot": Trials(flipped.prompt, flipped.first_twice),
        "longer_wins": Trials(long.prompt, long.winner == long.longer),
        "lists_win": Trials(listed.prompt, listed.winner == listed.lists),
        "self_agreement": _repeated(rows),
        **_canaries(rows),
        **_family(won, _others(seen, judge, dimension, own), own.get(judge, NO_FAMILY)),
    }


def _repeated(rows: VerdictRows) -> Trials:
    """Repeats against the first asking of the same question; those whose first asking failed are left out."""
    asked, again = rows.purposed(QuestionPurpose.MATCH), rows.purposed(QuestionPurpose.REPEAT)
    order = np.argsort(asked.keys())
    known, wanted = asked.keys()[order], again.keys()
    place = np.searchsorted(known, wanted)
    found = place < len(known)
    found[found] = known[place[found]] == wanted[found]
    before = asked.where(order[place[found]])
    again = again.where(found)
    return Trials(again.prompt, again.chosen == before.chosen)


def _canaries(rows: VerdictRows) -> dict[str, Trials]:
    same = rows.purposed(QuestionPurpose.IDENTICAL)
    passed = {"identical": Trials(same.prompt, same.chosen == 0)}
    for purpose in (QuestionPurpose.TRUNCATED, QuestionPurpose.GARBAGE):
        shown = rows.purposed(purpose)
        passed[purpose.value] = Trials(shown.prompt, shown.chosen == np.where(shown.spoilt == 0, -1, 1))
    return passed


def _others(
    seen: Mapping[tuple[str, str], JudgeObservations], judge: str, dimension: str, own: Mapping[str, int]
) -> list[VerdictPairs]:
    """Matches of the judges that are not known to be of this judge's family."""
    family = own.get(judge, NO_FAMILY)
    return [
        part.pairs
        for (name, place), part in seen.items()
        if name != judge and place == dimension and own.get(name, NO_FAMILY) != family
    ]


def _family(won: VerdictPairs, others: Sequence[VerdictPairs], family: int) -> dict[str, Trials]:
    mixed = won.where((won.family == family) != (won.rival_family == family))
    theirs = [other.where((other.winner != 0) & np.isin(other.key, mixed.key)) for other in others]
    decided = np.isin(mixed.key, np.concatenate([mixed.key[:0], *(part.key for part in theirs)]))
    judged = [_won_by(part, family) for part in theirs]
    return {
        "own_family": _won_by(mixed, family),
        "own_family_shared": _won_by(mixed.where(decided), family),
        "own_family_by_others": Trials(
            np.concatenate([mixed.prompt[:0], *(part.prompt for part in judged)]),
            np.concatenate([mixed.decided_twice[:0], *(part.hit for part in judged)]),
        ),
    }


def _won_by(pairs: VerdictPairs, family: int) -> Trials:
    return Trials(pairs.prompt, (pairs.winner > 0) == (pairs.family == family))
