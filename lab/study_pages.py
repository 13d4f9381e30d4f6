"""Where a study leaves its page."""

from __future__ import annotations

import sys
from pathlib import Path


def write_page(text: str, out: Path | None) -> None:
    """Write a page to a file, or print it."""
    if out is None:
        sys.stdout.write(text)
    else:
        out.write_text(text, encoding="utf-8")
