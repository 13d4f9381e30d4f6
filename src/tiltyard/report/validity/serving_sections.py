"""Sections about serving: fairness, lanes, matchups and sides."""

from __future__ import annotations

from collections.abc import Iterable

from tiltyard.core.policy.validity.report import ValidityReport
from tiltyard.core.policy.validity.report.report_records import MatchupCounts, ModelExposure, SideBalance
from tiltyard.core.policy.validity.serving_fairness import ExposureDeviation
from tiltyard.report.report_parts import ReportSection, ReportTable
from tiltyard.report.validity.validity_text import format_share, limited_table


def fairness_section(report: ValidityReport) -> ReportSection:
    """Exposures compared with each model's target."""
    found = report.fairness
    what = "outside the contender lane (scoped fairness)" if found.mode == "scoped" else "of every lane"
    sentences = [
        (
            f"Each enabled model is due an equal share of the last {found.window:,} matchups, counting exposures {what}; "
            f"it may stray by {report.policy.tolerance:.0%} of its target, and always by {report.policy.tolerance_least:g}."
        ),
        (
            f"Of {found.windows:,} windows that ended in the span, {found.outside:,} had a model outside tolerance. "
            f"The tolerance is promised in settled windows (full, and of one roster): {found.settled_outside:,} of "
            f"{found.settled:,}."
        ),
    ]
    if found.widest is not None:
        sentences.append(f"Largest deviation in the span: {_strain(found.widest)}.")
    if found.widest_now is not None:
        sentences.append(f"Largest deviation at its end: {_strain(found.widest_now)}.")
    heads = ("Model", "Exposures", "Target", "Tolerance", "Deviation", "Contender lane", "Within")
    rows = [_exposure(row) for row in by_deviation(found.models)]
    return ReportSection(
        "fairness",
        "Exposure fairness",
        tuple(sentences),
        (limited_table("Every model, furthest from its target first", heads, rows, folded=True),),
    )


def by_deviation(models: Iterable[ModelExposure]) -> list[ModelExposure]:
    """Sorted by distance from the target in tolerances, largest first; retired models last."""
    return sorted(
        models,
        key=lambda row: (not row.enabled, -abs(row.exposures - row.target) / max(row.tolerance, 1e-9)),
    )


def _exposure(row: ModelExposure) -> tuple[str, ...]:
    within = "no" if row.outside else "yes"
    return (
        row.model,
        f"{row.exposures:,}",
        f"{row.target:,.1f}",
        f"± {row.tolerance:.1f}",
        "–" if row.deviation is None else f"{row.deviation:+.1%}",
        f"{row.contender:,}",
        within if row.enabled else "retired",
    )


def _strain(one: ExposureDeviation) -> str:
    share = f" ({(one.exposures - one.target) / one.target:+.1%})" if one.target else ""
    return (
        f"{one.model} with {one.exposures:,} exposures against {one.target:,.1f}{share}, "
        f"{one.strain:.0%} of its tolerance, at matchup {one.served:,}"
    )


def lanes_section(report: ValidityReport) -> ReportSection:
    """Lanes drawn and lanes used, compared with their weights."""
    found = report.lanes
    sentences = [
        (
            f"{found.gave_way:,} of {found.matchups:,} matchups were chosen by another lane than the one drawn: the fairness "
            "controller took precedence, or the lane found no pair."
        )
    ]
    if report.fairness.mode == "strict":
        fits = "fits" if found.feasible else "does not fit: the lane gets less, and fairness is kept"
        sentences.append(
            f"With {report.n_enabled:,} models, fairness leaves the contender lane at most "
            f"{found.contender_ceiling:.1%}; its weight {fits}."
        )
    rows = tuple(
        (
            row.lane,
            f"{row.target:.1%}",
            format_share(row.nominal, found.matchups),
            format_share(row.realised, found.matchups),
            f"{row.realised:,}",
        )
        for row in found.lanes
    )
    table = ReportTable(("Lane", "Target", "Drawn", "Realised", "Matchups"), rows)
    return ReportSection("lanes", "Lane mix", tuple(sentences), (table,))


def matchups_section(report: ValidityReport) -> ReportSection:
    """How matchups ended, and on which side models were shown."""
    sides = report.sides
    by_model = [
        (
            row.model,
            f"{row.exposures:,}",
            f"{row.left:,}",
            format_share(row.left, row.exposures),
            f"{row.z:+.2f}",
        )
        for row in sorted(sides.models, key=lambda row: -abs(row.z))
    ]
    return ReportSection(
        "matchups",
        "Matchups and sides",
        _sides(sides),
        (
            ReportTable(("", "Matchups", "Of those served"), _ended(report.matchups)),
            limited_table(
                "Sides by model", ("Model", "Exposures", "Left", "Share", "z"), by_model, folded=True
            ),
        ),
    )


def _sides(sides: SideBalance) -> tuple[str, ...]:
    if not sides.models:
        return ("Nothing was served.",)
    worst = max(sides.models, key=lambda row: abs(row.z))
    return (
        (
            f"The left won {format_share(sides.left_wins, sides.decisive)} of the decisive votes: the voters' preference "
            "for a side. It cancels out as long as sides are assigned at random."
        ),
        (
            f"Furthest from half: {worst.model}, {worst.left:,} times on the left in {worst.exposures:,} exposures "
            f"(z {worst.z:+.1f}; fair coins pass ±{sides.bound:.1f} in about one report of a hundred)."
        ),
    )


def _ended(found: MatchupCounts) -> tuple[tuple[str, ...], ...]:
    counts = [
        ("Served", found.served),
        ("Voted", found.votes),
        ("Decisive", found.decisive),
        ("Tied", found.ties),
        ("Both bad", found.both_bad),
        ("Skipped", found.skipped),
        ("Expired", found.expired),
        ("Still open at the end", found.open),
    ]
    if found.given_up is not None:
        counts.append(("Served though a rule of matchmaking was given up", found.given_up))
    return tuple((name, f"{n:,}", format_share(n, found.served)) for name, n in counts)
