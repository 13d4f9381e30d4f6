"""``tiltyard agree``: matches of a tournament for people to label, and how far its judge agrees with them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tiltyard.cli.database_options import BaseUrl, link_address, run_with_pool, serving_environment
from tiltyard.errors import BadOption
from tiltyard.report.escapes import escape_controls

if TYPE_CHECKING:
    from tiltyard.runs.judge_labels import JudgedMatches, LabelSheet


def agree(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a finished tournament.")],
    sheets: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="[SHEET…]", help="Filled-in sheets: CSV, Excel or JSONL, one for each person."
        ),
    ] = None,
    to: Annotated[
        Path | None, typer.Option(help="Where to write the sheet; by default RUN-labels.csv.")
    ] = None,
    labels: Annotated[int, typer.Option(help="How many matches people label.")] = 100,
    seed: Annotated[int, typer.Option(min=0, max=999_999_999, help="Decides which matches are drawn.")] = 0,
    arena: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Let named people vote in a new arena, instead of a sheet."),
    ] = None,
    rater: Annotated[
        list[str] | None, typer.Option(help="With --arena: a person; repeat it for each.")
    ] = None,
    overlap: Annotated[int, typer.Option(min=1, help="With --arena: how many people label each match.")] = 2,
    base_url: BaseUrl = None,
    page: Annotated[Path | None, typer.Option(help="Write the result as an HTML page, too.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Let people label matches, and learn how far to trust the judge.

    Without sheets, writes one: prompt and two responses without names, and a column `better` to fill in with 1, 2, tie
    or both bad. Give each person a copy. With sheets, prints how far the judge agrees with people. With --arena and a
    --rater for each person, they vote in a browser instead, each by a link; with --arena alone, their votes are read.
    """
    from tiltyard.runs.judge_labels import JudgedMatches

    judged = JudgedMatches.read(run)
    if sheets and arena is not None:
        raise BadOption("labels come from sheets or from --arena: name one of the two")
    if sheets or (arena is not None and not rater):
        _report(judged, sheets or [], arena, page, as_json=as_json)
        return
    if page is not None or as_json:
        raise BadOption("--page and --json show what people said: name the filled-in sheets behind the run")
    if arena is not None:
        _open_arena(judged.draw(labels, seed), arena, tuple(rater or ()), overlap, base_url)
        return
    to = to or Path(f"{run.name or 'run'}-labels.csv")
    if to.exists():
        raise BadOption(f"{to} exists, and may hold labels; name another file with --to")
    sheet = judged.draw(labels, seed)
    sheet.write(to)
    rubrics = ", ".join(str(judged.folder / entry) for entry in _rubrics(judged.manifest.dimensions))
    drawn = f"{len(sheet.sample.places):,} of {len(judged.matches):,} matches are in {to}."
    told = f"{drawn} Give each person a copy and the rubric ({rubrics}); they fill in the column better: 1, 2, tie or both bad."
    typer.echo(escape_controls(told))
    typer.echo(escape_controls(f"Then: tiltyard agree {run} {to}"))


def _rubrics(dimensions: tuple[str, ...]) -> list[str]:
    from tiltyard.runs.tournament_files import rubric_file

    return [rubric_file(name) for name in dimensions]


def _open_arena(
    sheet: LabelSheet, arena: str, raters: tuple[str, ...], overlap: int, base_url: str | None
) -> None:
    from tiltyard.arena.content.blob_store import BlobStore
    from tiltyard.arena.content.object_storage import open_configured_storage
    from tiltyard.arena.operators.label_panels import LabelRaters, open_label_panel
    from tiltyard.arena.operators.panels import OpenedPanel
    from tiltyard.postgres.connections import ConnectionPool
    from tiltyard.settings.serving_settings import read_serving

    environment = serving_environment()
    shard = read_serving(environment.variables, base_url=base_url).shard

    async def work(pool: ConnectionPool) -> OpenedPanel:
        blobs = BlobStore(pool, open_configured_storage(environment))
        return await open_label_panel(pool, blobs, arena, sheet, LabelRaters(raters, overlap), shard=shard)

    opened = run_with_pool(work, connections=2)
    address = link_address(environment, base_url)
    for one, code in zip(opened.raters, opened.codes, strict=True):
        typer.echo(f"{escape_controls(one.name)}\t{address}/join/{code}")
    typer.echo(
        f"{opened.panel.items:,} matches, {opened.panel.tasks:,} votes asked for. Send each person their own link and the "
        f"rubric. Then: tiltyard agree {escape_controls(str(sheet.run.folder))} --arena {arena}",
        err=True,
    )


def _report(
    judged: JudgedMatches, sheets: list[Path], arena: str | None, page: Path | None, *, as_json: bool
) -> None:
    from tiltyard.report.trust_report import trust_page, trust_text
    from tiltyard.runs.judge_labels import LabelledRun, read_labels, take_labels
    from tiltyard.runs.judge_trust import judge_trust
    from tiltyard.runs.manifest import write_bytes

    if arena is None:
        sheet, labels = read_labels(judged, sheets)
    else:
        from tiltyard.arena.operators.label_panels import read_label_panel

        name = arena
        sheet, labels = take_labels(judged, run_with_pool(lambda pool: read_label_panel(pool, name)))
    found = judge_trust(LabelledRun.of(sheet, labels))
    if page is not None:
        write_bytes(page, trust_page(found).encode())
    typer.echo(json.dumps(found.to_dict()) if as_json else trust_text(found))
