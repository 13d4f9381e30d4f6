"""Text from files, made safe to print."""

from __future__ import annotations

__all__ = ["escape_controls"]


def escape_controls(text: str) -> str:
    """Text that cannot steer a terminal or turn a line around: such characters are spelled out."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
