"""The charts of an arena's board, each defined once: a page shows them by script, a file as a picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from tiltyard.errors import BadOption
from tiltyard.report.charts import Spec, chart_data, need_charts, spec_of

__all__ = [
    "CHARTS",
    "Dot",
    "Look",
    "arena_chart",
    "arena_svg",
    "history_chart",
    "page_spec",
    "pairs_chart",
    "ratings_chart",
]

Look = Literal["light", "dark"]

CHARTS = ("ratings", "win-rates", "battle-counts", "history")

_WIDTH = 620
#: Characters of a name that a label can show.
_LABEL = 40
#: Cells of a heatmap have their number written in them up to so many models.
_WRITTEN = 16


@dataclass(frozen=True, slots=True)
class _Colours:
    accent: str
    ink: str
    line: str
    #: Losing, even, winning; few, many.
    scores: tuple[str, str, str]
    counts: tuple[str, str]


_COLOURS: Mapping[Look, _Colours] = {
    "light": _Colours(
        "#2f6f8f",
        "#3c4043",
        "#e2e0da",
        ("#d98a5f", "#f4f1ea", "#5f9fbf"),
        ("#f4f1ea", "#6fa08a"),
    ),
    "dark": _Colours(
        "#8cc3de",
        "#c9ccd1",
        "#3a3d42",
        ("#a85f38", "#2b2d31", "#3f7f9f"),
        ("#2b2d31", "#4f8a72"),
    ),
}


@dataclass(frozen=True, slots=True)
class Dot:
    """One model on the default chart."""

    model: str
    value: float
    low: float | None
    high: float | None
    votes: int


def arena_chart(name: str, document: Mapping[str, Any], look: Look = "light") -> Spec:
    """A chart by its name.

    ``ratings`` takes ``dots`` and the ``axis`` that they are on; ``win-rates`` and ``battle-counts`` take
    ``models`` and ``pairs``; ``history`` takes ``models``, ``points`` and ``axis``.
    """
    need_charts()
    if name == "ratings":
        dots = [dot if isinstance(dot, Dot) else Dot(**dot) for dot in document["dots"]]
        return ratings_chart(dots, document["axis"], look)
    if name in ("win-rates", "battle-counts"):
        return pairs_chart(document["models"], document["pairs"], look, counts=name == "battle-counts")
    if name == "history":
        return history_chart(document["models"], document["points"], document["axis"], look)
    raise BadOption(f"there is no chart called {name!r}; expected {', '.join(CHARTS)}")


def arena_svg(spec: Spec) -> bytes:
    """A chart as a picture that needs no script, without a ground of its own."""
    import vl_convert

    quiet = spec | {"config": spec.get("config", {}) | {"aria": False}}
    return str(vl_convert.vegalite_to_svg(quiet)).encode()


def page_spec(spec: Spec) -> Spec:
    """A chart for a page that gives it a look of its own, but for the colour of its marks."""
    plain = {name: part for name, part in spec.items() if name not in {"background", "padding"}}
    return plain | {"config": {mark: spec["config"][mark] for mark in ("mark", "rule")}}


def ratings_chart(dots: Sequence[Dot], axis: str, look: Look = "light") -> Spec:
    """Rating with what lies around it, one dot for each model, in the order of the board."""
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
        tooltip=["model:N", "rating:Q", "low:Q", "high:Q", "votes:Q"],
    )
    scale = alt.Scale(zero=False, nice=True)
    chart: Any = base.mark_point(filled=True, size=46, opacity=1).encode(
        x=alt.X("rating:Q", scale=scale, title=axis)
    )
    if any(dot.low is not None and dot.high is not None for dot in dots):
        rules = base.transform_filter("isValid(datum.low) && isValid(datum.high)").mark_rule(
            strokeWidth=2, opacity=0.55
        )
        chart = rules.encode(x=alt.X("low:Q", scale=scale, title=axis), x2="high:Q") + chart
    return _finished(chart.properties(width=_WIDTH, height=alt.Step(step)), look)


def pairs_chart(
    models: Sequence[str], pairs: Sequence[Mapping[str, Any]], look: Look = "light", *, counts: bool = False
) -> Spec:
    """Row against column: the row's score, or how many battles there were."""
    import altair as alt

    label = _labels(models)
    order, colours = [label[model] for model in models], _COLOURS[look]
    if counts:
        scale = alt.Scale(range=list(colours.counts), zero=True)
        colour, text = (
            alt.Color("battles:Q", scale=scale, title="battles"),
            alt.Text("battles:Q", format=",d"),
        )
    else:
        scale = alt.Scale(domain=[0, 0.5, 1], range=list(colours.scores), interpolate="rgb")
        colour, text = alt.Color("score:Q", scale=scale, title="score"), alt.Text("score:Q", format=".2f")
    base = alt.Chart(chart_data(_cells(label, pairs))).encode(
        x=alt.X(
            "column:N", sort=order, title=None, axis=alt.Axis(orient="top", labelAngle=-40, labelLimit=160)
        ),
        y=alt.Y("row:N", sort=order, title=None, axis=alt.Axis(labelLimit=220)),
        tooltip=["row:N", "column:N", alt.Tooltip("score:Q", format=".2f"), "battles:Q"],
    )
    chart: Any = base.mark_rect().encode(color=colour)
    if len(models) <= _WRITTEN:
        chart = chart + base.mark_text(fontSize=11, color=_COLOURS[look].ink).encode(text=text)
    step = 46 if len(models) <= _WRITTEN else 20
    return _finished(chart.properties(width=alt.Step(step), height=alt.Step(min(step, 26))), look)


