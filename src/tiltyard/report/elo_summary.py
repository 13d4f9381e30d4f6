"""The Elo summary of a tournament: the table that tournament scripts print, and the effect of K as charts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tiltyard.report.board_charts import charts_available, sweep_spec
from tiltyard.report.escapes import escape_controls
from tiltyard.report.html_parts import figure_html, section_html, text_html
from tiltyard.report.run_documents import EloDocument, EloEntry

_TITLE = "Elo summary (mean ± SEM)"
_RULE_CHARACTERS, _NAME_CHARACTERS, _CELL_CHARACTERS = 72, 28, 22
#: Why the summary and the ratings after it differ.
ELO_NOTE = (
    "The Elo summary counts only matches that the same entrant won in both orders, and its ± is the noise of "
    "shuffling them; the Bradley–Terry ratings below count leans and ties too, and their intervals say where the "
    "ratings would lie on other prompts like these."
)


def elo_table(document: EloDocument) -> str:
    """Means and order noise by entrant and dimension, and how many matches were decisive; lines may be long."""
    rule = "=" * _RULE_CHARACTERS
    return "\n".join((rule, _TITLE, rule, *_table_lines(document)))


def _table_lines(document: EloDocument) -> Iterator[str]:
    primary = document["primary"]
    entrants = sorted({name for entries in primary.values() for name in entries})
    if not entrants:
        yield "(no Elo results)"
        return
    head = _line("entrant", primary)
    yield head
    yield "-" * len(head)
    for name in entrants:
        yield _line(name, [_cell(entries.get(name)) for entries in primary.values()])
    yield "-" * len(head)
    counts = document["n_decisive_matches"]
    yield escape_controls(f"decisive matches: {', '.join(f'{name}={counts[name]}' for name in primary)}")


def _line(name: str, cells: Iterable[str]) -> str:
    return f"{escape_controls(name):<{_NAME_CHARACTERS}}" + "".join(
        f" | {cell:>{_CELL_CHARACTERS}}" for cell in cells
    )


def _cell(entry: EloEntry | None) -> str:
    if entry is None:
        return "—"
    error = float("nan") if entry["sem"] is None else entry["sem"]
    return f"{entry['mean']:8.1f} ± {error:5.2f}"


def elo_section(document: EloDocument) -> str:
    """The same for the report, with a chart of each dimension under other values of K."""
    lines = "\n".join(map(text_html, elo_table(document).split("\n")))
    table = f'<div class="wide"><pre>{lines}</pre></div>\n'
    charts = "".join(_figures(document)) if charts_available() else ""
    if charts:
        charts = f'<details class="charts"><summary>Elo under other values of K</summary>\n<div class="figures">{charts}</div>\n</details>\n'
    return section_html("elo", _TITLE, table, f"<p>{text_html(ELO_NOTE)}</p>\n", charts)


def _figures(document: EloDocument) -> Iterator[str]:
    for number, (dimension, by_k) in enumerate(document["k_sensitivity"].items()):
        means = {
            float(k): {name: one["mean"] for name, one in entries.items()} for k, entries in by_k.items()
        }
        if means:
            yield figure_html(f"elo-{number}", f"{dimension}: Elo under other values of K", sweep_spec(means))
