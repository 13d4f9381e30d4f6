"""Judged worlds: lists of what an observer is shown, told in a line or drawn by Hypothesis."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from hypothesis import strategies as st

from tiltyard.core.judging.canaries import SPOILT_KINDS
from tiltyard.core.judging.diagnostics.judge_diagnostics import (
    JudgeDiagnostics,
    ResponseTraits,
    VerdictObserver,
)
from tiltyard.core.judging.question import Question, QuestionPurpose
from tiltyard.core.judging.verdict import QuestionState, Verdict, VerdictStep

Shown = tuple[Question, QuestionState, Verdict | None, ResponseTraits | None]

FAMILIES = {"a": "acme", "b": "acme", "c": "bolt", "d": None}
TRAITS = {"a": (10, 0), "b": (20, 3), "c": (20, 0), "d": (5, 3)}


def traits(first: str, second: str) -> ResponseTraits:
    (long_1, lists_1), (long_2, lists_2) = TRAITS[first], TRAITS[second]
    return ResponseTraits(long_1, long_2, lists_1, lists_2, FAMILIES[first], FAMILIES[second])


def shown(
    step: str | None,
    *,
    judge: str = "j",
    dimension: str = "x",
    prompt: str = "p",
    first: str = "a",
    second: str = "c",
    purpose: QuestionPurpose = QuestionPurpose.MATCH,
    replicate: int = 0,
    spoilt: int | None = None,
    both_bad: bool = False,
    state: QuestionState = QuestionState.REFUSED,
) -> Shown:
    """One question that ended in ``step``, or in ``state`` where there is none."""
    question = Question(judge, dimension, prompt, first, second, purpose, replicate, spoilt)
    if step is None:
        return question, state, None, traits(first, second)
    return question, QuestionState.OK, Verdict(VerdictStep(step), both_bad, ""), traits(first, second)


def match(one: str, two: str, **where: str) -> list[Shown]:
    """Both orders of a match: ``one`` with the first model in slot A, ``two`` with the second in it."""
    first, second = where.pop("first", "a"), where.pop("second", "c")
    return [
        shown(one, first=first, second=second, **where),
        shown(two, first=second, second=first, **where),
    ]


def observed(world: Iterable[Shown], **families: str | None) -> tuple[JudgeDiagnostics, ...]:
    observer = VerdictObserver()
    for row in world:
        observer.add(*row)
    return observer.diagnostics(families)


_STEPS = st.sampled_from([*(step.value for step in VerdictStep), None])
_STATES = st.sampled_from([state for state in QuestionState if state is not QuestionState.OK])
_PAIRS = [(first, second) for first in FAMILIES for second in FAMILIES if first != second]


@st.composite
def worlds(draw: st.DrawFn) -> list[Shown]:
    """Matches (mostly in both orders), repeats and canaries of two judges in two dimensions."""
    matches = st.tuples(st.sampled_from("xy"), st.sampled_from("pqrst"), st.sampled_from(_PAIRS))
    unordered = matches.filter(lambda place: place[2][0] < place[2][1])
    world = []
    for dimension, prompt, pair in draw(st.lists(unordered, unique=True, min_size=1, max_size=12)):
        for judge in "jk":
            both_bad = draw(st.integers(0, 3)) == 0
            for first, second in (pair, pair[::-1]):
                base = shown(
                    draw(_STEPS),
                    judge=judge,
                    dimension=dimension,
                    prompt=prompt,
                    first=first,
                    second=second,
                    both_bad=both_bad or draw(st.integers(0, 3)) == 0,
                    state=draw(_STATES),
                )
                world.append(base)
                if draw(st.integers(0, 3)) == 0:
                    question = replace(base[0], purpose=QuestionPurpose.REPEAT, replicate=1)
                    step = draw(st.sampled_from(VerdictStep))
                    world.append((question, QuestionState.OK, Verdict(step, False, ""), None))
    kinds = st.sampled_from([QuestionPurpose.IDENTICAL, *SPOILT_KINDS])
    for purpose in draw(st.lists(kinds, max_size=9)):
        spoilt, prompt = draw(st.integers(0, 1)), draw(st.sampled_from("pqrst"))
        world.append(shown(draw(_STEPS), prompt=prompt, second="a", purpose=purpose, spoilt=spoilt))
    return world
