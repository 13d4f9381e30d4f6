"""The theme of charts on a light or dark page, and the labels in them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from textwrap import wrap
from typing import Any, Literal

from tiltyard.report.board_charts import Spec, spec_of
from tiltyard.report.terminal_escape import escape_controls

#: ``any`` is for a page that may be light or dark: its colours are visible on both.
ChartTheme = Literal["light", "dark", "any"]
#: Translates a chart's text into the language of a page; `str` leaves it in English.
Translate = Callable[[str], str]

#: The maximum length of a label.
_LABEL_CHARACTERS = 40
#: On a phone: the width of a plot, the maximum width of a label, and the tolerance for wider fonts, in points.
_PHONE_WIDTH_PIXELS, _PHONE_LABEL_PIXELS, _PHONE_LABEL_MARGIN_PIXELS = 190, 108, 22
#: Also on a phone: characters per line of the title below a plot, ticks along an axis, columns of the legend,
#: points between labels.
_PHONE_TITLE_CHARACTERS, _PHONE_TICK_COUNT, _PHONE_LEGEND_COLUMNS, _PHONE_LABEL_GAP_PIXELS = 38, 3, 2, 8


@dataclass(frozen=True, slots=True)
class ThemeColours:
    """The colours of one theme."""

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
    return spec_of(chart) | {"background": "transparent", "padding": padding, "config": config}


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

    quiet = spec | {"config": spec.get("config", {}) | {"aria": False}}
    return str(vl_convert.vegalite_to_svg(quiet)).encode()


def chart_labels(names: Sequence[str]) -> list[str]:
    """Labels for a chart: short, printable and distinct."""
    taken: set[str] = set()
    labels: list[str] = []
    for name in names:
        text = escape_controls(name[: _LABEL_CHARACTERS + 1])
        label = text if len(text) <= _LABEL_CHARACTERS else f"{text[: _LABEL_CHARACTERS - 1]}…"
        if label in taken:
            label = _another(label[: _LABEL_CHARACTERS - 8], taken)
        taken.add(label)
        labels.append(label)
    return labels


def _another(stem: str, taken: set[str]) -> str:
    return next(label for k in count(2) if (label := f"{stem} #{k}") not in taken)
