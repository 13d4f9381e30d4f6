"""The chart that takes its picture's place, in a real browser under the pages' own policy."""

import asyncio
import threading
import time
from collections.abc import Iterator
from html import escape
from itertools import permutations

import pytest
import uvicorn
from fastapi import FastAPI
from fastapi.responses import HTMLResponse, JSONResponse, Response

from support.browsing import DESKTOP, PHONE, Visit
from tiltyard.core.battles import Battle, Table
from tiltyard.report.board_charts import chart_specs, ratings_chart, render_svg, spec_of
from tiltyard.runs.battle_rating import RateSettings, rate_table
from tiltyard.web.assets import load_assets
from tiltyard.web.assets import router as assets_router
from tiltyard.web.pages.layout import PAGE_POLICY

NAMES = (
    "oak",
    "<img src=x onerror=window.tripped=1>",
    "'+(window.tripped=1)+'",
    "\u202eelm\u2066",
    "datum.constructor.constructor('window.tripped=1')()",
    "x" * 300,
)
#: Tells the test what the policy refused.
LISTEN = (
    "window.refused = [];"
    "addEventListener('securitypolicyviolation', e => refused.push(`${e.violatedDirective} ${e.sample}`));"
)

pytestmark = pytest.mark.skipif(
    load_assets().script() is None, reason="needs the bundle: python hatch_build.py"
)


def made_specs() -> dict[str, dict]:
    rows = [
        {"model_a": a, "model_b": b, "winner": winner}
        for a, b in permutations(NAMES, 2)
        for winner in ("model_a", "model_a", "model_b", "tie")
    ]
    table = Table.from_battles(Battle.from_dict(row) for row in rows)
    rated = rate_table(table, RateSettings())
    found = [spec_of(ratings_chart(rated.board.rows)), *chart_specs(rated).values()]
    styled = found[0] | {"usermeta": {"embedOptions": {"defaultStyle": True, "actions": True, "ast": False}}}
    fetching = found[0] | {"data": {"url": "/spec/ratings"}}
    return {
        "ratings": found[0],
        "scores": found[1],
        "battles": found[2],
        "styled": styled,
        "fetching": fetching,
    }


def made_app() -> FastAPI:
    app = FastAPI()
    app.include_router(assets_router)
    specs = made_specs()

    @app.get("/page/{kind}")
    def page(kind: str) -> HTMLResponse:
        assets = load_assets()
        words = escape('{"failed": "It did not work."}')
        text = f"""<!doctype html><html lang="en"><title>Chart</title>
            <link rel="stylesheet" href="{assets.url("tiltyard.css")}"><link rel="icon" href="data:,">
            <script type="module" src="{assets.script()}"></script>
            <main><p data-island="nowhere">Plain</p><figure data-island="chart" data-spec="/spec/{kind}" data-words="{words}">
            <figcaption>Ratings</figcaption><img src="/picture/{kind}.svg" alt="Ratings of six models">
            <button type="button" class="button" data-chart-start hidden>Interactive</button></figure></main>"""
        return HTMLResponse(text, headers={"Content-Security-Policy": PAGE_POLICY})

    @app.get("/spec/{kind}")
    def spec(kind: str) -> Response:
        return JSONResponse(specs[kind]) if kind in specs else Response(status_code=503)

    @app.get("/picture/{kind}.svg")
    def picture(kind: str) -> Response:
        return Response(render_svg(specs.get(kind, specs["ratings"])), media_type="image/svg+xml")

    return app


@pytest.fixture(scope="module")
def charts() -> Iterator[str]:
    """A server of charts, and of nothing else."""
    server = uvicorn.Server(uvicorn.Config(made_app(), host="127.0.0.1", port=0, log_config=None))
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=lambda: loop.run_until_complete(server.serve()), daemon=True)
    thread.start()
    end = time.monotonic() + 30
    while not server.started:
        assert time.monotonic() < end, "the server did not start"
        time.sleep(0.01)
    yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    server.should_exit = True
    thread.join(30)
    loop.close()


