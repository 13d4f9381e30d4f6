"""``tiltyard publish``: a static site of run folders that readers can verify."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tiltyard.report.terminal_escape import escape_controls

if TYPE_CHECKING:
    from tiltyard.runs.site_folder import PublishedRun


#: Fields by which a battle of one file is found in another.
_ROW_KEYS = frozenset({"position", "time"})


def publish(
    runs: Annotated[
        list[Path],
        typer.Argument(metavar="RUN…", help="Folders written by `rate --out`, `run`, `place` or `ab`."),
    ],
    site: Annotated[
        Path, typer.Argument(metavar="DIR", help="Folder of the site; an earlier one is replaced.")
    ],
    title: Annotated[str | None, typer.Option(help="Title of the site.")] = None,
    url: Annotated[
        str | None, typer.Option(help="Where it will be: https://…, for commands and previews of links.")
    ] = None,
) -> None:
    """Write a static site of runs.

    Verifies each run, then writes its board, its files to download, a badge, and how to verify it. The folder can be
    opened from disk, or put on any web server.
    """
    from tiltyard.report.site_page import format_bytes
    from tiltyard.runs.site_folder import publish_site

    made = publish_site(runs, site, title=title, url=url, watch=_tell)
    boards = "1 run" if len(made.runs) == 1 else f"{len(made.runs)} runs"
    typer.echo(
        escape_controls(
            f"Written to {site}: {boards}, {made.files:,} files, {format_bytes(made.size_bytes)}. "
            f"Open {site / 'index.html'}"
        )
    )


def _tell(published: PublishedRun) -> None:
    name = published.run.name
    typer.echo(escape_controls(f"{name}: {published.verified}"))
    seen = []
    if published.fields.battle_fields:
        seen.append(f"these fields of every battle: {', '.join(published.fields.battle_fields)}")
    if published.fields.texts:
        seen.append("every prompt, response and reply of a judge")
    if seen:
        typer.echo(escape_controls(f"{name}: readers can see {'; and '.join(seen)}."), err=True)
    told = _ROW_KEYS & set(published.fields.battle_fields)
    if told and "voter" in published.fields.battle_fields:
        typer.echo(
            f"{name}: voters can be found in other files by {' and '.join(sorted(told))}. Of an arena, publish a release "
            "instead of an exact export.",
            err=True,
        )
