"""The validity report as Markdown and as a page."""

import json
from dataclasses import replace

import pytest
from test_board_page import ATTRIBUTES, TAGS, Page

from support.rated_boards import HOSTILE
from support.reported_arenas import HOUR, SMALL, START, happened, reported
from tiltyard.core.policy.state.policy import Policy
from tiltyard.core.policy.validity.report.report_records import ExplorationPlace, ReversedPair
from tiltyard.core.ratings.findings import Finding
from tiltyard.errors import MissingExtra
from tiltyard.report import board_charts
from tiltyard.report.escapes import escape_controls
from tiltyard.report.validity_report import validity_charts, validity_markdown, validity_page
from tiltyard.report.validity_sections import (
    MAX_TABLE_ROWS,
    span_sentence,
    status_sentence,
)

EVIL = [*HOSTILE[:9], "a|b", "*_`[x](https://evil.example)`_*"]
TITLES = (
    "Rules of publication",
    "Exposure fairness",
    "Lane mix",
    "Matchups and sides",
    "Pair completeness",
    "Confidence",
    "Churn at the top",
    "The exploration lane alone",
    "How it was made",
)


@pytest.fixture(scope="module")
def report():
    return reported(since=START + 10 * HOUR)


@pytest.fixture(scope="module")
def evil():
    """Every name hostile, and every kind of sentence that names somebody."""
    found = reported(happened(11, 4, 400), models=11, prompts=4, names=EVIL)
    return replace(
        found,
        findings=(Finding("name", {}, f"About {EVIL[3]} and {EVIL[9]}.", EVIL[4]),),
        exploration=replace(found.exploration, reversed=(ReversedPair(EVIL[3], EVIL[10], 5.0),)),
    )


@pytest.fixture(scope="module")
def page_text(report):
    return validity_page(report, title="Trees")


def cells(text):
    """Cells of every table row of a Markdown text."""
    return [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in text.splitlines()
        if line.startswith("|")
    ]


def test_markdown_gives_the_status_first_and_then_every_section(report):
    text = validity_markdown(report, title="Trees")
    lines = [line for line in text.splitlines() if line]
    assert lines[0] == "# Trees"
    assert lines[1] == f"**{status_sentence(report)}**"
    assert [line[3:] for line in lines if line.startswith("## ")] == list(TITLES)


def test_every_rule_stands_with_value_bar_and_what_is_missing(report):
    rows = cells(validity_markdown(report))
    for rule in report.publication.rules:
        (row,) = [row for row in rows if row[0] == rule.text]
        assert row[1] == ("yes" if rule.holds else "no")
        assert row[3].startswith("≤" if rule.at_most else "≥")
    holding = replace(report.publication.rules[0], holds=True, value=1.0, bar=1.0, missing=0)
    unknown = replace(holding, holds=False, value=None, missing=None)
    short = replace(holding, holds=False, value=0.25, bar=0.9, missing=1200, detail="who")
    changed = replace(
        report, publication=replace(report.publication, rules=(holding, unknown, short), history=())
    )
    text = validity_markdown(changed)
    assert [row[1:] for row in cells(text)[2:5]] == [
        ["yes", "1", "≤ 1", "0"],
        ["no", "–", "≤ 1", "–"],
        ["no", "0.250", "≤ 0.900", "≈ 1,200"],
    ]
    assert "Median RD: who." in text


def test_status_and_span_are_told_in_words(report):
    found = report.publication
    official = replace(found, official=True, official_since=4000, in_a_row=5)
    assert status_sentence(replace(report, publication=official)).startswith("Official since 4,000 votes")
    lost = replace(found, official=False, first_official=60, in_a_row=1)
    assert "at 60 votes" in status_sentence(replace(report, publication=lost))
    rules = tuple(replace(rule, holds=True) for rule in found.rules)
    near = replace(found, official=False, first_official=None, rules=rules)
    assert "rules hold now" in status_sentence(replace(report, publication=near))
    assert span_sentence(report).startswith("2025-06-16 01:06 UTC to 2025-06-1")
    by_votes = reported(happened(timed=False), since=40)
    assert span_sentence(by_votes).startswith("496 events")
    assert "Nothing happened" in span_sentence(reported(since=START + 1000 * HOUR))


def test_long_tables_are_cut_and_say_so(report):
    row = ExplorationPlace(1, 1, "somebody", 1500.0, None, None)
    exploration = replace(report.exploration, models=(row,) * (MAX_TABLE_ROWS + 7))
    text = validity_markdown(replace(report, exploration=exploration))
    assert "*7 more.*" in text
    assert text.count("| somebody |") == MAX_TABLE_ROWS


