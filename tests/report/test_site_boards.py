"""What a published site says about first place: in a sentence, on a badge, on a card. Never more than the ranks say."""

from __future__ import annotations

from dataclasses import replace
from xml.etree import ElementTree as ET

import pytest

from support.hostile_text import PAYLOADS
from support.sizes import sized
from tiltyard.core.ratings.findings import Finding
from tiltyard.report.ab_report import ABReport
from tiltyard.report.html_parts import cut_text, text_width, wrap_text
from tiltyard.report.site_boards import (
    ShareCard,
    SiteBoard,
    SiteRow,
    SiteRun,
    badge_text,
    card_png,
    draw_card,
    first_place_sentence,
    render_badge,
    render_card,
    result_sentence,
)
from tiltyard.report.site_page import SitePage, format_bytes, render_site_page, verify_commands

SHA256 = "ab" * 32


def board(*ranks, name=None, level=0.95, rows=(), findings=()):
    """Models a, b, c… with these ranges of ranks; a new tier begins where a range does."""
    starts = sorted({low for low, _ in ranks})
    made = tuple(
        SiteRow(chr(97 + k), 1600.0 - k, 1590.0 - k, 1610.0 - k, low, high, 1 + starts.index(low), 0)
        for k, (low, high) in enumerate(ranks)
    )
    scope = None if level is None else "prompts like these"
    return SiteBoard(name, (*made, *rows), level, scope, tuple(findings))


def site_run(*boards, **changes):
    run = SiteRun(
        name="demo",
        title="Demo",
        method="bradley-terry",
        boards=boards,
        battles=1234,
        models=max((len(one.rows) for one in boards), default=0),
        prompts=56,
        date="2026-11-05",
        manifest_sha256=SHA256,
        archive_bytes=1_250_000,
        by=None,
        overall=None,
        series=None,
        recomputed=True,
    )
    return replace(run, **changes)


UNRATED = SiteRow("x", None, None, None, None, None, None, None)
ELSEWHERE = SiteRow("x", 1500.0, 1490.0, 1510.0, 1, 1, 1, 1)
JUDGE_ONLY = SiteRow("x", 1700.0, 1690.0, 1710.0, None, None, None, 0, "judge only")
PLACED_FIRST = SiteRow("x", 1700.0, 1690.0, 1710.0, 1, 1, None, 0, "judge, bias added")
MAY_BE_FIRST = replace(PLACED_FIRST, rank_high=2)


@pytest.mark.parametrize(
    ("shown", "sentence", "badge"),
    [
        (board((1, 1), (2, 3), (2, 3)), ["a is first", "2 tiers"], "a is first, settled"),
        (board((1, 2), (1, 2), (3, 3)), ["a and b", "2 tiers"], "first place not settled: a, b"),
        (board((1, 2), (1, 2)), ["No order"], "no order settled"),
        (
            board(*[(1, 6)] * 6, (7, 7)),
            ["a, b, c, d, e and 1 more"],
            "first place not settled: a, b, c, d, e, f",
        ),
        (board((1, 2), (1, 2), level=None), ["no intervals"], "no order claimed"),
        (board((1, 1)), ["Fewer than two"], "no order"),
        (board(), ["Fewer than two"], "no order"),
        *(
            (
                board((1, 1), (2, 2), rows=[other]),
                ["a is first", "1 other"],
                "a is first of 2 ranked, settled",
            )
            for other in (UNRATED, ELSEWHERE, JUDGE_ONLY)
        ),
        (
            board((1, 2), (1, 2), (3, 3), rows=[UNRATED, UNRATED]),
            ["a and b", "2 others"],
            "first place not settled: 2 of 3 ranked",
        ),
        (board((1, 1), (2, 2), rows=[PLACED_FIRST]), ["x is first", "2 tiers"], "x is first, settled"),
        (board((1, 1), (2, 2), rows=[MAY_BE_FIRST]), ["a and x"], "first place not settled: a, x"),
    ],
)
def test_first_place_is_read_off_the_ranks(shown, sentence, badge):
    said = first_place_sentence(shown)
    assert all(part in said for part in sentence), said
    assert badge_text(site_run(shown)) == badge


