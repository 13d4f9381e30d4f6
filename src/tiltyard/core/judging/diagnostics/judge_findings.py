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

_LOST = {
    QuestionState.REFUSED: (
        "refuses",
        "refused",
        "Look which prompts: what is refused is not missing at random.",
    ),
    QuestionState.TRUNCATED: (
        "truncates",
        "was cut off in",
        "Raise max_tokens; cut-off replies favour short reasoning.",
    ),
    QuestionState.UNPARSEABLE: (
        "unparseable",
        "gave no readable verdict in",
        "Read some of its replies in verdicts/.",
    ),
}
#: What else to try where replies of a form cannot be read.
_OTHER_FORM = {
    VerdictForm.SCHEMA: "Ask for the verdict by tool or text: this server may not hold its replies to a schema.",
    VerdictForm.TOOL: "Ask for the verdict by schema or text: this server may not force its tools.",
    VerdictForm.TEXT: "Ask for the verdict by schema or tool.",
}


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
    who = one.judge if one.dimension is None else f"{one.judge} ({one.dimension})"
    yield from _slots(who, one)
    yield from _texts(who, one)
    yield from _families(who, one)
    yield from _checks(who, one)
    for state, (name, did, advice) in _LOST.items():
        share = one.states.get(state, 0) / max(one.questions, 1)
        if share > LOST_REPLY_SHARE:
            other = _OTHER_FORM.get(form) if form is not None and state is QuestionState.UNPARSEABLE else None
            text = f"{who} {did} {_percent(share)} of {one.questions} questions."
            yield Finding(name, text, other or advice)


def _slots(who: str, one: JudgeDiagnostics) -> Iterator[Finding]:
    slot = one.first_slot
    if slot is not None and slot.excludes(0.5) and abs(slot.value - 0.5) > NEGLIGIBLE_SHARE:
        yield Finding(
            "slot-preference",
            f"{who} prefers the response shown {'first' if slot.value > 0.5 else 'second'}: "
            f"it chose the first in {_spoken(slot)} decisive verdicts.",
            "Both orders are asked, so it cancels in the ratings; it costs decisive results.",
        )
    if one.flips is not None and one.flips.low > FLIP_SHARE:
        yield Finding(
            "flips-often",
            f"{who} changes the winner with the order in {_spoken(one.flips)} matches decided in both orders.",
            "Compare the ratings under each choice of what inconsistent counts, or choose a steadier judge.",
        )


def _texts(who: str, one: JudgeDiagnostics) -> Iterator[Finding]:
    kinds = (
        ("prefers-longer", "longer response", one.longer_wins, "Length"),
        ("prefers-lists", "response with more list items", one.lists_win, "Lists"),
    )
    for name, which, found, merit in kinds:
        if found is not None and _above(found, 0.5):
            yield Finding(
                name,
                f"{who} lets the {which} win in {_spoken(found)} matches where the two differ.",
                f"{merit} may go with merit: rate with style control to see what remains of the order.",
            )


def _families(who: str, one: JudgeDiagnostics) -> Iterator[Finding]:
    own, others, excess = one.own_family, one.own_family_by_others, one.own_family_excess
    if own is None:
        return
    said = f"{who} lets its own family win in {_spoken(own)} matches against others"
    if others is None or excess is None:
        if _above(own, 0.5):
            alone = "; one judge alone cannot tell preference from merit."
            yield Finding("prefers-own-family", said + alone, "Add a judge of another family.")
    elif _above(excess, 0.0):
        yield Finding(
            "prefers-own-family",
            f"{said}; other judges of the same matches do in {_spoken(others)}.",
            "Leave this judge out where its family competes, or rate by the others.",
        )


def _checks(who: str, one: JudgeDiagnostics) -> Iterator[Finding]:
    again = one.self_agreement
    if again is not None and again.high < SELF_AGREEMENT_SHARE:
        yield Finding(
            "disagrees-with-itself",
            f"{who} chose the same when asked again in only {_spoken(again)} repeats.",
            "Lower its temperature if that can be set, or let several judges decide.",
        )
    kinds = {"identical": one.identical, "truncated": one.truncated, "garbage": one.garbage}
    failed = [
        f"{name} {round(found.value * found.n)} of {found.n}"
        for name, found in kinds.items()
        if found is not None and found.value < CANARY_PASS_SHARE
    ]
    if failed:
        yield Finding(
            "fails-canaries",
            f"{who} passes too few planted questions: {', '.join(failed)}.",
            "Read its reasoning on them before trusting its other verdicts.",
        )


def _above(share: ShareEstimate, none: float) -> bool:
    return share.low > none and share.value > none + NEGLIGIBLE_SHARE


def _spoken(share: ShareEstimate) -> str:
    """``62 % [55, 68] of 240``: value, interval, trials."""
    return f"{_percent(share.value)} [{100.0 * share.low:.0f}, {100.0 * share.high:.0f}] of {share.n}"


def _percent(value: float) -> str:
    return f"{100.0 * value:.0f} %"
