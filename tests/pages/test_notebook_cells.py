"""A board in a notebook's cell, drawn by a real browser with the styles of a light and of a dark notebook."""

import pytest

import tiltyard
from tiltyard.errors import CannotRate
from tiltyard.simulation.demo.demo_roster import demo_battles

#: What JupyterLab says of tables in a cell, and its colours.
STYLE = """
body { margin: 0; background: var(--back); }
.cell { padding: 10px; color: var(--text); background: var(--back); font: 14px system-ui; }
.cell table { border-collapse: collapse; border: none; font-size: 12px; table-layout: fixed; margin: 0 auto 1em; }
.cell td, .cell th { text-align: right; vertical-align: middle; padding: 0.5em; border: none; white-space: normal; }
.cell tbody tr:nth-child(odd) { background: var(--odd); }
.cell tbody tr:nth-child(even) { background: var(--even); }
"""
THEMES = {
    "light": "--back: #ffffff; --text: rgba(0, 0, 0, 0.87); --odd: #ffffff; --even: #f5f5f5",
    "dark": "--back: #111111; --text: #ffffff; --odd: #111111; --even: #333333",
}
#: Colours of everything that is drawn, against those of the cell.
DRAWN = """() => {
    const cell = document.querySelector('.cell');
    const text = getComputedStyle(cell).color;
    const all = [...cell.querySelectorAll('*')];
    return {
        colours: [...new Set(all.map(one => getComputedStyle(one).color))].map(one => one === text),
        lines: [...new Set(all.filter(one => one.tagName === 'line').map(one => getComputedStyle(one).stroke))].map(
            one => one === text),
        backgrounds: [...new Set(all.map(one => getComputedStyle(one).backgroundColor))],
        wide: document.documentElement.scrollWidth - innerWidth,
        bars: all.filter(one => one.tagName === 'svg').map(one => one.getBoundingClientRect().width),
        names: [...cell.querySelectorAll('tbody td:nth-child(2)')].map(one => getComputedStyle(one).textAlign),
    };
}"""


@pytest.mark.parametrize("theme", THEMES)
def test_a_cell_takes_the_colours_of_its_notebook(browser, theme, tmp_path):
    board = tiltyard.rate(demo_battles(800), by="category")
    page = browser.new_page(viewport={"width": 900, "height": 500})
    page.set_content(
        f'<style>:root {{ {THEMES[theme]} }} {STYLE}</style><div class="cell">{board._repr_html_()}</div>'
    )
    drawn = page.evaluate(DRAWN)
    page.screenshot(path=tmp_path / f"{theme}.png", full_page=True)
    page.close()
    assert drawn["colours"] == [True]
    assert drawn["lines"] == [True]
    assert drawn["backgrounds"] == ["rgba(0, 0, 0, 0)"]
    assert drawn["wide"] <= 0
    assert set(drawn["bars"][:8]) == {160}
    assert set(drawn["names"]) == {"left"}


@pytest.mark.parametrize("theme", THEMES)
def test_pairs_and_a_heatmap_need_no_network(browser, theme, tmp_path):
    board = tiltyard.rate(demo_battles(800))
    shown = f"{board.pairwise()._repr_html_()}{board.heatmap(top=3)._repr_html_()}"
    page = browser.new_page(viewport={"width": 900, "height": 500})
    asked = []
    page.on("request", lambda request: asked.append(request.url))
    page.set_content(f'<style>:root {{ {THEMES[theme]} }} {STYLE}</style><div class="cell">{shown}</div>')
    drawn, labels = page.evaluate(DRAWN), page.locator("svg text").all_text_contents()
    page.screenshot(path=tmp_path / f"{theme}.png", full_page=True)
    page.close()
    assert not asked
    assert drawn["wide"] <= 0
    assert [labels.count(row.model) for row in board] == [2, 2, 2, 0, 0, 0, 0, 0]
    with pytest.raises(CannotRate):
        board.heatmap(top=1)
