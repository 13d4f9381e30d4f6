"""Parts of a report, rendered in three ways: in a terminal, as Markdown, and as a page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from rich.console import Group, RenderableType
from rich.table import Table as RichTable
from rich.text import Text

from tiltyard.core.ratings.findings import Finding
from tiltyard.report.board_charts import Spec
from tiltyard.report.html_parts import findings_html, section_html, table_html, text_html
from tiltyard.report.markdown_escape import markdown_text
from tiltyard.report.page_shell import charts_note, figure_html, offline_page
from tiltyard.report.terminal import findings_list
from tiltyard.report.terminal_escape import escape_controls

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
    """A table of texts; its first ``words`` columns contain words, the others numbers.

    A table without rows is not shown. A ``folded`` table is optional detail: a page shows it
    collapsed, a terminal leaves it out.
    """

    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    words: int = 1
    title: str = ""
    folded: bool = False
    #: The number of rows that were left out.
    more: int = 0


@dataclass(frozen=True, slots=True)
class ReportSection:
    """A heading, its sentences, and its tables."""

    name: str
    title: str
    before: tuple[str, ...] = ()
    tables: tuple[ReportTable, ...] = ()
    after: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Report:
    """The parts of a report, in order. The first sentence of the lede is the main result."""

    title: str
    lede: tuple[str, ...]
    sections: tuple[ReportSection, ...]
    findings: tuple[Finding, ...] = ()


def report_terminal(report: Report) -> RenderableType:
    """Render for a terminal: the main result highlighted, then tables."""
    shown: list[RenderableType] = [Text(escape_controls(report.title), style="dim"), Text()]
    shown += [Text(escape_controls(line), style="" if k else "bold") for k, line in enumerate(report.lede)]
    if report.findings:
        shown += [Text(), findings_list(report.findings)]
    for section in report.sections:
        shown += [Text(), Text(escape_controls(section.title), style="bold")]
        shown += [Text(escape_controls(line)) for line in section.before]
        for table in section.tables:
            shown += _terminal_table(table)
        shown += [Text(escape_controls(line), style="dim") for line in section.after]
    return Group(*shown)


def _terminal_table(table: ReportTable) -> Iterator[RenderableType]:
    if not table.rows or table.folded:
        return
    if table.title:
        yield Text(escape_controls(table.title))
    drawn = RichTable(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for k, head in enumerate(table.heads):
        drawn.add_column(
            Text(escape_controls(head)), justify="left" if k < table.words else "right", overflow="fold"
        )
    for row in table.rows:
        drawn.add_row(*(Text(escape_controls(cell)) for cell in row))
    yield drawn
    if table.more:
        yield Text(_more(table), style="dim")


def report_markdown(report: Report) -> str:
    """Render as Markdown; all text is escaped."""
    return "\n\n".join(_markdown_blocks(report)) + "\n"


def _markdown_blocks(report: Report) -> Iterator[str]:
    yield f"# {markdown_text(report.title)}"
    first, *others = map(markdown_text, report.lede)
    yield from (f"**{first}**", *others)
    if report.findings:
        yield "\n".join(
            f"- **{markdown_text(one.name)}**: {markdown_text(one.text)} {markdown_text(one.advice)}"
            for one in report.findings
        )
    for section in report.sections:
        yield f"## {markdown_text(section.title)}"
        yield from map(markdown_text, section.before)
        for table in section.tables:
            yield from _markdown_table(table)
        yield from map(markdown_text, section.after)


def _markdown_table(table: ReportTable) -> Iterator[str]:
    if not table.rows:
        return
    if table.title:
        yield f"### {markdown_text(table.title)}"
    rules = "|".join(":--" if k < table.words else "--:" for k in range(len(table.heads)))
    head, *rows = (f"| {' | '.join(map(markdown_text, row))} |" for row in (table.heads, *table.rows))
    yield "\n".join((head, f"|{rules}|", *rows))
    if table.more:
        yield f"*{_more(table)}*"


def report_page(report: Report, charts: Charts, *, footer: str) -> str:
    """Render as a self-contained page. Without JavaScript, or without charts, the tables remain."""
    first, *others = map(text_html, report.lede)
    lede = "".join(f"<p>{line}</p>\n" for line in (f"<b>{first}</b>", *others))
    findings = findings_html(report.findings)
    body = "".join(_page_section(section, charts.get(section.name, {})) for section in report.sections)
    return offline_page(report.title, f"{lede}{findings}{body}{charts_note()}", footer=text_html(footer))


def _page_section(section: ReportSection, charts: Mapping[str, Spec]) -> str:
    """Charts are placed between the open and the folded tables."""
    before = "".join(f"<p>{text_html(line)}</p>\n" for line in section.before)
    after = "".join(f"<p><small>{text_html(line)}</small></p>\n" for line in section.after)
    figures = "".join(
        figure_html(f"spec-{section.name}-{number}", title, spec)
        for number, (title, spec) in enumerate(charts.items())
    )
    open_, folded = (
        "".join(_page_table(t) for t in section.tables if t.folded is kind) for kind in (False, True)
    )
    return section_html(section.name, section.title, before, open_, after, figures, folded)


def _page_table(table: ReportTable) -> str:
    if not table.rows:
        return ""
    more = f"<p><small>{_more(table)}</small></p>\n" if table.more else ""
    body = table_html(table.heads, table.rows, words=table.words) + more
    if table.folded:
        return f"<details><summary>{text_html(table.title)}</summary>{body}</details>\n"
    return (f"<h3>{text_html(table.title)}</h3>\n" if table.title else "") + body


def _more(table: ReportTable) -> str:
    return f"{table.more:,} more."
