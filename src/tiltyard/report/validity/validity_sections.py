"""The sections of a validity report, before they are rendered as Markdown or a page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from tiltyard.core.policy.validity.report import ValidityReport
from tiltyard.core.policy.validity.report.report_records import EvaluationRecord
from tiltyard.core.policy.validity.rules import Rule
from tiltyard.report.report_parts import RULE_HEADS, RULE_NAMES, ReportSection, ReportTable
from tiltyard.report.validity.ranking_sections import (
    churn_section,
    confidence_section,
    exploration_section,
    pairs_section,
)
from tiltyard.report.validity.serving_sections import fairness_section, lanes_section, matchups_section
from tiltyard.report.validity.validity_text import format_date, limited_table


def validity_sections(report: ValidityReport) -> tuple[ReportSection, ...]:
    """All sections in reading order."""
    return (
        _rules(report),
        fairness_section(report),
        lanes_section(report),
        matchups_section(report),
        pairs_section(report),
        confidence_section(report),
        churn_section(report),
        exploration_section(report),
        _method(report),
    )


def status_sentence(report: ValidityReport) -> str:
    """Official or calibrating, and why."""
    found = report.publication
    if found.official:
        return (
            f"Official since {found.official_since:,} votes: all rules have held at the last "
            f"{found.in_a_row:,} evaluations."
        )
    failing = sum(not rule.holds for rule in found.rules)
    now = f"{failing} of {len(found.rules)} rules fail now" if failing else "all rules hold now"
    was = "" if found.first_official is None else f" It was first official at {found.first_official:,} votes."
    return (
        f"Calibrating: {now}, and all have held at {found.in_a_row} of the {found.evaluations} evaluations in a row "
        f"that are needed.{was}"
    )


def span_sentence(report: ValidityReport) -> str:
    """The span that the report covers."""
    span = report.span
    arena = f"{report.n_enabled:,} of {report.n_models:,} models enabled, {report.n_prompts:,} prompts"
    if not span.events:
        return f"Nothing happened in this span, before which there are {span.votes_before:,} votes; {arena}."
    times = f"{format_date(span.first_time)} to {format_date(span.last_time)}: " if span.by == "time" else ""
    return (
        f"{times}{span.events:,} events of the log, "
        f"{span.votes - span.votes_before:,} votes of {span.votes:,} so far; {arena}."
    )


def _rules(report: ValidityReport) -> ReportSection:
    found = report.publication
    table = ReportTable(
        ("Rule", "Holds", "Value", "Bar", "Votes missing"),
        tuple(
            (
                rule.text,
                "yes" if rule.holds else "no",
                _value(rule, rule.value),
                f"{'≤' if rule.at_most else '≥'} {_value(rule, rule.bar)}",
                "–" if rule.missing is None else f"{rule.missing:,}" if rule.holds else f"≈ {rule.missing:,}",
            )
            for rule in found.rules
        ),
        words=2,
    )
    sentences = (
        (
            f"The rules are evaluated every {found.evaluated_every:,} votes; a board is official once all of them "
            f"have held {found.evaluations} times in a row. Values here are those at the end of the span; missing votes "
            "are those of the whole arena, at its current mix of lanes."
        ),
        *(f"{_named(rule)}: {rule.detail}." for rule in found.rules if rule.detail),
    )
    return ReportSection("rules", "Rules of publication", sentences, (table, _history(report)))


def _named(rule: Rule) -> str:
    name = RULE_NAMES.get(rule.name, rule.name)
    return name[0].upper() + name[1:]


def _history(report: ValidityReport) -> ReportTable:
    found = report.publication
    heads = ("Votes", "Time", *(RULE_HEADS.get(rule.name, rule.name) for rule in found.rules), "Status")
    timed = report.span.by == "time"
    rows = [
        (
            f"{look.votes:,}",
            format_date(look.time) if timed else "–",
            *_looked(found.rules, look),
            "official" if look.official else "calibrating",
        )
        for look in reversed(found.history)
    ]
    return limited_table("Evaluations, newest first", heads, rows, words=2, folded=True)


def _looked(rules: Sequence[Rule], look: EvaluationRecord) -> list[str]:
    return [
        _value(rule, value) + (" ✓" if holds else " ✗")
        for rule, value, holds in zip(rules, look.values, look.holds, strict=True)
    ]


def _value(rule: Rule, value: float | None) -> str:
    """Shares with three decimals, everything else with at most one."""
    if value is None:
        return "–"
    counted = value.is_integer() and rule.bar.is_integer()
    return f"{value:.3f}" if rule.bar <= 1.0 and not counted else f"{value:,.1f}".removesuffix(".0")


def _method(report: ValidityReport) -> ReportSection:
    rater = {
        f"{method}.{name}": value
        for method in ("glicko2", "online")
        for name, value in asdict(getattr(report.rater, method)).items()
    }
    rater |= {"elo_start": report.rater.elo_start, "elo_k": report.rater.elo_k}
    tables = tuple(
        ReportTable(
            ("Parameter", "Value"),
            tuple((name, repr(value)) for name, value in found.items()),
            title=title,
            folded=True,
        )
        for title, found in (("Policy", asdict(report.policy)), ("Ratings", rater))
    )
    sentence = "Every number here follows from the arena's log up to the last row named above, and from these parameters."
    return ReportSection("method", "How it was made", (sentence,), tables)
