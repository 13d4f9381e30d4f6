"""How often people may do something in a minute or an hour: the defaults, and limits as they are written in settings."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final, Literal, TypeVar, get_args

from tiltyard.errors import BadOption

#: What is limited. ``sessions``: new ones.
LimitedKind = Literal["sessions", "matchups", "votes", "skips", "reveals", "reports"]

#: What one arena keeps of people's words and files is limited too.
QuotaKind = Literal["reports", "remarks", "uploads"]
K = TypeVar("K", bound=str)

ARENA_KINDS: Final[tuple[LimitedKind, ...]] = get_args(LimitedKind)
#: Of one session. The fastest people need more than a second for a vote.
SESSION_LIMITS: Final[Mapping[LimitedKind, int]] = {
    "matchups": 120,
    "votes": 60,
    "skips": 60,
    "reveals": 60,
    "reports": 10,
}
#: Of one network: a hundred sessions at their limits, or more people than fit into a lecture hall.
NETWORK_LIMITS: Final[Mapping[LimitedKind, int]] = {
    "matchups": 12_000,
    "votes": 6_000,
    "skips": 6_000,
    "reveals": 6_000,
    "reports": 200,
}

#: Of one arena in an hour: as many remarks as a busy arena has votes, more reports than operators can read.
HOUR_QUOTAS: Final[Mapping[QuotaKind, int]] = {"reports": 1_000, "remarks": 20_000, "uploads": 200}

_MAX_LIMIT = 1_000_000_000
_MAX_LIMITS_CHARACTERS = 500


def limits_text(limits: Mapping[K, int]) -> str:
    """Limits as settings spell them."""
    return ", ".join(f"{kind}={limit}" for kind, limit in limits.items())


def read_minute_limits(setting: str, text: object, kinds: Collection[K]) -> dict[K, int]:
    """Limits by kind from a text such as ``votes=60, skips=30``. 0 means no limit; ``none`` means none of all."""
    if not isinstance(text, str) or len(text) > _MAX_LIMITS_CHARACTERS:
        raise BadOption(
            f"{setting} is {str(text)[:100]!r}; expected text such as votes=60, skips=30", option=setting
        )
    if text.strip() == "none":
        return dict.fromkeys(kinds, 0)
    found: dict[K, int] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, _, number = part.partition("=")
        kind = next((kind for kind in kinds if kind == name.strip()), None)
        digits = number.strip()
        if kind is None or not (digits.isascii() and digits.isdigit() and int(digits) <= _MAX_LIMIT):
            raise BadOption(
                f"{setting} has {part[:100]!r}; expected a number for each of {', '.join(kinds)},"
                " such as votes=60, skips=30; 0 is no limit",
                option=setting,
            )
        found[kind] = int(digits)
    return found
