"""Formulas and hostile text in a real browser, under the pages' own policy."""

import pytest
from playwright.sync_api import expect

from support.browsing import DESKTOP, PHONE, Visit
from support.hostile_text import PAYLOADS
from tiltyard.web.assets import load_assets
from tiltyard.web.pages.layout import PAGE_POLICY
from tiltyard.web.texts import format_name, plain_text, render_text

SITE = "http://texts.test"

pytestmark = pytest.mark.skipif(
    load_assets().script() is None, reason="needs the bundle: python hatch_build.py"
)


def page_of(main: str) -> str:
    assets = load_assets()
    return f"""<!doctype html><html lang="en"><meta charset="utf-8"><title>Text</title>
        <meta name="viewport" content="width=device-width"><link rel="icon" href="data:,">
        <link rel="stylesheet" href="{assets.url("tiltyard.css")}">
        <script type="module" src="{assets.script()}"></script><main>{main}</main></html>"""


@pytest.fixture
def read(browser):
    """Open a page with some HTML in it; it can reach nothing but its assets."""
    contexts = []

    def answered(route, html: str) -> None:
        path = route.request.url.removeprefix(SITE)
        found = load_assets().found.get(path.removeprefix("/assets/"))
        if path == "/":
            headers = {"Content-Security-Policy": PAGE_POLICY}
            route.fulfill(body=html, content_type="text/html; charset=utf-8", headers=headers)
        elif found is not None:
            route.fulfill(body=found.data, content_type=found.media_type)
        else:
            route.abort()

    def opened(main: str, size: tuple[int, int] = DESKTOP) -> Visit:
        context = browser.new_context(viewport={"width": size[0], "height": size[1]})
        contexts.append(context)
        context.set_default_timeout(30_000)
        context.add_init_script("window.tripped = []; window.tripwire = number => tripped.push(number);")
        context.route("**/*", lambda route: answered(route, page_of(main)))
        made = Visit(context.new_page(), SITE)
        made.watch()
        made.page.goto(SITE + "/")
        waiting = made.page.locator(".maths:not(.maths-drawn, .maths-failed)")
        expect(waiting).to_have_count(0, timeout=30_000)
        return made

    yield opened
    for context in contexts:
        context.close()


def text(source: str) -> str:
    return f'<div class="text" data-island="maths">{render_text(source)}</div>'


def unharmed(opened: Visit) -> None:
    opened.check()
    assert opened.page.evaluate("tripped") == []
    assert [url for url in opened.requests if "tripwire" in url] == []


@pytest.mark.slow(but="size1")
@pytest.mark.parametrize("size", [DESKTOP, PHONE])
def test_formulas_are_drawn_without_anything_that_the_policy_refuses(read, size):
    opened = read(text(r"$E = mc^2$ \(\pmb{x}\sideset{_1^2}{_3^4}\prod\) $$\int_0^1 \hat{x}\,dx$$" + "\n\n" + r"\[ \begin{pmatrix} a & b \\ c & d \end{pmatrix} \]"), size)  # fmt: skip
    assert opened.page.locator(".maths-drawn math").count() == 4
    assert opened.page.locator('.maths[data-display="block"] math[display="block"]').count() == 2
    assert opened.page.locator(".maths-failed").count() == 0
    unharmed(opened)


def test_what_cannot_be_drawn_keeps_its_source(read):
    broken = (r"\frac{a", r"\href{javascript:tripwire(0)}{x}", r"\nonsense", r"\def\a{\a\a}\a")
    opened = read(text(" and ".join(f"${each}$" for each in broken)))
    assert opened.page.locator(".maths-failed").all_text_contents() == list(broken)
    unharmed(opened)


def test_no_formula_covers_the_page(read):
    opened = read(text(r"$\rule{9999em}{9999em}$ $\rule{9999pt}{9999pt}$ $\hspace{9999em}x$"))
    for formula in opened.page.locator(".maths").all():
        box = formula.bounding_box()
        assert box["height"] < 200
        assert box["width"] < 200
    unharmed(opened)


def test_the_library_is_not_loaded_for_a_text_without_formulas(read):
    opened = read(text("No formula at all: $5 and $10."))
    opened.page.wait_for_load_state("networkidle")
    assert [url for url in opened.requests if "temml" in url or "woff2" in url] == []


def test_formulas_bring_a_font_with_the_measures_that_they_need(read):
    """It is there for whoever has no such font installed, under the page's own policy."""
    opened = read(text(r"$\sqrt{x}$"))
    loading = "async () => (await document.fonts.load('16px \"Tiltyard Math\"', 'x')).map(one => one.status)"
    assert opened.page.evaluate(loading) == ["loaded"]
    assert (
        opened.page.locator("math").evaluate("one => getComputedStyle(one).fontFamily").find("Tiltyard Math")
        > 0
    )
    unharmed(opened)


def test_no_payload_runs_or_loads_anything(read):
    shown = "".join(
        f"<section>{text(each.text)}<p>{plain_text(each.text)}</p><p>{format_name(each.text)}</p></section>"
        for each in PAYLOADS
    )
    opened = read(shown)
    opened.page.wait_for_load_state("networkidle")
    assert opened.page.locator("section").count() == len(PAYLOADS)
    assert (
        opened.page.locator("section").locator("script, img, svg, iframe, style, form, input, object").count()
        == 0
    )
    unharmed(opened)


@pytest.mark.slow
@pytest.mark.parametrize("size", [DESKTOP, PHONE])
def test_no_payload_makes_the_page_wider_than_the_window(read, size):
    opened = read("".join(f"<section>{text(each.text)}<p>{format_name(each.text)}</p></section>" for each in PAYLOADS), size)  # fmt: skip
    opened.page.evaluate(
        "() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"
    )
    assert opened.page.evaluate("document.documentElement.scrollWidth") <= size[0]
    unharmed(opened)
