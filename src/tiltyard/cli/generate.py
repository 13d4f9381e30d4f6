"""``tiltyard generate``: entrants answer the prompts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from tiltyard.cli.run import Budget, Config, ConfigOption, config_path
from tiltyard.report.printable import printable

if TYPE_CHECKING:
    from tiltyard.tournament.generating import Generated

__all__ = ["generate"]


def generate(config: Config = None, config_option: ConfigOption = None, budget_usd: Budget = None) -> None:
    """Let the entrants answer what they have not answered yet; answers are appended, never changed."""
    from tiltyard.cli.watching import Watcher
    from tiltyard.settings.config import load_config
    from tiltyard.tournament.generating import generate_answers

    loaded = load_config(config_path(config, config_option), {"budget_usd": budget_usd})
    with Watcher() as watcher:
        generated = generate_answers(loaded, watcher)
    _show(generated)


def _show(generated: Generated) -> None:
    """What there is now, entrant by entrant; exit code 3 where providers failed to answer."""
    from tiltyard.settings.prices import dollars

    for name, had in generated.had.items():
        why = ", ".join(f"{state} {n:,}" for state, n in generated.missing[name].items())
        missing = f"; {sum(generated.missing[name].values()):,} missing ({why})" if why else ""
        typer.echo(f"{printable(name)}: {had:,} there, {generated.written[name]:,} written{missing}.")
    typer.echo(f"Paid: {dollars(generated.spent)}.")
    if generated.problems:
        typer.echo("Some prompts have no answer. Run the command again to go on. Why:", err=True)
        for problem in generated.problems[:3]:
            typer.echo(f"  {printable(problem)}", err=True)
        raise typer.Exit(3)
    if any(states["unasked"] for states in generated.missing.values()):
        typer.echo(
            "Some prompts were not asked: the budget does not cover them. Run again with a higher one.",
            err=True,
        )
