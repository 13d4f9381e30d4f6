"""Stable ids: a hash of an object's content, independent of its position."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

__all__ = ["stable_id"]

_CANONICAL = json.JSONEncoder(sort_keys=True, separators=(",", ":"))


def stable_id(fields: Mapping[str, object] | Sequence[Any]) -> str:
    """32 hex digits of the sha256 of the canonical JSON: keys sorted, no spaces, ASCII only."""
    return hashlib.sha256(_CANONICAL.encode(fields).encode("ascii")).hexdigest()[:32]
