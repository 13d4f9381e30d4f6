"""The charts of an arena's board: every model once, whatever it is called, in both themes."""

import json
import re

import pytest

from tiltyard.errors import BadOption
from tiltyard.report.arena_charts import (
    CHARTS,
    FEW_BATTLES,
    ChartContent,
    HistoryPoint,
    RatingPoint,
    arena_chart,
    page_spec,
)
from tiltyard.report.board_charts import fit_to_phone, render_svg

NAMES = (
    "plum",
    "<script>alert(1)</script>",
    "datum['x']",
    "\u202eelm\u2066",
    "x" * 300,
    "x" * 300 + "y",
    "a/b %",
)


def documents():
    pairs = [
        {"model_a": a, "model_b": b, "battles": k, "both_bad": 1, "score": None if k == 3 else k / 40}
        for k, (a, b) in enumerate((a, b) for i, a in enumerate(NAMES) for b in NAMES[i + 1 :])
    ]
    points = [
        HistoryPoint(model, f"2026-01-0{day}T00:00:00Z", 10 * day, None if day == 2 else 1500.0 + day)
        for model in NAMES
        for day in (1, 2, 3)
    ]
    dots = [
        RatingPoint(name, 1500.0 - k, None if k == 2 else 1400.0, 1600.0, k) for k, name in enumerate(NAMES)
    ]
    return {
        "ratings": ChartContent("rating", dots),
        "win-rates": ChartContent(models=NAMES, pairs=pairs),
        "battle-counts": ChartContent(models=NAMES, pairs=pairs),
        "history": ChartContent("rating", models=NAMES, points=points),
    }


def values_of(spec):
    (values,) = spec["datasets"].values() if "datasets" in spec else (spec["data"]["values"],)
    return values


@pytest.mark.parametrize(("name", "look"), list(zip(CHARTS, ("light", "dark", "light", "dark"), strict=True)))
def test_every_chart_is_a_picture_in_both_themes(name, look):
    spec = arena_chart(name, documents()[name], look)
    svg = render_svg(spec).decode()
    assert svg.startswith("<svg")
    assert "<script" not in svg
    assert "\u202e" not in svg
    assert "aria-label" not in svg
    assert not re.search(r"\b(?:href|src)=", svg)
    assert "url" not in json.dumps({k: v for k, v in spec.items() if k != "$schema"}, default=str).replace(
        "http", ""
    )


def test_dots_are_in_the_order_of_the_board_each_with_a_label_of_its_own():
    values = values_of(arena_chart("ratings", documents()["ratings"]))
    labels = [value["model"] for value in values]
    assert len(set(labels)) == len(NAMES)
    assert all(len(label) <= 45 for label in labels)
    spec = arena_chart("ratings", documents()["ratings"])
    values = values_of(spec)
    assert [value["rating"] for value in values] == [1500.0 - k for k in range(len(NAMES))]
    assert values[2]["low"] is None
    assert spec["layer"][0]["encoding"]["y"]["sort"] == [value["model"] for value in values]
    alone = arena_chart("ratings", ChartContent(dots=[RatingPoint("m", 1.0, None, None, 0)]))
    assert "layer" not in alone


def test_heatmaps_add_up_and_history_leaves_out_what_was_not_known():
    cells = {
        (c["row"], c["column"]): c for c in values_of(arena_chart("win-rates", documents()["win-rates"]))
    }
    assert len(cells) == len(NAMES) * (len(NAMES) - 1) - 2
    for (row, column), cell in cells.items():
        assert cell["score"] + cells[column, row]["score"] == pytest.approx(1.0)
        assert cell["battles"] == cells[column, row]["battles"]
    values = values_of(arena_chart("history", documents()["history"]))
    assert len(values) == 2 * len(NAMES)


