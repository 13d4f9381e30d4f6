"""Prints rated boards: tables for people, or one document for programs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import typer

from tiltyard.errors import BadOption
from tiltyard.report.terminal_escape import escape_controls

if TYPE_CHECKING:
    from tiltyard.core.board import RatedGroup
    from tiltyard.files import BattleSource
    from tiltyard.runs.battle_rating import RateSettings


def chosen_form(flags: Mapping[str, bool]) -> str | None:
    """The only form that is asked for, or none; two are an error."""
    chosen = [name for name, asked in flags.items() if asked]
    if len(chosen) > 1:
        raise BadOption(f"{' and '.join(f'--{name}' for name in chosen)}: choose one of them")
    return chosen[0] if chosen else None


@dataclass(frozen=True)
class BoardOutput:
    """What is printed of the boards: a table, or a document; all models, or the first ``top`` of each board."""

    form: str | None
    top: int | None

    def print_boards(
        self, groups: Sequence[RatedGroup], settings: RateSettings, evaluated: frozenset[str] | None
    ) -> None:
        """Print to standard output; beside a document without findings, these go to standard error."""
        if self.form is None:
            self._print_tables(groups)
            return
        if self.form == "json":
            from tiltyard.runs.rating_documents import ratings_json

            text = ratings_json(groups, settings, evaluated, top=self.top) + "\n"
        else:
            text = self._text(groups)
            self._print_notes(groups)
        typer.echo(text, nl=False)

    def print_message(self, text: str) -> None:
        """Print to standard output, or beside a document to standard error."""
        typer.echo(text, err=self.form is not None)

    def _text(self, groups: Sequence[RatedGroup]) -> str:
        from tiltyard.report.board_formats import boards_csv, boards_latex, boards_markdown

        forms = {"csv": boards_csv, "markdown": boards_markdown, "latex": boards_latex}
        shown = [
            replace(rated, board=replace(rated.board, rows=rated.board.rows[: self.top])) for rated in groups
        ]
        return forms[self.form or ""](shown)

    def _print_tables(self, groups: Sequence[RatedGroup]) -> None:
        from tiltyard.report.terminal import Terminal, rated_lines

        console = Terminal()
        for rated in groups:
            console.print()
            console.print(rated_lines(rated, width=console.width, top=self.top))

    def _print_notes(self, groups: Sequence[RatedGroup]) -> None:
        from tiltyard.report.board_cells import left_out_sentence
        from tiltyard.report.terminal import Terminal, findings_list

        console = Terminal(stderr=True)
        for rated in groups:
            left_out = left_out_sentence(rated.board, self.top)
            if rated.name is not None and (left_out or rated.board.findings):
                console.print(f"{escape_controls(rated.name)}:")
            if left_out:
                console.print(left_out)
            if rated.board.findings:
                console.print(findings_list(rated.board.findings))


def print_notes(sources: Sequence[BattleSource]) -> None:
    """Say on standard error what was left out of the input."""
    for source in sources:
        for reason, count in source.notes:
            typer.echo(escape_controls(f"{source.path}: {count} left out: {reason}"), err=True)