@pytest.fixture
def chart(charts, browser) -> Iterator:
    """Open the page of one chart."""
    contexts = []

    def opened(kind: str, size: tuple[int, int] = DESKTOP, theme: str | None = None) -> Visit:
        context = browser.new_context(viewport={"width": size[0], "height": size[1]}, color_scheme=theme)
        contexts.append(context)
        context.set_default_timeout(60_000)
        context.add_init_script(LISTEN)
        made = Visit(context.new_page(), charts)
        made.watch()
        made.page.goto(f"{charts}/page/{kind}")
        return made

    yield opened
    for context in contexts:
        context.close()


def unharmed(opened: Visit) -> None:
    opened.check()
    assert opened.page.evaluate("[refused, window.tripped ?? null]") == [[], None]
    assert opened.page.locator("style").count() == 0


@pytest.mark.slow(but="size1-scores")
@pytest.mark.parametrize("kind", ["ratings", "scores", "battles"])
@pytest.mark.parametrize("size", [DESKTOP, PHONE])
def test_a_chart_is_drawn_without_anything_that_the_policy_refuses(chart, kind, size):
    opened = chart(kind, size)
    opened.page.get_by_role("button", name="Interactive").click()
    live = opened.page.get_by_role("img", name="Ratings of six models").locator("svg.marks")
    live.wait_for()
    assert opened.page.locator("img").count() == 0
    assert opened.page.get_by_role("button", name="Interactive").count() == 0
    assert live.bounding_box()["width"] <= size[0]
    unharmed(opened)


def test_nothing_large_is_loaded_until_somebody_asks(chart):
    opened = chart("ratings")
    button = opened.page.get_by_role("button", name="Interactive")
    button.wait_for()
    opened.page.wait_for_load_state("networkidle")
    before = list(opened.requests)
    assert not [url for url in before if "/draw-" in url or "/spec/" in url]
    button.click()
    opened.page.locator("svg.marks").wait_for()
    assert sorted(url.split("/")[3] for url in opened.requests[len(before) :]) == ["assets", "spec"]


def test_a_tooltip_tells_names_as_text(chart):
    opened = chart("ratings")
    opened.page.get_by_role("button", name="Interactive").click()
    points = opened.page.locator("svg.marks .mark-symbol path")
    points.first.wait_for()
    tip, seen = opened.page.locator(".chart-tooltip"), set()
    for number in range(points.count()):
        opened.page.mouse.move(2, 2)
        tip.wait_for(state="hidden")
        points.nth(number).hover()
        tip.wait_for()
        seen.add(tip.locator("dd").first.text_content())
        assert tip.locator("dt").all_text_contents() == ["model", "rating", "low", "high", "battles"]
        box = tip.bounding_box()
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= DESKTOP[0]
    assert seen == {name if len(name) <= 120 else name[:120] + "…" for name in NAMES}
    opened.page.mouse.move(2, 2)
    tip.wait_for(state="hidden")
    unharmed(opened)


def test_a_spec_cannot_fetch(chart):
    opened = chart("fetching")
    opened.page.get_by_role("button", name="Interactive").click()
    opened.page.locator("svg.marks, .chart-status:not(:empty)").first.wait_for()
    assert [url for url in opened.requests if "/spec/ratings" in url] == []
    unharmed(opened)


def test_a_failure_leaves_the_picture_says_so_and_can_be_tried_again(chart):
    opened = chart("missing")
    button = opened.page.get_by_role("button", name="Interactive")
    for _ in range(2):
        button.click()
        opened.page.get_by_role("status").get_by_text("It did not work.").wait_for()
        assert opened.page.get_by_role("img", name="Ratings of six models").is_visible()
        assert button.is_enabled()
    assert opened.page.locator(".chart-live").count() == 0
    unharmed(opened)


@pytest.mark.slow
def test_a_chart_follows_the_theme_while_it_is_shown(chart):
    opened = chart("ratings", theme="light")
    opened.page.get_by_role("button", name="Interactive").click()
    label = opened.page.locator("svg.marks text").first
    label.wait_for()
    colour = "element => getComputedStyle(element).fill"
    light = label.evaluate(colour)
    opened.page.emulate_media(color_scheme="dark")
    assert label.evaluate(colour) not in {light, "rgb(0, 0, 0)"}
    unharmed(opened)
