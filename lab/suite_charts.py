"""Charts of the policy suite, as Vega-Lite specs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tiltyard.report.board_charts import Spec, chart_data, need_charts, spec_of

Document = Mapping[str, Any]

AT_MOST = "Figures that must not exceed their bar, as shares of it (hollow: what stands beside)"
AT_LEAST = "Figures that must reach their bar, as shares of it (hollow: what stands beside)"

_WARM = "#c2703d"
_SOFT = "#8b969d"
_WIDTH_PIXELS = 640


def suite_charts(suite: Document) -> dict[str, dict[str, Spec]]:
    """Figures relative to their bars. Bars of zero and two-sided bars are only in the table."""
    need_charts()
    found: dict[str, Spec] = {}
    for title, limit, other in ((AT_MOST, "most", "least"), (AT_LEAST, "least", "most")):
        bars = [
            bar for bar in suite["bars"] if bar[limit] and bar[other] is None and bar["figure"] is not None
        ]
        if bars:
            found[title] = _bars(bars, limit)
    return {"bars": found}


def _bars(bars: Sequence[Document], limit: str) -> Spec:
    """Each figure and its interval divided by its bar: the line at 1 is the bar. Hollow: other matchmakers."""
    import altair as alt

    names = [bar["name"] for bar in bars]
    ours = [
        {
            "row": bar["name"],
            "verdict": _VERDICTS[bar["holds"]],
            **{end: _over(bar[end], bar[limit]) for end in ("figure", "low", "high")},
        }
        for bar in bars
    ]
    others = [
        {"row": bar["name"], "who": who, "figure": _over(value, bar[limit])}
        for bar in bars
        for who, value in bar["beside"].items()
        if value is not None and who != "policy"
    ]
    rows = alt.Y("row:N", sort=names, title=None, axis=alt.Axis(labelLimit=200))
    base = alt.Chart(chart_data(ours)).encode(
        y=rows,
        color=alt.Color(
            "verdict:N",
            scale=alt.Scale(domain=list(_VERDICTS.values()), range=["#4f9070", _WARM, _SOFT]),
            legend=alt.Legend(title=None, orient="bottom"),
        ),
        tooltip=["row:N", "figure:Q", "low:Q", "high:Q", "verdict:N"],
    )
    axis = alt.X("figure:Q", title="figure ÷ bar")
    dots = base.mark_point(filled=True, size=70).encode(x=axis)
    ends = base.mark_rule(strokeWidth=2).encode(x="low:Q", x2="high:Q")
    beside = alt.Chart(chart_data(others)).mark_point(size=45, color=_SOFT)
    line = alt.Chart(chart_data([{"bar": 1}])).mark_rule(color=_WARM, strokeDash=[5, 4])
    layers = (
        beside.encode(y=rows, x=axis, tooltip=["row:N", "who:N", "figure:Q"]),
        ends,
        dots,
        line.encode(x="bar:Q"),
    )
    return spec_of(alt.layer(*layers).properties(width=_WIDTH_PIXELS - 140, height=alt.Step(24)))


_VERDICTS = {True: "holds", False: "missed", None: "not decided"}


def _over(value: float | None, bar: float) -> float | None:
    return None if value is None else round(value / bar, 3)
