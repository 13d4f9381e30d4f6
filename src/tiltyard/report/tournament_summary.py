"""The final summary of a tournament in a terminal: ratings by dimension, what was left out, and costs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Literal

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from tiltyard.core.board import RatedGroup, Row
from tiltyard.core.ratings import Finding
from tiltyard.report.costs_section import cache_warning, format_dollar_text
from tiltyard.report.run_documents import ActualCosts, CostsDocument, DiagnosticsDocument, PlaceCosts
from tiltyard.report.terminal import findings_list
from tiltyard.report.terminal_escape import escape_controls

_TokenCount = Literal["input_tokens", "output_tokens", "cache_write_tokens", "cache_read_tokens"]
_Count = Literal["questions", "from_cache", "calls", _TokenCount]
_MATCH_COUNTS: tuple[Literal["matches", "settled", "decisive", "incomplete"], ...] = (
    "matches",
    "settled",
    "decisive",
    "incomplete",
)
_TOKENS: Mapping[_TokenCount, str] = {
    "input_tokens": "tokens in",
    "output_tokens": "out",
    "cache_write_tokens": "written",
    "cache_read_tokens": "read",
}


def tournament_summary(
    groups: Sequence[RatedGroup], diagnostics: DiagnosticsDocument, costs: CostsDocument
) -> RenderableType:
    """Ratings with intervals, decisive and incomplete matches, tokens and dollars, and findings.

    ``diagnostics`` and ``costs`` are the documents of those names.
    """
    parts: list[RenderableType] = [Text("Ratings, with 95 % intervals", style="bold"), "", _ratings(groups)]
    parts += ["", Text("Matches", style="bold"), "", _matches(diagnostics), *_dropped(diagnostics)]
    parts += ["", Text("Calls and tokens", style="bold"), "", _calls(costs), _paid(costs["actual"])]
    found = [Finding.from_dict(one) for one in diagnostics["findings"]]
    idle = cache_warning(costs)
    found += [] if idle is None else [idle]
    if found:
        parts += ["", findings_list(tuple(found))]
    for names, several in _by_dimension(groups).items():
        parts += [
            "",
            Text(f"{escape_controls(', '.join(names))}:", style="bold"),
            findings_list(tuple(several)),
        ]
    return Group(*parts)


def _by_dimension(groups: Sequence[RatedGroup]) -> dict[tuple[str, ...], list[Finding]]:
    """Findings of the ratings without duplicates, by the dimensions that have them."""
    where: dict[Finding, dict[str, None]] = {}
    for rated in groups:
        for finding in rated.board.findings:
            where.setdefault(finding, {})[rated.name or "all"] = None
    found: dict[tuple[str, ...], list[Finding]] = {}
    for finding, names in where.items():
        found.setdefault(tuple(names), []).append(finding)
    return found


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for k, head in enumerate(heads):
        table.add_column(
            Text(escape_controls(head)), justify="left" if k == 0 else "right", overflow="fold", no_wrap=k > 0
        )
    for row in rows:
        table.add_row(*(Text(escape_controls(cell)) for cell in row))
    return table


def _ratings(groups: Sequence[RatedGroup]) -> RenderableType:
    """One row per model, sorted by the last group; one column per group."""
    if not groups:
        return Text("No match has a result: there is nothing to rate.")
    boards = [{row.model: row for row in rated.board.rows} for rated in groups]
    models = list(dict.fromkeys(model for board in reversed(boards) for model in board))
    heads = ("entrant", *(rated.name or "all" for rated in groups))
    return _table(heads, [[model, *(_cell(board.get(model)) for board in boards)] for model in models])


def _cell(row: Row | None) -> str:
    if row is None or row.rating is None:
        return "–"
    interval = "" if row.low is None or row.high is None else f" [{row.low:.0f}, {row.high:.0f}]"
    label = "" if row.placed is None else f" ({row.placed})"
    return f"{row.rating:.0f}{interval}{label}"


def _matches(diagnostics: DiagnosticsDocument) -> RenderableType:
    rows = [
        [dimension, *(f"{one[name]:,}" for name in _MATCH_COUNTS), f"{one['labels']['inconsistent']:,}"]
        for dimension, one in diagnostics["matches"].items()
    ]
    return _table(("dimension", *_MATCH_COUNTS, "inconsistent"), rows)


def _dropped(diagnostics: DiagnosticsDocument) -> list[RenderableType]:
    dropped = diagnostics["dropped_pairs"]
    return [Text(f"{dropped:,} pairs dropped: a response is missing.", style="dim")] if dropped else []


def _calls(costs: CostsDocument) -> RenderableType:
    """Sums by dimension, over all judges; prompt cache columns only if the cache was used."""
    places = costs["by_judge_and_dimension"]
    tokens = {name: head for name, head in _TOKENS.items() if _touched(name, places)}
    names: list[_Count] = ["questions", "from_cache", "calls", *tokens]
    rows = []
    for dimension in dict.fromkeys(one["dimension"] for one in places):
        mine = [one for one in places if one["dimension"] == dimension]
        counts = (_sum([one[name] for one in mine]) for name in names)
        rows.append([dimension or "(none)", *counts, format_dollar_text(_usd([one["usd"] for one in mine]))])
    return _table(("dimension", "questions", "cached", "calls", *tokens.values(), "dollars"), rows)


def _touched(name: _TokenCount, places: Sequence[PlaceCosts]) -> bool:
    return not name.startswith("cache_") or any(one[name] for one in places)


def _sum(values: Sequence[int | None]) -> str:
    known = [value for value in values if value is not None]
    return f"{sum(known):,}" if known else "–"


def _usd(texts: Sequence[str | None]) -> str | None:
    """The sum of decimal texts; unknown if one of them is."""
    known = [Decimal(text) for text in texts if text is not None]
    return str(sum(known, Decimal(0))) if len(known) == len(texts) else None


def _paid(actual: ActualCosts) -> RenderableType:
    lost = actual["paid_and_lost"]
    text = f"Paid: {format_dollar_text(actual['usd'])}"
    if lost["calls"]:
        text += f"; paid and lost: {lost['calls']:,} calls, {format_dollar_text(lost['usd'])}"
    flying = actual["in_flight"]
    if flying["calls"]:
        text += f"; still in flight: {flying['calls']:,} calls, at most {format_dollar_text(flying['reserved_usd'])}"
    return Text(f"{text}.", style="bold")
