"""Sections about the ranking: pairs, confidence, churn, the exploration lane alone."""

from __future__ import annotations

from tiltyard.core.policy.validity.report import ValidityReport
from tiltyard.core.policy.validity.report.report_records import Churn, ModelConfidence
from tiltyard.report.report_parts import ReportSection, ReportTable
from tiltyard.report.validity.validity_text import (
    format_before,
    format_count,
    format_share,
    format_times,
    limited_table,
)


def pairs_section(report: ValidityReport) -> ReportSection:
    """Vote floors of neighbours, and which pairs have met."""
    found = report.pairs
    undecided = (
        f" {found.indistinguishable} are indistinguishable so far: after enough votes, voters have not shown a preference."
        if found.indistinguishable
        else ""
    )
    sentences = (
        (
            f"{found.met} of {len(found.adjacent)} adjacent pairs of the top {report.policy.published_top} have their floor"
            f"{format_before(found.met_before)}; {found.needed} are needed.{undecided}"
        ),
        (
            f"Of {found.pairs:,} pairs of enabled models that share a prompt, {found.pairs_tried:,} have met"
            f"{format_before(found.pairs_tried_before)} and {found.pairs_decided:,} have {report.policy.pair_floor} decisive votes or "
            f"more{format_before(found.pairs_decided_before)}."
        ),
    )
    rows = tuple(
        (
            row.above,
            row.below,
            f"{row.votes:,}",
            f"{row.prompts:,}",
            f"{row.votes_needed} on {row.prompts_needed}",
            f"{row.attempts:,}",
            "met" if row.met else "indistinguishable so far" if row.indistinguishable else "short",
        )
        for row in found.adjacent
    )
    heads = ("Above", "Below", "Decisive", "On prompts", "Needed", "Votes of any kind", "Floor")
    return ReportSection("pairs", "Pair completeness", sentences, (ReportTable(heads, rows, words=2),))


def confidence_section(report: ValidityReport) -> ReportSection:
    """RD, scores and coverage, and their changes."""
    found, cells = report.confidence, report.coverage
    band = "–" if cells.band_share is None else f"{cells.band_share:.1%}"
    sentences = (
        (
            f"The median RD of the top {found.top} is {format_count(found.median_rd)}{format_before(found.median_rd_before)}. RD is the "
            "policy's measure of uncertainty, not an interval. Swing is how far the conservative score moved between "
            "the span's evaluations."
        ),
        (
            f"{cells.filled:,} of {cells.eligible:,} cells of model and prompt are filled, and {cells.exhausted:,} are "
            f"exhausted; of the contender band's cells, {band} have the band's {cells.band_floor} decisive votes."
        ),
    )
    heads = (
        "Model",
        "Place",
        "Was",
        "Score",
        "Change",
        "Swing",
        "RD",
        "RD was",
        "Coverage",
        "With exhausted",
    )
    rows = [_confident(row) for row in found.models]
    return ReportSection(
        "confidence", "Confidence", sentences, (limited_table("", heads, rows), _moments(report))
    )


def _confident(row: ModelConfidence) -> tuple[str, ...]:
    return (
        row.model,
        f"{row.place}",
        format_count(row.place_before),
        format_count(row.score),
        "–" if row.score_before is None else f"{row.score - row.score_before:+.0f}",
        format_count(row.swing),
        format_count(row.rd),
        format_count(row.rd_before),
        "–" if row.coverage is None else f"{row.coverage:.0%}",
        "–" if row.adjusted_coverage is None else f"{row.adjusted_coverage:.0%}",
    )


def _moments(report: ValidityReport) -> ReportTable:
    """RD and score of the top at each evaluation."""
    found = report.confidence
    top = [row.model for row in found.models[: found.top]]
    by_votes: dict[int, dict[str, str]] = {}
    for moment in found.moments:
        by_votes.setdefault(moment.votes, {})[moment.model] = f"{moment.score:.0f} ({moment.rd:.0f})"
    rows = [
        (f"{votes:,}", *(row.get(model, "–") for model in top)) for votes, row in reversed(by_votes.items())
    ]
    return limited_table("Score (RD) of the top by votes, newest first", ("Votes", *top), rows, folded=True)


def churn_section(report: ValidityReport) -> ReportSection:
    """Changes of order at the top."""
    found = report.churn
    pairs = [
        (row.model, row.other, f"{row.times}", f"{row.beyond}", f"{row.far_beyond}") for row in found.pairs
    ]
    rows = [
        (f"{step.votes:,}", f"{step.places}", "yes" if step.first else "", f"{step.swaps}", f"{step.beyond}")
        for step in reversed(found.steps)
    ]
    return ReportSection(
        "churn",
        "Churn at the top",
        _churned(found),
        (
            limited_table(
                "Pairs that changed order",
                ("Model", "Other", "Times", "Beyond ± RD", "Beyond ± 2·RD"),
                pairs,
                words=2,
            ),
            limited_table(
                "Steps, newest first",
                ("Votes", "Places changed", "First changed", "Swaps", "Beyond"),
                rows,
                folded=True,
            ),
        ),
    )


def _churned(found: Churn) -> tuple[str, ...]:
    steps = len(found.steps)
    if not steps:
        return ("Fewer than two evaluations: nothing to compare.",)
    first, places, swaps, beyond = (
        sum(getattr(step, name) for step in found.steps) for name in ("first", "places", "swaps", "beyond")
    )
    return (
        (
            f"Over {steps} steps from one evaluation to the next, the first place changed {format_times(first)}, and "
            f"{places / steps:.1f} of the first {found.top} places changed at a step."
        ),
        (
            f"Pairs of the top that changed order: {swaps - beyond} within their bands of rating ± RD, {beyond} beyond. "
            "A change within the bands is within the uncertainty that the board states."
        ),
    )


def exploration_section(report: ValidityReport) -> ReportSection:
    """The board of the exploration lane, compared with the official one."""
    found = report.exploration
    sentences = [
        (
            "The other lanes choose by ratings or by what is missing, the exploration lane by exposures only. This is "
            "Bradley–Terry on its votes alone, since the log began: "
            f"{found.votes:,} votes on {found.prompts:,} prompts."
        )
    ]
    if found.pairs:
        sentences.append(
            f"{format_share(found.same_order, found.pairs)} of {found.pairs:,} pairs have the same order as on the official board; "
            f"{len(found.reversed):,} are contradicted beyond the lane's uncertainty (all pairs at once, {found.level:.0%})."
        )
    else:
        sentences.append("It cannot place two models yet.")
    if found.unplaced:
        sentences.append(f"{len(found.unplaced):,} enabled models cannot be placed by it yet.")
    rows = [
        (
            row.model,
            f"{row.place}",
            f"{row.official_place}",
            f"{row.rating:.0f}",
            "–" if row.low is None or row.high is None else f"{row.low:.0f} – {row.high:.0f}",
        )
        for row in found.models
    ]
    reverse = [(row.below, row.above, f"{row.gap:.0f}") for row in found.reversed]
    heads = ("Model", "Place here", "Official", "Rating here", f"{found.level:.0%} interval")
    tables = [limited_table("", heads, rows)]
    if reverse:
        tables.append(
            limited_table("Contradicted", ("Above here", "Above officially", "Points"), reverse, words=2)
        )
    return ReportSection("exploration", "The exploration lane alone", tuple(sentences), tuple(tables))
