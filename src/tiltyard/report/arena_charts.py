"""The charts of an arena's board and of its models' pages. A page draws them by script, a file contains them as pictures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

from tiltyard.core.board.win_rates import PairScore
from tiltyard.core.policy.validity.model_record import Heatmap
from tiltyard.core.policy.validity.publication import ConfidencePoint
from tiltyard.errors import BadOption
from tiltyard.report.board_charts import (
    COLOURS,
    ChartTheme,
    Spec,
    Translate,
    apply_theme,
    chart_data,
    chart_labels,
    need_charts,
    thin_evenly,
    tooltip_line,
)

#: The largest number of opponents, or evaluations, that is readable.
_OPPONENT_LIMIT = 40
_EVALUATION_LIMIT = 160

CHARTS = ("ratings", "win-rates", "battle-counts", "history")
#: Scores of fewer battles than this are drawn in a pale colour, because they are uncertain.
FEW_BATTLES = 10
_WIDTH_PIXELS = 620
_PALE_OPACITY_RATIO = 0.35
#: The largest number of models for which the cells of a heatmap show their values.
_NUMBERED_CELL_MODEL_LIMIT = 16
#: Time formats by the span of the axis.
_TIMES = (
    (timedelta(minutes=10), "%H:%M:%S"),
    (timedelta(days=1), "%H:%M"),
    (timedelta(days=7), "%d %b %H:%M"),
    (timedelta(days=300), "%d %b"),
)


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
        tooltip=_tips(say, "votes:Q", "rating:Q", "RD:Q", "conservative:Q"),
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
        tooltip=_tips(say, "opponent:N", "expected:Q", "observed:Q", "votes:Q"),
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


@dataclass(frozen=True, slots=True)
class RatingPoint:
    """One model on the default chart."""

    model: str
    value: float
    low: float | None
    high: float | None
    votes: int


@dataclass(frozen=True, slots=True)
class HistoryPoint:
    """One model on a past board."""

    model: str
    #: ISO 8601.
    at: str
    votes: int
    value: float | None


@dataclass(frozen=True, slots=True)
class ChartContent:
    """What a chart is drawn from.

    ``ratings`` takes ``dots`` and the ``axis`` they are on; ``win-rates`` and ``battle-counts`` take
    ``models`` and ``pairs``; ``history`` takes ``models``, ``points`` and ``axis``.
    """

    axis: str = ""
    dots: Sequence[RatingPoint] = ()
    models: Sequence[str] = ()
    pairs: Sequence[PairScore] = ()
    points: Sequence[HistoryPoint] = ()
    #: The hash of the board behind it, if it is another than the one shown.
    snapshot: str | None = None


def arena_chart(name: str, content: ChartContent, look: ChartTheme = "light", say: Translate = str) -> Spec:
    """A chart by name, with its text translated by ``say``."""
    need_charts()
    if name == "ratings":
        return ratings_chart(content.dots, content.axis, look, say)
    if name in ("win-rates", "battle-counts"):
        counts = name == "battle-counts"
        return pairs_chart(content.models, content.pairs, look, say, counts=counts)
    if name == "history":
        return history_chart(content.models, content.points, content.axis, look, say)
    raise BadOption(f"unknown chart {name!r}; expected {', '.join(CHARTS)}")


@cache
def drawing_version() -> str:
    """A hash of the code that draws these charts, for cache keys."""
    here = Path(__file__)
    code = (here.with_name(f"{name}.py").read_bytes() for name in ("arena_charts", "board_charts"))
    return sha256(b"\0".join(code)).hexdigest()[:12]


def page_spec(spec: Spec) -> Spec:
    """A chart for a page with its own theme; only the colour of its marks and its language are kept."""
    plain = {name: part for name, part in spec.items() if name not in {"background", "padding"}}
    kept = ("mark", "rule", "locale")
    return plain | {"config": {part: spec["config"][part] for part in kept if part in spec["config"]}}


def ratings_chart(
    dots: Sequence[RatingPoint], axis: str, look: ChartTheme = "light", say: Translate = str
) -> Spec:
    """Ratings with their intervals, one dot per model, in the order of the board."""
    import altair as alt

    label = _labels([dot.model for dot in dots])
    order = [label[dot.model] for dot in dots]
    values = [
        {
            "model": label[dot.model],
            "rating": _rounded(dot.value),
            "low": _rounded(dot.low),
            "high": _rounded(dot.high),
            "votes": dot.votes,
        }
        for dot in dots
    ]
    step = 20 if len(dots) <= 60 else 13
    base = alt.Chart(chart_data(values)).encode(
        y=alt.Y("model:N", sort=order, title=None, axis=alt.Axis(labelLimit=260, ticks=False, domain=False)),
        tooltip=_tips(say, "model:N", "rating:Q", "low:Q", "high:Q", "votes:Q"),
    )
    scale, ticks = alt.Scale(zero=False, nice=True), alt.Axis(tickCount=8, labelFlush=False)
    chart: Any = base.mark_point(filled=True, size=46, opacity=1).encode(
        x=alt.X("rating:Q", scale=scale, axis=ticks, title=say(axis))
    )
    if any(dot.low is not None and dot.high is not None for dot in dots):
        rules = base.transform_filter("isValid(datum.low) && isValid(datum.high)").mark_rule(
            strokeWidth=2, opacity=0.55
        )
        chart = rules.encode(x=alt.X("low:Q", scale=scale, axis=ticks, title=say(axis)), x2="high:Q") + chart
    return apply_theme(chart.properties(width=_WIDTH_PIXELS, height=alt.Step(step)), look, order)


def pairs_chart(
    models: Sequence[str],
    pairs: Sequence[PairScore],
    look: ChartTheme = "light",
    say: Translate = str,
    *,
    counts: bool = False,
) -> Spec:
    """Row against column: the row's score, or the number of battles."""
    import altair as alt

    label = _labels(models)
    order, colours = [label[model] for model in models], COLOURS[look]
    if counts:
        scale = alt.Scale(range=list(colours.counts), zero=True)
        colour, text = (
            alt.Color("battles:Q", scale=scale, title=say("battles")),
            alt.Text("battles:Q", format=",d"),
        )
    else:
        scale = alt.Scale(domain=[0, 0.5, 1], range=list(colours.scores), interpolate="rgb")
        colour, text = (
            alt.Color("score:Q", scale=scale, title=say("score")),
            alt.Text("score:Q", format=".2f"),
        )
    base = alt.Chart(chart_data(_cells(label, pairs))).encode(
        x=alt.X(
            "column:N", sort=order, title=None, axis=alt.Axis(orient="top", labelAngle=-40, labelLimit=160)
        ),
        y=alt.Y("row:N", sort=order, title=None, axis=alt.Axis(labelLimit=220)),
        tooltip=[
            tooltip_line("row:N", say("row")),
            tooltip_line("column:N", say("column")),
            tooltip_line("score:Q", say("score"), ".2f"),
            tooltip_line("battles:Q", say("battles")),
        ],
    )
    chart: Any = base.mark_rect().encode(color=colour)
    if not counts:
        chart = chart.encode(
            opacity=alt.condition(
                f"datum.battles < {FEW_BATTLES}", alt.value(_PALE_OPACITY_RATIO), alt.value(1)
            )
        )
    if len(models) <= _NUMBERED_CELL_MODEL_LIMIT:
        chart = chart + base.mark_text(fontSize=11, color=colours.ink).encode(text=text)
    step = 46 if len(models) <= _NUMBERED_CELL_MODEL_LIMIT else 20
    return apply_theme(chart.properties(width=alt.Step(step), height=alt.Step(min(step, 26))), look, order)


