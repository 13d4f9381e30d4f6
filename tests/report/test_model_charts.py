"""Charts of a model's page: what they show is what they are given, whatever the names."""

import json

import pytest

from tiltyard.core.policy.validity.model_record import Heatmap
from tiltyard.core.policy.validity.publication import ConfidencePoint
from tiltyard.report.arena_charts import (
    OpponentScore,
    both_bad_chart,
    confidence_chart,
    coverage_chart,
    expected_chart,
)
from tiltyard.report.board_charts import COLOURS, chart_labels, render_svg

HOSTILE = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "\u202egpj.exe",
    "x" * 10_000,
    "x" * 9_999 + "y",
    "a/b%2Fc?d#e&f",
    "\N{PILE OF POO}" * 60,
    "datum['x'] + \\u0000",
]
HISTORY = [
    ConfidencePoint(250 * k, 0, 1500.0 + 3 * k, 200.0 / k, 1500.0 + 3 * k - 400.0 / k) for k in range(1, 6)
]
HEAT = Heatmap(
    0,
    (1, 0),
    (1, 2),
    (1.0, 0.5),
    (0.5, 0.0),
    ((0.75, 0.5), (0.5, None)),
    ((0, 3), (4, 0)),
    0,
    0,
)


def against(names):
    return [OpponentScore(name, (k + 1) / 10, None if k == 0 else 0.5, 7 * k) for k, name in enumerate(names)]


def all_specs(look="light", names=HOSTILE):
    return {
        "confidence": confidence_chart(HISTORY, look),
        "expected": expected_chart(against(names), look),
        "both-bad": both_bad_chart([0.0, 0.1, 0.35], 0.25, look),
        "coverage": coverage_chart(HEAT, names, names, look),
    }


def values_of(spec):
    """Every row of data in a spec, wherever it stands."""
    found = list(spec.get("data", {}).get("values", ()))
    for part in spec.get("layer", ()):
        found += values_of(part)
    return found


@pytest.mark.parametrize("look", list(COLOURS))
def test_every_chart_can_be_drawn_whatever_the_names(look):
    for name, spec in all_specs(look).items():
        drawn = render_svg(json.loads(json.dumps(spec, allow_nan=False))).decode()
        assert drawn.startswith("<svg"), name
        assert "<script" not in drawn
        assert "<img" not in drawn
        assert "\u202e" not in drawn
        assert 'fill="white"' not in drawn


def test_the_confidence_history_shows_every_moment():
    rows = values_of(confidence_chart(HISTORY))
    assert {(row["votes"], row["rating"], row["RD"]) for row in rows} == {
        (moment.votes, round(moment.rating, 1), round(moment.rd, 1)) for moment in HISTORY
    }
    assert all(row["high"] - row["rating"] == pytest.approx(2 * row["RD"], abs=0.3) for row in rows)


def test_expected_scores_stand_beside_those_observed_most_met_first():
    rows = [OpponentScore(f"m{k:03}", k / 100, None if k % 9 == 0 else k / 120, k) for k in range(100)]
    found = {row["opponent"]: row for row in values_of(expected_chart(rows))}
    assert set(found) == {f"m{k:03}" for k in range(60, 100)}
    for k in range(60, 100):
        observed = None if k % 9 == 0 else round(k / 120, 4)
        assert (found[f"m{k:03}"]["expected"], found[f"m{k:03}"]["observed"]) == (k / 100, observed)


def test_blank_cells_and_the_bar_of_both_bad_are_in_the_picture():
    rows = values_of(coverage_chart(HEAT, ["a", "b", "c"], ["p", "q"]))
    told = {(row["prompt"], row["opponent"]): (row["deficit"], row["votes"]) for row in rows}
    assert told == {("q", "b"): (0.75, 0), ("q", "c"): (0.5, 3), ("p", "b"): (0.5, 4)}
    for trend in ([0.0], [0.9, 1.0], [0.1] * 10):
        spec = both_bad_chart(trend, 0.25)
        assert {"bar": 0.25} in values_of(spec)
        (top,) = {layer["encoding"]["y"]["scale"]["domain"][1] for layer in spec["layer"]}
        assert max(0.25, *trend) <= top <= 1.0


def test_labels_are_short_visible_and_no_two_alike():
    names = [*HOSTILE, *HOSTILE, *(["same"] * 5), "same #20"]
    labels = chart_labels(names)
    assert len(set(labels)) == len(names)
    assert all(len(label) <= 60 and label.isprintable() for label in labels)
    assert chart_labels(["short", "other"]) == ["short", "other"]
