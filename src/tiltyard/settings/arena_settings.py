"""The operator's settings of one arena, except its ranking policy."""

from __future__ import annotations

import math
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal
from zoneinfo import ZoneInfo

from tiltyard.errors import BadOption
from tiltyard.settings.minute_limits import ARENA_KINDS, read_minute_limits

__all__ = [
    "EMBED_SITE_LIMIT",
    "MAX_SESSION_VOTES",
    "PUBLIC_AGEING_HOURS",
    "ArenaKind",
    "ArenaSettings",
    "Entry",
    "ErasedVotes",
    "Gate",
    "LiveIdentity",
    "LivePace",
    "LiveVotes",
    "Releases",
    "Reveal",
    "ShownCheck",
    "Stage",
    "Visibility",
]

#: ``open``: everybody may vote and read the board. ``closed``: readers need a token.
Visibility = Literal["open", "closed"]
#: Who may come in to an arena that is not closed. ``open``: everybody. ``invitation``: whoever has used an invitation
#: link. ``passcode``: whoever has typed its passcode. ``sign-in``: whoever is signed in through the installation's
#: identity provider or gateway.
Entry = Literal["open", "invitation", "passcode", "sign-in"]
#: What a new voter of an open arena must do first. ``proof``: the browser computes a proof of work. ``none``: nothing.
#: ``auto``: ``proof`` if the service has a public address, otherwise ``none``.
Gate = Literal["auto", "proof", "none"]
#: When voters see the names behind the responses they voted on. ``session``: all together, after a
#: number of votes or on request. ``vote``: after each vote. ``never``: not at all.
Reveal = Literal["session", "vote", "never"]
#: What everybody who may read an arena gets of its battles. ``both``: the table in log order and the one with voters.
#: ``ordered``: only the first. ``none``: neither.
Releases = Literal["both", "ordered", "none"]
#: When a person's vote counts only after both responses were shown for a moment. ``public``: in arenas that everybody may
#: vote in, on a server with a public address. ``always``, ``never``: whatever the arena.
ShownCheck = Literal["public", "always", "never"]
#: ``draft``: for the operator only; its votes are test votes. ``open``: people vote. ``paused``: nothing new is served.
#: ``archived``: no votes, and no entry on the home page. ``deleting``: hidden until it is deleted. ``deleted``: gone.
Stage = Literal["draft", "open", "paused", "archived", "deleting", "deleted"]

#: ``cached``: stored responses to the operator's prompts. ``live``: voters write prompts, and models answer at once.
ArenaKind = Literal["cached", "live"]
#: How live answers appear. ``equal``: both at the same speed, and neither before the other. ``as-it-comes``: as the models
#: send them. ``complete``: when both are complete.
LivePace = Literal["equal", "as-it-comes", "complete"]
#: What is voted on in a live battle. ``whole``: the battle. ``turn``: each turn too; only the vote on the whole is rated.
LiveVotes = Literal["whole", "turn"]
#: What happens to names of models, families and makers in live answers. ``flag``: the turn is flagged. ``mask``: they are
#: also masked in what is shown, by the same rule on both sides.
LiveIdentity = Literal["flag", "mask"]
#: What becomes of the votes of a voter whose data are deleted. ``anonymous``: they stay, as those of a number that nobody
#: has. ``removed``: they leave, and the boards are computed again.
ErasedVotes = Literal["anonymous", "removed"]

_MAX_GROUPS_CHARACTERS = 2_000
#: How long votes of new voters wait where everybody on the internet can vote, unless the arena says otherwise.
PUBLIC_AGEING_HOURS = 24.0
_MAX_AGEING_HOURS = 24 * 30

#: The names of one session are revealed in one transaction.
MAX_SESSION_VOTES = 200
#: Sites that may show the board of one arena.
EMBED_SITE_LIMIT = 20
_HOST_CHARACTERS = 253
_PORT_DIGITS = 5


