"""Names for files, folders and addresses, made from any text."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence

_NAME_CHARACTERS = 60


def plain_names(names: Sequence[str], *, otherwise: str, taken: Iterable[str] = ()) -> list[str]:
    """Small letters, digits and hyphens; equal ones are numbered, and ``otherwise`` stands where none is left."""
    used = set(taken)
    found = []
    for name in names:
        plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode().lower()
        base = re.sub(r"[^a-z0-9]+", "-", plain)[:_NAME_CHARACTERS].strip("-") or otherwise
        number, chosen = 1, base
        while chosen in used:
            number += 1
            chosen = f"{base}-{number}"
        used.add(chosen)
        found.append(chosen)
    return found
