"""Parts of a report, rendered in three ways: in a terminal, as Markdown, and as a page."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from rich.console import Group, RenderableType
from rich.table import Table as RichTable
from rich.text import Text

from tiltyard.report.board_charts import Spec
from tiltyard.report.escapes import escape_controls, markdown_text
from tiltyard.report.html_parts import (
    charts_note,
    figure_html,
    offline_page,
    section_html,
    table_html,
    text_html,
)

#: Readable names of the publication rules, in a sentence and in a column heading.
RULE_NAMES = {
    "top-rd": "median RD",
    "top-pairs": "floors of adjacent pairs",
    "top-coverage": "prompt coverage",
}
RULE_HEADS = {"top-rd": "RD", "top-pairs": "floors met", "top-coverage": "coverage"}

#: Title and spec of charts, by the name of their section.
Charts = Mapping[str, Mapping[str, Spec]]


@dataclass(frozen=True, slots=True)
class ReportTable:
    """A table of texts; its first ``words`` columns contain words, the others numbers."""

    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    words: int = 1


@dataclass(frozen=True, slots=True)
class ReportSection:
    """A heading, its table, and sentences below it."""

    name: str
    title: str
    table: ReportTable
    after: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Report:
    """The parts of a report, in order. The first sentence of the lede is the main result."""

    title: str
    lede: tuple[str, ...]
    sections: tuple[ReportSection, ...]


def report_terminal(report: Report) -> RenderableType:
    """Render for a terminal: the main result highlighted, then tables."""
    shown: list[RenderableType] = [Text(escape_controls(report.title), style="dim"), Text()]
    shown += [Text(escape_controls(line), style="" if k else "bold") for k, line in enumerate(report.lede)]
    for section in report.sections:
        shown += [Text(), Text(escape_controls(section.title), style="bold"), _terminal_table(section.table)]
        shown += [Text(escape_controls(line), style="dim") for line in section.after]
    return Group(*shown)


def _terminal_table(table: ReportTable) -> RichTable:
    drawn = RichTable(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for k, head in enumerate(table.heads):
        drawn.add_column(
            Text(escape_controls(head)), justify="left" if k < table.words else "right", overflow="fold"
        )
    for row in table.rows:
        drawn.add_row(*(Text(escape_controls(cell)) for cell in row))
    return drawn


def report_markdown(report: Report) -> str:
    """Render as Markdown; all text is escaped."""
    first, *others = map(markdown_text, report.lede)
    blocks = [f"# {markdown_text(report.title)}", f"**{first}**", *others]
    for section in report.sections:
        table = section.table
        rules = "|".join(":--" if k < table.words else "--:" for k in range(len(table.heads)))
        head, *rows = (f"| {' | '.join(map(markdown_text, row))} |" for row in (table.heads, *table.rows))
        blocks += [f"## {markdown_text(section.title)}", "\n".join((head, f"|{rules}|", *rows))]
        blocks += map(markdown_text, section.after)
    return "\n\n".join(blocks) + "\n"


def report_page(report: Report, charts: Charts, *, footer: str) -> str:
    """Render as a self-contained page. Without JavaScript, or without charts, the tables remain."""
    first, *others = map(text_html, report.lede)
    lede = "".join(f"<p>{line}</p>\n" for line in (f"<b>{first}</b>", *others))
    body = "".join(_page_section(section, charts.get(section.name, {})) for section in report.sections)
    return offline_page(report.title, f"{lede}{body}{charts_note()}", footer=text_html(footer))


def _page_section(section: ReportSection, charts: Mapping[str, Spec]) -> str:
    """The charts stand below the table."""
    table = table_html(section.table.heads, section.table.rows, words=section.table.words)
    after = "".join(f"<p><small>{text_html(line)}</small></p>\n" for line in section.after)
    figures = "".join(
        figure_html(f"spec-{section.name}-{number}", title, spec)
        for number, (title, spec) in enumerate(charts.items())
    )
    return section_html(section.name, section.title, table, after, figures)
