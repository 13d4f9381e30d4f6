"""Renders a response as HTML, in bounded time."""

from __future__ import annotations

import time
from collections.abc import Callable

from markupsafe import Markup, escape

from tiltyard.web.texts.code_highlighter import CodeHighlighter
from tiltyard.web.texts.control_characters import make_storable, mark_hidden_characters
from tiltyard.web.texts.markdown import RenderTimeout, markdown_parser
from tiltyard.web.texts.sanitizer import sanitize_html

#: Characters that are parsed as Markdown; the rest is shown as plain text.
MAX_MARKDOWN_CHARACTERS = 60_000
#: Maximum characters that are shown.
MAX_SHOWN_CHARACTERS = 200_000
#: Maximum lines and opening brackets that are parsed as Markdown; both are slower than other characters.
MAX_MARKDOWN_LINES = 5_000
BRACKET_LIMIT = 5_000
#: CPU time limit for parsing Markdown; the slowest known texts need a third of it.
MAX_PARSE_SECONDS = 2.0


def render_text(text: str, *, language: str | None = None, say: Callable[[str], str] = str) -> Markup:
    """A prompt or a response as HTML blocks.

    `language` is that of the text, if known: a line in Arabic that begins with a Latin word still runs from right
    to left. `say` translates the few words that are ours.
    """
    head, rest = _parted(make_storable(text[:MAX_SHOWN_CHARACTERS]))
    deadline = time.thread_time() + MAX_PARSE_SECONDS
    try:
        html = markdown_parser().render(
            head, {"language": language, "say": say, "brush": CodeHighlighter(), "deadline": deadline}
        )
    except RenderTimeout:
        html, rest = "", head + rest
    if rest:
        notice = say(
            "The rest of the text is shown without formatting, because it is too long or too complex."
        )
        html += f'<p class="text-cut">{escape(notice)}</p>'
        html += f'<pre class="as-written" dir="auto" tabindex="0">{mark_hidden_characters(rest)}</pre>'
    if len(text) > MAX_SHOWN_CHARACTERS:
        notice = say("The text continues: it is too long to be shown here in full.")
        html += f'<p class="text-cut">{escape(notice)}</p>'
    return Markup(sanitize_html(html))  # noqa: S704 - sanitized  # nosec B704


def _parted(text: str) -> tuple[str, str]:
    """Split a text into the part that is parsed as Markdown and the rest, at the end of a line if possible."""
    limit = min(MAX_MARKDOWN_CHARACTERS, _nth(text, "\n", MAX_MARKDOWN_LINES), _nth(text, "[", BRACKET_LIMIT))
    if len(text) <= limit:
        return text, ""
    end = text.rfind("\n", limit // 2, limit) + 1 or limit
    return text[:end], text[end:]


def _nth(text: str, character: str, count: int) -> int:
    """The position of the last allowed occurrence of a character; the end of the text if the limit is not reached."""
    head = text[:MAX_MARKDOWN_CHARACTERS]
    if head.count(character) <= count:
        return len(text)
    return len(head) - len(head.split(character, count)[-1])
