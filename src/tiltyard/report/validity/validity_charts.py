"""Charts of the validity report, by section, as Vega-Lite specs."""

from __future__ import annotations

from typing import Any

from tiltyard.core.policy.validity.report import ValidityReport
from tiltyard.report.board_charts import ACCENT, Spec, chart_data, need_charts, spec_of, thin_evenly
from tiltyard.report.report_parts import RULE_HEADS
from tiltyard.report.terminal_escape import escape_controls
from tiltyard.report.validity.serving_sections import by_deviation

_SOFT = "#9fb8c4"
_WARN = "#c9822b"
_BAND = "#8a98a0"
_WIDTH_PIXELS = 620
#: The largest number of models, or evaluations, that is readable.
_MODEL_LIMIT = 40
_EVALUATION_LIMIT = 160


def validity_charts(report: ValidityReport) -> dict[str, dict[str, Spec]]:
    """For each section, title and spec of its charts; empty charts are left out."""
    need_charts()
    found: dict[str, dict[str, Spec]] = {}
    if report.n_enabled:
        found["fairness"] = {_exposure_title(report): _exposures(report)}
    if report.lanes.matchups:
        found["lanes"] = {"Share of matchups by lane": _lanes(report)}
    if len(report.publication.history) > 1:
        found["rules"] = {"The rules over time, and their bars": _rules(report)}
        found["confidence"] = {
            f"RD of the top {report.confidence.top}": _over_time(report, "rd", "RD"),
            f"Conservative score of the top {report.confidence.top}": _over_time(report, "score", "score"),
        }
    if report.churn.steps:
        found["churn"] = {f"Changes of order in the top {report.churn.top}": _churn(report)}
    return found


def _exposure_title(report: ValidityReport) -> str:
    title = "Exposures, targets and tolerances"
    return title if report.n_enabled <= _MODEL_LIMIT else f"{title}: the {_MODEL_LIMIT} furthest off"


def _exposures(report: ValidityReport) -> Spec:
    import altair as alt

    rows = [row for row in by_deviation(report.fairness.models) if row.enabled][:_MODEL_LIMIT]
    values = [
        {
            "model": escape_controls(row.model),
            "exposures": row.exposures,
            "target": round(row.target, 2),
            "low": round(max(row.target - row.tolerance, 0.0), 2),
            "high": round(row.target + row.tolerance, 2),
            "state": "outside" if row.outside else "within",
        }
        for row in rows
    ]
    tips = ["model:N", "exposures:Q", "target:Q", "low:Q", "high:Q"]
    base = alt.Chart(chart_data(values)).encode(
        y=alt.Y(
            "model:N",
            sort=[escape_controls(row.model) for row in rows],
            title=None,
            axis=alt.Axis(labelLimit=220),
        ),
        tooltip=tips,
    )
    x = alt.Scale(zero=False, nice=True)
    band = base.mark_bar(color=_BAND, opacity=0.35, height=12).encode(
        x=alt.X("low:Q", scale=x, title="exposures in the window"), x2="high:Q"
    )
    target = base.mark_tick(color=_BAND, thickness=2, size=14).encode(x=alt.X("target:Q", scale=x))
    state = alt.Scale(domain=["within", "outside"], range=[ACCENT, _WARN])
    dots = base.mark_point(filled=True, size=60, opacity=1.0).encode(
        x=alt.X("exposures:Q", scale=x), color=alt.Color("state:N", scale=state, legend=None)
    )
    return spec_of((band + target + dots).properties(width=_WIDTH_PIXELS - 100, height=alt.Step(20)))


def _lanes(report: ValidityReport) -> Spec:
    import altair as alt

    kinds = ["target", "drawn", "realised"]
    values = [
        {"lane": row.lane, "kind": kind, "share": round(share, 4)}
        for row in report.lanes.lanes
        for kind, share in zip(
            kinds,
            (row.target, row.nominal / report.lanes.matchups, row.realised / report.lanes.matchups),
            strict=True,
        )
    ]
    chart = (
        alt.Chart(chart_data(values))
        .mark_bar(height=alt.RelativeBandSize(0.85))
        .encode(
            x=alt.X("share:Q", axis=alt.Axis(format="%"), title=None),
            y=alt.Y("lane:N", sort=[row.lane for row in report.lanes.lanes], title=None),
            yOffset=alt.YOffset("kind:N", sort=kinds),
            color=alt.Color(
                "kind:N",
                sort=kinds,
                title=None,
                scale=alt.Scale(domain=kinds, range=[_BAND, _SOFT, ACCENT]),
                legend=alt.Legend(orient="bottom"),
            ),
            tooltip=["lane:N", "kind:N", alt.Tooltip("share:Q", format=".1%")],
        )
    )
    return spec_of(chart.properties(width=_WIDTH_PIXELS - 100, height=200))


