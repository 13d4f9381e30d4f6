"""Concerns: findings about a judge that a reader must know before trusting its verdicts.

A preference is named where its interval excludes no preference and it is more than a trifle. A
habit is named beyond a stated bar. Intervals are at the level of the diagnostics: at 95 %, among
many judges and dimensions, a few preferences are named by chance.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType

from tiltyard.core.judging.diagnostics.judge_diagnostics import JudgeDiagnostics
from tiltyard.core.judging.proportions import ShareEstimate
from tiltyard.core.judging.verdict import QuestionState, VerdictForm
from tiltyard.core.ratings.findings import Finding
from tiltyard.core.ratings.sentences import Values

__all__ = [
    "CANARY_PASS_SHARE",
    "FLIP_SHARE",
    "LOST_REPLY_SHARE",
    "NEGLIGIBLE_SHARE",
    "SELF_AGREEMENT_SHARE",
    "list_judge_findings",
]

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
    yield from _checks(who, one)
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


def _checks(who: Values, one: JudgeDiagnostics) -> Iterator[Finding]:
    again = one.self_agreement
    if again is not None and again.high < SELF_AGREEMENT_SHARE:
        yield Finding("disagrees-with-itself", {**who, **_measured(again)})
    kinds = {"identical": one.identical, "truncated": one.truncated, "garbage": one.garbage}
    failed = tuple(
        {"kind": name, "passed": round(found.value * found.n), "asked": found.n}
        for name, found in kinds.items()
        if found is not None and found.value < CANARY_PASS_SHARE
    )
    if failed:
        yield Finding("fails-canaries", {**who, "kinds": failed})


def _above(share: ShareEstimate, none: float) -> bool:
    return share.low > none and share.value > none + NEGLIGIBLE_SHARE


def _measured(share: ShareEstimate) -> dict[str, float]:
    """A share with its interval and the trials behind it."""
    return {"share": share.value, "low": share.low, "high": share.high, "trials": share.n}