def test_the_page_is_well_formed_and_has_every_number_of_its_charts(report, page_text):
    page = Page(page_text)
    assert page._open == []
    assert set(page.tags) <= TAGS | {"section", "h3"}
    assert set(TITLES) <= set(page.texts)
    assert {row.model for row in report.confidence.models} <= set(page.texts)
    assert page.tags.count("figure") == 6
    texts = Page(page_text).texts
    for row in report.fairness.models:
        assert f"{row.exposures:,}" in texts
    for look in report.publication.history:
        assert f"{look.votes:,}" in texts
    for moment in report.confidence.moments:
        assert f"{moment.score:.0f} ({moment.rd:.0f})" in texts


def test_no_element_or_script_stems_from_a_name(evil):
    page = Page(validity_page(evil, title=EVIL[4]))
    assert set(page.tags) <= TAGS | {"section", "h3"}
    assert page.attributes <= ATTRIBUTES
    assert page.comments == []
    assert page._open == []
    assert {escape_controls(name) for name in EVIL} - {escape_controls(EVIL[1])} <= set(page.texts)
    specs, (library, own) = page.scripts[:-2], page.scripts[-2:]
    assert library == board_charts.javascript()
    assert "alert(1)" not in library + own
    assert not any(character in spec for spec in specs for character in "<>&")
    assert all(json.loads(spec) for spec in specs)


@pytest.mark.usefixtures("no_plots")
def test_without_the_extra_there_are_tables_and_a_note(report):
    row = ExplorationPlace(1, 1, "somebody", 1500.0, None, None)
    exploration = replace(report.exploration, models=(row,) * (MAX_TABLE_ROWS + 7))
    page = Page(text := validity_page(replace(report, exploration=exploration)))
    assert "<small>7 more.</small>" in text
    assert text.count("tiltyard[plots]") == 1
    assert len(page.scripts) == 1, "buttons, and no library"
    assert set(TITLES) <= set(page.texts)
    with pytest.raises(MissingExtra, match=r"tiltyard\[plots\]"):
        validity_charts(report)


def test_charts_show_what_the_report_says(report):
    found = validity_charts(report)
    assert {name: len(specs) for name, specs in found.items()} == {
        "fairness": 1,
        "lanes": 1,
        "rules": 1,
        "confidence": 2,
        "churn": 1,
    }
    (spec,) = found["fairness"].values()
    shown = {row["model"]: row["exposures"] for row in spec["data"]["values"]}
    assert shown == {row.model: row.exposures for row in report.fairness.models if row.enabled}
    (spec,) = found["lanes"].values()
    assert sum(row["share"] for row in spec["data"]["values"]) == pytest.approx(3.0, abs=1e-3)


def test_charts_of_many_models_and_evaluations_stay_readable():
    names = [f"m{k:02}" for k in range(45)]
    rows = happened(45, 3, 420, newcomer=False)
    found = reported(rows, models=45, prompts=3, names=names, policy=replace(SMALL, evaluated_every=2))
    assert len(found.publication.history) > 160
    specs = validity_charts(found)
    ((title, spec),) = specs["fairness"].items()
    assert title.endswith("the 40 furthest off")
    assert len(spec["data"]["values"]) == 40
    score = specs["confidence"]["Conservative score of the top 4"]["data"]["values"]
    votes = {row["votes"] for row in score}
    assert len(votes) <= 160
    assert max(votes) == found.publication.history[-1].votes


@pytest.mark.parametrize(
    ("rows", "fairness"),
    [
        ([], "strict"),
        (happened(2, 1, 3, newcomer=False), "scoped"),
        (happened(2, 1, newcomer=False), "strict"),
    ],
)
def test_small_arenas_have_a_page_and_a_text(rows, fairness):
    found = reported(rows, models=2, prompts=1, policy=Policy(fairness=fairness))
    assert Page(validity_page(found))._open == []
    assert validity_markdown(found).count("\n## ") == len(TITLES)


def test_what_asks_for_a_look_is_told(report):
    pairs = tuple(replace(row, met=False, indistinguishable=True) for row in report.pairs.adjacent)
    changed = replace(
        report,
        pairs=replace(report.pairs, adjacent=pairs, indistinguishable=3),
        matchups=replace(report.matchups, given_up=2),
        lanes=replace(report.lanes, feasible=False),
        findings=(Finding("loud", {}, "Look.", "Now."),),
    )
    text = validity_markdown(changed)
    assert "3 are indistinguishable" in text
    assert "given up | 2 |" in text
    assert "not fit" in text
    assert "- **loud**: Look. Now." in text
    assert "short" in validity_markdown(
        replace(report, pairs=replace(report.pairs, adjacent=(replace(pairs[0], indistinguishable=False),)))
    )