@pytest.mark.parametrize(
    ("ends", "shape"),
    [
        (("2026-01-05T10:00:00Z", "2026-01-05T10:00:40Z"), r"\d\d:\d\d:\d\d"),
        (("2026-01-05T10:00:00+00:00", "2026-01-05T19:00:00+00:00"), r"\d\d:\d\d"),
        (("2026-01-05T10:00:00Z", "2026-01-08T10:00:00Z"), r"\d\d Jan \d\d:\d\d"),
        (("2026-01-05T10:00:00Z", "2026-03-05T10:00:00Z"), r"\d\d (?:Jan|Feb|Mar)"),
        (("2024-01-05T10:00:00Z", "2026-03-05T10:00:00Z"), r"[A-Z][a-z]{2} 202\d"),
    ],
)
def test_times_are_written_as_fine_as_they_are_far_apart(ends, shape):
    points = [HistoryPoint("m", at, 1, 1500.0 + k) for k, at in enumerate(ends)]
    spec = arena_chart("history", ChartContent(models=["m"], points=points))
    svg = render_svg(spec).decode()
    labels = [
        text
        for text in re.findall(r"<text[^>]*>([^<]*)</text>", svg)
        if ":" in text or re.search("[A-Z]", text)
    ]
    assert labels
    assert all(re.fullmatch(shape, label) for label in labels)
    assert len(set(labels)) == len(labels)


def test_a_page_gives_a_chart_its_own_look_if_there_is_such_a_chart():
    spec = arena_chart("ratings", documents()["ratings"])
    shown = page_spec(spec)
    assert set(shown["config"]) == {"mark", "rule"}
    assert not {"background", "padding"} & shown.keys()
    assert "axis" in spec["config"]
    with pytest.raises(BadOption, match="expected ratings"):
        arena_chart("pie", ChartContent())


def test_a_phone_gets_a_narrow_picture_with_short_labels_and_heatmaps_as_they_are():
    dots = [RatingPoint(f"a model with a long name {k}", 1500.0 + k, 1400.0, 1600.0, 10) for k in range(4)]
    wide = arena_chart("ratings", ChartContent("rating", dots))
    narrow = fit_to_phone(wide)
    assert narrow["width"] < wide["width"]
    assert narrow["config"]["legend"]["orient"] == "bottom"
    assert max(limits(narrow)) <= 120 < max(limits(wide))
    width = int(re.search(rb'width="(\d+)', render_svg(narrow))[1])
    assert width < 358
    heatmap = arena_chart("win-rates", documents()["win-rates"])
    assert fit_to_phone(heatmap) == heatmap


def test_on_a_phone_the_title_of_an_axis_is_broken_and_its_ticks_are_few():
    dots = [RatingPoint(f"m{k}", 1100.0 + 100 * k, 1000.0, 1700.0, 10) for k in range(6)]
    said = "rating, and 2 RD to either side: the left end is the conservative score"
    wide = arena_chart("ratings", ChartContent(said, dots))
    svg, small = render_svg(wide).decode(), render_svg(fit_to_phone(wide)).decode()
    assert said in svg
    assert said not in small
    assert all(word in small for word in ("rating, and 2 RD", "conservative score"))
    ticks = re.compile(r">1,\d{3}</text>")
    assert len(ticks.findall(small)) < len(ticks.findall(svg)) <= 8


def test_a_score_of_few_battles_is_pale():
    pairs = [
        {"model_a": "a", "model_b": "b", "battles": FEW_BATTLES - 1, "both_bad": 0, "score": 1.0},
        {"model_a": "a", "model_b": "c", "battles": FEW_BATTLES, "both_bad": 0, "score": 1.0},
    ]
    document = ChartContent(models=["a", "b", "c"], pairs=pairs)
    pale = re.compile(r'<path[^>]*opacity="0\.35"')
    assert len(pale.findall(render_svg(arena_chart("win-rates", document)).decode())) == 2
    assert pale.search(render_svg(arena_chart("battle-counts", document)).decode()) is None


def limits(part):
    """Every limit of a label in a spec."""
    if isinstance(part, dict):
        own = [value for name, value in part.items() if name == "labelLimit"]
        return own + [one for value in part.values() for one in limits(value)]
    return [one for value in part for one in limits(value)] if isinstance(part, list) else []
