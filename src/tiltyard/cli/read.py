"""``tiltyard read``: what the judges said, match by match."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from tiltyard.report.match_text import ReadMatch


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
        _print_json(shown)
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


def _print_json(matches: Iterable[ReadMatch]) -> None:
    from tiltyard.report.match_text import match_document

    for match in matches:
        typer.echo(json.dumps(match_document(match)))
