"""The site of `tiltyard publish`, opened from disk in a real browser."""

from __future__ import annotations

from dataclasses import replace

import pytest
from playwright.sync_api import expect

from support.browsing import DESKTOP, SIZES, Visit, axe
from support.hostile_text import PAYLOADS
from tiltyard.files import open_battles, write_battles
from tiltyard.runs.battle_rating import RateSettings
from tiltyard.runs.run_folder import write_run
from tiltyard.runs.site_folder import publish_site
from tiltyard.simulation.demo.demo_roster import demo_battles

WIDE = (1920, 1080)
#: What eight models are called: markup, right to left, overrides, no spaces, no width.
NAMES = (
    "<script>tripwire(0)</script>",
    '"><img src=x onerror=tripwire(1)>',
    "مُتوازن ١٢٣",
    "דגם־שתיים 2",
    "x" * 200,
    "\u202eright\u2066 left\u200b",
    "模型 " * 30,
    "a&b</title><svg onload=tripwire(2)>",
)


@pytest.fixture(scope="module")
def site(tmp_path_factory, without_charts):
    """Two runs: one of models with ordinary names, one of hostile ones in hostile groups."""
    place = tmp_path_factory.mktemp("published")
    battles = list(demo_battles(600))
    models = sorted({one.model_a for one in battles})
    called = dict(zip(models, NAMES, strict=True))
    hostile = [
        replace(
            one,
            model_a=called[one.model_a],
            model_b=called[one.model_b],
            category=PAYLOADS[int(one.category == "code")].text,
        )
        for one in battles
    ]
    write_battles(place / "plain.jsonl", battles)
    write_battles(place / "hostile.jsonl", hostile)
    write_run(place / "plain", [open_battles(place / "plain.jsonl")], RateSettings(arena="Garden"))
    settings = RateSettings(by="category", arena="<b onclick=tripwire(3)>" + NAMES[5])
    write_run(place / "hostile", [open_battles(place / "hostile.jsonl")], settings)
    publish_site([place / "plain", place / "hostile"], place / "site", url="https://example.org/b")
    publish_site([place / "plain"], place / "alone")
    return place


@pytest.fixture
def opened(browser, site):
    """Open a site; everything that it asks for must be inside it."""
    visits = []

    def go(name, size, scheme="light", *, checked=True):
        context = browser.new_context(
            viewport={"width": size[0], "height": size[1]}, color_scheme=scheme, bypass_csp=not checked
        )
        page = context.new_page()
        visit = Visit(page, (site / name).as_uri())
        visit.watch()
        page.add_init_script("window.tripped = []; window.tripwire = (n) => window.tripped.push(n);")
        page.goto(f"{visit.site}/index.html")
        page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
        visits.append(visit)
        return page

    yield go
    for visit in visits:
        assert visit.page.evaluate("window.tripped") == []
        visit.check()
        visit.page.context.close()


@pytest.mark.slow(but_every=5)
@pytest.mark.parametrize("name", ["alone", "site"])
@pytest.mark.parametrize("size", [*SIZES, pytest.param(WIDE, id="wide")])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_is_accessible_and_fits_every_screen(name, size, scheme, opened):
    page = opened(name, size, scheme, checked=False)
    assert axe(page) == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_it_keeps_its_own_policy_and_shows_its_badges(opened):
    page = opened("site", DESKTOP)
    widths = page.eval_on_selector_all("img", "images => images.map((one) => one.naturalWidth)")
    assert len(widths) == 2
    assert min(widths) > 100
    assert page.locator("script").count() == 0
    assert page.evaluate("getComputedStyle(document.querySelector('pre')).whiteSpace") == "pre-wrap"
    expect(page.locator("#hostile td.m", has_text="<script>").first).to_be_visible()


def test_its_links_lead_to_the_report_and_the_archive(opened, site):
    page = opened("alone", DESKTOP)
    links = page.eval_on_selector_all("p.links a", "links => links.map((one) => one.getAttribute('href'))")
    assert links == ["plain/report.html", "plain.zip", "plain/manifest.json"]
    assert all((site / "alone" / link).is_file() for link in links)
    expect(page.locator("tbody tr")).to_have_count(8)


@pytest.mark.parametrize("kind", ["badges", "cards"])
def test_pictures_are_inert(kind, opened, site):
    page = opened("site", DESKTOP)
    page.goto((site / "site" / kind / "hostile.svg").as_uri())
    assert page.evaluate("window.tripped") == []
    assert page.locator("script, image, foreignObject").count() == 0
