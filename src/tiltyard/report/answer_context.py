"""What came before a response, as readers see it: system prompt, earlier messages, and its steps."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import takewhile
from typing import NamedTuple

from tiltyard.core.judging.question_context import ContextBlock, shared_context
from tiltyard.files.answer import Answer

#: Longer messages are cut, and of more messages only the last are shown; steps are folded as for judges.
_MESSAGE_CHARACTERS = 6_000
_MESSAGE_LIMIT = 40
#: Blocks are named for a slot, which depends on the order.
_SLOT = " OF RESPONSE A"


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