def _rules(report: ValidityReport) -> Spec:
    import altair as alt

    history = thin_evenly(report.publication.history, _EVALUATION_LIMIT)
    charts: list[Any] = []
    for k, rule in enumerate(report.publication.rules):
        values = [
            {"votes": look.votes, "value": round(value, 4), "state": "holds" if look.holds[k] else "fails"}
            for look in history
            if (value := look.values[k]) is not None
        ]
        base = alt.Chart(chart_data(values)).encode(
            x=alt.X(
                "votes:Q", title="votes" if k == len(report.publication.rules) - 1 else None, scale=_tight()
            ),
            y=alt.Y(
                "value:Q", title=RULE_HEADS.get(rule.name, rule.name), scale=alt.Scale(zero=False, nice=True)
            ),
            tooltip=["votes:Q", "value:Q", "state:N"],
        )
        bar = (
            alt.Chart(chart_data([{"bar": rule.bar}]))
            .mark_rule(color=_WARN, strokeDash=[5, 4], strokeWidth=1.5)
            .encode(y="bar:Q")
        )
        state = alt.Scale(domain=["holds", "fails"], range=[ACCENT, _WARN])
        dots = base.mark_point(filled=True, size=28, opacity=1.0).encode(
            color=alt.Color("state:N", scale=state, legend=alt.Legend(title=None, orient="bottom"))
        )
        line = base.mark_line(color=_SOFT, strokeWidth=1.5)
        charts.append((line + bar + dots).properties(width=_WIDTH_PIXELS - 40, height=110))
    return spec_of(alt.vconcat(*charts, spacing=14))


def _over_time(report: ValidityReport, name: str, title: str) -> Spec:
    import altair as alt

    found = report.confidence
    top = [escape_controls(row.model) for row in found.models[: found.top]]
    kept = set(thin_evenly(sorted({moment.votes for moment in found.moments}), _EVALUATION_LIMIT))
    values = [
        {
            "model": escape_controls(moment.model),
            "votes": moment.votes,
            "value": round(getattr(moment, name), 1),
        }
        for moment in found.moments
        if moment.votes in kept
    ]
    chart = (
        alt.Chart(chart_data(values))
        .mark_line(strokeWidth=1.8)
        .encode(
            x=alt.X("votes:Q", title="votes", scale=_tight()),
            y=alt.Y("value:Q", title=title, scale=alt.Scale(zero=False, nice=True)),
            color=alt.Color(
                "model:N",
                sort=top,
                title=None,
                scale=alt.Scale(scheme="tableau10"),
                legend=alt.Legend(orient="bottom", columns=4, labelLimit=140),
            ),
            tooltip=["model:N", "votes:Q", alt.Tooltip("value:Q", title=title)],
        )
    )
    return spec_of(chart.properties(width=_WIDTH_PIXELS - 40, height=260))


def _churn(report: ValidityReport) -> Spec:
    import altair as alt

    values = [
        {"votes": step.votes, "kind": kind, "swaps": n}
        for step in report.churn.steps[-_EVALUATION_LIMIT:]
        for kind, n in (("within bands", step.swaps - step.beyond), ("beyond bands", step.beyond))
    ]
    kinds = alt.Scale(domain=["within bands", "beyond bands"], range=[_SOFT, _WARN])
    chart = (
        alt.Chart(chart_data(values))
        .mark_bar()
        .encode(
            x=alt.X("votes:O", title="votes", axis=alt.Axis(labelOverlap=True, labelAngle=0)),
            y=alt.Y("swaps:Q", title="pairs that changed order", axis=alt.Axis(tickMinStep=1)),
            color=alt.Color("kind:N", scale=kinds, title=None, legend=alt.Legend(orient="bottom")),
            tooltip=["votes:O", "kind:N", "swaps:Q"],
        )
    )
    return spec_of(chart.properties(width=_WIDTH_PIXELS - 40, height=160))


def _tight() -> Any:
    import altair as alt

    return alt.Scale(zero=False, nice=False)
