"""A forecast of an arena as a report: in a terminal, as Markdown, and as a page with charts."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import RenderableType

from tiltyard.core.policy.state.policy import Lane
from tiltyard.report.board_charts import (
    ACCENT,
    Spec,
    chart_data,
    charts_available,
    need_charts,
    spec_of,
    thin_evenly,
)
from tiltyard.report.report_parts import (
    RULE_HEADS,
    RULE_NAMES,
    Report,
    ReportSection,
    ReportTable,
    report_markdown,
    report_page,
    report_terminal,
)

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
#: With fewer worlds than this, a range over worlds is not shown.
_MIN_RANGE_WORLDS = 5
_SHOWN_DAYS = (1, 2, 3, 5, 7, 14, 21, 30, 60, 90, 180, 365)
_PACE_RATIOS = (0.5, 1, 2, 5)
_OVER_TIME = (
    "Medians over worlds; settled: pairs of models whose order may be claimed; in order: pairs of the true top that "
    "the published order has right; official: share of worlds."
)
_FOOTER = (
    "Simulated worlds are not a guarantee: voters and models differ. simulation.json contains every number."
)


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


def simulation_tables(simulation: Document) -> RenderableType:
    """Everything that `tiltyard simulate` prints."""
    return report_terminal(_report(simulation))


def simulation_markdown(simulation: Document) -> str:
    return report_markdown(_report(simulation))


def simulation_page(simulation: Document) -> str:
    charts = simulation_charts(simulation) if charts_available() else {}
    return report_page(_report(simulation), charts, footer=_FOOTER)


def simulation_sentence(simulation: Document) -> str:
    """How many orders are settled."""
    return _settled_sentence(simulation, simulation["forecasts"][0])


def _report(simulation: Document) -> Report:
    found = simulation["forecasts"][0]
    lede = [
        _settled_sentence(simulation, found),
        _official_sentence(simulation, found),
        _held_up_sentence(found),
    ]
    lede += [line for line in (_short_sentence(found), _right_sentence(simulation, found)) if line]
    if found["worlds"] < _MIN_RANGE_WORLDS:
        lede.append("So few worlds say little: more --seeds would show how far they differ.")
    forecasts = simulation["forecasts"]
    sections = [_time_section(simulation), _rules_section(simulation)]
    if forecasts[0]["official"]["median"] is not None:
        sections.append(_pace_section(simulation))
    fair = [one for one in forecasts if one["matchmaker"] == forecasts[0]["matchmaker"]]
    if len(fair) > 1:
        sections.append(_fairness_section(simulation, fair))
    makers = [one for one in forecasts if one["fairness"] == forecasts[0]["fairness"]]
    if len(makers) > 1:
        sections.append(_matchmakers_section(simulation, makers))
    if forecasts[0]["realised"]:
        sections.append(_lanes_section(forecasts))
    return Report(_title(simulation), tuple(lede), tuple(sections))


def _title(simulation: Document) -> str:
    world, found = simulation["settings"]["world"], simulation["forecasts"][0]
    worlds = "one simulated world" if found["worlds"] == 1 else f"{found['worlds']:,} simulated worlds"
    return (
        f"{world['models']:,} models, {world['prompts']:,} prompts, "
        f"{simulation['votes_per_day']:,} votes a day: {worlds}"
    )


def _settled_sentence(simulation: Document, found: Document) -> str:
    """Of how many pairs the order may be claimed after the last vote."""
    share, models = found["settled"], simulation["settings"]["world"]["models"]
    if share["median"] is None:
        return "Nothing settles: there are too few votes for an evaluation."
    pairs, votes = math.comb(models, 2), found["looks"][-1]["votes"]
    low, median, high = (round(share[name] * pairs) for name in ("low", "median", "high"))
    spread = "" if found["worlds"] < _MIN_RANGE_WORLDS else f" (80% of worlds: {low}–{high})"
    then = f"after {votes:,} votes (day {_day(simulation, votes)})"
    if not high:
        return f"Nothing settles: {then} no order of {pairs:,} pairs of models may be claimed{spread}."
    return f"Settled {then}: the order of {median:,} of {pairs:,} pairs of models{spread}."


def _official_sentence(simulation: Document, found: Document) -> str:
    """When enough is collected for the board to be official, in votes and days, or that it is not."""
    bound, never = simulation["settings"]["votes"], found["worlds"] - found["official_in"]
    within = f"within {bound:,} votes (day {_day(simulation, bound)})"
    if found["official"]["median"] is None:
        most = "any world" if not found["official_in"] else f"{never} of {found['worlds']} worlds"
        return f"Not official {within} in {most}; --votes looks further."
    votes = found["official"]["median"]
    spread = (
        "" if found["worlds"] < _MIN_RANGE_WORLDS else f" (80% of worlds: {_range(found['official'], bound)})"
    )
    sentence = f"Enough is collected (official) after about {votes:,.0f} votes{spread}: day {_day(simulation, votes)}."
    return f"{sentence} Not {within} in {never} of {found['worlds']} worlds." if never else sentence


def _held_up_sentence(found: Document) -> str:
    """Which rule held last, and in how many worlds."""
    if len({rule["holds_from"]["median"] for rule in found["rules"]}) == 1 and all(
        rule["last_in"] == found["worlds"] for rule in found["rules"]
    ):
        return "Held up by no rule: all began to hold at the same evaluation."
    ordered = sorted(found["rules"], key=lambda rule: -rule["last_in"])
    named = [f"{RULE_NAMES[rule['name']]} in {rule['last_in']}" for rule in ordered if rule["last_in"]]
    first, *others = named
    worlds = f" of {found['worlds']} world{'' if found['worlds'] == 1 else 's'}"
    return f"Held up by {first}{worlds}{''.join(f', by {other}' for other in others)}."


def _short_sentence(found: Document) -> str:
    lacking = [
        f"{RULE_NAMES[rule['name']]} at {_value(rule['name'], rule['short']['median'])}, bar {_bar(rule)}"
        for rule in found["rules"]
        if rule["holds_in"] < found["worlds"] and rule["short"]["median"] is not None
    ]
    return f"Short at the end: {'; '.join(lacking)}." if lacking else ""


def _right_sentence(simulation: Document, found: Document) -> str:
    share, fitted = found["in_order"], found["in_order_fitted"]["median"]
    if share["median"] is None:
        return ""
    top = min(10, simulation["settings"]["world"]["models"])
    spread = "" if found["worlds"] < _MIN_RANGE_WORLDS else f" (80% of worlds: {_percents(share)})"
    beside = "" if fitted is None else f"; Bradley–Terry {fitted:.0%}"
    then = "By then" if found["official"]["median"] is not None else "At the end"
    return (
        f"{then} the published order has {share['median']:.0%} of the pairs of the true top {top} "
        f"right{spread}{beside}."
    )


def _rules_section(simulation: Document) -> ReportSection:
    found = simulation["forecasts"][0]
    rows = tuple(
        (
            RULE_NAMES[rule["name"]],
            _bar(rule),
            *_when(simulation, rule["holds_from"], found["worlds"]),
            f"{rule['last_in']} of {found['worlds']}",
        )
        for rule in found["rules"]
    )
    official = ("official", "", *_when(simulation, found["official"], found["worlds"]), "")
    in_a_row = simulation["settings"]["policy"]["evaluations"]
    every = simulation["settings"]["policy"]["evaluated_every"]
    return ReportSection(
        "rules",
        "When each rule holds",
        ReportTable(
            ("rule, for the top of the board", "bar", "votes", "80% of worlds", "day", "last in"),
            (*rows, official),
        ),
        after=(
            f"Official: all hold at {in_a_row} evaluations in a row, one every {every} votes. Then enough is collected; who is better is another question.",
        ),
    )


def _when(simulation: Document, votes: Document, worlds: int) -> tuple[str, str, str]:
    bound = simulation["settings"]["votes"]
    if votes["median"] is None:
        return f">{bound:,}", "", ""
    spread = "" if worlds < _MIN_RANGE_WORLDS else _range(votes, bound)
    return f"{votes['median']:,.0f}", spread, f"{_day(simulation, votes['median']):,}"


def _time_section(simulation: Document) -> ReportSection:
    found = simulation["forecasts"][0]
    names = [rule["name"] for rule in found["rules"]]
    # Selected days, each with the last evaluation of that day; then the final one.
    looks = found["looks"]
    pace = simulation["votes_per_day"]
    chosen: list[tuple[int, Document]] = []
    for day in _SHOWN_DAYS:
        by = [look for look in looks if look["votes"] <= day * pace]
        if by and (not chosen or by[-1]["votes"] > chosen[-1][1]["votes"]) and by[-1] is not looks[-1]:
            chosen.append((day, by[-1]))
    if looks:
        chosen.append((_day(simulation, looks[-1]["votes"]), looks[-1]))
    rows = tuple(
        (
            f"{day:,}",
            f"{look['votes']:,}",
            _percent(look["settled"]["median"]),
            *(_value(name, look["rules"].get(name, {}).get("median")) for name in names),
            _percent(look["in_order"]["median"]),
            _percent(look["official"]),
        )
        for day, look in chosen
    )
    return ReportSection(
        "time",
        "Day by day",
        ReportTable(
            ("day", "votes", "settled", *(RULE_HEADS[name] for name in names), "in order", "official"),
            rows,
            words=0,
        ),
        after=(_OVER_TIME,),
    )


def _pace_section(simulation: Document) -> ReportSection:
    """The same votes at other rates per day."""
    official, pace = simulation["forecasts"][0]["official"], simulation["votes_per_day"]
    paces = sorted({max(round(pace * factor), 1) for factor in _PACE_RATIOS})
    rows = tuple(
        (f"{one:,}", *(_day_at(official[name], one) for name in ("median", "low", "high"))) for one in paces
    )
    week, month = (math.ceil(official["median"] / days) for days in (7, 30))
    return ReportSection(
        "pace",
        "With more or fewer votes a day",
        ReportTable(("votes a day", "official on day", "early (10%)", "late (90%)"), rows, words=0),
        after=(f"To be official within a week takes about {week:,} votes a day; within 30 days, {month:,}.",),
    )


def _day_at(votes: float | None, pace: int) -> str:
    return "later" if votes is None else f"{max(math.ceil(votes / pace), 1):,}"


def _fairness_section(simulation: Document, forecasts: Sequence[Document]) -> ReportSection:
    rows = tuple(
        (
            one["fairness"],
            *_when(simulation, one["official"], one["worlds"]),
            _percent(one["in_order"]["median"]),
            _percent(one["realised"][1] if one["realised"] else None),
            _percent(max(one["deviations"], default=None)),
        )
        for one in forecasts
    )
    weight, models = forecasts[0]["lane_weights"][1], simulation["settings"]["world"]["models"]
    note = (
        f"With {models} models, a contender lane of {weight:.0%} cannot be had while all exposures stay within "
        f"{forecasts[0]['tolerance']:.0%} of their targets: strict fairness serves fewer, scoped fairness counts "
        "that lane apart."
    )
    return ReportSection(
        "fairness",
        "Strict or scoped fairness",
        ReportTable(
            ("fairness", "votes", "80% of worlds", "day", "in order", "contender", "deviation"), rows
        ),
        after=() if forecasts[0]["mix_feasible"] else (note,),
    )


def _matchmakers_section(simulation: Document, forecasts: Sequence[Document]) -> ReportSection:
    last = min(one["looks"][-1]["votes"] if one["looks"] else 0 for one in forecasts)
    rows = tuple(
        (
            one["matchmaker"],
            *_when(simulation, one["official"], one["worlds"]),
            f"{one['official_in']} of {one['worlds']}",
            *(_percent(_in_order_at(one, votes)) for votes in (last // 2, last)),
        )
        for one in forecasts
    )
    heads = ("matchmaker", "votes", "80% of worlds", "day", "official")
    return ReportSection(
        "matchmakers",
        "Matchmakers on the same worlds",
        ReportTable((*heads, f"at {last // 2:,}", f"at {last:,}"), rows),
        after=("The last two columns: pairs of the true top in order after so many votes.",),
    )


def _in_order_at(found: Document, votes: int) -> float | None:
    by = [look["in_order"]["median"] for look in found["looks"] if look["votes"] <= votes]
    return by[-1] if by else None


def _lanes_section(forecasts: Sequence[Document]) -> ReportSection:
    found = forecasts[0]
    rows = tuple(
        (name, *(f"{share:.1%}" for share in shares))
        for name, *shares in zip(
            LANE_NAMES, found["lane_weights"], found["nominal"], found["realised"], strict=True
        )
    )
    largest = _percent(max(found["deviations"], default=None))
    sentence = (
        f"Largest deviation of a model's exposures from their target, once the window is full: {largest} "
        f"(tolerance {found['tolerance']:.0%})."
    )
    return ReportSection(
        "lanes",
        "Lanes",
        ReportTable(("lane", "asked for", "drawn", "served"), rows),
        after=(sentence,) if found["deviations"] else (),
    )


def _bar(rule: Document) -> str:
    return f"{'≤' if rule['at_most'] else '≥'} {rule['bar']:g}"


def _value(name: str, value: float | None) -> str:
    if value is None:
        return "–"
    return f"{value:.2f}" if name == "top-coverage" else f"{value:.0f}"


def _range(votes: Document, bound: int) -> str:
    """From early to late worlds, which may be beyond the simulated votes."""
    low, high = (f">{bound:,}" if votes[name] is None else f"{votes[name]:,.0f}" for name in ("low", "high"))
    return f"{low}–{high}"


def _percents(share: Document) -> str:
    return f"{100 * share['low']:.0f}–{share['high']:.0%}"


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{value:.0%}"


def _day(simulation: Document, votes: float) -> int:
    """The day on which the vote of this number is cast, starting at 1."""
    pace: int = simulation["votes_per_day"]
    return max(math.ceil(votes / pace), 1)
