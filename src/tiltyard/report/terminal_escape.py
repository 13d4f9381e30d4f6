"""Escapes text from files for printing."""

from __future__ import annotations


def escape_controls(text: str) -> str:
    """Escape characters that control a terminal or change the text direction."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
