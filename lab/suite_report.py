"""The report of the policy suite: measured figures, requirements, and other matchmakers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import RenderableType

from lab.suite_charts import AT_LEAST, AT_MOST, suite_charts
from tiltyard.report.board_charts import charts_available, render_svg
from tiltyard.report.report_parts import (
    Report,
    ReportSection,
    ReportTable,
    report_markdown,
    report_page,
    report_terminal,
)

Document = Mapping[str, Any]

_VERDICTS = {True: "holds", False: "missed", None: "–"}
_SMALL = "A dash: runs of this size cannot decide. --size full can, in hours."
_UNDECIDED = "A dash: these runs cannot decide; the bar asks for more seeds."
_FOOTER = "Figures come from simulated worlds of known truth. suite.json holds every number."


def suite_tables(suite: Document) -> RenderableType:
    """Everything that `just suite` prints."""
    return report_terminal(_report(suite))


def suite_markdown(suite: Document) -> str:
    return report_markdown(_report(suite))


def suite_page(suite: Document) -> str:
    charts = suite_charts(suite) if charts_available() else {}
    return report_page(_report(suite), charts, footer=_FOOTER)


def suite_svgs(suite: Document) -> dict[str, str]:
    """Charts as images, by file name; empty without the extra `plots`."""
    if not charts_available():
        return {}
    names = {AT_MOST: "suite-at-most.svg", AT_LEAST: "suite-at-least.svg"}
    drawn = suite_charts(suite)["bars"].items()
    return {names[title]: render_svg(spec | {"background": "white"}).decode() for title, spec in drawn}


def _report(suite: Document) -> Report:
    title = f"The ranking policy against its bars, {suite['size']} size"
    return Report(title, tuple(_lede(suite)), tuple(_sections(suite)))


def _lede(suite: Document) -> list[str]:
    verdicts = [bar["holds"] for bar in suite["bars"]]
    counts = {"missed": verdicts.count(False), "not decided": verdicts.count(None)}
    others = "".join(f", {count} {word}" for word, count in counts.items() if count)
    missed = [bar["name"] for bar in suite["bars"] if bar["holds"] is False]
    found = f"{verdicts.count(True)} of {len(verdicts)} bars hold{others}."
    return [found, f"Missed: {', '.join(missed)}."] if missed else [found]


def _sections(suite: Document) -> list[ReportSection]:
    sections = [_bars_section(suite), *_beside_sections(suite), _meaning_section(suite)]
    return [section for section in sections if section.table.rows]


def _bars_section(suite: Document) -> ReportSection:
    rows = tuple(
        (
            bar["name"],
            _figure(bar["figure"]),
            _interval(bar),
            bar["asked"],
            _VERDICTS[bar["holds"]],
            f"{bar['n']:,}",
        )
        for bar in suite["bars"]
    )
    undecided = any(bar["holds"] is None for bar in suite["bars"])
    note = _SMALL if suite["size"] == "small" else _UNDECIDED
    return ReportSection(
        "bars",
        "Bars",
        ReportTable(("row", "figure", "95% interval", "asked", "verdict", "seeds"), rows),
        after=(note,) if undecided else (),
    )


def _beside_sections(suite: Document) -> list[ReportSection]:
    """Other matchmakers in one table, other conditions in another."""
    others = ("v1", "uniform", "nearest", "thompson")
    makers = tuple(
        (
            bar["name"],
            _figure(bar["beside"].get("policy", bar["figure"])),
            *(_figure(bar["beside"].get(name)) for name in others),
        )
        for bar in suite["bars"]
        if set(others) & set(bar["beside"])
    )
    rest = tuple(
        (bar["name"], name, _figure(value))
        for bar in suite["bars"]
        for name, value in bar["beside"].items()
        if name not in (*others, "policy")
    )
    return [
        ReportSection(
            "matchmakers",
            "Matchmakers on the same worlds",
            ReportTable(("row", "policy", *others), makers),
        ),
        ReportSection("beside", "Beside it", ReportTable(("row", "condition", "figure"), rest, words=2)),
    ]


def _meaning_section(suite: Document) -> ReportSection:
    rows = tuple((bar["name"], bar["text"]) for bar in suite["bars"])
    return ReportSection("meaning", "What each row measures", ReportTable(("row", "measures"), rows, words=2))


def _figure(value: float | None) -> str:
    """Votes and points as whole numbers, shares with three digits."""
    if value is None:
        return "–"
    return (
        f"{value:,.0f}" if abs(value) >= 100.0 else f"{value:.1f}" if abs(value) >= 10.0 else f"{value:.3f}"
    )


def _interval(bar: Document) -> str:
    if bar["low"] is None and bar["high"] is None:
        return ""
    return f"{_figure(bar['low'])} to {_figure(bar['high'])}"
