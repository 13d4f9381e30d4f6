"""The report of 60 models in 8 categories: readable on a phone, and a few pages on paper."""

import re

import numpy as np
import pytest

import tiltyard

NAMES = ("claude-opus", "deepseek-v3.1-terminus-thinking", "qwen3-235b-a22b-instruct", "gpt-5-mini")
CATEGORIES = ("coding", "creative writing", "maths", "instruction following", "multi-turn")
CATEGORIES += ("hard prompts", "longer queries", "languages other than English")
#: Pairs of labels that lie on each other, in each chart; and the most lines of a model's name.
MEASURED = """() => {
    const overlaps = (labels) => labels.filter((one, k) => labels.slice(k + 1).some(two =>
        Math.min(one.right, two.right) - Math.max(one.left, two.left) > 1 &&
        Math.min(one.bottom, two.bottom) - Math.max(one.top, two.top) > 3)).length;
    const boxes = (root, of) => [...root.querySelectorAll(of)].map(one => one.getBoundingClientRect()).filter(one => one.width);
    const rows = [...document.querySelectorAll('.chart')].map(chart => boxes(chart, '.role-axis-label text, .role-axis text'));
    const names = [...document.querySelectorAll('.matrix tbody th, #board-0 table.board td.m')];
    const lines = (cell) => { const range = document.createRange(); range.selectNodeContents(cell);
        return new Set([...range.getClientRects()].map(one => Math.round(one.top))).size; };
    return {
        charts: rows.map(row => row.length),
        apart: [...document.querySelectorAll('.chart')].map(chart => overlaps(boxes(chart, '[aria-label^="Y-axis"] .role-axis-label text'))),
        picture: overlaps(boxes(document.querySelector('#board-0 svg.slim'), 'text')),
        lines: Math.max(...names.map(lines)),
        wide: document.documentElement.scrollWidth - innerWidth,
    };
}"""


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    random = np.random.default_rng(1)
    names = [f"{NAMES[k % 4]}-2026{k:04d}" for k in range(60)]
    a = random.integers(0, 60, 6000)
    b = (a + random.integers(1, 60, 6000)) % 60
    won = random.random(6000) < 1 / (1 + np.exp((a - b) / 30))
    rows = {
        "model_a": [names[k] for k in a],
        "model_b": [names[k] for k in b],
        "winner": np.where(won, "model_a", "model_b").tolist(),
        "category": [CATEGORIES[k] for k in random.integers(0, 8, 6000)],
    }
    return tiltyard.rate(rows, by="category").write(tmp_path_factory.mktemp("wide") / "run") / "report.html"


@pytest.mark.slow
def test_a_report_of_sixty_models_is_short_and_readable(browser, report, tmp_path):
    page = browser.new_page(viewport={"width": 390, "height": 844})
    page.goto(report.as_uri() + "#board-3")
    assert page.locator("#board-3 details.group").get_attribute("open") is not None
    assert page.locator("details.group[open]").count() == 1
    page.locator("#board-3 details.group > summary").click()
    page.locator("#board-0 details.charts > summary").click()
    page.locator("#board-0 .chart svg").nth(1).wait_for()
    measured = page.evaluate(MEASURED)
    page.screenshot(path=tmp_path / "phone.png", full_page=True)
    titles = page.locator("#board-0 .figures figcaption").all_text_contents()
    paper = browser.new_page()
    paper.goto(report.as_uri())
    pdf = paper.pdf(path=tmp_path / "report.pdf", format="A4")
    paper.emulate_media(media="print")
    paper.set_viewport_size({"width": 680, "height": 900})
    cut = paper.evaluate("document.querySelector('.matrix table').scrollWidth - innerWidth")
    for one in (page, paper):
        one.close()
    assert len(re.findall(rb"/Type\s*/Page\b", pdf)) <= 10
    assert cut <= 0
    assert max(measured["charts"]) >= 80
    assert (measured["picture"], max(measured["apart"])) == (0, 0)
    assert measured["lines"] <= 3
    assert measured["wide"] <= 0
    assert sum("first 40 of 60" in title for title in titles) == 2
