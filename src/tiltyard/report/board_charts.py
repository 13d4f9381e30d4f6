"""The charts of a board as Vega-Lite specs made with Altair, and what all charts share: theme and labels."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from importlib.util import find_spec
from itertools import count
from textwrap import wrap
from typing import Any, Literal, TypeVar

from tiltyard.core.board import RatedGroup, pair_rows
from tiltyard.core.board.board_rows import Row
from tiltyard.errors import MissingExtra
from tiltyard.foundation.local_files import replace_file
from tiltyard.report.escapes import escape_controls
from tiltyard.settings.environment import read_environment

#: A Vega-Lite specification: its keys are those of Vega-Lite.
Spec = dict[str, Any]
One = TypeVar("One")

#: The number of models that a heatmap shows, best first; more would be unreadable.
HEATMAP_MODELS = 40
#: The largest number of models for which the cells of a heatmap have numbers.
_NUMBERED_MODELS = 16
#: Models whose ratings are drawn under each K.
_SWEEP_MODELS = 12
ACCENT = "#2f6f8f"
_WIDTH_PIXELS = 640
#: Charts of reports are specs as they stand here: importing Altair costs seconds.
_SCHEMA = "https://vega.github.io/schema/vega-lite/v6.json"

#: ``any`` is for a page that may be light or dark: its colours are visible on both.
ChartTheme = Literal["light", "dark", "any"]
#: Translates a chart's text into the language of a page; `str` leaves it in English.
Translate = Callable[[str], str]
#: The maximum length of a label.
_LABEL_CHARACTERS = 40
_PRIVATE_USE = range(0xE000, 0xF900)
#: On a phone: the width of a plot, the maximum width of a label, and the tolerance for wider fonts, in points.
_PHONE_WIDTH_PIXELS, _PHONE_LABEL_PIXELS, _PHONE_LABEL_MARGIN_PIXELS = 190, 108, 22
#: Also on a phone: characters per line of the title below a plot, ticks along an axis, columns of the legend,
#: points between labels.
_PHONE_TITLE_CHARACTERS, _PHONE_TICK_COUNT, _PHONE_LEGEND_COLUMNS, _PHONE_LABEL_GAP_PIXELS = 38, 3, 2, 8


def charts_available() -> bool:
    """Whether the `plots` extra is installed."""
    return find_spec("altair") is not None and find_spec("vl_convert") is not None


def need_charts() -> None:
    """Raise if the `plots` extra is not installed."""
    if not charts_available():
        raise MissingExtra("plots", "Drawing charts")


@cache
def javascript() -> str:
    """Vega, Vega-Lite and Vega-Embed in one script, for a page that works offline.

    Making it takes two seconds, so it is kept in the home folder, if that can be written.
    """
    kept = read_environment().home / "cache" / f"charts-{version('vl-convert-python')}.js"
    with suppress(OSError, UnicodeDecodeError):
        return kept.read_text(encoding="utf-8")
    import vl_convert

    made = str(vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;"))
    with suppress(OSError):
        kept.parent.mkdir(parents=True, exist_ok=True)
        with replace_file(kept) as file:
            file.write(made.encode())
    return made


def chart_data(values: Sequence[Mapping[str, object]]) -> Any:
    """Rows embedded in the spec."""
    import altair as alt

    return alt.Data(values=list(values))


def spec_of(chart: Any) -> Spec:
    """The chart without a theme, which the page supplies."""
    spec: Spec = chart.to_dict(validate=False)
    spec.pop("config", None)
    return spec


def thin_evenly(rows: Sequence[One], most: int) -> Sequence[One]:
    """At most ``most`` rows, evenly spaced, including the last."""
    step = -(-len(rows) // most) or 1
    return rows[::-step][::-1]


def chart_specs(rated: RatedGroup) -> dict[str, Spec]:
    """Title and spec of every chart that a page draws by script; they are as wide as their place on the page."""
    need_charts()
    rows = [row for row in rated.board.rows if row.group == 0]
    specs: dict[str, Spec] = {}
    shown = [row.model for row in rows[:HEATMAP_MODELS]]
    first = _first_of(HEATMAP_MODELS, rows)
    if len(shown) > 2:
        # A cell for each pair that met, both ways; models by their place in ``shown``, since names may be long.
        cells: list[dict[str, object]] = []
        place = {model: k for k, model in enumerate(shown)}
        for pair in pair_rows(rated.table, rated.ratings.method):
            if {pair.model_a, pair.model_b} <= place.keys() and pair.a_score is not None:
                a, b, score = place[pair.model_a], place[pair.model_b], round(pair.a_score, 4)
                cells.append({"a": a, "b": b, "score": score, "battles": pair.battles})
                cells.append({"a": b, "b": a, "score": round(1.0 - pair.a_score, 4), "battles": pair.battles})
        specs[f"Score of row against column{first}"] = _scores(cells, shown)
        specs[f"Battles by pair{first}"] = _battles(cells, shown)
    if rated.sweep:
        specs[f"Elo under other values of K{_first_of(_SWEEP_MODELS, rows)}"] = sweep_spec(
            {
                k: dict(zip(ratings.models, ratings.rating.tolist(), strict=True))
                for k, ratings in rated.sweep.items()
            },
            [row.model for row in rows],
        )
    if rated.prediction is not None:
        specs["Predicted against observed score"] = _calibration(rated)
    return specs


def _first_of(most: int, rows: Sequence[Row]) -> str:
    return f": first {most} of {len(rows)} models" if len(rows) > most else ""


def sweep_spec(ratings: Mapping[float, Mapping[str, float]], best: Sequence[str] | None = None) -> Spec:
    """The first ratings under each K. ``best`` lists models, best first; otherwise the first K decides."""
    if best is None:
        first = next(iter(ratings.values()))
        best = sorted(first, key=lambda model: -first[model])
    best = best[:_SWEEP_MODELS]
    values = [
        {"K": k, "model": model, "rating": round(found[model], 2)}
        for k, found in ratings.items()
        for model in best
    ]
    return {
        "$schema": _SCHEMA,
        "width": "container",
        "height": 300,
        "data": {"values": values},
        "mark": {"type": "line", "point": True},
        "encoding": {
            "x": _number("K", "K", scale={"type": "log", "base": 2}),
            "y": _number("rating", "Elo", scale={"zero": False}),
            "color": _name("model", sort=list(best), legend={"symbolLimit": _SWEEP_MODELS}),
            "tooltip": [_name("model"), _number("K", "K"), _number("rating", "Elo")],
        },
    }


def _number(field: str, title: str, **words: Any) -> Spec:
    return {"field": field, "type": "quantitative", "title": title, **words}


def _name(field: str, **words: Any) -> Spec:
    return {"field": field, "type": "nominal", "title": None, **words}


def ratings_chart(rows: Sequence[Row]) -> Any:
    """Ratings with their intervals, as a chart of Altair."""
    need_charts()
    import altair as alt

    values = [
        {
            "model": row.model,
            **{name: _rounded(getattr(row, name)) for name in ("rating", "low", "high")},
            "battles": row.battles,
        }
        for row in rows
    ]
    base = alt.Chart(chart_data(values)).encode(
        y=alt.Y("model:N", sort=[row.model for row in rows], title=None, axis=alt.Axis(labelLimit=260)),
        tooltip=[
            "model:N",
            *(alt.Tooltip(f"{name}:Q", format=".1f") for name in ("rating", "low", "high")),
            "battles:Q",
        ],
    )
    scale = alt.Scale(zero=False, nice=True)
    dots = base.mark_point(filled=True, size=55, color=ACCENT).encode(
        x=alt.X("rating:Q", scale=scale, title="rating")
    )
    chart: Any = dots
    if any(row.low is not None for row in rows):
        bars = base.mark_rule(strokeWidth=2, color=ACCENT).encode(
            x=alt.X("low:Q", scale=scale, title="rating"), x2="high:Q"
        )
        chart = bars + dots
    return chart.properties(width=_WIDTH_PIXELS, height=alt.Step(22))


def _rounded(value: float | None) -> float | None:
    """Round to what a chart can show, so that a page does not depend on the machine's last bits."""
    return None if value is None else round(value, 2)


