"""Names of models that are the same but for spaces, case, hyphens or Unicode form."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence

#: What separates the parts of a name: spaces, underscores and dashes; and characters that are not seen.
_SEPARATORS = frozenset({"Zs", "Zl", "Zp", "Cc", "Pc", "Pd"})
_UNSEEN = "Cf"
_SEPARATED = re.compile(r" +")


def spelling_key(name: str) -> str:
    """Equal for names that are the same but for their spelling; 2-7 and 27 stay apart."""
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", name).casefold())
    kinds = [(letter, unicodedata.category(letter)) for letter in folded]
    plain = "".join(" " if kind in _SEPARATORS else letter for letter, kind in kinds if kind != _UNSEEN)
    parts = _SEPARATED.split(plain.strip())
    joined = parts[0]
    for part in parts[1:]:
        joined += f" {part}" if joined[-1:].isdigit() and part[:1].isdigit() else part
    return joined


def alike_names(battles: Mapping[str, int]) -> list[Sequence[str]]:
    """Sets of names with one spelling key, the name with most battles first; ``battles`` has the number of each."""
    sets: dict[str, list[str]] = {}
    for name in sorted(battles, key=lambda name: (-battles[name], name)):
        sets.setdefault(spelling_key(name), []).append(name)
    return [names for names in sets.values() if len(names) > 1]
