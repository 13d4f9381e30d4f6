"""``tiltyard compare``: is A better than B?"""

from __future__ import annotations

from typing import Annotated

import typer

from tiltyard.cli.options import Columns, Files, Format, Level, MaxShare, PriorSd, column_map
from tiltyard.cli.read_progress import show_read_progress
from tiltyard.report.terminal_escape import escape_controls

__all__ = ["compare"]


def compare(
    model_a: Annotated[str, typer.Argument(metavar="A", help="First model.")],
    model_b: Annotated[str, typer.Argument(metavar="B", help="Second model.")],
    files: Files,
    level: Level = 0.95,
    prior_sd: PriorSd = None,
    max_share: MaxShare = 0.1,
    columns: Columns = None,
    format: Format = None,
) -> None:
    """Compare two models: difference, interval, verdict."""
    from tiltyard.core.ratings import BradleyTerry
    from tiltyard.core.ratings.comparison import compare_models
    from tiltyard.files.battle_tables import count_table
    from tiltyard.report.terminal import Terminal, findings_list
    from tiltyard.runs.battle_rating import open_all

    sources = open_all(files, format=format, columns=column_map(columns))
    with show_read_progress([source.rows for source in sources]) as progress:
        table = count_table(sources, progress=progress)
    method = BradleyTerry(level=level, prior_sd=prior_sd, max_share=max_share)
    comparison = compare_models(table, model_a, model_b, method)
    console = Terminal()
    a, b = escape_controls(comparison.model_a), escape_controls(comparison.model_b)
    console.print(escape_controls(comparison.sentence))
    console.print(
        f"Difference {comparison.difference:+.0f} ({100 * comparison.level:g}% interval {comparison.low:+.0f} to {comparison.high:+.0f}); "
        f"expected score of {a} against {b}: {comparison.expected_score:.2f}."
    )
    direct = comparison.wins + comparison.losses + comparison.ties
    console.print(
        f"Direct battles: {direct:,} ({comparison.wins} won, {comparison.losses} lost, {comparison.ties} tied; "
        f"{comparison.both_bad} more where both were bad)."
    )
    if direct and comparison.prompts_ahead is not None:
        console.print(
            f"Prompts on which {a} did better: {comparison.prompts_ahead}; worse: {comparison.prompts_behind}."
        )
    if comparison.findings:
        console.print(findings_list(comparison.findings))
