"""Charts of simulated arenas, as Vega-Lite specs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tiltyard.core.policy.state.policy import Lane
from tiltyard.report.board_charts import ACCENT, Spec, chart_data, need_charts, spec_of, thin_evenly
from tiltyard.report.report_parts import RULE_HEADS

Document = Mapping[str, Any]
Values = list[dict[str, object]]

RULES = "Rules over votes: median, 80% of worlds, and the bar"
OFFICIAL = "Share of worlds that are official"
IN_ORDER = "Pairs of the true top in order"
LANES = "Lanes: asked for, drawn, served"
DEVIATIONS = "Largest deviation of exposures from their targets, world by world"

_WARM = "#c2703d"
_SOFT = "#8b969d"
_WIDTH_PIXELS = 640
_EVALUATION_LIMIT = 200
LANE_NAMES = tuple(lane.name.lower() for lane in Lane)


def simulation_charts(simulation: Document) -> dict[str, dict[str, Spec]]:
    """For each section, title and spec of every chart available for this simulation."""
    need_charts()
    forecasts = simulation["forecasts"]
    found: dict[str, dict[str, Spec]] = {}
    if forecasts[0]["looks"]:
        found["rules"] = {RULES: _rules(forecasts[0]), OFFICIAL: _official(simulation)}
        found["time"] = {IN_ORDER: _in_order(forecasts)}
    if forecasts[0]["realised"]:
        found["lanes"] = {LANES: _lanes(forecasts[0])}
        if any(one["deviations"] for one in forecasts):
            import altair as alt

            values = [
                {"matchmaker": _arm(one, forecasts), "deviation": round(deviation, 4)}
                for one in forecasts
                for deviation in one["deviations"]
            ]
            ticks = alt.Chart(chart_data(values)).mark_tick(thickness=2, color=ACCENT)
            bar = alt.Chart(chart_data([{"bar": forecasts[0]["tolerance"]}])).mark_rule(
                color=_WARM, strokeDash=[5, 4]
            )
            dots = ticks.encode(
                x=alt.X("deviation:Q", axis=alt.Axis(format="%"), scale=alt.Scale(zero=True), title=None),
                y=alt.Y("matchmaker:N", sort=_arms(forecasts), title=None),
                tooltip=["matchmaker:N", alt.Tooltip("deviation:Q", format=".1%")],
            )
            found["lanes"][DEVIATIONS] = spec_of(
                (dots + bar.encode(x="bar:Q")).properties(width=_WIDTH_PIXELS - 60, height=alt.Step(26))
            )
    return found


def _rules(found: Document) -> Spec:
    import altair as alt

    panels = []
    for number, rule in enumerate(found["rules"]):
        values = [
            {"votes": look["votes"], **_rounded(look["rules"][rule["name"]])}
            for look in thin_evenly(found["looks"], _EVALUATION_LIMIT)
            if rule["name"] in look["rules"]
        ]
        last = number == len(found["rules"]) - 1
        axis = alt.Axis(format=",d", tickCount=7) if last else alt.Axis(labels=False, ticks=False)
        base = alt.Chart(chart_data(values)).encode(
            x=alt.X("votes:Q", axis=axis, title="votes" if last else None),
            tooltip=["votes:Q", "median:Q", "low:Q", "high:Q"],
        )
        scale = alt.Scale(zero=not rule["at_most"])
        band = base.mark_area(opacity=0.25, color=ACCENT).encode(
            y=alt.Y("low:Q", scale=scale, title=RULE_HEADS[rule["name"]]), y2="high:Q"
        )
        line = base.mark_line(color=ACCENT).encode(y=alt.Y("median:Q", scale=scale))
        bar = alt.Chart(chart_data([{"bar": rule["bar"]}])).mark_rule(color=_WARM, strokeDash=[5, 4])
        panels.append((band + line + bar.encode(y="bar:Q")).properties(width=_WIDTH_PIXELS, height=130))
    return spec_of(alt.vconcat(*panels, spacing=14))


def _official(simulation: Document) -> Spec:
    import altair as alt

    values = [
        {
            "day": round(look["votes"] / simulation["votes_per_day"], 3),
            "worlds": round(look["official"], 4),
            "matchmaker": _arm(one, simulation["forecasts"]),
        }
        for one in simulation["forecasts"]
        for look in thin_evenly(one["looks"], _EVALUATION_LIMIT)
    ]
    chart = alt.Chart(chart_data(values)).mark_line(interpolate="step-after")
    return spec_of(
        chart.encode(
            x=alt.X("day:Q", title="day"),
            y=alt.Y("worlds:Q", scale=alt.Scale(domain=[0, 1]), axis=alt.Axis(format="%"), title=None),
            color=_by_arm(simulation["forecasts"]),
            tooltip=["matchmaker:N", "day:Q", alt.Tooltip("worlds:Q", format=".0%")],
        ).properties(width=_WIDTH_PIXELS, height=180)
    )


def _in_order(forecasts: Sequence[Document]) -> Spec:
    """Over votes, by matchmaker; the band belongs to the requested one."""
    import altair as alt

    values: Values = [
        {
            "votes": look["votes"],
            **_rounded(look["in_order"]),
            "matchmaker": _arm(one, forecasts),
            "first": one is forecasts[0],
        }
        for one in forecasts
        for look in thin_evenly(one["looks"], _EVALUATION_LIMIT)
        if look["in_order"]["median"] is not None
    ]
    base = alt.Chart(chart_data(values)).encode(x=alt.X("votes:Q", axis=alt.Axis(format=",d", tickCount=7)))
    scale, axis = alt.Scale(zero=False), alt.Axis(format="%")
    band = base.transform_filter("datum.first").mark_area(opacity=0.15, color=ACCENT)
    line = base.mark_line().encode(
        y=alt.Y("median:Q", scale=scale, axis=axis, title=None),
        color=_by_arm(forecasts),
        tooltip=["matchmaker:N", "votes:Q", alt.Tooltip("median:Q", format=".1%")],
    )
    return spec_of(
        (band.encode(y=alt.Y("low:Q", scale=scale, axis=axis, title=None), y2="high:Q") + line).properties(
            width=_WIDTH_PIXELS, height=240
        )
    )


def _lanes(found: Document) -> Spec:
    import altair as alt

    kinds = {"asked for": "lane_weights", "drawn": "nominal", "served": "realised"}
    values = [
        {"lane": lane, "kind": kind, "share": round(share, 4)}
        for kind, name in kinds.items()
        for lane, share in zip(LANE_NAMES, found[name], strict=True)
    ]
    chart = (
        alt.Chart(chart_data(values))
        .mark_bar()
        .encode(
            x=alt.X("share:Q", axis=alt.Axis(format="%"), title=None),
            y=alt.Y("lane:N", sort=LANE_NAMES, title=None),
            yOffset=alt.YOffset("kind:N", sort=list(kinds)),
            color=alt.Color(
                "kind:N",
                sort=list(kinds),
                scale=alt.Scale(domain=list(kinds), range=[_SOFT, "#7fb8d4", ACCENT]),
                legend=alt.Legend(title=None, orient="bottom"),
            ),
            tooltip=["lane:N", "kind:N", alt.Tooltip("share:Q", format=".1%")],
        )
    )
    return spec_of(chart.properties(width=_WIDTH_PIXELS - 60, height=alt.Step(14)))


def _arm(found: Document, forecasts: Sequence[Document]) -> str:
    """The label that distinguishes a forecast from the others."""
    fairness = found["fairness"]
    both = len({one["fairness"] for one in forecasts if one["matchmaker"] == found["matchmaker"]}) > 1
    return f"{found['matchmaker']}, {fairness}" if both else str(found["matchmaker"])


def _arms(forecasts: Sequence[Document]) -> list[str]:
    return [_arm(one, forecasts) for one in forecasts]


def _by_arm(forecasts: Sequence[Document]) -> Any:
    import altair as alt

    if len(forecasts) == 1:
        return alt.value(ACCENT)
    colours = [ACCENT, _WARM, "#6fa08a", "#8f6fb0", "#b5a642", _SOFT][: len(forecasts)]
    return alt.Color(
        "matchmaker:N",
        sort=_arms(forecasts),
        scale=alt.Scale(domain=_arms(forecasts), range=colours),
        legend=alt.Legend(title=None, orient="bottom"),
    )


def _rounded(spread: Document) -> dict[str, float | None]:
    """Rounded to what a chart can show."""
    return {name: None if value is None else round(value, 3) for name, value in spread.items()}
