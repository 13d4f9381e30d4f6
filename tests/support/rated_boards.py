"""Rated groups to be shown."""

from __future__ import annotations

import io

from rich.console import Console

from support.worlds import told
from tiltyard.core.battles import Battle, Table
from tiltyard.core.board import RatedGroup
from tiltyard.report.terminal import board_table, findings_list
from tiltyard.runs.battle_rating import RateSettings, rate_table

STORY = "oak>elm*6 elm>oak*3 elm=ash*2 ash>oak*2 oak>ash*5 ash!elm*3 yew>fir*2 fir>yew sloe!oak"

#: Names that would rather be something else.
HOSTILE = (
    "[red]loud[/blue]",
    "\x1b[31mansi\x1b]0;title\x07",
    "\u202eevil\u2066",
    "</script><script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "'; alert(1); //",
    "<!-- <script>",
    "a\r\nb\tc\x00d",
    ":fire: &amp; {{x}}",
    "日本語モデル",
    "x" * 300,
)


def rated(table: Table, method=None, **options) -> RatedGroup:
    settings = RateSettings(**({} if method is None else {"method": method}))
    return rate_table(table, settings, checks=True, **options)


def small(method=None, **options) -> RatedGroup:
    return rated(told(STORY), method, **options)


def hostile(method=None, **options) -> RatedGroup:
    """Every hostile name against every other, both ways, and one that only wins."""
    rows = [
        {"model_a": a, "model_b": b, "winner": winner, "question_id": f"q{k % 25}"}
        for k, (a, b, winner) in enumerate(
            (a, b, winner)
            for a in HOSTILE
            for b in HOSTILE
            if a != b
            for winner in ("model_a", "model_b", "tie")
        )
    ]
    rows.append({"model_a": "<b>first</b>\x1b[0m", "model_b": HOSTILE[0], "winner": "model_a"})
    return rated(Table.from_battles(map(Battle.from_dict, rows)), method, **options)


def shown(one: RatedGroup, width: int) -> str:
    console = Console(file=io.StringIO(), width=width, highlight=False, markup=False, emoji=False)
    console.print(board_table(one.board, one.name, width=width))
    console.print(findings_list(one.board.findings))
    return console.file.getvalue()
