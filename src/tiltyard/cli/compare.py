"""``tiltyard compare``: is A better than B?"""

from __future__ import annotations

from typing import Annotated

import typer

from tiltyard.cli.options import Columns, Files, Format, Level, PriorSd, column_map
from tiltyard.cli.read_progress import show_read_progress
from tiltyard.report.terminal_escape import escape_controls

__all__ = ["compare"]


def compare(
    model_a: Annotated[str, typer.Argument(metavar="A", help="One model.")],
    model_b: Annotated[str, typer.Argument(metavar="B", help="The other.")],
    files: Files,
    level: Level = 0.95,
    prior_sd: PriorSd = None,
    columns: Columns = None,
    format: Format = None,
) -> None:
    """The difference between two models with its interval, paired by prompt, and what it means."""
    from tiltyard.core.ratings import BradleyTerry
    from tiltyard.core.ratings.comparison import compare_models
    from tiltyard.files.battle_tables import count_table
    from tiltyard.report.terminal import Terminal, findings_list
    from tiltyard.runs.battle_rating import open_all

    sources = open_all(files, format=format, columns=column_map(columns))
    with show_read_progress([source.rows for source in sources]) as progress:
        table = count_table(sources, progress=progress)
    found = compare_models(table, model_a, model_b, BradleyTerry(level=level, prior_sd=prior_sd))
    console = Terminal()
    a, b = escape_controls(found.model_a), escape_controls(found.model_b)
    console.print(escape_controls(found.sentence))
    console.print(
        f"Difference {found.difference:+.0f} ({100 * found.level:g}% interval {found.low:+.0f} to {found.high:+.0f}); "
        f"expected score of {a} against {b}: {found.expected_score:.2f}."
    )
    direct = found.wins + found.losses + found.ties
    console.print(
        f"Direct battles: {direct:,} ({found.wins} won, {found.losses} lost, {found.ties} tied; "
        f"{found.both_bad} more where both were bad)."
    )
    if direct and found.prompts_ahead is not None:
        console.print(
            f"Prompts on which {a} did better: {found.prompts_ahead}; worse: {found.prompts_behind}."
        )
    if found.findings:
        console.print(findings_list(found.findings))
