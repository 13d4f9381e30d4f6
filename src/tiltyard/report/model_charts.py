"""The charts of a model's page. A page draws them by script, a file contains them as pictures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tiltyard.core.policy.validity.evaluation import ConfidencePoint
from tiltyard.core.policy.validity.model_votes import Heatmap
from tiltyard.report.board_charts import Spec, chart_data, need_charts, thin_evenly
from tiltyard.report.chart_theme import (
    COLOURS,
    ChartTheme,
    Translate,
    apply_theme,
    chart_labels,
    tooltip_line,
)

_WIDTH_PIXELS = 620
#: The largest number of opponents, or evaluations, that is readable.
_OPPONENT_LIMIT = 40
_EVALUATION_LIMIT = 160


@dataclass(frozen=True, slots=True)
class OpponentScore:
    """One opponent: the expected and the observed score."""

    opponent: str
    expected: float
    observed: float | None
    votes: int


def confidence_chart(
    history: Sequence[ConfidencePoint], look: ChartTheme = "light", say: Translate = str
) -> Spec:
    """Rating over the arena's votes with a band of twice its RD, and the conservative score below."""
    import altair as alt

    need_charts()
    values = [
        {
            "votes": moment.votes,
            "rating": round(moment.rating, 1),
            "RD": round(moment.rd, 1),
            "conservative": round(moment.conservative, 1),
            "high": round(moment.rating + 2.0 * moment.rd, 1),
        }
        for moment in thin_evenly(history, _EVALUATION_LIMIT)
    ]
    colours = COLOURS[look]
    base = alt.Chart(chart_data(values)).encode(
        x=alt.X(
            "votes:Q",
            title=say("votes in the arena"),
            scale=alt.Scale(zero=False, nice=False),
            axis=alt.Axis(tickCount=6),
        ),
        tooltip=[
            tooltip_line("votes:Q", say("votes")),
            tooltip_line("rating:Q", say("rating")),
            tooltip_line("RD:Q", say("RD")),
            tooltip_line("conservative:Q", say("conservative")),
        ],
    )
    scale = alt.Scale(zero=False, nice=True)
    band = base.mark_area(color=colours.accent, opacity=0.16).encode(
        y=alt.Y("conservative:Q", scale=scale, title=None), y2="high:Q"
    )
    line = base.mark_line(color=colours.accent, strokeWidth=2).encode(y=alt.Y("rating:Q", scale=scale))
    dots = base.mark_point(color=colours.accent, filled=True, size=22, opacity=1).encode(y="rating:Q")
    return apply_theme((band + line + dots).properties(width=_WIDTH_PIXELS, height=240), look)


def expected_chart(rows: Sequence[OpponentScore], look: ChartTheme = "light", say: Translate = str) -> Spec:
    """Expected and observed score against each opponent; dots with more votes are larger."""
    import altair as alt

    need_charts()
    shown = sorted(sorted(rows, key=lambda row: -row.votes)[:_OPPONENT_LIMIT], key=lambda row: row.expected)
    labels = chart_labels([row.opponent for row in shown])
    values = [
        {
            "opponent": label,
            "expected": round(row.expected, 4),
            "observed": None if row.observed is None else round(row.observed, 4),
            "votes": row.votes,
        }
        for label, row in zip(labels, shown, strict=True)
    ]
    colours = COLOURS[look]
    base = alt.Chart(chart_data(values)).encode(
        y=alt.Y(
            "opponent:N",
            sort=labels,
            title=None,
            axis=alt.Axis(labelLimit=240, labelPadding=9, ticks=False, domain=False),
        ),
        tooltip=[
            tooltip_line("opponent:N", say("opponent")),
            tooltip_line("expected:Q", say("expected")),
            tooltip_line("observed:Q", say("observed")),
            tooltip_line("votes:Q", say("votes")),
        ],
    )
    scale = alt.Scale(domain=[0, 1])
    x = alt.X("expected:Q", scale=scale, title=say("score: expected (tick), observed (dot)"))
    met = base.transform_filter("isValid(datum.observed)")
    gap = met.mark_rule(color=colours.quiet, strokeWidth=1).encode(x=x, x2="observed:Q")
    tick = base.mark_tick(color=colours.quiet, thickness=3, size=14).encode(x=x)
    size = alt.Size("votes:Q", legend=None, scale=alt.Scale(range=[20, 160], zero=True))
    dot = met.mark_circle(color=colours.accent, opacity=1).encode(
        x=alt.X("observed:Q", scale=scale), size=size
    )
    return apply_theme(
        (gap + tick + dot).properties(width=_WIDTH_PIXELS - 80, height=alt.Step(20)), look, labels
    )