@dataclass(frozen=True, slots=True)
class ArenaSettings:
    """How an arena is run. Nothing here changes the meaning of a log, except the order of its board."""

    visibility: Visibility = "open"
    #: Who may come in. Without entry, nothing of the arena is shown: neither votes nor boards nor exports.
    entry: Entry = "open"
    #: Names of groups with commas between them: if `entry` is ``sign-in``, only their members may come in. Empty: everybody
    #: who is signed in.
    entry_groups: str = ""
    #: What a new voter must do first, if `entry` is ``open``. Whoever was invited or is signed in passes without it.
    gate: Gate = "auto"
    #: What all voters together may do in a minute, such as ``votes=5000, sessions=1000``; None: no limits.
    minute_limits: str | None = None
    #: How long a vote can be undone, if the names have not been revealed.
    undo_seconds: float = 10.0
    #: How long a matchup stays open for a vote.
    expiry_seconds: float = 7200.0
    #: How long a prefetched matchup waits to be shown; it is open for ``expiry_seconds`` from then on.
    unseen_seconds: float = 300.0
    #: The minimum time between two snapshots, apart from those at evaluations.
    snapshot_seconds: float = 10.0
    #: Defines when the weeks of the validity report begin.
    timezone: str = "UTC"
    #: What the board is sorted by from phase 3 on.
    order: Literal["conservative", "bradley-terry"] = "conservative"
    #: The number of pairs in the largest planned roster, among which the error of settled orders is divided.
    settled_family: int | None = None
    #: When names are revealed. Revealed responses are no longer blind: they are served last, and not rated.
    reveal: Reveal = "session"
    #: The number of votes after which names are revealed, if `reveal` is ``session``.
    session_votes: int = 20
    #: Whether a person's vote counts only after both responses were shown for a moment: in arenas that everybody on the
    #: internet can vote in, in any case, or never.
    shown_check: ShownCheck = "public"
    #: How many hours votes of new voters wait before they count. None: `PUBLIC_AGEING_HOURS` in arenas that everybody on
    #: the internet can vote in, 0 elsewhere.
    ageing_hours: float | None = None
    #: Which tables of its battles are released to readers; operators, and tokens that may read it, get both.
    releases: Releases = "both"
    #: Where the arena is in its life. Changed by `tiltyard.arena.operators.arena_stages` alone.
    stage: Stage = "open"
    #: The sites that may show the board in a frame: origins, separated by spaces.
    embed_sites: str | None = None
    #: What is compared. It cannot change.
    kind: ArenaKind = "cached"
    #: In a live arena: how answers appear, and what is voted on.
    live_pace: LivePace = "equal"
    live_votes: LiveVotes = "whole"
    #: In a live arena: the most that calls to models may cost, in total, on one day (UTC), and for one voter on one day.
    #: None: no limit.
    live_budget_dollars: float | None = None
    live_day_dollars: float | None = None
    live_voter_day_dollars: float | None = None
    #: In a live arena: the longest prompt, the most turns of a battle, and the most tokens of an answer.
    live_prompt_characters: int = 8_000
    live_turns: int = 8
    live_answer_tokens: int = 2_048
    #: In a live arena: how long a model may take to its first token, and from one token to the next.
    live_first_token_seconds: float = 30.0
    live_gap_seconds: float = 20.0
    #: In a live arena: what happens to names of models in answers.
    live_identity: LiveIdentity = "flag"
    #: In a live arena: after how many days prompts and answers are deleted; the votes stay. None: never.
    live_retention_days: int | None = None
    #: What becomes of the votes of a voter whose data are deleted.
    erased_votes: ErasedVotes = "anonymous"
    #: After how many days remarks and the words of reports are deleted. None: never.
    remark_retention_days: int | None = None
    #: After how many days without an event a voter is erased; the votes stay, as nobody's. None: never.
    session_retention_days: int | None = None

    def __post_init__(self) -> None:
        for name, allowed in _CHOICES.items():
            if getattr(self, name) not in allowed:
                raise BadOption(f"{name} is {getattr(self, name)!r}; expected {' or '.join(allowed)}")
        for name, (least, most) in _SPANS.items():
            value = getattr(self, name)
            if not _is_number(value) or not least <= value <= most:
                raise BadOption(f"{name} is {value!r}; expected seconds between {least:g} and {most:g}")
        if self.settled_family is not None and (
            not isinstance(self.settled_family, int)
            or isinstance(self.settled_family, bool)
            or not 1 <= self.settled_family < 2**62
        ):
            raise BadOption(f"settled_family is {self.settled_family!r}; expected a number of pairs, or none")
        _check_counts(self)
        if self.ageing_hours is not None and not (
            _is_number(self.ageing_hours) and 0 <= self.ageing_hours <= _MAX_AGEING_HOURS
        ):
            raise BadOption(
                f"ageing_hours is {self.ageing_hours!r}; expected hours from 0 to {_MAX_AGEING_HOURS}, or none"
            )
        _check_timezone(self.timezone)
        _check_groups(self.entry_groups)
        if self.embed_sites is not None:
            _check_sites(self.embed_sites)
        if self.minute_limits is not None:
            read_minute_limits("minute_limits", self.minute_limits, ARENA_KINDS)

    @property
    def is_live(self) -> bool:
        """Whether voters write their own prompts."""
        return self.kind == "live"

    @property
    def has_live_budget(self) -> bool:
        """Whether something limits what calls to models may cost."""
        return any(getattr(self, name) is not None for name in _BUDGET_NAMES)

    @property
    def hidden(self) -> bool:
        """Whether the arena exists only for the operator and for tokens with access."""
        return self.visibility == "closed" or self.stage in ("draft", "deleting", "deleted")

    @property
    def public(self) -> bool:
        """Whether everybody may read the arena."""
        return not self.hidden and self.entry == "open"

    def checks_shown(self, *, on_public_address: bool) -> bool:
        """Whether votes count only after both responses were shown, on a server with such an address."""
        if self.shown_check == "public":
            return self.public and on_public_address
        return self.shown_check == "always"

    def ageing(self, *, on_public_address: bool) -> float:
        """How many hours votes of new voters wait, on a server with such an address. Only where everybody may vote."""
        if not self.public:
            return 0.0
        if self.ageing_hours is None:
            return PUBLIC_AGEING_HOURS if on_public_address else 0.0
        return self.ageing_hours

    def is_gated(self, *, on_public_address: bool) -> bool:
        """Whether a new voter who was not invited and is not signed in must pass the gate."""
        return self.public and (self.gate == "proof" or (self.gate == "auto" and on_public_address))

    @property
    def serves(self) -> bool:
        """Whether new matchups are served."""
        return self.stage in ("draft", "open")

    @property
    def accepts_votes(self) -> bool:
        """Whether matchups that are open may be voted on."""
        return self.serves or self.stage == "paused"

    def admits_groups(self, groups: AbstractSet[str]) -> bool:
        """Whether somebody who is signed in and belongs to these groups may come in."""
        allowed = frozenset(_split_groups(self.entry_groups))
        return not allowed or not allowed.isdisjoint(groups)

    def to_dict(self) -> dict[str, object]:
        """Plain values."""
        return asdict(self)

    def shown_to_voters(self) -> dict[str, object]:
        """Plain values without the budgets: who knows what is left knows when to spend it."""
        return {name: value for name, value in self.to_dict().items() if name not in _BUDGET_NAMES}

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
    "entry": ("open", "invitation", "passcode", "sign-in"),
    "gate": ("auto", "proof", "none"),
    "order": ("conservative", "bradley-terry"),
    "reveal": ("session", "vote", "never"),
    "shown_check": ("public", "always", "never"),
    "releases": ("both", "ordered", "none"),
    "stage": ("draft", "open", "paused", "archived", "deleting", "deleted"),
    "kind": ("cached", "live"),
    "live_pace": ("equal", "as-it-comes", "complete"),
    "live_votes": ("whole", "turn"),
    "live_identity": ("flag", "mask"),
    "erased_votes": ("anonymous", "removed"),
}
_SPANS = {
    "undo_seconds": (0.0, 600.0),
    "expiry_seconds": (1.0, 86400.0),
    "unseen_seconds": (1.0, 3600.0),
    "snapshot_seconds": (0.05, 86400.0),
    "live_first_token_seconds": (1.0, 600.0),
    "live_gap_seconds": (1.0, 600.0),
}
#: Whole numbers: the least, the most, and what is counted.
_COUNT_RANGES = {
    "session_votes": (1, MAX_SESSION_VOTES, "votes"),
    "live_prompt_characters": (1, 100_000, "characters"),
    "live_turns": (1, 50, "turns"),
    "live_answer_tokens": (1, 100_000, "tokens"),
}
_BUDGET_NAMES = ("live_budget_dollars", "live_day_dollars", "live_voter_day_dollars")
_BUDGET_DOLLARS_LIMIT = 1_000_000
_RETENTION_NAMES = ("live_retention_days", "remark_retention_days", "session_retention_days")
_MAX_RETENTION_DAYS = 36_500


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def _check_counts(settings: ArenaSettings) -> None:
    for name, (least, most, counted) in _COUNT_RANGES.items():
        value = getattr(settings, name)
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
            raise BadOption(f"{name} is {value!r}; expected a number of {counted} from {least:,} to {most:,}")
    for name in _RETENTION_NAMES:
        days = getattr(settings, name)
        if days is not None and (
            not isinstance(days, int) or isinstance(days, bool) or not 1 <= days <= _MAX_RETENTION_DAYS
        ):
            raise BadOption(
                f"{name} is {days!r}; expected a number of days from 1 to {_MAX_RETENTION_DAYS:,}, or none"
            )
    for name in _BUDGET_NAMES:
        value = getattr(settings, name)
        if value is not None and not (_is_number(value) and 0 <= value <= _BUDGET_DOLLARS_LIMIT):
            raise BadOption(
                f"{name} is {value!r}; expected dollars from 0 to {_BUDGET_DOLLARS_LIMIT:,}, or none for no limit"
            )


