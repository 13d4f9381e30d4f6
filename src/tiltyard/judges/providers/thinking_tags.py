"""Thinking that local models write into their text, between tags at its start."""

from __future__ import annotations

from tiltyard.judges.providers.json_bodies import repair_surrogates

__all__ = ["SurrogateJoiner", "ThinkingTags"]

#: Opening and closing tags.
_TAGS = {
    "<think>": "</think>",
    "<thinking>": "</thinking>",
    "<thought>": "</thought>",
    "<seed:think>": "</seed:think>",
    "[THINK]": "[/THINK]",
}
#: As many blanks at the start are held back until it is known what follows them.
_BLANKS_CHARACTERS = 200


class ThinkingTags:
    """Splits the pieces of a text into answer and thinking. A tag may be cut in two by pieces.

    Only a tag at the start counts: in the middle it is something that the model writes about. ``opened``: the
    opening tag was part of the prompt, so that the text begins within the thinking.
    """

    def __init__(self, *, opened: bool = False) -> None:
        #: Text that cannot be told yet: the start of the answer, or what may become a closing tag.
        self._held = ""
        #: The closing tag that is waited for.
        self._closing: str | None = _TAGS["<think>"] if opened else None
        #: Nothing but blanks has come yet since the start, or since the thinking ended.
        self._at_start = not opened
        self._thought = opened

    def split(self, text: str) -> tuple[str, str]:
        """The parts of the next piece that are known to be answer and thinking."""
        if self._closing is None and not self._at_start:
            return text, ""
        self._held += text
        thinking = ""
        if self._at_start and not self._thought:
            self._open()
        if self._closing is not None:
            thinking = self._read_thinking(self._closing)
        return self._read_answer(), thinking

    def rest(self) -> tuple[str, str]:
        """What was held back, when the stream has ended."""
        held, self._held = self._held, ""
        if self._closing is not None:
            return "", held
        return ("" if self._thought else held), ""

    def _open(self) -> None:
        """Look for an opening tag at the start."""
        start = self._held.lstrip()
        if not start:
            self._at_start = len(self._held) <= _BLANKS_CHARACTERS
            return
        for opening, closing in _TAGS.items():
            if start.startswith(opening):
                self._closing, self._held = closing, start.removeprefix(opening)
                self._at_start, self._thought = False, True
                return
        if not any(opening.startswith(start) for opening in _TAGS):
            self._at_start = False

    def _read_thinking(self, closing: str) -> str:
        before, found, after = self._held.partition(closing)
        if found:
            self._closing, self._held, self._at_start = None, after, True
            return before
        kept = _overlap(self._held, closing)
        thinking = self._held[: len(self._held) - kept]
        self._held = self._held[len(thinking) :]
        return thinking

    def _read_answer(self) -> str:
        if self._closing is not None:
            return ""
        if self._thought and self._at_start:
            # Blanks between the thinking and the answer belong to neither.
            self._held = self._held.lstrip()
            self._at_start = not self._held
        if self._at_start:
            return ""
        held, self._held = self._held, ""
        return held


class SurrogateJoiner:
    """Joins characters whose two halves come in two pieces, and replaces halves that stay alone."""

    def __init__(self) -> None:
        self._half = ""

    def join(self, text: str) -> str:
        """The next piece, without a half that ends it."""
        if not self._half and text.isascii():
            return text
        text, self._half = self._half + text, ""
        if text and "\ud800" <= text[-1] <= "\udbff":
            text, self._half = text[:-1], text[-1]
        return repair_surrogates(text)

    def rest(self) -> str:
        """What replaces a half that nothing followed."""
        half, self._half = self._half, ""
        return "\N{REPLACEMENT CHARACTER}" if half else ""


def _overlap(text: str, tag: str) -> int:
    """How many characters at the end of a text may be the start of a tag."""
    return next((size for size in range(len(tag) - 1, 0, -1) if text.endswith(tag[:size])), 0)
