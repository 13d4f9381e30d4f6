"""The operator's settings of one arena, except its ranking policy."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import asdict, dataclass, fields
from functools import cache
from typing import Any, Literal
from zoneinfo import ZoneInfo

from tiltyard.errors import BadOption
from tiltyard.foundation.field_definitions import check_fields, defined, definitions
from tiltyard.settings.serving_settings import ARENA_KINDS, read_minute_limits

Entry = Literal["open", "invitation", "passcode", "sign-in"]
Reveal = Literal["session", "vote", "never"]
Stage = Literal["draft", "open", "paused", "archived", "deleting", "deleted"]
LiveIdentity = Literal["flag", "mask"]

_MAX_GROUPS_CHARACTERS = 2_000
#: How long votes of new voters wait where everybody on the internet can vote, unless the arena says otherwise.
PUBLIC_AGEING_HOURS = 24.0
_BUDGET_UNIT = "US dollars"

#: The names of one session are revealed in one transaction.
MAX_SESSION_VOTES = 200
#: Sites that may show the board of one arena.
EMBED_SITE_LIMIT = 20
_HOST_CHARACTERS = 253
_PORT_DIGITS = 5


def _budget(meaning: str, label: str, default: float | None = None) -> Any:
    return defined(default, meaning, label=label, unit=_BUDGET_UNIT, bounds=(0, 1_000_000))


def _retention(meaning: str, label: str, *, page: str = "", basic: bool = False) -> Any:
    return defined(None, meaning, label=label, unit="days", bounds=(1, 36_500), page=page, basic=basic)


@dataclass(frozen=True, slots=True)
class ArenaSettings:
    """How an arena is run. Nothing here changes the meaning of a log, except the order of its board."""

    visibility: Literal["open", "closed"] = defined(
        "open",
        "open: everybody may vote and read the board. closed: only the operator and tokens with access; for all others "
        "the arena does not exist",
    )
    entry: Entry = defined(
        "open",
        "who may come in, unless the arena is closed. open: everybody. invitation: people with an invitation link. "
        "passcode: people with the passcode. sign-in: people who sign in through your organisation. Nobody else sees "
        "anything of the arena, not even its board",
        label="Who can enter",
        page="how-to/let-people-in.md",
        basic=True,
    )
    entry_groups: str = defined(
        "",
        "if people sign in: only members of one of these groups may come in. Empty: everybody who signs in",
        label="Groups that may come in",
        expected="names of groups with commas between them, or nothing",
        page="how-to/let-people-in.md",
    )
    gate: Literal["auto", "proof", "none"] = defined(
        "auto",
        "what a new voter must do first, if everybody may come in. proof: the browser computes for a moment. none: "
        "nothing. auto: proof if the service has a public address. Whoever was invited passes without it",
        label="Gate for new voters",
        page="decisions/votes-that-count.md#the-gate",
    )
    minute_limits: str | None = defined(
        None,
        "what all voters of the arena together may do in a minute; more is refused until the next. Unset: no limits, "
        "since one who floods the arena would use up the limit of all",
        label="Limits per minute",
        expected=f"numbers for some of {', '.join(ARENA_KINDS)}, such as votes=5000, sessions=1000",
    )
    undo_seconds: float = defined(
        10.0,
        "how long a vote can be undone, unless the names have been shown; 0: never",
        label="Time to undo",
        unit="seconds",
        bounds=(0, 600),
        basic=True,
    )
    expiry_seconds: float = defined(
        7200.0,
        "how long a matchup stays open for a vote, from the moment when it is shown",
        label="Time to vote",
        unit="seconds",
        bounds=(1, 86_400),
    )
    unseen_seconds: float = defined(
        300.0,
        "how long a matchup that the page loaded in advance waits to be shown",
        label="Time to show a prefetched matchup",
        unit="seconds",
        bounds=(1, 3_600),
    )
    snapshot_seconds: float = defined(
        10.0,
        "minimum time between two snapshots of the board; evaluations create additional snapshots",
        label="Time between boards",
        unit="seconds",
        bounds=(0.05, 86_400),
    )
    timezone: str = defined(
        "UTC",
        "used for the weeks of the validity report and the days on the operator's pages",
        label="Time zone",
        expected="a name such as UTC or Europe/Berlin",
    )
    order: Literal["conservative", "bradley-terry"] = defined(
        "conservative",
        "what orders the board from phase 3 on. Applies from the next vote or change",
        label="Order of the board",
    )
    settled_family: int | None = defined(
        None,
        "number of pairs among which the error of settled orders is divided: the pairs of the largest planned set of "
        "models. Unset: four fifths for the models that are there before the first vote, the rest for those that arrive "
        "later",
        label="Planned pairs of models",
        unit="pairs",
        bounds=(1, 2**62 - 1),
    )
    reveal: Reveal = defined(
        "session",
        "when voters see which models wrote the responses they voted on. session: for all votes together, after a set "
        "number of votes or when the voter presses Finish. vote: after each vote. never: not at all. Revealed responses "
        "are no longer blind: they are served last, and not rated",
        label="When names are shown",
        page="decisions/blindness.md",
        basic=True,
    )
    session_votes: int = defined(
        20,
        "number of votes after which the names are shown, if they are shown by session",
        label="Votes in a session",
        unit="votes",
        bounds=(1, MAX_SESSION_VOTES),
        basic=True,
    )
    shown_check: Literal["public", "always", "never"] = defined(
        "public",
        "a person's vote counts only if both responses were sent to the voter and shown for a moment, one to three "
        "seconds. public: on a public address, unless people sign in. always, never: in any case. Live battles are not "
        "checked",
        label="Votes before a look",
        page="decisions/votes-that-count.md#which-votes-are-rated",
    )
    ageing_hours: float | None = defined(
        None,
        "how long votes of new voters wait before they count. Unset: "
        f"{PUBLIC_AGEING_HOURS:g} hours on a public address, and not at all elsewhere. 0: not at all. A voter is new until a vote of "
        "theirs is rated; after 20 votes over an hour they need not wait any longer. Whoever signed in, or came by an "
        "invitation for one person, never waits",
        label="Votes of new voters wait",
        unit="hours",
        bounds=(0, 24 * 30),
    )
    releases: Literal["both", "ordered", "none"] = defined(
        "both",
        "which tables of the battles readers can download; operators, and tokens with read, get both. both: in log order "
        "without voters, and shuffled with voters under numbers of one release, of whom those with several votes can be "
        "recognised by how they voted. ordered: only the first. none: neither",
        label="Released battles",
        page="how-to/export-battles.md#a-release",
    )
    stage: Stage = defined(
        "open",
        "where the arena is in its life; the page Stage changes it. draft: for the operator only, and its votes are test "
        "votes. open: people vote. paused: nothing new is served. archived: no votes, and no entry on the home page. "
        "deleting: hidden until it is deleted. deleted: gone",
        fixed=True,
        page="how-to/open-pause-and-archive.md",
    )
    public_address: bool = defined(
        False,
        "whether the installation is served at a public address, as every process reads it. `tiltyard serve` sets it, in all "
        "arenas",
        fixed=True,
    )
    embed_sites: str | None = defined(
        None,
        "sites that may show the board in a frame, separated by spaces. Only boards of open arenas can be embedded",
        label="Sites that may embed the board",
        expected=f"at most {EMBED_SITE_LIMIT} addresses such as https://example.org",
        page="how-to/share-a-board.md",
        basic=True,
    )
    remark_retention_days: int | None = _retention(
        "after how many days remarks and the words of reports are deleted. Unset: never",
        "Remarks are kept for",
    )
    session_retention_days: int | None = _retention(
        "after how many days without a matchup or vote a voter's data are deleted. The votes stay, as those of a number "
        "that nobody has. Unset: never",
        "Absent voters are kept for",
        page="explanation/personal-data.md#voters-who-stay-away",
        basic=True,
    )
    kind: Literal["cached", "live"] = defined(
        "cached",
        "what is compared; decided when the arena is made. cached: stored responses to the operator's prompts. live: "
        "voters write prompts, and two models answer at once",
        fixed=True,
        page="how-to/run-live-battles.md",
    )
    live_pace: Literal["equal", "as-it-comes", "complete"] = defined(
        "equal",
        "how answers appear. equal: neither side before the other, both at the same speed. as-it-comes: as the models "
        "send them. complete: when both are complete",
        label="Pace of answers",
        group="live",
        page="how-to/run-live-battles.md#choose-the-pace",
    )
    live_votes: Literal["whole", "turn"] = defined(
        "whole",
        "what is voted on. whole: the battle. turn: also each turn, which is exported but not rated",
        label="What is voted on",
    )
    live_budget_dollars: float | None = _budget(
        "the most that calls to models may cost in total. Unset: no limit",
        "Budget in total",
    )
    live_day_dollars: float | None = _budget(
        "the most that calls to models may cost on one day (UTC). Unset: no limit",
        "Budget of a day",
        20.0,
    )
    live_voter_day_dollars: float | None = _budget(
        "the most that calls to models may cost for one voter on one day (UTC): a person who signed in, one use of an "
        "invitation, else whoever has the same session or network (an IPv4 address or an IPv6 /64; twice as much from a /56, "
        "four times from a /48). Unset: no limit",
        "Budget of a voter and day",
        1.0,
    )
    live_prompt_characters: int = defined(
        8_000, "the longest prompt of a voter", label="Longest prompt", unit="characters", bounds=(1, 100_000)
    )
    live_turns: int = defined(
        8, "the most turns of a battle", label="Turns of a battle", unit="turns", bounds=(1, 50)
    )
    live_answer_tokens: int = defined(
        2_048,
        "the longest answer. It decides how much money is reserved for a call",
        label="Longest answer",
        unit="tokens",
        bounds=(1, 100_000),
    )
    live_first_token_seconds: float = defined(
        30.0,
        "how long a model may take to begin its answer; the same for all models",
        label="Time to the first token",
        unit="seconds",
        bounds=(1, 600),
    )
    live_gap_seconds: float = defined(
        20.0,
        "how long a model may pause within its answer; the same for all models",
        label="Longest pause",
        unit="seconds",
        bounds=(1, 600),
    )
    live_identity: LiveIdentity = defined(
        "mask",
        "what happens to names of models, families and makers in answers. mask: they are masked in what is shown and kept, "
        "by the same rule on both sides. flag: they are shown. Either way votes on a battle that talks of who answers are not "
        "blind, and not rated",
        label="Names in answers",
    )
    live_retention_days: int | None = _retention(
        "after how many days prompts and answers are deleted; the votes stay. Unset: never",
        "Texts are kept for",
    )

    def __post_init__(self) -> None:
        check_fields(self)
        try:
            ZoneInfo(self.timezone)
        except Exception:  # noqa: BLE001 - the library has several, and any means the same
            raise BadOption(
                f"timezone is {self.timezone!r}; expected a name such as UTC or Europe/Berlin",
                option="timezone",
            ) from None
        stated = self.entry_groups
        if len(stated) > _MAX_GROUPS_CHARACTERS or not stated.isprintable():
            raise BadOption(
                f"entry_groups is {stated[:100]!r}; expected names of groups with commas between them, at most"
                f" {_MAX_GROUPS_CHARACTERS:,} characters",
                option="entry_groups",
            )
        if stated.strip() and not _split_groups(stated):
            raise BadOption(
                f"entry_groups is {stated!r}, which names no group; leave it empty to let in everybody who is signed in",
                option="entry_groups",
            )
        if self.embed_sites is not None:
            # Each site becomes a part of a header, so nothing but a plain origin is accepted.
            origins = self.embed_sites.split()
            if len(origins) > EMBED_SITE_LIMIT:
                raise BadOption(
                    f"embed_sites has {len(origins)} sites; the maximum is {EMBED_SITE_LIMIT}",
                    option="embed_sites",
                )
            for origin in origins:
                if not _is_origin(origin):
                    raise BadOption(
                        f"embed_sites has {origin[:100]!r}; expected origins such as https://example.org, separated by spaces",
                        option="embed_sites",
                    )
        if self.minute_limits is not None:
            read_minute_limits("minute_limits", self.minute_limits, ARENA_KINDS)

    @property
    def is_live(self) -> bool:
        """Whether voters write their own prompts."""
        return self.kind == "live"

    @property
    def has_live_budget(self) -> bool:
        """Whether something limits what calls to models may cost."""
        return any(getattr(self, name) is not None for name in _budget_names())

    @property
    def hidden(self) -> bool:
        """Whether the arena exists only for the operator and for tokens with access."""
        return self.visibility == "closed" or self.stage in ("draft", "deleting", "deleted")

    @property
    def public(self) -> bool:
        """Whether everybody may read the arena."""
        return not self.hidden and self.entry == "open"

    @property
    def _admits_strangers(self) -> bool:
        """Whether people vote who are not named: everybody, or whoever has a link or the passcode."""
        return not self.hidden and self.entry != "sign-in"

    @property
    def checks_shown(self) -> bool:
        """Whether votes count only after both responses were shown, and for long enough."""
        strangers = self.shown_check == "public" and self._admits_strangers and self.public_address
        return strangers or self.shown_check == "always"

    @property
    def waiting_hours(self) -> float:
        """How many hours votes of new voters wait. Not where people are named."""
        if not self._admits_strangers:
            return 0.0
        if self.ageing_hours is None:
            return PUBLIC_AGEING_HOURS if self.public_address else 0.0
        return self.ageing_hours

    @property
    def is_gated(self) -> bool:
        """Whether a new voter who was not invited and is not signed in must pass the gate."""
        return self.public and (self.gate == "proof" or (self.gate == "auto" and self.public_address))

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
        return {name: value for name, value in self.to_dict().items() if name not in _budget_names()}

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


@cache
def _budget_names() -> frozenset[str]:
    return frozenset(name for name, one in definitions(ArenaSettings).items() if one.unit == _BUDGET_UNIT)


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


def _split_groups(stated: str) -> list[str]:
    return [one.strip() for one in stated.split(",") if one.strip()]