def _check_sites(sites: object) -> None:
    """Each site becomes a part of a header, so nothing but a plain origin is accepted."""
    if not isinstance(sites, str):
        raise BadOption(f"embed_sites is {sites!r}; expected text such as https://example.org")
    origins = sites.split()
    if len(origins) > EMBED_SITE_LIMIT:
        raise BadOption(f"embed_sites has {len(origins)} sites; the maximum is {EMBED_SITE_LIMIT}")
    for origin in origins:
        if not _is_origin(origin):
            raise BadOption(
                f"embed_sites has {origin[:100]!r}; expected origins such as https://example.org, separated by spaces"
            )


def _is_origin(text: str) -> bool:
    """Whether a text is http or https, a host and perhaps a port, and nothing else."""
    scheme, separator, place = text.partition("://")
    host, colon, port = place.partition(":")
    labels = host.split(".")
    plain = all(label and label.isascii() and label.replace("-", "").isalnum() for label in labels)
    numbered = not colon or (port.isascii() and port.isdigit() and len(port) <= _PORT_DIGITS)
    return (
        scheme in ("http", "https")
        and bool(separator)
        and plain
        and numbered
        and len(host) <= _HOST_CHARACTERS
    )


def _check_timezone(name: object) -> None:
    try:
        ZoneInfo(name)  # type: ignore[arg-type]
    except Exception:  # noqa: BLE001 - the library has several, and any means the same
        raise BadOption(f"timezone is {name!r}; expected a name such as UTC or Europe/Berlin") from None


def _split_groups(stated: str) -> list[str]:
    return [one.strip() for one in stated.split(",") if one.strip()]


def _check_groups(stated: object) -> None:
    if not isinstance(stated, str) or len(stated) > _MAX_GROUPS_CHARACTERS or not stated.isprintable():
        raise BadOption(
            f"entry_groups is {str(stated)[:100]!r}; expected names of groups with commas between them, at most"
            f" {_MAX_GROUPS_CHARACTERS:,} characters"
        )
    if stated.strip() and not _split_groups(stated):
        raise BadOption(
            f"entry_groups is {stated!r}, which names no group; leave it empty to let in everybody who is signed in"
        )
