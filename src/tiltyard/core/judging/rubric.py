"""Rubrics: the judge's instructions, one versioned text for each dimension."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass

from tiltyard.errors import UnreadableFile

__all__ = ["Rubric", "parse_rubric"]

#: What a rubric may request to be shown next to the two responses.
_USES = ("gold", "expected_behavior")
_VERSION = re.compile(r"#\s*version:\s*(v\d+)\s*")
_HEADER = re.compile(r"#\s*uses:\s*(.*)")


@dataclass(frozen=True, slots=True)
class Rubric:
    """One dimension's instructions. ``gold`` and ``expected_behavior``: whether it requests these."""

    dimension: str
    version: str
    text: str
    gold: bool = False
    expected_behavior: bool = False

    @property
    def sha256(self) -> str:
        """The rubric's identity: a hash of its version, what it uses and its text."""
        content = f"{self.version}\n{self.gold}\n{self.expected_behavior}\n{self.text}"
        return hashlib.sha256(content.encode()).hexdigest()

    def file_text(self) -> str:
        """The rubric as a file, which `parse_rubric` can read."""
        uses = [name for name in _USES if getattr(self, name)]
        head = f"# version: {self.version}\n" + (f"# uses: {', '.join(uses)}\n" if uses else "")
        return f"{head}\n{self.text}\n"


def parse_rubric(dimension: str, text: str, where: str) -> Rubric:
    """Parse a rubric file: first line ``# version: vN``, then optionally ``# uses: gold, expected_behavior``."""
    first, _, rest = text.replace("\r\n", "\n").lstrip("\ufeff").partition("\n")
    version = _VERSION.fullmatch(first)
    if version is None:
        raise UnreadableFile(
            f"{where}, line 1: expected '# version: v1' (or v2, v3, …), found {first[:60]!r}"
        )
    second, _, after = rest.partition("\n")
    header = _HEADER.fullmatch(second.strip())
    uses = [name.strip() for name in header[1].split(",") if name.strip()] if header else []
    for name in uses:
        if name not in _USES:
            raise UnreadableFile(f"{where}, line 2: uses {name!r}; expected {' or '.join(_USES)}")
    body = (after if header else rest).strip()
    if not body:
        raise UnreadableFile(f"{where}: the rubric has no text after its first lines")
    return Rubric(dimension, version[1], body, gold="gold" in uses, expected_behavior=_USES[1] in uses)
