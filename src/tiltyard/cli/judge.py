"""``tiltyard arena judge``: LLM judges that vote in an arena."""

from __future__ import annotations

import os
import sys
import time
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tiltyard.cli.options import INCOMPLETE_EXIT_CODE, JUDGE_UNUSABLE_EXIT_CODE, PriceOption, stated_prices
from tiltyard.errors import BadOption
from tiltyard.report.escapes import escape_controls

if TYPE_CHECKING:
    from tiltyard.arena.judging.judge_voters import ArenaPanel, JudgedVotes


#: Seconds between progress lines, in a log and on a terminal.
_LOG_LINE_SECONDS, _TERMINAL_REFRESH_SECONDS = 10.0, 1.0
#: Retry for this long when the server is unreachable: it may be restarting.
_SERVER_WAIT_SECONDS = 120.0


def judge(
    arena: Annotated[str, typer.Argument(metavar="ARENA", help="The arena's name.")],
    config: Annotated[Path, typer.Option(help="YAML file that configures the judges.")],
    budget: Annotated[
        float | None,
        typer.Option(min=0, help="Limit in dollars for this arena, including earlier runs."),
    ] = None,
    price: PriceOption = None,
    matchups: Annotated[int | None, typer.Option(min=1, help="Stop after this number of matchups.")] = None,
    url: Annotated[str, typer.Option(help="URL of the server.")] = "http://127.0.0.1:8420",
    token: Annotated[
        list[str] | None,
        typer.Option(
            help="Token with the scope judge; default TILTYARD_TOKEN. Repeat it to vote in parallel."
        ),
    ] = None,
) -> None:
    """Let LLM judges vote in an arena.

    Each matchup is judged in both orders and becomes one battle, on a separate board.
    """
    import asyncio

    from tiltyard.arena.judging.judge_voters import open_panel

    tokens = token or [part for part in os.environ.get("TILTYARD_TOKEN", "").split(",") if part.strip()]
    if not tokens:
        raise BadOption(
            "judges need a token with the scope judge: tiltyard arena token create NAME --scope judge, then set "
            "TILTYARD_TOKEN to its output, or pass it with --token"
        )
    panel = open_panel(config, budget_usd=budget, beside=config.parent, prices=stated_prices(price))
    votes = asyncio.run(_judged(panel, arena, url.rstrip("/"), tokens, matchups))
    _show(votes)
    if votes.unusable:
        raise typer.Exit(JUDGE_UNUSABLE_EXIT_CODE)
    if votes.failed:
        raise typer.Exit(INCOMPLETE_EXIT_CODE)


async def _judged(
    panel: ArenaPanel, arena: str, url: str, tokens: list[str], matchups: int | None
) -> JudgedVotes:
    from tiltyard.arena.judging.judge_voters import judge_arena
    from tiltyard.client import AsyncClient

    async with AsyncExitStack() as stack:
        clients = [
            await stack.enter_async_context(AsyncClient(url, token=token, patience=_SERVER_WAIT_SECONDS))
            for token in tokens
        ]
        return await judge_arena(
            panel, clients, arena, place=url, matchups=matchups, on_tick=_ProgressLines(matchups).tick
        )


class _ProgressLines:
    """Prints progress lines to standard error."""

    def __init__(self, matchups: int | None) -> None:
        self._of = "" if matchups is None else f" of {matchups:,}"
        self._next = time.monotonic() + _TERMINAL_REFRESH_SECONDS
        self._every = _TERMINAL_REFRESH_SECONDS if sys.stderr.isatty() else _LOG_LINE_SECONDS

    def tick(self, votes: JudgedVotes) -> None:
        if time.monotonic() < self._next:
            return
        from tiltyard.settings.prices import format_dollars

        self._next = time.monotonic() + self._every
        cap = "" if votes.cap is None else f" of {format_dollars(votes.cap)}"
        line = (
            f"{votes.matchups:,}{self._of} matchups, {votes.votes.total():,} votes, "
            f"{votes.heard.calls:,} calls; {format_dollars(votes.spent_so_far)}{cap}"
        )
        typer.echo(f"\r{line}\033[K" if sys.stderr.isatty() else line, err=True, nl=not sys.stderr.isatty())


def _show(votes: JudgedVotes) -> None:
    """Print a table of the results."""
    from rich.table import Table

    from tiltyard.core.battles.outcome import JUDGE_LABELS
    from tiltyard.report.terminal import Terminal
    from tiltyard.settings.prices import format_dollars

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    table.add_column("matchups")
    table.add_column(f"{votes.matchups:,}", justify="right")
    for label in JUDGE_LABELS:
        table.add_row(f"voted: {label}", f"{votes.votes[label]:,}")
    table.add_row("of these, both bad", f"{votes.both_bad:,}")
    for reason, count in sorted(votes.skipped.items()):
        table.add_row(f"skipped: {escape_controls(reason)}", f"{count:,}")
    if votes.ended:
        table.add_row("ended before the vote", f"{votes.ended:,}")
    for state, count in sorted((+votes.heard.states).items()):
        table.add_row(f"calls: {escape_controls(state)}", f"{count:,}")
    cap = "" if votes.cap is None else f" of {format_dollars(votes.cap)}"
    table.add_row("spent in this arena", f"{format_dollars(votes.spent)}{cap}")
    if sys.stderr.isatty():
        typer.echo("\r\033[K", err=True, nl=False)
    Terminal().print(table)
    typer.echo(f"Stopped: {escape_controls(votes.stopped)}.", err=True)