def _heatmap(cells: list[dict[str, object]], shown: list[str], color: Spec, format_: str) -> Spec:
    numbered = len(shown) <= _NUMBERED_MODELS
    tooltip = [_name("row", title="row"), _name("column", title="column")]
    tooltip += [_number("score", "score", format=".2f"), _number("battles", "battles")]
    layers: list[Spec] = [{"mark": "rect", "encoding": {"color": color}}]
    if numbered:
        text = {key: color[key] for key in ("field", "type")} | {"format": format_}
        layers.append({"mark": {"type": "text", "fontSize": 11, "color": "#111"}, "encoding": {"text": text}})
    return {
        "$schema": _SCHEMA,
        "width": "container" if numbered else {"step": 18},
        "height": {"step": 26 if numbered else 18},
        "params": [{"name": "models", "value": shown}],
        "data": {"values": cells},
        "transform": [
            {"calculate": "models[datum.a]", "as": "row"},
            {"calculate": "models[datum.b]", "as": "column"},
        ],
        "encoding": {
            "x": _name("column", sort=shown, axis={"orient": "top", "labelAngle": -40}),
            "y": _name("row", sort=shown),
            "tooltip": tooltip,
        },
        "layer": layers,
    }


class Picture(str):
    """A picture as SVG, which a notebook shows without a network; ``Path("x.svg").write_text(picture)`` keeps it."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        return f'<div role="img" aria-label="Heatmap" style="overflow-x:auto">{self}</div>'


def win_rate_picture(pairs: Mapping[str, Sequence[Any]], models: Sequence[str]) -> Picture:
    """The win rates of every two of these models, as `pairwise_columns` has them, of the row against the column."""
    need_charts()
    place, cells = {model: k for k, model in enumerate(models)}, list[dict[str, object]]()
    columns = (pairs[name] for name in ("model_a", "model_b", "win_rate", "battles"))
    for model_a, model_b, rate, battles in zip(*columns, strict=True):
        if rate is not None and {model_a, model_b} <= place.keys():
            a, b = place[model_a], place[model_b]
            cells.append({"a": a, "b": b, "score": round(rate, 4), "battles": battles})
            cells.append({"a": b, "b": a, "score": round(1.0 - rate, 4), "battles": battles})
    spec = _scores(cells, list(models)) | {"width": {"step": 34 if len(models) <= _NUMBERED_MODELS else 18}}
    return Picture(render_svg(apply_theme(spec, "any")).decode())


def _scores(cells: list[dict[str, object]], shown: list[str]) -> Spec:
    scale = {"domain": [0, 0.5, 1], "range": ["#d98a5f", "#f4f1ea", "#5f9fbf"]}
    return _heatmap(cells, shown, _number("score", "score", scale=scale), ".2f")


def _battles(cells: list[dict[str, object]], shown: list[str]) -> Spec:
    scale = {"range": ["#f4f1ea", "#6fa08a"], "zero": True}
    return _heatmap(cells, shown, _number("battles", "battles", scale=scale), ",d")


def _calibration(rated: RatedGroup) -> Spec:
    assert rated.prediction is not None
    values = [
        {"predicted": round(p, 4), "observed": round(y, 4), "battles": n}
        for p, y, n in rated.prediction.calibration
    ]
    both = {"x": _number("v", "predicted score"), "y": _number("v", "observed score")}
    found = {
        "x": _number("predicted", "predicted score", scale={"domain": [0, 1]}),
        "y": _number("observed", "observed score", scale={"domain": [0, 1]}),
        "size": _number("battles", "battles", legend=None, scale={"range": [30, 400]}),
    }
    line = {"type": "line", "color": "#999", "strokeDash": [4, 4]}
    dots = {"type": "circle", "color": ACCENT, "opacity": 0.9, "tooltip": True}
    return {
        "$schema": _SCHEMA,
        "width": "container",
        "height": 320,
        "layer": [
            {"data": {"values": [{"v": 0}, {"v": 1}]}, "mark": line, "encoding": both},
            {"data": {"values": values}, "mark": dots, "encoding": found},
        ],
    }


@dataclass(frozen=True, slots=True)
class ThemeColours:
    ink: str
    line: str
    accent: str
    #: For marks next to the accent: bars, references, expected values.
    quiet: str
    warn: str
    #: Scale from complete to missing.
    deficit: tuple[str, str]
    #: Scales: losing, even, winning; few, many.
    scores: tuple[str, str, str]
    counts: tuple[str, str]


COLOURS: dict[ChartTheme, ThemeColours] = {
    "light": ThemeColours(
        "#3f464c",
        "#dcd8ce",
        "#1f5f8b",
        "#8d887c",
        "#a86a00",
        ("#eef2f4", "#c9822b"),
        ("#d98a5f", "#f4f1ea", "#5f9fbf"),
        ("#f4f1ea", "#6fa08a"),
    ),
    "dark": ThemeColours(
        "#c3cad0",
        "#31383e",
        "#82bce4",
        "#79838b",
        "#e3b95f",
        ("#20262b", "#b97a2c"),
        ("#a85f38", "#2b2d31", "#3f7f9f"),
        ("#2b2d31", "#4f8a72"),
    ),
    "any": ThemeColours(
        "#7c858c",
        "#80808055",
        "#3d86b8",
        "#8a8f94",
        "#b9822b",
        ("rgba(128, 134, 140, 0.14)", "rgba(201, 130, 43, 1)"),
        ("#c07a4f", "#80808033", "#4f8fb0"),
        ("#80808033", "#5f957d"),
    ),
}


def apply_theme(chart: Any, look: ChartTheme, labels: Sequence[str] = ()) -> Spec:
    """The spec of a chart in a theme, with a transparent background.

    A browser's font may be wider than the one used for measuring, so ``labels`` on the left get
    extra room.
    """
    colours = COLOURS[look]
    left = 8 + 2 * max(map(len, labels), default=0)
    written = {"labelColor": colours.ink, "titleColor": colours.ink, "titleFontWeight": "normal"}
    ruled = {"gridColor": colours.line, "domainColor": colours.line, "tickColor": colours.line}
    config = {
        "font": "system-ui, sans-serif",
        "mark": {"color": colours.accent},
        "rule": {"color": colours.accent},
        "view": {"stroke": None},
        "axis": {**written, **ruled, "labelFontSize": 11, "titleFontSize": 11, "titlePadding": 8},
        "legend": written,
    }
    padding = {"left": left, "top": 8, "right": 40, "bottom": 8}
    spec = chart if isinstance(chart, dict) else spec_of(chart)
    return spec | {"background": "transparent", "padding": padding, "config": config}


def tooltip_line(field: str, title: str, form: str | None = None) -> Any:
    """One line of a tooltip: title and value."""
    import altair as alt

    return alt.Tooltip(field, title=title) if form is None else alt.Tooltip(field, title=title, format=form)


def localise_spec(spec: Spec, locale: Mapping[str, object] | None) -> Spec:
    """Localise numbers and months with D3's ``number`` and ``time`` locales; ``None`` is English."""
    return spec if locale is None else spec | {"config": spec.get("config", {}) | {"locale": dict(locale)}}


