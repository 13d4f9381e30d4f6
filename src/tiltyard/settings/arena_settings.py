"""What an operator sets of one arena, beside its ranking policy."""

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
#: When people are told the names behind the responses that they voted on. ``session``: of all of them together,
#: after so many votes or when the voter asks. ``vote``: after each vote. ``never``: not at all.
Reveal = Literal["session", "vote", "never"]


#: Names of one session are told in one transaction.
MAX_SESSION_VOTES = 200


@dataclass(frozen=True, slots=True)
class ArenaSettings:
    """How an arena is run. Nothing here changes what a given log means, except the order of its board."""

    visibility: Visibility = "open"
    #: How long a vote may be taken back, if the names have not been shown.
    undo_seconds: float = 10.0
    #: How long a matchup waits for its vote.
    expiry_seconds: float = 7200.0
    #: The least time between two snapshots; those at evaluations come besides.
    snapshot_seconds: float = 10.0
    #: Bounds the weeks of the validity report.
    timezone: str = "UTC"
    #: What orders the board from phase 3 on.
    order: Literal["conservative", "bradley-terry"] = "conservative"
    #: Pairs of the largest roster that is planned: the family of "order proven" marks.
    proven_family: int | None = None
    #: When names are told. What was told is not blind any more: it is served last, and rated by nobody.
    reveal: Reveal = "session"
    #: Votes after which the names are told, where `reveal` is ``session``.
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

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)

    @classmethod
    def from_dict(cls, saved: Mapping[str, Any]) -> ArenaSettings:
        """Settings by name; what is not named has its default."""
        unknown = saved.keys() - {one.name for one in fields(cls)}
        if unknown:
            known = ", ".join(one.name for one in fields(cls))
            raise BadOption(f"unknown setting {', '.join(sorted(map(repr, unknown)))}; expected {known}")
        return cls(**saved)

    @classmethod
    def kept(cls, saved: Mapping[str, Any]) -> ArenaSettings:
        """Settings as a database has them: what a newer version added there is passed over."""
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
