"""Text in Markdown. Like HTML, it can be steered by a name: here it cannot."""

from __future__ import annotations

import re

from tiltyard.report.terminal_escape import escape_controls

__all__ = ["markdown_text"]

#: Characters with a meaning in Markdown. Those that some dialects do not let a backslash disarm,
#: and those that make links of bare text, become entities.
_ACTIVE = re.compile(r"[\\`*_{}\[\]#!]")
_ENTITIES = re.compile(r"[<>&|~@$]|:(?=//)|(?<=www)\.", re.IGNORECASE)


def markdown_text(value: str) -> str:
    """Text from outside, made harmless: no markup, no link, no cell border, no line break."""
    spelled = _ACTIVE.sub(r"\\\g<0>", escape_controls(value))
    return _ENTITIES.sub(lambda found: f"&#{ord(found[0])};", spelled)
