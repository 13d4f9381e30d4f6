"""Renders an answer while it is written: each complete block once, what is open as plain text."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from markupsafe import Markup

from tiltyard.core.live.stream_blocks import BlockSplitter, TextBlock
from tiltyard.web.texts import render_text

#: How a list ends in HTML.
_LIST_ENDS = ("</ul>\n", "</ol>\n")


@dataclass(frozen=True, slots=True)
class RenderedBlock:
    """A complete block as HTML; empty if it shows nothing."""

    html: str
    #: Whether it is one more item of the list with which the HTML before it ends.
    joins: bool = False


class AnswerRenderer:
    """Renders one answer. What it has rendered is what the whole text gives, but for rare exceptions (`whole`)."""

    def __init__(self, *, language: str | None = None, say: Callable[[str], str] = str) -> None:
        self._language, self._say = language, say
        self._splitter = BlockSplitter()
        self._texts: list[str] = []
        self._tail: list[str] = []
        #: The HTML of all blocks; a list that may go on without its end.
        self._html: list[str] = []
        self._list_end = ""

    def feed(self, text: str) -> list[RenderedBlock]:
        """Take the next piece of the answer; return what became complete."""
        self._texts.append(text)
        self._tail.append(text)
        return self._rendered(self._splitter.feed(text))

    def end(self) -> list[RenderedBlock]:
        """The answer is complete; return what was open."""
        return self._rendered(self._splitter.end())

    @property
    def tail(self) -> str:
        """What is written and not rendered yet."""
        tail = "".join(self._tail)
        self._tail = [tail]
        return tail

    @property
    def in_code(self) -> bool:
        """Whether the tail is the inside of a code fence, whose first line opens it."""
        return self._splitter.in_code

    @property
    def html(self) -> Markup:
        """All complete blocks."""
        return Markup("".join(self._html) + self._list_end)  # noqa: S704 - sanitized  # nosec B704

    def whole(self) -> Markup:
        """The whole answer, as every other page shows it."""
        return render_text("".join(self._texts), language=self._language, say=self._say)

    def _rendered(self, blocks: list[TextBlock]) -> list[RenderedBlock]:
        if not blocks:
            return []
        self._tail = [self.tail[sum(len(block.text) for block in blocks) :]]
        return [self._render(block) for block in blocks]

    def _render(self, block: TextBlock) -> RenderedBlock:
        source = _with_next_item(block.text) if block.loose else block.text
        html = str(render_text(source, language=self._language, say=self._say))
        if not block.item or not html.endswith(_LIST_ENDS):
            self._add(html, "")
            return RenderedBlock(html)
        ending = html[-len(_LIST_ENDS[0]) :]
        last = html.rfind("<li") if block.loose else len(html) - len(ending)
        if block.continues and self._list_end == ending:
            html = html[html.find("<li") : last]
            self._html.append(html)
            return RenderedBlock(html, joins=True)
        self._add(html[:last], ending)
        return RenderedBlock(html[:last] + ending)

    def _add(self, html: str, list_end: str) -> None:
        if html:
            self._html += [self._list_end, html]
            self._list_end = list_end


def _with_next_item(item: str) -> str:
    """An item, a blank line and an empty item: the parser sees that blank lines stand between the items."""
    marker = item[: len(item) - len(item.lstrip())] + item.split(maxsplit=1)[0]
    return f"{item}\n\n{marker}"
