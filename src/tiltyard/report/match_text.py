"""One judged match, or one check of a judge, as text for a terminal and as a JSON document."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import NamedTuple

from tiltyard.core.battles.outcome import Label, Outcome
from tiltyard.core.judging.conversation import ContextBlock, shared_context
from tiltyard.core.judging.judged_question import JudgedQuestion
from tiltyard.core.judging.question import QuestionPurpose
from tiltyard.core.judging.reconciliation import MatchResult, VerdictGroup
from tiltyard.core.judging.verdict import VerdictStep
from tiltyard.files.answer import Answer
from tiltyard.report.escapes import escape_controls

#: Longer messages are cut, and of more messages only the last are shown; steps are folded as for judges.
_MESSAGE_CHARACTERS = 6_000
_MESSAGE_LIMIT = 40
#: Blocks are named for a slot, which depends on the order.
_SLOT = " OF RESPONSE A"

#: Longer texts are cut in a terminal.
_SHOWN_CHARACTERS = 4_000
_INDENT = "    "
_CHECKS = {
    QuestionPurpose.IDENTICAL: "an identical pair: neither is better",
    QuestionPurpose.TRUNCATED: "a truncated copy: the whole response is better",
    QuestionPurpose.GARBAGE: "a shuffled copy: the whole response is better",
    QuestionPurpose.REPEAT: "a question asked again: the same choice is expected",
    QuestionPurpose.SWAPPED: "the response to another prompt: the one to this prompt is better",
    QuestionPurpose.EMPTY: "an empty response: the other is better",
}
_PASSED = {True: "passed", False: "failed", None: "cannot be said"}


class ContextText(NamedTuple):
    """A text under a label, with its full length."""

    label: str
    text: str
    length: int


def context_of(answer: Answer) -> list[ContextText]:
    """The texts before a response, in their order; none for one prompt with a plain answer."""
    context = answer.context
    found = shared_context(context, replace(context, trace=()))
    if found is None:
        return []
    before = [
        ContextText(_label(block.name), block.text[:_MESSAGE_CHARACTERS], len(block.text))
        for block in found.before()
    ]
    left_out = len(before) - _MESSAGE_LIMIT
    if left_out > 0:
        note = f"{left_out:,} messages before these are left out here."
        before = [ContextText("Earlier messages", note, len(note)), *before[-_MESSAGE_LIMIT:]]
    return [*before, *_steps(found.steps("A"))]


def _steps(blocks: Iterable[ContextBlock | str]) -> Iterator[ContextText]:
    for block in blocks:
        if isinstance(block, str):
            note = block.replace(_SLOT.replace("OF", "of"), "")
            yield ContextText("Steps", note, len(note))
        elif block.left_out:
            text = f"{block.text}\n[{block.left_out:,} characters are left out here]\n{block.end}"
            yield ContextText(_label(block.name), text, len(text))
        else:
            yield ContextText(_label(block.name), block.text, len(block.text))


def _label(name: str) -> str:
    """A block's name in ordinary spelling: ``Step 2: tool call``."""
    return name.replace(_SLOT, "").capitalize()


def split_shared(
    one: Sequence[ContextText], other: Sequence[ContextText]
) -> tuple[Sequence[ContextText], Sequence[ContextText], Sequence[ContextText]]:
    """What two responses have in common at the beginning, and the rest of each."""
    shared = sum(1 for _ in takewhile(lambda both: both[0] == both[1], zip(one, other, strict=False)))
    return one[:shared], one[shared:], other[shared:]


@dataclass(frozen=True, slots=True)
class ReadMatch:
    """A match or check with its texts.

    ``texts`` are those of the group's two models; of a planted question, those that stood in slots A and B.
    """

    group: VerdictGroup
    prompt: str
    category: str | None
    texts: tuple[str, str]
    #: What came before each response.
    contexts: tuple[Sequence[ContextText], Sequence[ContextText]]
    #: Place of the first verdict in its file.
    line: int


def match_document(match: ReadMatch) -> dict[str, object]:
    """A match as `tiltyard read --json` prints it: everything that is known of it, with its whole texts."""
    group = match.group
    return {
        "dimension": group.dimension,
        "prompt_id": group.prompt_id,
        "category": match.category,
        "purpose": group.purpose.value,
        "model_a": group.model_a,
        "model_b": group.model_b,
        "results": {
            judge: (
                None if result is None else {"label": result.label.value, "winner": _winner(group, result)}
            )
            for judge, result in group.results.items()
        },
        "flip": group.flips(),
        "disputed": group.disputed,
        "passed": group.passed,
        "before": None if group.before is None else group.before.value,
        "prompt": match.prompt,
        "response_a": match.texts[0],
        "response_b": match.texts[1],
        "context_a": [one._asdict() for one in match.contexts[0]],
        "context_b": [one._asdict() for one in match.contexts[1]],
        "verdicts": [_verdict_document(one) for one in group.judged],
    }


def _winner(group: VerdictGroup, result: MatchResult) -> str | None:
    return {Outcome.MODEL_A: group.model_a, Outcome.MODEL_B: group.model_b}.get(result.outcome)


