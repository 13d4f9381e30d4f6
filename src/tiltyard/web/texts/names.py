"""Names and remarks: no Markdown, only what was written."""

from __future__ import annotations

from markupsafe import Markup, escape

from tiltyard.web.texts.controls import spelled, visible

__all__ = ["plain_text", "shown_name"]

#: A name longer than this stands in a title with its end cut off.
_LONGEST_TITLE = 10_000
#: Tabs and newlines are no part of a name.
_SPACES = str.maketrans({"\t": "\u2409", "\n": "\u240a"})


def shown_name(text: str, *, most: int = 120) -> Markup:
    """A name on one line, cut in the middle to `most` characters, whole in its title."""
    name = text.translate(_SPACES)
    if len(name) <= most and spelled(name) == name:
        return Markup("<bdi>{}</bdi>").format(name)
    title = escape(spelled(name[:_LONGEST_TITLE]) + ("…" if len(name) > _LONGEST_TITLE else ""))
    return Markup(f'<bdi title="{title}">{visible(_cut(name, most))}</bdi>')  # noqa: S704


def _cut(name: str, most: int) -> str:
    if len(name) <= most:
        return name
    end = most // 3
    return f"{name[: most - end - 1]}…{name[len(name) - end :]}"


def plain_text(text: str) -> Markup:
    """What somebody wrote, character by character, with its line breaks."""
    lines = text.replace("\r\n", "\n").replace("\r", "\n")
    return Markup(visible(lines).replace("\n", "<br>\n"))  # noqa: S704
