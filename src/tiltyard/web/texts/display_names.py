"""Names and remarks as plain text, without Markdown."""

from __future__ import annotations

from markupsafe import Markup, escape

from tiltyard.web.texts.control_characters import mark_hidden_characters, spell_hidden_characters

#: Longer names are truncated in the title attribute.
_MAX_TITLE_CHARACTERS = 10_000
#: Tabs and newlines are no part of a name.
_SPACES = str.maketrans({"\t": "\u2409", "\n": "\u240a"})


def format_name(text: str, *, most: int = 120) -> Markup:
    """A name on one line, shortened in the middle to ``most`` characters, with the full name in its title."""
    name = text.translate(_SPACES)
    if len(name) <= most and spell_hidden_characters(name) == name:
        return Markup("<bdi>{}</bdi>").format(name)
    title = escape(
        spell_hidden_characters(name[:_MAX_TITLE_CHARACTERS])
        + ("…" if len(name) > _MAX_TITLE_CHARACTERS else "")
    )
    return Markup(f'<bdi title="{title}">{mark_hidden_characters(_cut(name, most))}</bdi>')  # noqa: S704 - escaped  # nosec B704


def _cut(name: str, most: int) -> str:
    if len(name) <= most:
        return name
    end = most // 3
    return f"{name[: most - end - 1]}…{name[len(name) - end :]}"


def plain_text(text: str) -> Markup:
    """Plain text as HTML, with its line breaks."""
    lines = text.replace("\r\n", "\n").replace("\r", "\n")
    return Markup(mark_hidden_characters(lines).replace("\n", "<br>\n"))  # noqa: S704 - escaped  # nosec B704