def both_bad_chart(
    trend: Sequence[float], bar: float, look: ChartTheme = "light", say: Translate = str
) -> Spec:
    """Share of both-bad votes in successive runs of the last votes, and the threshold for a warning."""
    import altair as alt

    need_charts()
    colours = COLOURS[look]
    values = [{"run": k, "share": round(share, 4)} for k, share in enumerate(trend, start=1)]
    base = alt.Chart(chart_data(values)).encode(
        x=alt.X("run:O", title=say("runs of votes, oldest first"), axis=alt.Axis(labelAngle=0)),
        tooltip=[tooltip_line("run:O", say("run")), tooltip_line("share:Q", say("share"), ".0%")],
    )
    top = max([bar, *trend])
    scale = alt.Scale(domain=[0, min(1.0, round(top * 1.2, 2))])
    bars = base.mark_bar(color=colours.accent, opacity=0.8, cornerRadiusEnd=2).encode(
        y=alt.Y("share:Q", scale=scale, title=None, axis=alt.Axis(format="%"))
    )
    rule = (
        alt.Chart(chart_data([{"bar": bar}]))
        .mark_rule(color=colours.warn, strokeDash=[5, 4], strokeWidth=1.5)
        .encode(y=alt.Y("bar:Q", scale=scale))
    )
    return apply_theme((bars + rule).properties(width=_WIDTH_PIXELS, height=150), look)


def coverage_chart(
    heatmap: Heatmap,
    models: Sequence[str],
    prompts: Sequence[str],
    look: ChartTheme = "light",
    say: Translate = str,
) -> Spec:
    """Where votes are still needed: prompts as rows, opponents as columns; darker means more are missing."""
    import altair as alt

    need_charts()
    down = chart_labels([prompts[k] for k in heatmap.prompts])
    across = chart_labels([models[k] for k in heatmap.opponents])
    values = [
        {"prompt": prompt, "opponent": opponent, "deficit": round(deficit, 3), "votes": votes}
        for prompt, deficits, counts in zip(down, heatmap.deficit, heatmap.votes, strict=True)
        for opponent, deficit, votes in zip(across, deficits, counts, strict=True)
        if deficit is not None
    ]
    scale = alt.Scale(domain=[0, 1], range=list(COLOURS[look].deficit), interpolate="rgb")
    chart: Any = (
        alt.Chart(chart_data(values))
        .mark_rect(stroke=COLOURS[look].line, strokeWidth=0.5)
        .encode(
            x=alt.X(
                "opponent:N",
                sort=across,
                title=None,
                axis=alt.Axis(orient="top", labelAngle=-40, labelLimit=140, ticks=False, domain=False),
            ),
            y=alt.Y(
                "prompt:N", sort=down, title=None, axis=alt.Axis(labelLimit=200, ticks=False, domain=False)
            ),
            color=alt.Color(
                "deficit:Q",
                scale=scale,
                title=say("missing"),
                legend=alt.Legend(format="%", gradientLength=90),
            ),
            tooltip=[
                tooltip_line("prompt:N", say("prompt")),
                tooltip_line("opponent:N", say("opponent")),
                tooltip_line("deficit:Q", say("missing"), ".0%"),
                tooltip_line("votes:Q", say("votes")),
            ],
        )
    )
    return apply_theme(chart.properties(width=alt.Step(22), height=alt.Step(16)), look, down)
