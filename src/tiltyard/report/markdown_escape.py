"""Escapes text for Markdown."""

from __future__ import annotations

import re

from tiltyard.report.terminal_escape import escape_controls

#: Characters with a meaning in Markdown. Those that a backslash does not escape in some dialects,
#: and those that turn bare text into links, become entities.
_ACTIVE = re.compile(r"[\\`*_{}\[\]#!]")
_ENTITIES = re.compile(r"[<>&|~@$]|:(?=//)|(?<=www)\.", re.IGNORECASE)


def markdown_text(value: str) -> str:
    """Escape untrusted text: no markup, no link, no cell border, no line break."""
    spelled = _ACTIVE.sub(r"\\\g<0>", escape_controls(value))
    return _ENTITIES.sub(lambda found: f"&#{ord(found[0])};", spelled)
