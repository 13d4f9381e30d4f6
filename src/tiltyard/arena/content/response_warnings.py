"""Finds responses that are empty, look cut off, or had files that are not shown. They are imported all the same: an operator decides."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from tiltyard.arena.content.answer_rows import CheckedAnswer
from tiltyard.arena.content.blob_store import ResponseContent
from tiltyard.arena.content.message_images import count_unshown
from tiltyard.arena.content.stored_conversations import read_conversation

#: Warnings that are listed; the others are only counted.
SHOWN_WARNING_LIMIT = 20
#: The last line of a prose text that was cut off is long, and begins no list, table or quotation.
_LONG_LINE_CHARACTERS = 60
_NO_PROSE = ("|", "#", ">", "-", "*", "+", "    ", "\t")
_FENCES = ("```", "~~~")
_MESSAGES = {
    "empty": "the response is empty",
    "limit": "the response was cut off at the token limit",
    "fence": "the response ends inside a code block",
    "sentence": "the response ends in the middle of a sentence",
    "files": "its messages have images or other files that voters are not shown",
}
WarningKind = Literal["empty", "limit", "fence", "sentence", "files"]


@dataclass(frozen=True, slots=True)
class ResponseWarning:
    """A response that is empty, looks cut off, or had files beside its texts."""

    where: str
    model: str
    prompt: str
    about: WarningKind

    def __str__(self) -> str:
        return f"{self.where}: {_MESSAGES[self.about]}: {self.model} on {self.prompt}"


class WarningFinder:
    """Counts such responses and keeps the first."""

    def __init__(self) -> None:
        self.first: list[ResponseWarning] = []
        self.count = 0

    def watching(self, answers: Iterable[CheckedAnswer]) -> Iterator[CheckedAnswer]:
        """Pass the answers through, and look at each of them."""
        for answer in answers:
            self.look(answer)
            yield answer

    def look(self, answer: CheckedAnswer) -> None:
        """Count a response that there is something to say about; the first ones are stored."""
        about = _problem(answer)
        if about is None:
            return
        self.count += 1
        if len(self.first) < SHOWN_WARNING_LIMIT:
            self.first.append(ResponseWarning(answer.where, answer.model, answer.prompt, about))


def _problem(answer: CheckedAnswer) -> WarningKind | None:
    if answer.kind != "text":
        empty, looks, files = not answer.data.strip(), None, answer.unshown_files
    else:
        stored = read_conversation(ResponseContent(answer.media_type, answer.data))
        empty, looks = not stored.response.strip(), _looks(stored.response)
        files = count_unshown((*stored.context.messages, *stored.context.trace)) > 0
    if empty:
        return "empty"
    return "limit" if answer.truncated else looks or ("files" if files else None)


def _looks(text: str) -> WarningKind | None:
    """What a text looks like that was cut off."""
    return "fence" if _ends_in_fence(text) else "sentence" if _ends_in_sentence(text) else None


def _ends_in_fence(text: str) -> bool:
    """Whether a code block is open at the end: it ends with a line of its own mark, at least as long."""
    mark = ""
    for line in text.splitlines():
        bare = line.strip()
        if mark:
            if bare.startswith(mark) and not bare.strip(mark[0]):
                mark = ""
        elif bare.startswith(_FENCES):
            mark = bare[: len(bare) - len(bare.lstrip(bare[0]))]
    return bool(mark)


def _ends_in_sentence(text: str) -> bool:
    """Whether prose ends without a mark. Only scripts with small letters tell: others may have no such marks."""
    last = text.rstrip().rpartition("\n")[2]
    return last[-1:].islower() and len(last) >= _LONG_LINE_CHARACTERS and not last.startswith(_NO_PROSE)
