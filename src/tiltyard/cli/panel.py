"""``tiltyard arena panel``: expert panels of an arena, from the links of its raters to their agreement."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tiltyard.cli.arena import Name
from tiltyard.cli.database_options import (
    BaseUrl,
    database_command,
    link_address,
    run_with_pool,
    serving_environment,
)
from tiltyard.errors import BadOption
from tiltyard.report.escapes import escape_controls, plain_table

if TYPE_CHECKING:
    from tiltyard.arena.operators.panel_records import PanelRecord
    from tiltyard.core.judging.diagnostics.rater_agreement import AgreementFigure


app = typer.Typer(
    help="Expert panels: named raters and how they agree.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

Panel = Annotated[str, typer.Argument(help="Name of the panel.")]
_WORDS = "model_a, tie, model_b or both_bad"


@database_command(app, "open")
def open_(
    name: Name,
    panel: Panel,
    rater: Annotated[list[str], typer.Option(help="Name of a rater; repeat it for each.")],
    overlap: Annotated[int, typer.Option(min=1, help="How many raters vote on each item.")] = 2,
    prompt: Annotated[list[str] | None, typer.Option(help="Only this prompt; repeatable.")] = None,
    category: Annotated[list[str] | None, typer.Option(help="Only this category; repeatable.")] = None,
    pairs: Annotated[
        int | None, typer.Option(min=1, help="Pairs of models per prompt; all if left out.")
    ] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Decides who is asked about what.")] = None,
    base_url: BaseUrl = None,
) -> None:
    """Open a panel and print the link of each rater. Links are not shown again."""
    from tiltyard.arena.operators.panels import PanelTerms, open_panel
    from tiltyard.settings.serving_settings import read_serving

    environment = serving_environment()
    settings = read_serving(environment.variables, base_url=base_url)
    terms = PanelTerms(panel, tuple(rater), overlap, tuple(prompt or ()), tuple(category or ()), pairs, seed)
    opened = run_with_pool(lambda pool: open_panel(pool, name, terms, shard=settings.shard, actor="cli"))
    address = link_address(environment, base_url)
    for one, code in zip(opened.raters, opened.codes, strict=True):
        typer.echo(f"{escape_controls(one.name)}\t{address}/join/{code}")
    made = opened.panel
    typer.echo(
        f"The panel {escape_controls(made.name)} has {made.items:,} items and asks for {made.tasks:,} votes. "
        "Send each rater their own link: whoever opens it votes as this rater.",
        err=True,
    )


@database_command(app, "list")
def list_(name: Name) -> None:
    """List the panels of an arena."""
    from tiltyard.arena.operators.panels import list_panels

    found = run_with_pool(lambda pool: list_panels(pool, name))
    for one in found:
        state = "open" if one.closed_at is None else f"closed {one.closed_at:%Y-%m-%d}"
        typer.echo(
            f"{escape_controls(one.name)}  {one.items:,} items  {one.tasks:,} votes asked for  {state}"
        )


@database_command(app, "progress")
def progress(name: Name, panel: Panel) -> None:
    """Show how far each rater is."""
    from tiltyard.arena.operators.panel_records import panel_progress

    found = panel_progress(_read(name, panel))
    rows = [(one.rater.name, one.voted, one.skipped, one.left) for one in found]
    total = [sum(column) for column in zip(*(row[1:] for row in rows), strict=True)]
    typer.echo(plain_table([("rater", "voted", "skipped", "left"), *rows, ("all", *total)]))


@database_command(app, "agreement")
def agreement(
    name: Name,
    panel: Panel,
    scale: Annotated[
        str, typer.Option(help="nominal, or ordinal: a win against a loss counts more than against a tie.")
    ] = "nominal",
) -> None:
    """Show Krippendorff's alpha and the share of agreeing pairs, by rater, category and model."""
    from tiltyard.arena.operators.panel_records import agreement_rows
    from tiltyard.core.judging.diagnostics.rater_agreement import AgreementScale

    if scale not in set(AgreementScale):
        raise BadOption(f"--scale is {scale[:100]!r}; expected nominal or ordinal")
    found = agreement_rows(_read(name, panel), AgreementScale(scale))
    rows = [
        (
            f"{row.scope} {row.name}".strip(),
            _figure(row.found.alpha),
            _figure(row.found.share),
            row.found.pairs,
        )
        for row in found
    ]
    typer.echo(plain_table([("of", "alpha", "pairs that agree", "pairs"), *rows]))
    typer.echo("In brackets: 95 % intervals for prompts like these and the same raters.", err=True)


