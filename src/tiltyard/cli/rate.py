"""``tiltyard rate``: rate models from battles."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tiltyard.cli.options import Columns, Files, Format, Level, MaxShare, PriorSd, column_map, comma_list
from tiltyard.cli.read_progress import show_read_progress
from tiltyard.errors import BadOption
from tiltyard.report.terminal_escape import escape_controls

if TYPE_CHECKING:
    from tiltyard.core.board import RatedGroup
    from tiltyard.runs import RateSettings

__all__ = ["rate"]


class MethodName(StrEnum):
    BRADLEY_TERRY = "bradley-terry"
    ELO = "elo"
    GLICKO_2 = "glicko-2"


class TieHandling(StrEnum):
    HALF = "half"
    DAVIDSON = "davidson"
    DROP = "drop"


class Grouping(StrEnum):
    DIMENSION = "dimension"
    CATEGORY = "category"
    LANGUAGE = "language"
    SOURCE = "source"
    JUDGE = "judge"


class IntervalMethod(StrEnum):
    PROMPTS = "prompts"
    BATTLES = "battles"
    NONE = "none"


#: Options that only some methods use.
_TAKEN_BY = {
    "style": {MethodName.BRADLEY_TERRY},
    "intervals": {MethodName.BRADLEY_TERRY, MethodName.ELO},
    "bootstrap": {MethodName.BRADLEY_TERRY},
    "n_bootstraps": {MethodName.BRADLEY_TERRY, MethodName.ELO},
    "level": {MethodName.BRADLEY_TERRY, MethodName.ELO},
    "seed": {MethodName.BRADLEY_TERRY, MethodName.ELO},
    "soft": {MethodName.BRADLEY_TERRY, MethodName.ELO},
    "prior_sd": {MethodName.BRADLEY_TERRY},
    "max_share": {MethodName.BRADLEY_TERRY},
    "anchor": {MethodName.BRADLEY_TERRY},
    "scale": {MethodName.BRADLEY_TERRY, MethodName.ELO},
    "k": {MethodName.ELO},
    "n_perms": {MethodName.ELO},
}


def _refuse_unused(context: typer.Context, method: MethodName) -> None:
    """Reject an option that would have no effect."""
    for name, methods in _TAKEN_BY.items():
        source = context.get_parameter_source(name)
        if source is not None and source.name == "COMMANDLINE" and method not in methods:
            takers = " or ".join(sorted(methods))
            raise BadOption(f"--{name.replace('_', '-')} has no effect with {method}; use it with {takers}")


def rate(
    context: typer.Context,
    files: Files,
    method: Annotated[MethodName, typer.Option(help="Rating method.")] = MethodName.BRADLEY_TERRY,
    by: Annotated[Grouping | None, typer.Option(help="Rate each group of battles separately.")] = None,
    style: Annotated[
        str | None,
        typer.Option(metavar="NAME,…", help="Control for style: length, markdown, position, or a column."),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Write artifacts and a report to this folder.")] = None,
    jsonl: Annotated[
        bool, typer.Option("--jsonl", help="With --out: write battles.jsonl even above 1,000,000 battles.")
    ] = False,
    ties: Annotated[
        TieHandling, typer.Option(help="Count ties as half a win, model them (Davidson), or drop them.")
    ] = TieHandling.HALF,
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
    format: Format = None,
) -> None:
    """Rate models from battles, with confidence intervals."""
    from tiltyard.runs.battle_rating import RateSettings, method_of, open_all, rate_files

    _refuse_unused(context, method)
    if jsonl and out is None:
        raise BadOption("--jsonl has no effect without --out; name a folder")
    styles = tuple(comma_list(style))
    options: dict[str, object] = {"ties": ties.value}
    if method is not MethodName.GLICKO_2:
        interval = "none" if intervals is IntervalMethod.NONE else "bootstrap"
        clusters = "battle" if intervals is IntervalMethod.BATTLES else "auto"
        options |= {
            "soft": soft,
            "clusters": clusters,
            "level": level,
            "seed": seed,
            "n_bootstraps": n_bootstraps,
        }
        if method is MethodName.ELO:
            options |= {"k": k, "n_permutations": n_perms, "spread": scale, "interval": interval}
        else:
            kind = interval if bootstrap or interval == "none" else "sandwich"
            options |= {"interval": kind, "prior_sd": prior_sd, "max_share": max_share}
            options |= {"scale": scale, "style": bool(styles)}
            options |= _anchored(anchor)
    settings = RateSettings(
        method=method_of(method.value, options),
        by=None if by is None else by.value,
        style=styles,
        n_bootstraps=n_bootstraps
        if out is not None and method is MethodName.BRADLEY_TERRY and not styles
        else 0,
        arena=arena,
        model=model,
    )
    sources = open_all(files, format=format, columns=column_map(columns))
    with show_read_progress([source.rows for source in sources]) as progress:
        if out is None:
            groups, left_out = rate_files(sources, settings, progress=progress), ""
        else:
            from tiltyard.runs.run_folder import write_run

            run = write_run(out, sources, settings, lines=jsonl, progress=progress)
            groups, left_out = run.groups, run.without_lines
    _show(groups, settings)
    _notes([(source.path, source.notes) for source in sources])
    if out is not None:
        if left_out:
            typer.echo(escape_controls(f"\nbattles.jsonl was not written: {left_out}"), err=True)
        typer.echo(f"\nWritten to {out}: tiltyard verify {out}")


def _anchored(text: str | None) -> dict[str, object]:
    if text is None:
        return {}
    name, equals, rating = text.rpartition("=")
    if not equals:
        return {"anchor": text}
    try:
        anchor_rating = float(rating)
    except ValueError:
        return {"anchor": text}
    if not -1e6 <= anchor_rating <= 1e6:
        raise BadOption(f"--anchor {text}: the rating must lie between -1e6 and 1e6")
    return {"anchor": name, "anchor_rating": anchor_rating}


def _show(groups: list[RatedGroup], settings: RateSettings) -> None:
    from tiltyard.report.terminal import Terminal, board_table, findings_list, flip_sentence

    console = Terminal()
    for rated in groups:
        console.print()
        console.print(board_table(rated.board, rated.name, width=console.width))
        if rated.flip is not None:
            console.print(f"\n{flip_sentence(rated.flip)}")
        if settings.style and "style" in rated.ratings.extras:
            console.print(f"\n{escape_controls(_style_line(rated))}")
        if rated.board.findings:
            console.print()
            console.print(findings_list(rated.board.findings))


def _style_line(rated: RatedGroup) -> str:
    errors = rated.ratings.extras.get("style_se", {})
    parts = [
        f"{name} {value:+.2f}" + (f" ± {1.96 * errors[name]:.2f}" if name in errors else "")
        for name, value in rated.ratings.extras["style"].items()
    ]
    return f"Style, in logits per unit of its spread: {', '.join(parts)}."


def _notes(read: list[tuple[str, Any]]) -> None:
    for path, notes in read:
        for reason, count in notes:
            typer.echo(f"{path}: {count} left out: {reason}", err=True)
