"""What is said of two models, where little or nothing is known too."""

from __future__ import annotations

import dataclasses
import math
import re

import pytest

from tiltyard.report.ab_report import ABReport, CostRatio, difference_text, interval_text


def report(**known):
    usual = {"decision": "undecided", "basis": "judge", "unit": "points", "level": 0.95, "margin": 20.0}
    usual |= {"difference": 12.0, "low": -30.0, "high": 54.0, "compared": 40}
    return ABReport("old", "new", **(usual | known))


@pytest.mark.parametrize(
    ("low", "high", "said"),
    [
        (-12.4, 30.0, "−12 to +30"),
        (41.0, math.inf, "above +41"),
        (-math.inf, -41.0, "below −41"),
        (-math.inf, math.inf, "without bounds"),
    ],
)
def test_an_interval_says_the_ends_it_has(low, high, said):
    assert interval_text(low, high, "points") == said


def test_a_difference_that_no_rating_expresses_is_said_in_words():
    assert difference_text(math.inf, "points") == "won every prompt"
    assert difference_text(-math.inf, "points") == "lost every prompt"
    assert difference_text(0.01234, "accuracy") == "+0.0123 accuracy"
    won = report(decision="better", difference=math.inf, low=80.0, high=math.inf)
    assert "won every prompt" in won.numbers
    assert "above +80" in won.numbers
    assert "inf" not in won.to_markdown()


def test_nothing_compared_is_no_number_and_one_is_singular():
    nothing = report(
        compared=0,
        difference=math.nan,
        low=-math.inf,
        high=math.inf,
        decision="cannot tell",
        reason="status 400",
    )
    assert nothing.numbers.startswith("No prompts")
    assert "status 400" in nothing.verdict
    assert "nan" not in nothing.to_markdown()
    one = report(compared=1, basis="scores", unit="acc", more=1)
    assert one.numbers.endswith("1 sample like these.")
    assert "1 more sample" in one.verdict


def test_what_would_help_is_named_with_what_it_costs():
    assert "wider --margin" in report().verdict
    assert "--margin" in report(margin=None).verdict
    costly = report(more=300, more_usd="$1.20").verdict
    assert "300 more prompts, about $1.20" in costly


def test_a_notebook_shows_the_verdict_and_every_comparison_escaped():
    hostile = "<script>x</script>"
    one = dataclasses.replace(report(decision="better", low=3.0), name_b=hostile, notes=(hostile,))
    html = one._repr_html_()
    assert "<script" not in html
    assert html.count("&lt;script&gt;") == 4
    assert "+3 to +54" in html
    # Colours are the page's, light or dark.
    assert "#" not in html
    guard = report(decision="guard failed", basis="scores", unit="f1", guard=True)
    both = ABReport.combined([one, guard])._repr_html_()
    assert both.count("<tr") == 3
    assert "guard f1" in both


def test_several_candidates_with_costs_are_drawn_with_both_intervals():
    def candidate(name, middle, **fields):
        cost = CostRatio("dollars", 40, 0.02, 0.02 * middle, middle * 0.8, middle * 1.25)
        known = {"name_b": name, "basis": "scores", "unit": "f1", "costs": (cost,)}
        return dataclasses.replace(report(decision="better", low=3.0), **(known | fields))

    both = ABReport.combined([candidate("cheap<b>", 0.5), candidate("dear", 2.0)])._repr_html_()
    assert both.count("<circle") == 2
    assert both.count('stroke="none" font-size="12">cheap&lt;b&gt;') == 1
    assert "nan" not in both
    # Each has a horizontal and a vertical line; they cross at the dot, and cheap is on the left.
    lines = re.findall(r"M([\d.]+) ([\d.]+)H([\d.]+)M([\d.]+) ([\d.]+)V([\d.]+)", both)
    (left, _, right, at, low, high), (dear, *_) = [[float(one) for one in line] for line in lines]
    assert left < at < right < dear
    assert low > high
    # What has no interval of its own is not drawn, and one alone is no picture.
    open_end = candidate("open", 3.0, high=math.inf)
    assert (
        ABReport.combined([candidate("a", 0.5), candidate("b", 2.0), open_end])._repr_html_().count("<circle")
        == 2
    )
    assert "<svg" not in ABReport.combined([candidate("a", 0.5), open_end])._repr_html_()
    assert "<svg" not in candidate("a", 0.5)._repr_html_()
