"""From a response to HTML, in bounded time."""

from __future__ import annotations

import time
from collections.abc import Callable

from markupsafe import Markup, escape

from tiltyard.web.texts.cleaning import clean
from tiltyard.web.texts.code import Brush
from tiltyard.web.texts.controls import storable, visible
from tiltyard.web.texts.markdown import OutOfTime, reader

__all__ = ["LONGEST_MARKDOWN", "LONGEST_SHOWN", "render_text"]

#: Characters that are read as Markdown; what follows is shown as it was written.
LONGEST_MARKDOWN = 60_000
#: Characters that are shown at all.
LONGEST_SHOWN = 200_000
#: As many lines, and as many opening brackets, as are read as Markdown: both cost more than other characters.
MOST_LINES = 5_000
MOST_BRACKETS = 5_000
#: CPU time for reading Markdown; the most expensive texts known need a third of it.
LONGEST_READING_SECONDS = 2.0


def render_text(text: str, *, language: str | None = None, say: Callable[[str], str] = str) -> Markup:
    """A prompt or a response as HTML blocks.

    `language` is that of the text, if known: a line in Arabic that begins with a Latin word still runs from right
    to left. `say` translates the few words that are ours.
    """
    head, rest = _parted(storable(text[:LONGEST_SHOWN]))
    deadline = time.thread_time() + LONGEST_READING_SECONDS
    try:
        html = reader().render(
            head, {"language": language, "say": say, "brush": Brush(), "deadline": deadline}
        )
    except OutOfTime:
        html, rest = "", head + rest
    if rest:
        told = say("From here on the text is shown as it was written: it is too long or too intricate.")
        html += f'<p class="text-cut">{escape(told)}</p>'
        html += f'<pre class="as-written" dir="auto" tabindex="0">{visible(rest)}</pre>'
    if len(text) > LONGEST_SHOWN:
        told = say("The text goes on: it is too long to be shown here as a whole.")
        html += f'<p class="text-cut">{escape(told)}</p>'
    return Markup(clean(html))  # noqa: S704


def _parted(text: str) -> tuple[str, str]:
    """What is read as Markdown, and the rest, parted at the end of a line if there is one."""
    limit = min(LONGEST_MARKDOWN, _nth(text, "\n", MOST_LINES), _nth(text, "[", MOST_BRACKETS))
    if len(text) <= limit:
        return text, ""
    end = text.rfind("\n", limit // 2, limit) + 1 or limit
    return text[:end], text[end:]


def _nth(text: str, character: str, count: int) -> int:
    """Where a character stands for the last time that it may; the end of the text if it never does."""
    head = text[:LONGEST_MARKDOWN]
    if head.count(character) <= count:
        return len(text)
    return len(head) - len(head.split(character, count)[-1])