def _verdict_document(one: JudgedQuestion) -> dict[str, object]:
    """What one judge said in one order; ``first`` and ``second`` stood in slots A and B."""
    verdict = one.verdict
    return {
        "judge_model": one.question.judge,
        "first": one.question.first,
        "second": one.question.second,
        "state": one.state.value,
        "verdict": verdict.step.value if verdict else None,
        "both_bad": verdict.both_bad if verdict else None,
        "reasoning": verdict.reasoning if verdict else None,
        "problem": one.problem,
        "reply": one.reply.text if one.reply else None,
    }


def match_lines(match: ReadMatch, number: int, judge: str | None = None) -> Iterator[str]:
    """The lines of a match: a heading, the prompt, both responses, every verdict. All text is escaped.

    ``judge``: only this judge's verdicts.
    """
    group = match.group
    names = (group.model_a,) if group.model_a == group.model_b else (group.model_a, group.model_b)
    yield escape_controls(
        f"{number}. {group.prompt_id} · {group.dimension} · {' and '.join(names)}"
        + (f" · {match.category}" if match.category else "")
    )
    yield from (f"   {escape_controls(line)}" for line in _summary(group, judge))
    yield ""
    shared, *own = split_shared(*match.contexts)
    yield from _context("", shared)
    yield from _text("Prompt", match.prompt, "answers.jsonl")
    for label, text, before in zip(_labels(group), match.texts, own, strict=True):
        yield from _context(f"{label}, ", before)
        yield from _text(f"{label} ({len(text):,} characters)", text, "answers.jsonl")
    for k, one in enumerate(group.judged):
        if judge in (None, one.question.judge):
            yield from _said(one, f"questions/{group.dimension}.jsonl, line {match.line + k}")


def _context(owner: str, texts: Sequence[ContextText]) -> Iterator[str]:
    for one in texts:
        label = one.label.lower() if owner else one.label
        yield from _text(f"{owner}{label}", one.text, "answers.jsonl", one.length)


def _labels(group: VerdictGroup) -> tuple[str, str]:
    question = group.judged[0].question
    if question.spoilt is None:
        return group.model_a, group.model_b
    copy = "the same" if group.purpose is QuestionPurpose.IDENTICAL else f"{group.purpose.value} copy"
    labels = [f"{slot}: {group.model_a}" for slot in "AB"]
    labels[question.spoilt] += f", {copy}"
    return labels[0], labels[1]


def _summary(group: VerdictGroup, judge: str | None) -> Iterator[str]:
    if group.purpose is not QuestionPurpose.MATCH:
        asked = group.judged[0].question
        yield f"Check of {asked.judge}, {_CHECKS[group.purpose]}. {_PASSED[group.passed].capitalize()}."
        if group.before is not None:
            yield f"The first time it said: {_step(group.before, asked.first, asked.second)} ({group.before})."
        return
    for name, result in group.results.items():
        if judge in (None, name):
            yield f"{name}: {_sentence(group, result)}"
    if group.disputed:
        yield "The judges disagree."


def _sentence(group: VerdictGroup, result: MatchResult | None) -> str:
    if result is None:
        return "no result, because an order has no verdict"
    if result.label is Label.INCONSISTENT:
        return "a flip: the winner changes with the order"
    winner = _winner(group, result)
    if winner is None:
        return "a tie in each order asked"
    if result.label is Label.LEAN:
        return f"a lean to {winner}: better in one order, level in the other"
    return f"{winner} won in each order asked"


def _step(step: VerdictStep, first: str, second: str) -> str:
    words: Mapping[VerdictStep, str] = {
        VerdictStep.FIRST_MUCH: f"{first} is much better",
        VerdictStep.FIRST: f"{first} is better",
        VerdictStep.EVEN: "neither is better",
        VerdictStep.SECOND: f"{second} is better",
        VerdictStep.SECOND_MUCH: f"{second} is much better",
    }
    return words[step]


def _said(one: JudgedQuestion, where: str) -> Iterator[str]:
    question = one.question
    sides = (
        f"A is {question.first}, B is {question.second}" if question.spoilt is None else "A and B as above"
    )
    if one.verdict is None:
        problem = f" ({one.problem})" if one.problem else ""
        said = f"no verdict, {one.state.value.replace('_', ' ')}{problem}"
        text = (one.reply.text or "") if one.reply else ""
    else:
        names = (question.first, question.second) if question.spoilt is None else ("A", "B")
        bad = ", both bad" if one.verdict.both_bad else ""
        said = f"{_step(one.verdict.step, *names)} ({one.verdict.step}{bad})"
        text = one.verdict.reasoning
    yield from _text(f"{question.judge}, {sides}: {said}", text, where)


def _text(title: str, text: str, where: str, length: int | None = None) -> Iterator[str]:
    """A titled text, indented; a long one is cut. ``length``: of the whole, if it is cut already."""
    whole = len(text) if length is None else length
    yield escape_controls(title)
    shown = text[:_SHOWN_CHARACTERS]
    lines = shown.replace("\r\n", "\n").split("\n")
    yield from (f"{_INDENT}{escape_controls(line.expandtabs(4))}" for line in lines)
    if whole > len(shown):
        cut = f"… the first {len(shown):,} of {whole:,} characters; the whole is in {where}"
        yield f"{_INDENT}{escape_controls(cut)}"
    yield ""
