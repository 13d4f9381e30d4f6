"""Shares of a judge: flips, slots, lengths, lists, families, repeats and canaries, and the findings that they give.

A preference is named where its interval excludes no preference and it is more than a trifle. A
habit is named beyond a stated bar. Intervals are at the level of the diagnostics: at 95 %, among
many judges and dimensions, a few preferences are named by chance.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from tiltyard.core.battles.outcome import Label
from tiltyard.core.judging.canaries import SPOILT_KINDS, missed_kinds
from tiltyard.core.judging.diagnostics.verdict_rows import (
    LABELS,
    PURPOSES,
    SIGNS,
    Ints,
    VerdictPairs,
    VerdictRows,
    pair_orders,
    row_values,
)
from tiltyard.core.judging.question import Question, QuestionPurpose
from tiltyard.core.judging.verdict import QuestionState, Verdict, VerdictForm
from tiltyard.core.ratings.findings import Finding
from tiltyard.core.ratings.proportions import (
    ShareEstimate,
    estimate_share,
    share_difference,
)
from tiltyard.core.ratings.sentences import Values
from tiltyard.errors import BadOption
from tiltyard.foundation.arrays import Bools

#: The family of a judge that has none, or whose family fields no model.
NO_FAMILY = -2
#: A preference within this much of none is a trifle, however sure.
NEGLIGIBLE_SHARE = 0.02
#: Flips are named if, beyond doubt, at least this share of decided pairs flips.
FLIP_SHARE = 0.1
#: Repeats are named if, beyond doubt, less than this share repeats itself.
SELF_AGREEMENT_SHARE = 0.9
#: Canaries are few and easy: they are named if less than this share is passed.
CANARY_PASS_SHARE = 0.8
#: Refused, truncated and unparseable replies are named if they are more than this share.
LOST_REPLY_SHARE = 0.02
#: Findings of replies without a verdict, by what became of them.
_LOST = {
    QuestionState.REFUSED: "refuses",
    QuestionState.TRUNCATED: "truncates",
    QuestionState.UNPARSEABLE: "unparseable",
}
#: What else to try where replies of a form cannot be read.
_FORMS = {VerdictForm.SCHEMA: "schema", VerdictForm.TOOL: "tool", VerdictForm.TEXT: "text"}
_PURPOSE = {purpose: k for k, purpose in enumerate(PURPOSES)}


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
    swapped: ShareEstimate | None
    empty: ShareEstimate | None

    @property
    def questions(self) -> int:
        return sum(self.states.values())

    def to_dict(self) -> dict[str, Any]:
        """The diagnostics as written in `diagnostics.json`."""
        shares = {name: getattr(self, name) for name in _SHARES}
        return {
            "judge_model": self.judge,
            "dimension": self.dimension,
            "questions": self.questions,
            "states": {state.value: self.states.get(state, 0) for state in QuestionState},
            "labels": {label.value: self.labels.get(label, 0) for label in LABELS},
            "both_bad": self.both_bad,
            **{name: None if share is None else share.to_dict() for name, share in shares.items()},
        }


#: The shares, in the order in which they are written.
_SHARES = tuple(field.name for field in fields(JudgeDiagnostics))[5:]


class Trials(NamedTuple):
    """Single trials: the prompt of each, and whether it was a hit."""

    prompt: Ints
    hit: Bools


@dataclass(frozen=True, slots=True, eq=False)
class JudgeObservations:
    """All that was seen of one judge in one dimension."""

    states: Mapping[QuestionState, int]
    rows: VerdictRows
    pairs: VerdictPairs

    @classmethod
    def of(cls, states: Mapping[QuestionState, int], rows: VerdictRows) -> JudgeObservations:
        return cls(states, rows, pair_orders(rows))


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
    # Repeats against the first asking of the same question; those whose first asking failed are left out.
    asked, again = rows.purposed(QuestionPurpose.MATCH), rows.purposed(QuestionPurpose.REPEAT)
    order = np.argsort(asked.keys())
    known, wanted = asked.keys()[order], again.keys()
    place = np.searchsorted(known, wanted)
    found = place < len(known)
    found[found] = known[place[found]] == wanted[found]
    before = asked.where(order[place[found]])
    again = again.where(found)
    same = rows.purposed(QuestionPurpose.IDENTICAL)
    passed = {"identical": Trials(same.prompt, same.chosen == 0)}
    for purpose in SPOILT_KINDS:
        shown = rows.purposed(purpose)
        passed[purpose.value] = Trials(shown.prompt, shown.chosen == np.where(shown.spoilt == 0, -1, 1))
    return {
        "flips": Trials(twice.prompt, twice.inconsistent),
        "inconsistent": Trials(pairs.prompt, pairs.inconsistent),
        "first_slot": Trials(flipped.prompt, flipped.first_twice),
        "longer_wins": Trials(long.prompt, long.winner == long.longer),
        "lists_win": Trials(listed.prompt, listed.winner == listed.lists),
        "self_agreement": Trials(again.prompt, again.chosen == before.chosen),
        **passed,
        **_family(won, _others(seen, judge, dimension, own), own.get(judge, NO_FAMILY)),
    }


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


def list_judge_findings(
    diagnostics: Iterable[JudgeDiagnostics], forms: Mapping[str, VerdictForm] = MappingProxyType({})
) -> tuple[Finding, ...]:
    """What to know of these judges. What is said of a judge in general is not said again by dimension.

    ``forms`` says how each judge was asked, so that nobody is advised to do what they do already.
    """
    found: list[Finding] = []
    said: set[tuple[str, str]] = set()
    for one in sorted(diagnostics, key=lambda one: (one.judge, one.dimension or "")):
        for finding in _concerns(one, forms.get(one.judge)):
            if (one.judge, finding.name) not in said:
                found.append(finding)
            if one.dimension is None:
                said.add((one.judge, finding.name))
    return tuple(found)


def _concerns(one: JudgeDiagnostics, form: VerdictForm | None) -> Iterator[Finding]:
    who = {
        "who": one.judge if one.dimension is None else f"{one.judge} ({one.dimension})",
        "judge": one.judge,
        "dimension": one.dimension,
    }
    yield from _slots(who, one)
    yield from _texts(who, one)
    yield from _families(who, one)
    again = one.self_agreement
    if again is not None and again.high < SELF_AGREEMENT_SHARE:
        yield Finding("disagrees-with-itself", {**who, **_measured(again)})
    shares = {"identical": one.identical} | {kind.value: getattr(one, kind.value) for kind in SPOILT_KINDS}
    kinds = {
        name: (round(share.value * share.n), share.n) for name, share in shares.items() if share is not None
    }
    missed = missed_kinds({name: counts for name, counts in kinds.items() if name != "identical"})
    failed = tuple(
        {"kind": name, "passed": passed, "asked": asked}
        for name, (passed, asked) in kinds.items()
        if name in missed or (name == "identical" and passed < CANARY_PASS_SHARE * asked)
    )
    if failed:
        yield Finding("fails-canaries", {**who, "kinds": failed})
    for state, name in _LOST.items():
        share = one.states.get(state, 0) / max(one.questions, 1)
        if share > LOST_REPLY_SHARE:
            other = _FORMS.get(form) if form is not None and state is QuestionState.UNPARSEABLE else None
            case = {} if other is None else {"case": other}
            yield Finding(name, {**who, **case, "share": share, "questions": one.questions})


def _slots(who: Values, one: JudgeDiagnostics) -> Iterator[Finding]:
    slot, flips = one.first_slot, one.flips
    # What it moves: the share of decisive verdicts beyond one half that went to that slot.
    moved = 0.0 if slot is None or flips is None else abs(slot.value - 0.5) * flips.value
    if slot is not None and slot.excludes(0.5) and moved > NEGLIGIBLE_SHARE:
        case = "first" if slot.value > 0.5 else "second"
        yield Finding("slot-preference", {**who, "case": case, **_measured(slot)})
    if one.flips is not None and one.flips.low > FLIP_SHARE:
        yield Finding("flips-often", {**who, **_measured(one.flips)})


def _texts(who: Values, one: JudgeDiagnostics) -> Iterator[Finding]:
    for name, found in (("prefers-longer", one.longer_wins), ("prefers-lists", one.lists_win)):
        if found is not None and _above(found, 0.5):
            yield Finding(name, {**who, **_measured(found)})


def _families(who: Values, one: JudgeDiagnostics) -> Iterator[Finding]:
    own, others, excess = one.own_family, one.own_family_by_others, one.own_family_excess
    if own is None:
        return
    if others is None or excess is None:
        if _above(own, 0.5):
            yield Finding("prefers-own-family", {**who, "case": "alone", **_measured(own)})
    elif _above(excess, 0.0):
        beside = {f"others_{name}": value for name, value in _measured(others).items()}
        yield Finding("prefers-own-family", {**who, **_measured(own), **beside})


def _above(share: ShareEstimate, none: float) -> bool:
    return share.low > none and share.value > none + NEGLIGIBLE_SHARE


def _measured(share: ShareEstimate) -> dict[str, float]:
    return {"share": share.value, "low": share.low, "high": share.high, "trials": share.n}


@dataclass(frozen=True, slots=True)
class ResponseTraits:
    """What shows of the two responses from outside: characters, list items, families of their models."""

    first_length: int
    second_length: int
    first_lists: int = 0
    second_lists: int = 0
    first_family: str | None = None
    second_family: str | None = None


class VerdictObserver:
    """Collects verdicts question by question, in any order; 24 bytes for each that is ok.

    Each question is shown once, with the state in which it ended. Repeats and canaries may
    come without traits, and so may matches whose responses are not at hand.
    """

    def __init__(self) -> None:
        self._states: dict[tuple[str, str], Counter[QuestionState]] = {}
        self._rows: dict[tuple[str, str], array[int]] = {}
        self._prompts: dict[str, int] = {}
        self._models: dict[str, int] = {}
        self._families: dict[str | None, int] = {None: -1}

    def add(
        self,
        question: Question,
        state: QuestionState,
        verdict: Verdict | None,
        traits: ResponseTraits | None = None,
    ) -> None:
        """Take in one question. Only a question whose state is ok has a verdict."""
        _check(question, state, verdict)
        place = question.judge, question.dimension
        if place not in self._rows:
            self._states[place], self._rows[place] = Counter(), array("i")
        self._states[place][state] += 1
        if verdict is not None:
            self._rows[place].extend(self._row(question, verdict, traits or ResponseTraits(0, 0)))

    def _row(self, question: Question, verdict: Verdict, traits: ResponseTraits) -> tuple[int, ...]:
        prompts, models, families = self._prompts, self._models, self._families
        names = (
            prompts.setdefault(question.prompt_id, len(prompts)),
            models.setdefault(question.first, len(models)),
            models.setdefault(question.second, len(models)),
            families.setdefault(traits.first_family, len(families)),
            families.setdefault(traits.second_family, len(families)),
        )
        return row_values(
            names,
            _PURPOSE[question.purpose],
            SIGNS[verdict.step],
            verdict.both_bad,
            question.spoilt,
            _sign_of(traits.first_length - traits.second_length),
            _sign_of(traits.first_lists - traits.second_lists),
        )

    def diagnostics(
        self, families: Mapping[str, str | None] | None = None, level: float = 0.95
    ) -> tuple[JudgeDiagnostics, ...]:
        """Diagnostics of each judge: over all dimensions first, then one by one; judges by name.

        ``families`` gives each judge's own family; a judge without one has no same-family preference.
        """
        own = {
            judge: self._families.get(family, NO_FAMILY)
            for judge, family in (families or {}).items()
            if family is not None
        }
        seen = {
            place: JudgeObservations.of(self._states[place], VerdictRows.read(rows))
            for place, rows in self._rows.items()
        }
        # Diagnostics of every judge, and of every judge and dimension.
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


def _check(question: Question, state: QuestionState, verdict: Verdict | None) -> None:
    purpose, problem = question.purpose, None
    if (verdict is None) == (state is QuestionState.OK):
        problem = f"is {state} with verdict {verdict!r}; ok has a verdict and nothing else has"
    elif purpose in SPOILT_KINDS and question.spoilt not in (0, 1):
        problem = f"has spoilt {question.spoilt!r}; expected the slot of the copy, 0 or 1"
    elif purpose is QuestionPurpose.REPEAT and question.replicate < 1:
        problem = f"has replicate {question.replicate}; expected 1 or more"
    if problem is not None:
        asked = f"a {purpose} question to {question.judge} on prompt {question.prompt_id!r}"
        raise BadOption(f"{asked} {problem}")


def _sign_of(value: int) -> int:
    return (value > 0) - (value < 0)
