"""``tiltyard rate``: rate models from battles."""

from __future__ import annotations

from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

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
from tiltyard.cli.rate_output import BoardOutput, chosen_form, print_notes
from tiltyard.cli.read_progress import show_read_progress
from tiltyard.errors import BadOption
from tiltyard.report.terminal_escape import escape_controls

if TYPE_CHECKING:
    from tiltyard.runs.rate_options import RateOptions


class MethodName(StrEnum):
    BRADLEY_TERRY = "bradley-terry"
    ELO = "elo"
    GLICKO_2 = "glicko-2"


class TieHandling(StrEnum):
    HALF = "half"
    DAVIDSON = "davidson"
    DROP = "drop"


class BothBad(StrEnum):
    DROP = "drop"
    TIE = "tie"


class IntervalMethod(StrEnum):
    PROMPTS = "prompts"
    BATTLES = "battles"
    NONE = "none"


#: Options that say how battles are rated; the others say where they come from and what is written.
_RATING = (
    "method", "preset", "by", "overlapping", "style", "where", "ties", "both_bad", "intervals", "bootstrap", "n_bootstraps", "level", "seed", "soft",
    "prior_sd", "max_share", "anchor", "baseline", "scale", "k", "n_perms",
)  # fmt: skip


def _given(context: typer.Context) -> RateOptions:
    """The rating options on the command line; enumerations as plain text."""
    given = {}
    for name in _RATING:
        source = context.get_parameter_source(name)
        if source is not None and source.name == "COMMANDLINE":
            value = context.params[name]
            if name == "where":
                value = joined_conditions(value)
            given[name] = value.value if isinstance(value, StrEnum) else value
    return cast("RateOptions", given)


def rate(
    context: typer.Context,
    files: Files,
    method: Annotated[MethodName, typer.Option(help="Rating method.")] = MethodName.BRADLEY_TERRY,
    preset: Annotated[
        str | None, typer.Option(help="Count as a published board does: lmarena. Other options win.")
    ] = None,
    by: By = None,
    overlapping: Annotated[
        bool, typer.Option("--overlapping", help="With --by: a battle of 'a+b' counts in a and in b.")
    ] = False,
    style: Style = None,
    where: Where = None,
    out: Annotated[Path | None, typer.Option(help="Write artifacts and a report to this folder.")] = None,
    jsonl: Annotated[
        bool, typer.Option("--jsonl", help="With --out: write battles.jsonl even above 1,000,000 battles.")
    ] = False,
    ties: Annotated[
        TieHandling, typer.Option(help="Count ties as half a win, model them (Davidson), or drop them.")
    ] = TieHandling.HALF,
    both_bad: Annotated[
        BothBad, typer.Option(help="Drop battles whose outcome is both_bad, or count them as ties.")
    ] = BothBad.DROP,
    intervals: Annotated[
        IntervalMethod,
        typer.Option(help="Uncertainty to cover: new prompts like these, or new battles on these."),
    ] = IntervalMethod.PROMPTS,
    bootstrap: Annotated[
        bool, typer.Option("--bootstrap", help="Compute intervals by bootstrap instead of sandwich.")
    ] = False,
    n_bootstraps: Annotated[
        int, typer.Option(min=2, help="Number of bootstrap refits, with --bootstrap or --out.")
    ] = 100,
    level: Level = 0.95,
    seed: Annotated[int, typer.Option(min=0, help="Random seed.")] = 0,
    soft: Annotated[
        bool, typer.Option("--soft", help="Use stated preferences (pref) instead of outcomes.")
    ] = False,
    prior_sd: PriorSd = None,
    max_share: MaxShare = 0.1,
    anchor: Annotated[
        str | None,
        typer.Option(metavar="MODEL[=RATING]", help="Shift all ratings so that this model has this rating."),
    ] = None,
    baseline: Annotated[
        str | None, typer.Option(metavar="MODEL", help="Also give win rates against this model.")
    ] = None,
    scale: Annotated[
        float, typer.Option(min=1, max=1e6, help="Rating points that mean odds of ten to one.")
    ] = 400.0,
    k: Annotated[float, typer.Option("--k", min=0.001, max=1000, help="Elo's K factor.")] = 16.0,
    n_perms: Annotated[
        int, typer.Option(min=0, help="Elo's permutations; 0 processes the log once, in order.")
    ] = 100,
    arena: Annotated[str | None, typer.Option(help="Arena name to record in the artifacts.")] = None,
    model: Annotated[str | None, typer.Option(help="Model under test, to record in the artifacts.")] = None,
    columns: Columns = None,
    outcomes: Outcomes = None,
    skip_invalid: SkipInvalid = False,
    format: Format = None,
    json: Annotated[bool, typer.Option("--json", help="Print the board as JSON.")] = False,
    csv: Annotated[bool, typer.Option("--csv", help="Print the board as CSV, unrounded.")] = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print the board in Markdown.")] = False,
    latex: Annotated[bool, typer.Option("--latex", help="Print the board in LaTeX.")] = False,
    top: Annotated[int | None, typer.Option(min=1, help="Print only the first N models.")] = None,
) -> None:
    """Rate models from battles, with confidence intervals."""
    from tiltyard.runs.battle_rating import choose_baseline, chosen_battles, open_all, rate_files
    from tiltyard.runs.rate_options import rate_settings

    output = BoardOutput(chosen_form({"json": json, "csv": csv, "markdown": markdown, "latex": latex}), top)
    settings = rate_settings(_given(context))
    if jsonl and out is None:
        raise BadOption("--jsonl has no effect without --out; name a folder")
    replicates = n_bootstraps if out is not None and method is MethodName.BRADLEY_TERRY else 0
    settings = replace(settings, n_bootstraps=0 if settings.style else replicates, arena=arena, model=model)
    reading = replace(read_options(format, columns, outcomes, skip_invalid=skip_invalid), baseline=baseline)
    sources = chosen_battles(open_all(files, reading), settings)
    settings = choose_baseline(settings, sources)
    with show_read_progress([source.rows for source in sources]) as progress:
        if out is None:
            groups, evaluated = rate_files(sources, settings, progress=progress), None
        else:
            from tiltyard.runs.run_folder import write_run

            run = write_run(out, sources, settings, lines=jsonl, progress=progress)
            groups, evaluated = run.groups, run.evaluated
    output.print_boards(groups, settings, evaluated)
    print_notes(sources)
    if out is not None:
        if run.without_lines:
            typer.echo(escape_controls(f"\nbattles.jsonl was not written: {run.without_lines}"), err=True)
        output.print_message(f"\nWritten to {out}: tiltyard verify {out}")