def history_chart(
    models: Sequence[str],
    points: Sequence[HistoryPoint],
    axis: str,
    look: ChartTheme = "light",
    say: Translate = str,
) -> Spec:
    """The ratings of these models on past boards, over time."""
    import altair as alt

    label = _labels(models)
    order = [label[model] for model in models]
    shown = [point for point in points if point.value is not None and point.model in label]
    values = [
        {
            "model": label[point.model],
            "at": point.at,
            "votes": point.votes,
            "value": _rounded(point.value),
        }
        for point in shown
    ]
    colour = alt.Color(
        "model:N",
        sort=order,
        title=None,
        scale=alt.Scale(scheme="tableau10", domain=order),
        legend=alt.Legend(orient="bottom", columns=3, labelLimit=160, symbolLimit=len(order) or 1),
    )
    chart = (
        alt.Chart(chart_data(values))
        .mark_line(strokeWidth=2, point=alt.OverlayMarkDef(size=18))
        .encode(
            x=_times([point.at for point in shown]),
            y=alt.Y("value:Q", scale=alt.Scale(zero=False), title=say(axis)),
            color=colour,
            tooltip=_tips(say, "model:N", "at:T", "value:Q", "votes:Q"),
        )
    )
    return apply_theme(chart.properties(width=_WIDTH_PIXELS - 60, height=320), look)


def _times(moments: Sequence[str]) -> Any:
    """A time axis in UTC, with a resolution that fits its span."""
    import altair as alt

    read = [datetime.fromisoformat(moment) for moment in moments]
    span = max(read) - min(read) if read else timedelta()
    written = next((form for most, form in _TIMES if span < most), "%b %Y")
    nice: Any = "second" if span < timedelta(seconds=6) else True
    count: Any = "second" if span < timedelta(seconds=6) else 6
    return alt.X(
        "at:T",
        title=None,
        scale=alt.Scale(type="utc", nice=nice),
        axis=alt.Axis(format=written, tickCount=count, labelOverlap=True),
    )


def _cells(label: Mapping[str, str], pairs: Sequence[PairScore]) -> list[dict[str, object]]:
    cells: list[dict[str, object]] = []
    for pair in pairs:
        score = pair["score"]
        if score is not None:
            a, b = label[pair["model_a"]], label[pair["model_b"]]
            for row, column, points in ((a, b, score), (b, a, 1.0 - score)):
                cells.append(
                    {"row": row, "column": column, "score": round(points, 4), "battles": pair["battles"]}
                )
    return cells


def _tips(say: Translate, *named: str) -> list[Any]:
    """Lines of a tooltip whose titles are the names of their fields."""
    return [tooltip_line(name, say(name.partition(":")[0])) for name in named]


def _labels(models: Sequence[str]) -> dict[str, str]:
    return dict(zip(models, chart_labels(models), strict=True))


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 2)
