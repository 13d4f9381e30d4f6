"""``tiltyard generate``: generate the entrants' answers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING

import typer

from tiltyard.cli.exit_codes import INCOMPLETE_EXIT_CODE
from tiltyard.cli.options import PriceOption, stated_prices
from tiltyard.cli.run import Budget, Config, ConfigOption, config_path
from tiltyard.report.terminal_escape import escape_controls

if TYPE_CHECKING:
    from tiltyard.tournaments.answer_generation import GenerationResult


def generate(
    config: Config = None,
    config_option: ConfigOption = None,
    budget_usd: Budget = None,
    price: PriceOption = None,
) -> None:
    """Generate the answers that entrants still lack.

    Answers are appended, never changed. Exit code 3 means that answers are missing or cut off; the
    output says what to do.
    """
    from tiltyard.cli.judging_progress import JudgingProgress
    from tiltyard.settings.tournament_config import load_config
    from tiltyard.tournaments.answer_generation import generate_answers

    path = config_path(config, config_option)
    loaded = load_config(path, {"budget_usd": budget_usd}, stated_prices(price))
    with JudgingProgress() as watcher:
        generated = generate_answers(loaded, watcher)
    _show(generated)
    tell_incomplete(generated)
    if not generated.complete:
        raise typer.Exit(INCOMPLETE_EXIT_CODE)


def _show(generated: GenerationResult) -> None:
    """Print the number of answers of each entrant."""
    from tiltyard.settings.prices import format_dollars

    for name, had in generated.had.items():
        why = ", ".join(f"{state} {n:,}" for state, n in generated.missing[name].items())
        cut = generated.truncated[name]
        left = [f"{cut:,} truncated"] if cut else []
        left += [f"{generated.missing[name].total():,} missing ({why})"] if why else []
        lacks = f"; {', '.join(left)}" if left else ""
        typer.echo(f"{escape_controls(name)}: {had:,} existing, {generated.written[name]:,} written{lacks}.")
    typer.echo(f"Paid: {format_dollars(generated.spent)}.")


def tell_incomplete(generated: GenerationResult) -> None:
    """Report answers that are missing or cut off, and what to do."""
    missing = sum(generated.missing.values(), Counter[str]())
    if generated.problems:
        typer.echo("Some prompts have no answer. Run the command again to resume. Errors:", err=True)
        for problem in generated.problems[:3]:
            typer.echo(f"  {escape_controls(problem)}", err=True)
    elif missing["unasked"]:
        typer.echo(
            "Some prompts were not sent: the budget does not cover them. Run again with a higher budget.",
            err=True,
        )
    cut = sum(generated.truncated.values())
    if cut:
        typer.echo(
            f"{cut:,} answers were cut off at max_tokens ({_limits(generated, generated.truncated)} now). They are "
            "kept, marked as truncated. To replace them, raise max_tokens under generate: and run the command "
            "again.",
            err=True,
        )
    for state, why in _NO_TEXT.items():
        if missing[state]:
            lacking = {name: states[state] for name, states in generated.missing.items()}
            advice = why.format(limits=_limits(generated, lacking))
            typer.echo(f"{missing[state]:,} prompts have no answer, because {advice}", err=True)


#: Why a reply is not an answer, and what to do.
_NO_TEXT = {
    "truncated": "the reply was cut off before any text: raise max_tokens ({limits} now) under generate: and run "
    "the command again.",
    "unparseable": "the reply contained no text: check the model, or change its options under generate:, and run the "
    "command again.",
    "refused": "the model refused without any text: write an answer by hand, or remove the prompts.",
}


def _limits(generated: GenerationResult, counts: Mapping[str, int]) -> str:
    """The token limits of the entrants with a nonzero count."""
    limits = {generated.max_tokens[name] for name, count in counts.items() if count}
    return " or ".join(f"{limit:,}" for limit in sorted(limits))