@database_command(app, "disagreements")
def disagreements(name: Name, panel: Panel) -> None:
    """List the items on which raters disagree, those without an adjudication first."""
    from tiltyard.arena.operators.panel_records import VALUE_WORDS, find_disagreements

    record = _read(name, panel)
    names = {one.rater: one.name for one in record.raters}
    rows = []
    for item, votes in find_disagreements(record):
        said = ", ".join(
            f"{names[vote.rater]}: {VALUE_WORDS[vote.value]}" for vote in votes if vote.value is not None
        )
        decided = "" if item.adjudication is None else VALUE_WORDS[item.adjudication.verdict]
        rows.append((item.item, item.prompt, item.model_a, item.model_b, said, decided))
    typer.echo(plain_table([("item", "prompt", "model_a", "model_b", "votes", "adjudication"), *rows]))


@database_command(app, "adjudicate")
def adjudicate(
    name: Name,
    panel: Panel,
    item: Annotated[int, typer.Argument(help="Number of the item in `tiltyard arena panel disagreements`.")],
    verdict: Annotated[str, typer.Argument(help=f"{_WORDS}.")],
    note: Annotated[str, typer.Option(help="Why, and who decided.")],
) -> None:
    """Record a senior rater's decision beside the votes. No vote and no rating changes."""
    from tiltyard.arena.operators.panel_records import VALUE_WORDS
    from tiltyard.arena.operators.panel_records import adjudicate as record_verdict

    values = {word: value for value, word in VALUE_WORDS.items()}
    if verdict not in values:
        raise BadOption(f"the verdict is {verdict[:100]!r}; expected {_WORDS}")
    run_with_pool(lambda pool: record_verdict(pool, name, panel, item, values[verdict], note, actor="cli"))
    typer.echo(f"Item {item} is adjudicated: {verdict}. The votes stay as they are.")


@database_command(app, "close")
def close(name: Name, panel: Panel) -> None:
    """Close a panel for good; then it has a board, and raters see the names."""
    from tiltyard.arena.operators.panels import close_panel

    run_with_pool(lambda pool: close_panel(pool, name, panel, actor="cli"))
    typer.echo(f"The panel {escape_controls(panel)} is closed.")


@database_command(app, "board")
def board(name: Name, panel: Panel) -> None:
    """Print the board of a closed panel: ranges that hold for a sample of fixed size."""
    from tiltyard.arena.operators.panel_records import panel_board
    from tiltyard.report.terminal import Terminal, board_table

    record = _read(name, panel)
    found = panel_board(record)
    if found is None and record.panel.closed_at is None:
        raise BadOption(
            f"the panel {panel!r} is open, and has no board before it ends; close it: tiltyard arena panel close {name}"
        )
    if found is None:
        raise BadOption(f"the panel {panel!r} has no vote that rates a model")
    terminal = Terminal()
    terminal.print(board_table(found, panel, width=terminal.width))


@database_command(app, "export")
def export(
    name: Name,
    panel: Panel,
    to: Annotated[Path, typer.Argument(help="A file that ends in .csv or .parquet.")],
) -> None:
    """Write one table: item, prompt, models, rater, vote, time, remark, adjudication."""
    from tiltyard.arena.operators.panel_records import PanelFormat, panel_file
    from tiltyard.foundation.local_files import atomic_write

    forms: dict[str, PanelFormat] = {".csv": "csv", ".parquet": "parquet"}
    if to.suffix not in forms:
        raise BadOption(f"{to} ends in {to.suffix!r}; expected .csv or .parquet")
    record = _read(name, panel)
    with atomic_write(to) as file:
        file.write(panel_file(record, forms[to.suffix]))
    typer.echo(f"Wrote {len(record.tasks):,} rows to {to}. They name the raters.")


def _read(name: str, panel: str) -> PanelRecord:
    from tiltyard.arena.operators.panel_records import read_panel

    return run_with_pool(lambda pool: read_panel(pool, name, panel))


def _figure(figure: AgreementFigure) -> str:
    if figure.value is None:
        return f"– ({figure.gap})"
    if figure.low is None or figure.high is None:
        return f"{figure.value:.2f} ({figure.gap})"
    return f"{figure.value:.2f} ({figure.low:.2f} to {figure.high:.2f})"
