"""``tiltyard read``, ``verify`` and ``publish``: look into a run folder, check it, and make a site of several."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tiltyard.report.escapes import escape_controls

if TYPE_CHECKING:
    from tiltyard.report.match_text import ReadMatch
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
    add: Annotated[
        bool,
        typer.Option("--add", help="Keep the runs of the earlier site; of one arena they are its history."),
    ] = False,
) -> None:
    """Write a static site of runs.

    Verifies each run, then writes its board, its files to download, a badge, and how to verify it. The folder can be
    opened from disk, or put on any web server.
    """
    from tiltyard.report.site_page import format_bytes
    from tiltyard.runs.site_folder import publish_site

    made = publish_site(runs, site, title=title, url=url, add=add, watch=_tell)
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


def verify(
    place: Annotated[
        str,
        typer.Argument(
            metavar="FOLDER-OR-URL",
            help="Folder written by `rate --out`, `run`, `place`, `ab` or `publish`, an arena's release, or the "
            "https:// address of one.",
        ),
    ],
) -> None:
    """Check a run or a site: recompute its numbers, redraw its pages.

    Checks the hash of every file, then recomputes every number from the battles; of a site it also draws the page,
    badges and cards again.
    """
    from tiltyard.runs.site_verification import verify as verify_place

    result = verify_place(place)
    for check in result.checks:
        typer.echo(escape_controls(f"{'ok  ' if check.passed else 'FAIL'} {check.name}: {check.detail}"))
    typer.echo(result.summary)
    if not result.passed:
        raise typer.Exit(1)


def read(
    folder: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a finished tournament.")],
    flips: Annotated[
        bool, typer.Option("--flips", help="Matches whose winner changes with the order.")
    ] = False,
    disagreements: Annotated[
        bool, typer.Option("--disagreements", help="Matches on which judges disagree.")
    ] = False,
    failed_checks: Annotated[
        bool, typer.Option("--failed-checks", help="Planted questions and repeats that a judge failed.")
    ] = False,
    no_verdict: Annotated[
        bool, typer.Option("--no-verdict", help="Matches and checks that lack a verdict.")
    ] = False,
    dimension: Annotated[str | None, typer.Option(help="Only this dimension.")] = None,
    pair: Annotated[
        tuple[str, str] | None, typer.Option(metavar="A B", help="Only matches of these two models.")
    ] = None,
    judge: Annotated[str | None, typer.Option(help="Only verdicts of this judge.")] = None,
    prompt: Annotated[str | None, typer.Option(metavar="ID", help="Only this prompt.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="Show at most this many.")] = 20,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object a line, with whole texts.")
    ] = False,
) -> None:
    """Read what the judges said, match by match.

    Prints the prompt, both responses, and each judge's verdict and reasoning in both orders. With several of
    --flips, --disagreements, --failed-checks and --no-verdict, what fits any of them is shown.
    """
    from tiltyard.report.match_text import match_document
    from tiltyard.runs.match_reader import MatchFilter, read_matches

    wanted = MatchFilter(
        flips=flips,
        disagreements=disagreements,
        failed_checks=failed_checks,
        no_verdict=no_verdict,
        dimension=dimension,
        pair=pair,
        judge=judge,
        prompt_id=prompt,
    )
    found = read_matches(folder, wanted)
    shown = islice(found, limit)
    if as_json:
        for match in shown:
            typer.echo(json.dumps(match_document(match)))
    else:
        _print_pages(_printed(shown, judge))
    if next(found, None) is not None:
        typer.echo(f"There are more than {limit:,}: --limit shows more.", err=True)


def _printed(matches: Iterable[ReadMatch], judge: str | None) -> Iterator[str]:
    from tiltyard.report.match_text import match_lines

    number = 0
    for number, match in enumerate(matches, start=1):
        yield from match_lines(match, number, judge)
    if not number:
        yield "Nothing fits."


def _print_pages(lines: Iterable[str]) -> None:
    """Show the lines page by page where somebody can turn pages, and print them elsewhere."""
    if sys.stdin.isatty() and sys.stdout.isatty():
        import pydoc

        pydoc.pager("\n".join(lines))
        return
    for line in lines:
        typer.echo(line)
