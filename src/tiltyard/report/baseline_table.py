"""Win rates against a baseline as texts, for a terminal, a report and a notebook."""

from __future__ import annotations

from dataclasses import replace

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from tiltyard.core.board.win_rates import BaselineRow, BaselineRule, BaselineWinRates
from tiltyard.report.html_parts import section_html, table_html, text_html
from tiltyard.report.terminal_escape import escape_controls

_COLUMN_GAP_CHARACTERS = 2
#: How many of the models with one note are named.
_NAMED_MODELS = 10
_RULES: dict[BaselineRule, str] = {
    "battles": "a tie counts half",
    "arena-hard": "each game counts, A>>B three times, as arena-hard counts",
    "alpaca-eval": "mean preference, as alpaca_eval counts",
}
_LENGTH_CONTROLLED = "LC: length-controlled, what the win rate would be if both answers were equally long."


def baseline_title(rates: BaselineWinRates) -> str:
    """What the numbers are, how battles count, and what the intervals speak of."""
    parts = [f"Win rate against {rates.baseline}, in %", _RULES[rates.rule]]
    if rates.level is not None:
        parts.append(f"{100 * rates.level:g}% intervals for {rates.scope}")
    return " · ".join(parts)


def baseline_heads(rates: BaselineWinRates) -> list[str]:
    interval = [] if rates.level is None else ["interval"]
    controlled = ["LC win rate", *interval] if rates.has_lengths else []
    return ["model", "win rate", *interval, *controlled, "battles", "prompts"]


def baseline_cells(rates: BaselineWinRates) -> list[list[str]]:
    """The texts of each row; a dash is a number that the battles do not give."""
    return [_cells(row, rates) for row in rates.rows]


def _cells(row: BaselineRow, rates: BaselineWinRates) -> list[str]:
    cells = [row.model, _percent(row.win_rate)]
    if rates.level is not None:
        cells.append(_range(row.win_rate_low, row.win_rate_high))
    if rates.has_lengths:
        cells.append(_percent(row.length_controlled))
        if rates.level is not None:
            cells.append(_range(row.length_controlled_low, row.length_controlled_high))
    return [*cells, f"{row.battles:,}", "–" if row.prompts is None else f"{row.prompts:,}"]


def baseline_notes(rates: BaselineWinRates) -> list[str]:
    """Why numbers are missing, each reason with its models, and what a heading means."""
    models: dict[str, list[str]] = {}
    for row in rates.rows:
        for note in row.notes:
            models.setdefault(note, []).append(row.model)
    notes = [f"{_named(names)}: {note}." for note, names in models.items()]
    return [*notes, _LENGTH_CONTROLLED] if rates.has_lengths else notes


def _named(names: list[str]) -> str:
    more = len(names) - _NAMED_MODELS
    return ", ".join(names[:_NAMED_MODELS]) + (f" and {more} more" if more > 0 else "")


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{100 * value:.1f}"


def _range(low: float | None, high: float | None) -> str:
    return "–" if low is None or high is None else f"{100 * low:.1f} – {100 * high:.1f}"


def baseline_lines(rates: BaselineWinRates, top: int | None = None) -> RenderableType:
    """The table under a board in a terminal, or its first ``top`` rows."""
    rates = replace(rates, rows=rates.rows[:top])
    gap = (0, _COLUMN_GAP_CHARACTERS, 0, 0)
    table = Table(box=None, pad_edge=False, padding=gap, header_style="bold")
    for head in baseline_heads(rates):
        table.add_column(head, justify="left" if head == "model" else "right", overflow="fold")
    for cells in baseline_cells(rates):
        table.add_row(*(Text(escape_controls(cell)) for cell in cells))
    notes = [escape_controls(note) for note in baseline_notes(rates)]
    return Group(
        Text(escape_controls(baseline_title(rates)), style="bold"),
        "",
        table,
        *(["", *notes] if notes else []),
    )


def baseline_html(rates: BaselineWinRates | None, name: str) -> str:
    """The section of a report; nothing where there is no baseline."""
    if rates is None:
        return ""
    heads = [head[0].upper() + head[1:] for head in baseline_heads(rates)]
    notes = "".join(f"<p><small>{text_html(note)}</small></p>\n" for note in baseline_notes(rates))
    lede = f"<p>{text_html(baseline_title(rates))}</p>\n"
    return section_html(
        name, "Win rate against a baseline", lede, table_html(heads, baseline_cells(rates)), notes
    )
