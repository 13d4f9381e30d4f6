"""The sections of a validity report, before they are rendered as Markdown or a page."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from datetime import UTC, datetime

from tiltyard.core.policy.validity.report import ValidityReport
from tiltyard.core.policy.validity.report.report_records import Churn, ModelExposure, SideBalance
from tiltyard.core.policy.validity.rules import Rule
from tiltyard.core.policy.validity.serving_fairness import ExposureDeviation
from tiltyard.report.report_parts import RULE_HEADS, RULE_NAMES, ReportSection, ReportTable

#: Longer tables are truncated, with a note.
MAX_TABLE_ROWS = 60


def validity_sections(report: ValidityReport) -> tuple[ReportSection, ...]:
    """All sections in reading order."""
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
    return (
        ReportSection("rules", "Rules of publication", sentences, (table, _history(report))),
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
            f"Official since {found.official_since:,} votes: enough was collected, as all rules have held at the last "
            f"{found.in_a_row:,} evaluations. Who is better is another question."
        )
    failing = sum(not rule.holds for rule in found.rules)
    now = f"{failing} of {len(found.rules)} rules fail now" if failing else "all rules hold now"
    was = "" if found.first_official is None else f" It was first official at {found.first_official:,} votes."
    return (
        f"Calibrating: {now}, and all have held at {found.in_a_row} of the {found.evaluations} evaluations in a row "
        f"that are needed.{was}"
    )


def span_sentence(report: ValidityReport) -> str:
    span = report.span
    arena = f"{report.n_enabled:,} of {report.n_models:,} models enabled, {report.n_prompts:,} prompts"
    if not span.events:
        return f"Nothing happened in this span, before which there are {span.votes_before:,} votes; {arena}."
    times = f"{format_date(span.first_time)} to {format_date(span.last_time)}: " if span.by == "time" else ""
    return (
        f"{times}{span.events:,} events of the log, "
        f"{span.votes - span.votes_before:,} votes of {span.votes:,} so far; {arena}."
    )


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
            *[
                _value(rule, value) + (" ✓" if holds else " ✗")
                for rule, value, holds in zip(found.rules, look.values, look.holds, strict=True)
            ],
            "official" if look.official else "calibrating",
        )
        for look in reversed(found.history)
    ]
    return limited_table("Evaluations, newest first", heads, rows, words=2, folded=True)


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
    rows = [
        (
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
        for row in found.models
    ]
    return ReportSection(
        "confidence", "Confidence", sentences, (limited_table("", heads, rows), _moments(report))
    )


def _moments(report: ValidityReport) -> ReportTable:
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
            "The bands say how little was seen, not which order is settled."
        ),
    )


def exploration_section(report: ValidityReport) -> ReportSection:
    """The board of the exploration lane, compared with that of all votes."""
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
            f"{format_share(found.same_order, found.pairs)} of {found.pairs:,} pairs have the same order as on the board; "
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
    heads = ("Model", "Place here", "On the board", "Rating here", f"{found.level:.0%} interval")
    tables = [limited_table("", heads, rows)]
    if reverse:
        tables.append(
            limited_table("Contradicted", ("Above here", "Above on the board", "Points"), reverse, words=2)
        )
    return ReportSection("exploration", "The exploration lane alone", tuple(sentences), tuple(tables))


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
            f"The tolerance is promised in windows that are full and of one roster: {found.settled_outside:,} of "
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
    counts = [
        ("Served", report.matchups.served),
        ("Voted", report.matchups.votes),
        ("Decisive", report.matchups.decisive),
        ("Tied", report.matchups.ties),
        ("Both bad", report.matchups.both_bad),
        ("Skipped", report.matchups.skipped),
        ("Expired", report.matchups.expired),
        ("Still open at the end", report.matchups.open),
    ]
    if report.matchups.given_up is not None:
        counts.append(("Served though a rule of matchmaking was given up", report.matchups.given_up))
    return ReportSection(
        "matchups",
        "Matchups and sides",
        _sides(sides),
        (
            ReportTable(
                ("", "Matchups", "Of those served"),
                tuple((name, f"{n:,}", format_share(n, report.matchups.served)) for name, n in counts),
            ),
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


def limited_table(
    title: str,
    heads: tuple[str, ...],
    rows: Sequence[tuple[str, ...]],
    *,
    words: int = 1,
    folded: bool = False,
) -> ReportTable:
    return ReportTable(
        heads, tuple(rows[:MAX_TABLE_ROWS]), words, title, folded, max(len(rows) - MAX_TABLE_ROWS, 0)
    )


def format_date(time: int) -> str:
    """Seconds since 1970, as a date."""
    return datetime.fromtimestamp(time, UTC).strftime("%Y-%m-%d %H:%M UTC")


def format_count(value: float | None) -> str:
    """An integer, or a dash if missing."""
    return "–" if value is None else f"{value:,.0f}"


def format_share(n: int, of: int) -> str:
    """A percentage; a dash if the total is zero."""
    return f"{n / of:.1%}" if of else "–"


def format_before(before: float | None) -> str:
    """The value before the span, in parentheses."""
    return "" if before is None else f" ({before:,.0f} before)"


def format_times(n: int) -> str:
    """The number of times, in words."""
    return {0: "never", 1: "once", 2: "twice"}.get(n, f"{n} times")
