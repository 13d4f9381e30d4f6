"""A forecast of an arena as a report: in a terminal, as Markdown, and as a page."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import RenderableType

from tiltyard.report.board_charts import chart_svg, charts_available
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
from tiltyard.report.simulation_charts import (
    DEVIATIONS,
    IN_ORDER,
    LANE_NAMES,
    LANES,
    OFFICIAL,
    RULES,
    simulation_charts,
)

Document = Mapping[str, Any]

#: With fewer worlds than this, a range over worlds is not shown.
_MIN_RANGE_WORLDS = 5
_SHOWN_DAYS = (1, 2, 3, 5, 7, 14, 21, 30, 60, 90, 180, 365)
_PACE_RATIOS = (0.5, 1, 2, 5)
_FILES = {
    RULES: "rules",
    OFFICIAL: "official",
    IN_ORDER: "in-order",
    LANES: "lanes",
    DEVIATIONS: "deviations",
}
_OVER_TIME = (
    "Medians over worlds; settled: pairs of models whose order may be claimed; in order: pairs of the true top that "
    "the published order has right; official: share of worlds."
)
_FOOTER = (
    "Simulated worlds are not a guarantee: voters and models differ. simulation.json contains every number."
)


def simulation_tables(simulation: Document) -> RenderableType:
    """Everything that `tiltyard simulate` prints."""
    return report_terminal(_report(simulation))


def simulation_markdown(simulation: Document) -> str:
    return report_markdown(_report(simulation))


def simulation_page(simulation: Document) -> str:
    charts = simulation_charts(simulation) if charts_available() else {}
    return report_page(_report(simulation), charts, footer=_FOOTER)


def simulation_svgs(simulation: Document) -> dict[str, str]:
    """Charts as SVG, by file name; empty without the `plots` extra."""
    if not charts_available():
        return {}
    charts = {
        title: spec for section in simulation_charts(simulation).values() for title, spec in section.items()
    }
    return {f"{_FILES[title]}.svg": chart_svg(spec) for title, spec in charts.items()}


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
        tables=(
            ReportTable(
                ("rule, for the top of the board", "bar", "votes", "80% of worlds", "day", "last in"),
                (*rows, official),
            ),
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
        tables=(
            ReportTable(
                ("day", "votes", "settled", *(RULE_HEADS[name] for name in names), "in order", "official"),
                rows,
                words=0,
            ),
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
        tables=(ReportTable(("votes a day", "official on day", "early (10%)", "late (90%)"), rows, words=0),),
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
        tables=(
            ReportTable(
                ("fairness", "votes", "80% of worlds", "day", "in order", "contender", "deviation"), rows
            ),
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
        tables=(ReportTable((*heads, f"at {last // 2:,}", f"at {last:,}"), rows),),
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
        tables=(ReportTable(("lane", "asked for", "drawn", "served"), rows),),
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
