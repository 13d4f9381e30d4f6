"""The table of bars shown in a terminal, as Markdown and as a page."""

import io
import json
import re
from dataclasses import asdict

import pytest
from rich.console import Console

from lab.bars import PolicyBar
from lab.policy_suite import SuiteResult
from lab.suite_report import suite_markdown, suite_page, suite_svgs, suite_tables
from tiltyard.report import board_charts

OTHERS = {"v1": 5600.0, "uniform": 6000.0, "nearest": None, "thompson": 7000.0}
BARS = (
    PolicyBar("official-20", "votes until officially stable", 3500.0, 3250.0, 3750.0, None, 3800, "at most 3800", True, 24, OTHERS),
    PolicyBar("contender-20", "share of the contender lane", 0.2, 0.19, 0.21, 0.27, None, "at least 0.27", False, 24),
    PolicyBar("in-order-20", "gain over v1", 0.012, -0.01, 0.03, 0.0, None, "above 0", None, 3, {"policy": 0.93, "v1": 0.92}),
    PolicyBar("glicko-2", "RD | after <200> votes", 60.7, 60.6, 60.8, 59.5, 61.5, "59.5 to 61.5", True, 8, {"at 0.003": 25.8}),
    PolicyBar("planted", "never came to a number", None, None, None, None, 1250, "at most 1250", None, 0),
    PolicyBar("power", "half an interval", 240.0, 200.0, None, None, 250, "at most 250", True, 24),
)  # fmt: skip


def document(bars=BARS, size="full"):
    return json.loads(json.dumps(asdict(SuiteResult(size, bars)), allow_nan=False))


def terminal(found):
    out = io.StringIO()
    Console(file=out, width=80, highlight=False, markup=False).print(suite_tables(found))
    return out.getvalue()


def test_the_table_says_figure_interval_bar_verdict_and_what_stands_beside():
    shown = terminal(document())
    assert "3 of 6 bars" in shown
    assert "Missed: contender-20." in shown
    assert re.search(r"official-20 +3,500 +3,250 to 3,750 .* 24", shown)
    assert re.search(r"planted +– +at most 1250 +– +0", shown)
    assert re.search(r"power +240 +200 to – ", shown)
    assert max(map(len, shown.splitlines())) <= 80
    section = terminal(document()).split("Matchmakers on the same worlds")[1]
    assert re.search(r"official-20 +3,500 +5,600 +6,000 +– +7,000", section)
    assert re.search(r"in-order-20 +0\.930 +0\.920 +– +– +–", section)
    assert re.search(r"glicko-2 +at 0\.003 +25\.8", section)
    shown = terminal(document(BARS[1:2]))
    assert "Missed" in shown
    assert "Matchmakers" not in shown
    assert "Beside" not in shown
    assert "A dash" not in shown


@pytest.mark.parametrize(("size", "said"), [("small", "--size full"), ("full", "more seeds")])
def test_a_dash_is_explained(size, said):
    assert said in terminal(document(size=size))


def test_markdown_keeps_its_columns_and_the_page_its_marks():
    text = suite_markdown(document())
    assert "RD &#124; after &#60;200&#62; votes" in text
    page = suite_page(document())
    assert "RD | after &lt;200&gt; votes" in page
    assert page.count("data-spec=") == 2


def test_pictures_show_bars_with_one_side_that_is_not_zero():
    pictures = suite_svgs(document())
    assert set(pictures) == {"suite-at-most.svg", "suite-at-least.svg"}
    assert all(text.startswith("<svg") for text in pictures.values())
    assert "official-20" in pictures["suite-at-most.svg"]
    assert "contender-20" in pictures["suite-at-least.svg"]
    assert not any(name in text for text in pictures.values() for name in ("glicko-2", "planted", "in-order"))
    assert suite_svgs(document(BARS[4:5])) == {}


def test_without_the_extra_there_are_no_pictures(monkeypatch):
    monkeypatch.setattr(board_charts, "find_spec", lambda _name: None)
    assert suite_svgs(document()) == {}
    assert "data-spec" not in suite_page(document())