def test_several_boards_have_no_common_first_place():
    several = board((1, 1), (2, 2), name="de"), board((1, 1), (2, 2), name="fr")
    run = site_run(*several, by="language")
    assert (result_sentence(run), badge_text(run)) == ("2 boards, by language.", "2 boards by language")
    summed = site_run(board((1, 2), (1, 2), name="overall"), *several, by="dimension", overall="overall")
    assert result_sentence(summed).startswith("No order")
    assert badge_text(site_run(by="dimension")) == "no battle rated"


def comparison(decision, **changes):
    found = ABReport("old", "new", decision, "judge", "points", 12.0, -3.0, 27.0, 0.95, 60, 20.0)
    return replace(found, **changes)


@pytest.mark.parametrize(
    ("decision", "badge"),
    [
        ("better", "new is better than old"),
        ("worse", "new is worse than old"),
        ("same", "new and old are the same within ±20 points"),
        ("undecided", "new or old: undecided"),
    ],
)
def test_a_comparison_says_what_was_decided_and_shows_no_ranks(decision, badge):
    run = site_run(board((1, 1), (2, 2)), comparison=comparison(decision))
    assert badge_text(run) == badge
    html = render_site_page(SitePage("Site", None, None), [run])
    assert comparison(decision).verdict in html
    assert "+12 points (95% interval −3 to +27)" in html
    assert "<table" not in html
    assert "95% interval −3" in render_card(run)


def test_a_badge_is_as_wide_as_its_text_and_has_a_title():
    svg = ET.fromstring(render_badge(site_run(board((1, 1), (2, 2)))))
    label, value = (float(one.get("textLength")) for one in svg.findall(".//{*}text"))
    assert float(svg.get("width")) == pytest.approx(label + value + 28, abs=2)
    assert svg.get("height") == "20"
    assert svg.findtext("{*}title").startswith("Demo: a is")
    assert text_width("MW", 10) == pytest.approx(17.77)
    assert text_width("模e\u0301", 10) == pytest.approx(15.56)


def test_long_names_do_not_make_long_badges():
    name = "m" * 200
    first = board((1, 1), (2, 2))
    long = replace(first, rows=tuple(replace(row, model=f"{name}{row.model}") for row in first.rows))
    assert len(badge_text(site_run(long))) < 55
    shared = replace(long, rows=(*(replace(row, rank_low=1, rank_high=2) for row in long.rows), UNRATED))
    assert badge_text(site_run(replace(shared, rows=shared.rows[:2]))).startswith("no order")
    three = (*shared.rows[:2], replace(shared.rows[0], model="z", rank_low=3, rank_high=3))
    assert badge_text(site_run(replace(shared, rows=three))) == "first place not settled: 2"
    assert cut_text("short", 5) == "short"
    lines = wrap_text(f"one {name} two", 20, 300, 3)
    assert len(lines) == 3
    assert lines[-1].endswith("…")
    assert all(text_width(line, 20) <= 300 for line in lines)


def test_hostile_names_stay_text():
    for payload in PAYLOADS[:: sized(4, 1)]:
        check_text_stays(payload.text)


def check_text_stays(text):
    first = board((1, 1), (2, 2), name=text, findings=[Finding("x", {}, text, text)])
    hostile = replace(first, rows=tuple(replace(row, model=f"{row.model}{text}") for row in first.rows))
    by_judge = comparison("better", name_a=text, name_b=text)
    for run in (
        site_run(hostile, title=text),
        site_run(hostile, hostile, title=text, by=text),
        site_run(comparison=by_judge),
    ):
        for svg in (render_badge(run), render_card(run)):
            tags = {one.tag.rpartition("}")[2] for one in ET.fromstring(svg).iter()}
            assert tags <= {"svg", "title", "clipPath", "rect", "g", "text", "line", "circle"}
        html = render_site_page(SitePage(text, "https://example.org", "cards/demo.png"), [run])
        assert text not in html or not set(text) & set("<>\"'&")
        assert "<script" not in html


def test_a_badge_isolates_right_to_left_names_and_a_card_is_a_png():
    rows = board((1, 2), (1, 2), (3, 3)).rows
    mixed = SiteBoard(None, (replace(rows[0], model="מודל 1"), *rows[1:]), 0.95, "prompts like these", ())
    assert ": \u2068מודל\u2069 1, b<" in render_badge(site_run(mixed))
    png = card_png(render_card(site_run(board((1, 1), (2, 2), rows=[UNRATED]))))
    assert png is not None
    assert png[:8] == b"\x89PNG\r\n\x1a\n"