def fit_to_phone(spec: Spec) -> Spec:
    """Adapt a chart for a phone: a narrow plot, few ticks, short labels, wrapped titles, the legend below.

    Heatmaps are unchanged.
    """
    if not isinstance(spec.get("width"), int | float):
        return spec
    config = spec.get("config", {})
    legend = {
        **config.get("legend", {}),
        "orient": "bottom",
        "columns": _PHONE_LEGEND_COLUMNS,
        "labelLimit": _PHONE_LABEL_PIXELS,
    }
    axis = {**config.get("axis", {}), "labelSeparation": _PHONE_LABEL_GAP_PIXELS}
    small: Spec = _capped(spec)
    return small | {
        "width": _PHONE_WIDTH_PIXELS,
        "padding": {
            "left": min(spec["padding"]["left"], _PHONE_LABEL_MARGIN_PIXELS),
            "top": 8,
            "right": 16,
            "bottom": 8,
        },
        "config": config | {"legend": legend, "axis": axis},
    }


def _capped(part: Any) -> Any:
    """Part of a spec with short labels, few ticks and wrapped titles."""
    if isinstance(part, list):
        return [_capped(one) for one in part]
    if not isinstance(part, dict):
        return part
    capped = {name: value if name in {"data", "datasets"} else _capped(value) for name, value in part.items()}
    for name, most in (
        ("labelLimit", _PHONE_LABEL_PIXELS),
        ("tickCount", _PHONE_TICK_COUNT),
        ("columns", _PHONE_LEGEND_COLUMNS),
    ):
        if isinstance(capped.get(name), int):
            capped[name] = min(capped[name], most)
    along = capped.get("x")
    if isinstance(along, dict) and isinstance(along.get("title"), str):
        capped["x"] = along | {"title": wrap(along["title"], _PHONE_TITLE_CHARACTERS)}
    return capped


