"""The operator's settings of one arena, except its ranking policy."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal
from zoneinfo import ZoneInfo

from tiltyard.errors import BadOption

__all__ = ["MAX_SESSION_VOTES", "ArenaSettings", "Reveal", "Visibility"]

#: ``open``: everybody may vote and read the board. ``closed``: readers need a token.
Visibility = Literal["open", "closed"]
#: When voters see the names behind the responses they voted on. ``session``: all together, after a
#: number of votes or on request. ``vote``: after each vote. ``never``: not at all.
Reveal = Literal["session", "vote", "never"]


#: The names of one session are revealed in one transaction.
MAX_SESSION_VOTES = 200


@dataclass(frozen=True, slots=True)
class ArenaSettings:
    """How an arena is run. Nothing here changes the meaning of a log, except the order of its board."""

    visibility: Visibility = "open"
    #: How long a vote can be undone, if the names have not been revealed.
    undo_seconds: float = 10.0
    #: How long a matchup stays open for a vote.
    expiry_seconds: float = 7200.0
    #: The minimum time between two snapshots, apart from those at evaluations.
    snapshot_seconds: float = 10.0
    #: Defines when the weeks of the validity report begin.
    timezone: str = "UTC"
    #: What the board is sorted by from phase 3 on.
    order: Literal["conservative", "bradley-terry"] = "conservative"
    #: The number of pairs in the largest planned roster: the family size for "order proven" marks.
    proven_family: int | None = None
    #: When names are revealed. Revealed responses are no longer blind: they are served last, and not rated.
    reveal: Reveal = "session"
    #: The number of votes after which names are revealed, if `reveal` is ``session``.
    session_votes: int = 20

    def __post_init__(self) -> None:
        for name, allowed in _CHOICES.items():
            if getattr(self, name) not in allowed:
                raise BadOption(f"{name} is {getattr(self, name)!r}; expected {' or '.join(allowed)}")
        for name, (least, most) in _SPANS.items():
            value = getattr(self, name)
            if not _is_number(value) or not least <= value <= most:
                raise BadOption(f"{name} is {value!r}; expected seconds between {least:g} and {most:g}")
        if self.proven_family is not None and (
            not isinstance(self.proven_family, int)
            or isinstance(self.proven_family, bool)
            or not 1 <= self.proven_family < 2**62
        ):
            raise BadOption(f"proven_family is {self.proven_family!r}; expected a number of pairs, or none")
        if (
            not isinstance(self.session_votes, int)
            or isinstance(self.session_votes, bool)
            or not 1 <= self.session_votes <= MAX_SESSION_VOTES
        ):
            raise BadOption(
                f"session_votes is {self.session_votes!r}; expected a number of votes from 1 to {MAX_SESSION_VOTES}"
            )
        _check_timezone(self.timezone)

    def to_dict(self) -> dict[str, object]:
        """Plain values."""
        return asdict(self)

    @classmethod
    def from_dict(cls, saved: Mapping[str, Any]) -> ArenaSettings:
        """Settings by name; the others have their defaults."""
        unknown = saved.keys() - {one.name for one in fields(cls)}
        if unknown:
            known = ", ".join(one.name for one in fields(cls))
            raise BadOption(f"unknown setting {', '.join(sorted(map(repr, unknown)))}; expected {known}")
        return cls(**saved)

    @classmethod
    def kept(cls, saved: Mapping[str, Any]) -> ArenaSettings:
        """Settings from a database; unknown ones, added by a newer version, are ignored."""
        known = {one.name for one in fields(cls)}
        return cls(**{name: value for name, value in saved.items() if name in known})


_CHOICES = {
    "visibility": ("open", "closed"),
    "order": ("conservative", "bradley-terry"),
    "reveal": ("session", "vote", "never"),
}
_SPANS = {
    "undo_seconds": (0.0, 600.0),
    "expiry_seconds": (1.0, 86400.0),
    "snapshot_seconds": (0.05, 86400.0),
}


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def _check_timezone(name: object) -> None:
    try:
        ZoneInfo(name)  # type: ignore[arg-type]
    except Exception:  # noqa: BLE001 - the library has several, and any means the same
        raise BadOption(f"timezone is {name!r}; expected a name such as UTC or Europe/Berlin") from None