NAMES = (
    "organisation-with-a-long-name/model-that-never-ends-",
    "نموذج اللغة العربية الكبير ",
    "日本語の大きな言語モデル",
)


@pytest.mark.parametrize("models", [0, 1, 2, 5, 15, 60])
@pytest.mark.parametrize("name", ["m-", *NAMES])
def test_a_card_keeps_every_text_inside_whatever_names_models_have(models, name):
    rows = [
        SiteRow(f"{name * 2}{k}", 1600.0 - k, 1570.0, 1630.0, 1, models, 1 + k // 4, 0) for k in range(models)
    ]
    verdict = f"{', '.join(row.model for row in rows[:3])} and {models} more share first place."
    card = ShareCard(
        title=name * 9, verdict=verdict, rows=rows, note=name * 40, counts="3 votes", status="calibrating"
    )
    texts = [one for one in ET.fromstring(draw_card(card)).iter() if one.tag.endswith("text")]
    for one in texts:
        begins, size = (
            float(one.get("x")),
            float(one.get("font-size")) * (1.08 if one.get("font-weight") else 1),
        )
        width = text_width(one.text, size)
        ends = begins if one.get("text-anchor") else begins + width
        assert ends - width >= 40
        assert ends <= 1160
        assert float(one.get("y")) < 620


def test_without_the_extra_there_is_no_png(monkeypatch):
    monkeypatch.setattr("tiltyard.report.site_boards.charts_available", lambda: False)
    assert card_png("<svg/>") is None


def test_commands_are_those_of_the_site():
    run = site_run(board((1, 1), (2, 2)))
    commands = verify_commands(run, "https://example.org/x")
    assert commands == (
        "curl -LO https://example.org/x/demo.zip",
        "unzip demo.zip",
        f"echo '{SHA256}  demo/manifest.json' | sha256sum -c",
        "tiltyard verify demo",
    )
    assert verify_commands(run, None) == commands[1:]


def test_one_run_shows_its_whole_board_and_its_findings():
    ranks = [(k, k) for k in range(1, 10)]
    run = site_run(board(*ranks, findings=[Finding("some-finding", {}, "Careful.", "Look.")]))
    alone = render_site_page(SitePage("Demo", None, None), [run])
    assert alone.count("<tr") == 10
    assert "some-finding" in alone
    assert "<h2>" not in alone
    assert "og:" not in alone
    both = render_site_page(SitePage("Site", None, None), [run, replace(run, name="other")])
    assert both.count("<tr") == 12
    assert both.count("4 more in") == 2
    assert both.count("1 finding limits") == 2
    assert '<a href="#other">' in both


def test_many_boards_of_many_runs_are_cut_short():
    boards = [board((1, 1), (2, 2), name=f"group {k}") for k in range(9)]
    run = site_run(*boards, by="group", recomputed=False, prompts=None, date=None)
    alone = render_site_page(SitePage("Site", None, None), [run])
    assert alone.count("<table") == 9
    assert "only hashes" in alone
    both = render_site_page(SitePage("Site", None, None), [run, replace(run, name="other")])
    assert both.count("<table") == 12
    assert both.count("3 more boards") == 2


def test_links_are_relative_and_previews_absolute():
    run = site_run(board((1, 1), (2, 2)))
    page = render_site_page(SitePage("Site", "https://example.org/x", "cards/demo.png"), [run])
    for name, path in (("image", "cards/demo.png"), ("url", "")):
        assert f'"og:{name}" content="https://example.org/x/{path}"' in page
    assert "[![tiltyard](https://example.org/x/badges/demo.svg)](https://example.org/x/#demo)" in page
    for link in ('href="demo/report.html"', 'href="demo.zip"', 'href="demo/manifest.json"'):
        assert link in page
    plain = render_site_page(SitePage("Site", "https://example.org/x", None), [run])
    assert "og:title" in plain
    assert "og:image" not in plain


@pytest.mark.parametrize(
    ("count", "text"),
    [(1, "0.1 kB"), (12_345, "12.3 kB"), (1_250_000, "1.2 MB"), (3_000_000_000, "3.0 GB")],
)
def test_sizes_are_given_in_units_of_a_thousand(count, text):
    assert format_bytes(count) == text
