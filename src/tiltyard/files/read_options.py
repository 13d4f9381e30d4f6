"""How the battles of a source are read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tiltyard.errors import BadOption
from tiltyard.files.canonical_columns import CANONICAL
from tiltyard.files.outcome_words import checked_outcomes
from tiltyard.foundation.option_names import option_name, require_flag

__all__ = ["ReadOptions"]


_MAPPINGS = {"columns": "{'model_a': 'left'}", "outcomes": "{'left': 'a', 'right': 'b'}"}


@dataclass(frozen=True)
class ReadOptions:
    """Options of reading, checked. Headers and words of outcomes may be given as numbers, as in a frame."""

    #: The name of a format; by default it is detected.
    format: str | None = None
    #: Canonical names and the headers that hold them.
    columns: Mapping[str, Any] | None = None
    #: What words of the winner column mean: ``{"left": "a", "right": "b"}``.
    outcomes: Mapping[Any, str] | None = None
    #: Leave out rows that are no battles, and count them.
    skip_invalid: bool = False
    #: The baseline of judgments that do not name it.
    baseline: str | None = None
    mapped: dict[str, str] = field(init=False)
    meanings: dict[str, str] = field(init=False)

    def __post_init__(self) -> None:
        require_flag("skip_invalid", self.skip_invalid)
        for name in ("columns", "outcomes"):
            value = getattr(self, name)
            if value is not None and not isinstance(value, Mapping):
                raise BadOption(
                    f"{option_name(name)}: expected a mapping such as {_MAPPINGS[name]}, not {value!r}"
                )
        mapped = {name: str(header) for name, header in (self.columns or {}).items()}
        for name in mapped:
            if name not in CANONICAL:
                raise BadOption(
                    f"{option_name('columns')}: {name!r} is not a column of a battle; choose from {', '.join(CANONICAL)}"
                )
        object.__setattr__(self, "mapped", mapped)
        object.__setattr__(self, "meanings", checked_outcomes(self.outcomes))
