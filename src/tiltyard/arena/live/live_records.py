"""The records of live battles: battles, turns, calls and what they cost."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Literal, NamedTuple
from uuid import UUID

if TYPE_CHECKING:
    from tiltyard.judges.chat_models import ChatModel
    from tiltyard.judges.providers.provider import ChatRequest, StreamEnd
    from tiltyard.settings.arena_settings import ArenaSettings

_MICRODOLLARS_PER_USD = 1_000_000
#: Marks in the stored section of a model, which no file has: it was added in a browser; it is paused.
ADDED_MARK, PAUSED_MARK = "added_in_browser", "paused"

#: ``waiting``: nothing is shown yet. ``streaming``: text is coming. ``done``: both answers are complete. ``stopped``:
#: the voter stopped both; what came counts. ``void``: an answer failed; nothing of the battle is rated.
TurnState = Literal["waiting", "streaming", "done", "stopped", "void"]
#: ``open``: it may be continued or voted on. ``voted``, ``skipped``, ``expired``: how its matchup ended. ``void``: failed.
BattleState = Literal["open", "voted", "skipped", "expired", "void"]
#: How the place of a reader is spelled.
_MARK = re.compile(r"([0-9]{1,9})\.([0-9]{1,9})\.([0-9]{1,9})")
#: The verdict on one turn.
TurnOutcome = Literal["a", "b", "tie", "both_bad"]


class ShownText(NamedTuple):
    """Both answers of a turn, as far as they may be shown; text is only added."""

    a: str = ""
    b: str = ""
    state: TurnState = "waiting"
    #: Whether a side is complete. With an equal pace this depends on lengths alone.
    ended_a: bool = False
    ended_b: bool = False

    @property
    def runs(self) -> bool:
        """Whether the turn has not ended."""
        return self.state in ("waiting", "streaming")

    def after(self, known: ShownText) -> ShownText:
        """The same without the text that is known."""
        return self._replace(a=self.a[len(known.a) :], b=self.b[len(known.b) :])


NOTHING_SHOWN = ShownText()


@dataclass(frozen=True, slots=True)
class LiveTurn:
    """One prompt of a battle and both answers, as far as they may be shown."""

    turn: int
    prompt: str
    a: str
    b: str
    state: TurnState
    #: The verdict on this turn alone, if the arena asks for one.
    outcome: TurnOutcome | None = None

    @property
    def runs(self) -> bool:
        """Whether its answers are being written."""
        return self.state in ("waiting", "streaming")


@dataclass(frozen=True, slots=True)
class LiveBattle:
    """A battle as its voter sees it: nothing here tells which models answer."""

    matchup: UUID
    arena: str
    category: str
    state: BattleState
    turns: tuple[LiveTurn, ...]
    began_at: datetime
    ballot: int = 0
    #: Whether another prompt may be sent.
    can_continue: bool = False


@dataclass(frozen=True, slots=True)
class FrameMark:
    """Where a reader is: the turn, and the characters of both sides that it has."""

    turn: int = 0
    shown_a: int = 0
    shown_b: int = 0

    def __str__(self) -> str:
        return f"{self.turn}.{self.shown_a}.{self.shown_b}"

    @classmethod
    def parsed(cls, text: str) -> FrameMark | None:
        """The place that a text spells; ``None`` if it spells none."""
        found = _MARK.fullmatch(text)
        return None if found is None else cls(*map(int, found.groups()))


@dataclass(frozen=True, slots=True)
class LiveFrame:
    """What has been added to both sides since a mark; `mark` is where the reader is after it."""

    mark: FrameMark
    a: str
    b: str
    state: TurnState
    #: Whether a side is complete. With an equal pace this depends on lengths alone.
    ended_a: bool = False
    ended_b: bool = False


@dataclass(frozen=True, slots=True)
class BudgetLimits:
    """The most that may be spent, in millionths of a dollar; ``None`` for no limit."""

    total: int | None = None
    day: int | None = None
    voter_day: int | None = None

    @classmethod
    def of(cls, settings: ArenaSettings) -> BudgetLimits:
        """The budgets of an arena."""
        dollars = (settings.live_budget_dollars, settings.live_day_dollars, settings.live_voter_day_dollars)
        return cls(*(None if one is None else int(one * _MICRODOLLARS_PER_USD) for one in dollars))


@dataclass(frozen=True, slots=True)
class CallPlan:
    """A call that is about to be made: which model, and the most it can cost."""

    model: int
    #: Millionths of a dollar; ``None`` if the price is unknown.
    reserve: int | None
    max_tokens: int


@dataclass(frozen=True, slots=True)
class TurnPlan:
    """A turn that is about to begin: its number from 1, the prompt, and the calls for the left and the right side."""

    turn: int
    prompt: str
    calls: tuple[CallPlan, CallPlan]
    #: The process that generates the answers.
    process: int


@dataclass(frozen=True, slots=True)
class TurnEnd:
    """How a turn ended: both answers, as far as they came."""

    state: Literal["done", "stopped", "void"]
    texts: tuple[str, str] = ("", "")
    #: All that the models wrote, without a mask. It is looked at and not stored.
    written: tuple[str, str] = field(default=("", ""), compare=False)
    #: What the models thought, if they said it and the arena keeps it.
    thinking: tuple[str, str] = ("", "")
    #: What the checks found, as JSON.
    flags: Mapping[str, object] = field(default_factory=dict)
    #: Why it is void; for the operator.
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class CallEnd:
    state: Literal["done", "stopped", "failed", "refused", "unknown"]
    input_tokens: int | None = None
    output_tokens: int | None = None
    #: Millionths of a dollar; ``None`` if the price or the usage is unknown: the reserve stays counted.
    cost: int | None = None
    first_token_seconds: float | None = None
    seconds: float | None = None
    #: In our own words; for the operator.
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class AnswerFigures:
    """What the answers of one side took and cost; ``None`` where it is unknown. It tells who answered."""

    first_token_seconds: float | None = None
    seconds: float | None = None
    #: Millionths of a dollar.
    cost: int | None = None


@dataclass(frozen=True, slots=True)
class StoredEntrant:
    """A model of a live arena: who answers, without keys."""

    model: int
    name: str
    version: str
    #: The entrant's section of the models file, with marks.
    config: dict[str, object]
    enabled: bool = True

    @property
    def section(self) -> dict[str, object]:
        """The section without marks."""
        marks = (ADDED_MARK, PAUSED_MARK)
        return {name: value for name, value in self.config.items() if name not in marks}

    @property
    def is_paused(self) -> bool:
        """Whether an operator paused it: it is not asked, and stays on the board."""
        return PAUSED_MARK in self.config


@dataclass(frozen=True, slots=True, eq=False)
class TurnEntrant:
    """A model that answers, and what it costs."""

    model: int
    provider: ChatModel
    system: str | None
    max_tokens: int
    #: The most that a request can cost, in millionths of a dollar; ``None`` if the price is unknown.
    worst_cost: Callable[[ChatRequest], int | None]
    #: What an answer has cost; ``None`` if the price or the usage is unknown.
    cost: Callable[[StreamEnd], int | None]

    def plan(self, request: ChatRequest) -> CallPlan:
        return CallPlan(self.model, self.worst_cost(request), request.max_tokens)
