"""The validity report as Markdown, and as a self-contained page."""

from __future__ import annotations

from tiltyard.core.policy.validity.report import ValidityReport
from tiltyard.report.board_charts import charts_available
from tiltyard.report.report_parts import Report, report_markdown, report_page
from tiltyard.report.validity.validity_charts import validity_charts
from tiltyard.report.validity.validity_sections import span_sentence, status_sentence, validity_sections

_FOOTER = "Every number here follows from the arena's log."


def validity_markdown(report: ValidityReport, *, title: str = "Validity report") -> str:
    """The report as Markdown: the status first, then the findings, the rules, and everything else."""
    return report_markdown(_told(report, title))


def validity_page(report: ValidityReport, *, title: str = "Validity report") -> str:
    """The report as a page with charts next to their tables."""
    charts = validity_charts(report) if charts_available() else {}
    return report_page(_told(report, title), charts, footer=_FOOTER)


def _told(report: ValidityReport, title: str) -> Report:
    lede = (status_sentence(report), span_sentence(report))
    return Report(title, lede, validity_sections(report), report.findings)