def render_svg(spec: Spec) -> bytes:
    """Render a chart as SVG. The page describes it in text, so its parts have no accessible names."""
    import vl_convert

    text = json.dumps(spec | {"config": spec.get("config", {}) | {"aria": False}}, ensure_ascii=False)
    # Vega shortens labels between the two halves of an emoji, which the renderer refuses: each is one
    # character of private use while it draws.
    unused = (sign for sign in map(chr, _PRIVATE_USE) if sign not in text)
    pairs = list(zip(sorted({sign for sign in text if ord(sign) > 0xFFFF}), unused, strict=False))
    drawn: str = vl_convert.vegalite_to_svg(text.translate({ord(sign): new for sign, new in pairs}))
    return drawn.translate({ord(new): sign for sign, new in pairs}).encode()


def chart_labels(names: Sequence[str]) -> list[str]:
    """Labels for a chart: short, printable and distinct."""
    taken: set[str] = set()
    labels: list[str] = []
    for name in names:
        text = escape_controls(name[: _LABEL_CHARACTERS + 1])
        label = text if len(text) <= _LABEL_CHARACTERS else f"{text[: _LABEL_CHARACTERS - 1]}…"
        if label in taken:
            stem = label[: _LABEL_CHARACTERS - 8]
            label = next(label for k in count(2) if (label := f"{stem} #{k}") not in taken)
        taken.add(label)
        labels.append(label)
    return labels
