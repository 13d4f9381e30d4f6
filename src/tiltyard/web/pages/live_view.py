"""The view of a live battle for its voter: prompts, both answers as far as they are written, and what may be done."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from fastapi import Request
from markupsafe import Markup

from tiltyard.arena.live.live_records import FrameMark, LiveBattle, LiveTurn, TurnState
from tiltyard.web.access.access import context_of
from tiltyard.web.pages.layout import localization_of
from tiltyard.web.pages.live_blocks import AnswerRenderer
from tiltyard.web.pages.matchup_view import excerpt_of, render_cache_of

#: More turns do not stand in the same rows on both sides.
_ALIGNED_TURN_LIMIT = 8
_MARK_PART_COUNT = 3
_MAX_MARK_CHARACTERS = 40


@dataclass(frozen=True, slots=True)
class LiveAnswerView:
    """One answer: what is rendered of it, and what is still open."""

    letter: str
    html: Markup
    tail: str = ""
    #: Whether the tail is the inside of a code fence.
    in_code: bool = False


@dataclass(frozen=True, slots=True)
class LiveTurnView:
    """One prompt and both answers."""

    turn: int
    prompt: Markup
    state: TurnState
    outcome: str | None
    answers: tuple[LiveAnswerView, LiveAnswerView]

    @property
    def runs(self) -> bool:
        """Whether the answers are being written."""
        return self.state in ("waiting", "streaming")


@dataclass(frozen=True, slots=True)
class LiveSideView:
    """What the tools of one side need."""

    letter: str
    url: str
    kind: str = "text"


@dataclass(frozen=True, slots=True)
class LiveView:
    """The content of a battle's page."""

    matchup: str
    category: str
    #: The start of the first prompt, if it is collapsed because it is long.
    excerpt: str | None
    turns: tuple[LiveTurnView, ...]
    #: Where a reader of this page goes on.
    mark: str
    can_continue: bool
    #: Whether a verdict on the last turn is wanted before the next prompt.
    wants_turn_vote: bool = False
    has_ended: bool = False

    @property
    def runs(self) -> bool:
        """Whether answers are being written."""
        return self.turns[-1].runs

    @property
    def votable(self) -> bool:
        """Whether both answers of the last turn are there."""
        return not self.runs and all(answer.html for answer in self.turns[-1].answers)

    @property
    def aligned(self) -> bool:
        """Whether the turns of both sides stand in the same rows."""
        return 1 < len(self.turns) <= _ALIGNED_TURN_LIMIT

    @property
    def sides(self) -> tuple[LiveSideView, LiveSideView]:
        """Both sides; their raw texts are loaded from here."""
        return LiveSideView("a", f"/live/{self.matchup}/a"), LiveSideView("b", f"/live/{self.matchup}/b")


def runs(turn: LiveTurn) -> bool:
    """Whether the answers of a turn are being written."""
    return turn.state in ("waiting", "streaming")


async def build_live_view(request: Request, battle: LiveBattle, *, by_turn: bool) -> LiveView:
    """Render a battle. ``by_turn``: whether each turn is voted on before the next."""
    matchup = context_of(request).matchup_ids.format(battle.matchup)
    turns = [await _turn_view(request, matchup, turn) for turn in battle.turns]
    last = battle.turns[-1]
    wanted = (
        by_turn and battle.state == "open" and last.state in ("done", "stopped") and bool(last.a and last.b)
    )
    return LiveView(
        matchup=matchup,
        category=battle.category,
        excerpt=excerpt_of(battle.turns[0].prompt),
        turns=tuple(turns),
        mark=mark_text(FrameMark(last.turn, len(last.a), len(last.b))),
        can_continue=battle.can_continue,
        wants_turn_vote=wanted and last.outcome is None,
        has_ended=battle.state != "open",
    )


async def _turn_view(request: Request, matchup: str, turn: LiveTurn) -> LiveTurnView:
    cache = render_cache_of(request)
    key = ("live", matchup, turn.turn)
    prompt = await cache.rendered(request, ((*key, "prompt"), turn.prompt), None)
    if runs(turn):
        say = localization_of(request).texts.gettext
        a, b = await asyncio.to_thread(
            lambda: [_open_answer("a", turn.a, say), _open_answer("b", turn.b, say)]
        )
    else:
        a, b = [
            LiveAnswerView(side, await cache.rendered(request, ((*key, side), text), None))
            for side, text in (("a", turn.a), ("b", turn.b))
        ]
    return LiveTurnView(turn.turn, prompt, turn.state, turn.outcome, (a, b))


def _open_answer(letter: str, text: str, say: Callable[[str], str]) -> LiveAnswerView:
    renderer = AnswerRenderer(say=say)
    renderer.feed(text)
    return LiveAnswerView(letter, renderer.html, renderer.tail, renderer.in_code)


def mark_text(mark: FrameMark) -> str:
    """A mark as the id of a frame."""
    return f"{mark.turn}.{mark.shown_a}.{mark.shown_b}"


def read_mark(text: str) -> FrameMark | None:
    """The mark in the id of a frame; ``None`` if it is none."""
    parts = text[:_MAX_MARK_CHARACTERS].split(".")
    if len(parts) != _MARK_PART_COUNT or not all(part.isascii() and part.isdigit() for part in parts):
        return None
    return FrameMark(*map(int, parts))