def history_chart(
    models: Sequence[str], points: Sequence[Mapping[str, Any]], axis: str, look: Look = "light"
) -> Spec:
    """What the boards said of these models, over time."""
    import altair as alt

    label = _labels(models)
    order = [label[model] for model in models]
    values = [
        {
            "model": label[point["model"]],
            "at": point["at"],
            "votes": point["votes"],
            "value": _rounded(point["value"]),
        }
        for point in points
        if point["value"] is not None and point["model"] in label
    ]
    colour = alt.Color(
        "model:N",
        sort=order,
        title=None,
        scale=alt.Scale(scheme="tableau10", domain=order),
        legend=alt.Legend(labelLimit=220, symbolLimit=len(order) or 1),
    )
    chart = (
        alt.Chart(chart_data(values))
        .mark_line(strokeWidth=2, point=alt.OverlayMarkDef(size=18))
        .encode(
            x=alt.X("at:T", title=None),
            y=alt.Y("value:Q", scale=alt.Scale(zero=False), title=axis),
            color=colour,
            tooltip=["model:N", "at:T", "value:Q", "votes:Q"],
        )
    )
    return _finished(chart.properties(width=_WIDTH - 60, height=320), look)


def _finished(chart: Any, look: Look) -> Spec:
    """The spec in a look: what is written and ruled, on no ground."""
    colours = _COLOURS[look]
    spec = spec_of(chart)
    spec["background"] = "transparent"
    spec["padding"] = {"left": 12, "right": 16, "top": 8, "bottom": 8}
    spec["config"] = {
        "font": "Liberation Sans, Arial, Helvetica, sans-serif",
        "mark": {"color": colours.accent},
        "rule": {"color": colours.accent},
        "view": {"stroke": None},
        "axis": {
            "labelColor": colours.ink,
            "titleColor": colours.ink,
            "gridColor": colours.line,
            "domainColor": colours.line,
            "tickColor": colours.line,
            "labelFontSize": 11,
            "titleFontSize": 11,
            "titleFontWeight": "normal",
        },
        "legend": {"labelColor": colours.ink, "titleColor": colours.ink, "titleFontWeight": "normal"},
    }
    return spec


def _cells(label: Mapping[str, str], pairs: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    cells: list[dict[str, Any]] = []
    for pair in pairs:
        score = pair["score"]
        if score is not None:
            a, b = label[pair["model_a"]], label[pair["model_b"]]
            for row, column, points in ((a, b, score), (b, a, 1.0 - score)):
                cells.append(
                    {"row": row, "column": column, "score": round(points, 4), "battles": pair["battles"]}
                )
    return cells


def _labels(models: Sequence[str]) -> dict[str, str]:
    """Names short enough to be read, no two alike, without characters that nobody sees."""
    labels: dict[str, str] = {}
    taken: set[str] = set()
    for k, model in enumerate(models):
        plain = "".join(
            one if one.isprintable() else "\N{REPLACEMENT CHARACTER}" for one in model[: _LABEL + 1]
        )
        label = plain if len(plain) <= _LABEL else f"{plain[: _LABEL - 1]}…"
        if label in taken:
            label = f"{label[: _LABEL - 8]} ({k + 1})"
        labels[model] = label
        taken.add(label)
    return labels


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 2)
