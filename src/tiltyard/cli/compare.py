"""``tiltyard compare``: is A better than B?"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer

from tiltyard.cli.options import (
    By,
    Columns,
    Files,
    Format,
    Level,
    MaxShare,
    Outcomes,
    PriorSd,
    SkipInvalid,
    Style,
    Where,
    joined_conditions,
    read_options,
)
from tiltyard.cli.rate_output import print_notes
from tiltyard.cli.read_progress import show_read_progress
from tiltyard.errors import BadOption, CannotRate
from tiltyard.report.terminal_escape import escape_controls

if TYPE_CHECKING:
    from tiltyard.core.battles import Table
    from tiltyard.core.ratings import RatingMethod
    from tiltyard.core.ratings.comparison import Comparison
    from tiltyard.report.terminal import Terminal


def compare(
    model_a: Annotated[str, typer.Argument(metavar="A", help="First model.")],
    model_b: Annotated[str, typer.Argument(metavar="B", help="Second model.")],
    files: Files,
    level: Level = 0.95,
    by: By = None,
    style: Style = None,
    where: Where = None,
    prior_sd: PriorSd = None,
    max_share: MaxShare = 0.1,
    columns: Columns = None,
    outcomes: Outcomes = None,
    skip_invalid: SkipInvalid = False,
    format: Format = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Compare two models: difference, interval, verdict."""
    from tiltyard.files.battle_tables import count_table
    from tiltyard.report.terminal import Terminal
    from tiltyard.runs.battle_rating import chosen_battles, count_named, open_all
    from tiltyard.runs.rate_options import rate_settings

    settings = rate_settings(
        {
            "by": by,
            "style": style,
            "where": joined_conditions(where),
            "level": level,
            "prior_sd": prior_sd,
            "max_share": max_share,
        }
    )
    opened = open_all(files, read_options(format, columns, outcomes, skip_invalid=skip_invalid))
    sources = chosen_battles(opened, settings)
    with show_read_progress([source.rows for source in sources]) as progress:
        if settings.by is None:
            tables = {"": count_table(sources, style=settings.style, progress=progress)}
        else:
            tables = count_named(sources, settings, progress=progress)
    found = _comparisons(tables, (model_a, model_b), settings.method)
    if as_json:
        typer.echo(
            json.dumps(_document(found, grouped=settings.by is not None), indent=2, ensure_ascii=False)
        )
    else:
        console = Terminal()
        for name, comparison in found.items():
            _show(console, name, comparison)
    print_notes(sources)


def _comparisons(
    tables: dict[str, Table], models: tuple[str, str], method: RatingMethod
) -> dict[str, Comparison | str]:
    """The comparison in each group, or the reason why there is none; raises if there is none at all."""
    from tiltyard.core.ratings import BradleyTerry
    from tiltyard.core.ratings.comparison import compare_models

    assert isinstance(method, BradleyTerry)
    found: dict[str, Comparison | str] = {}
    errors: list[BadOption | CannotRate] = []
    for name, table in tables.items():
        try:
            found[name] = compare_models(table, *models, method)
        except (BadOption, CannotRate) as error:
            errors.append(error)
            found[name] = str(error)
    if len(errors) == len(tables):
        raise errors[0] if errors else CannotRate("no battles to compare models by")
    return found


def _document(found: dict[str, Comparison | str], *, grouped: bool) -> dict[str, object]:
    shown: dict[str, object] = {
        name: {"problem": result} if isinstance(result, str) else result.to_dict()
        for name, result in found.items()
    }
    return {"groups": shown} if grouped else dict(found[""].to_dict())  # type: ignore[union-attr]


def _show(console: Terminal, name: str, comparison: Comparison | str) -> None:
    from tiltyard.report.terminal import findings_list

    if name:
        console.print(f"{escape_controls(name)}:", style="bold")
    if isinstance(comparison, str):
        console.print(escape_controls(comparison))
        return
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
