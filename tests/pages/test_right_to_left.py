"""Pages in Arabic: whole, mirrored, with A first; and the reader's own choice of a language."""

import re
from html.parser import HTMLParser

import pytest
from playwright.sync_api import expect

from support.ballots import needs_bundle, stage
from support.browsing import DESKTOP, PHONE, axe
from support.page_layout import check_layout, resize
from support.shown_boards import NAMES, served_board

BOARD, MODEL = "/arenas/arena", f"/arenas/arena/models/{NAMES[0]}"
READ = ("/", BOARD, MODEL, *(f"{BOARD}/{view}" for view in ("categories", "style", "mine", "mine/data")))
#: What is the same in Arabic: names of methods, formats and places, and what this site's operator wrote.
SAME = re.compile(
    r"Tiltyard|Bradley|Terry|Glicko-2|Elo|RD|LLM|UTC|JSON|CSV|PNG|SVG|Parquet|SHA-256|English|français|arena|law|maths"
    r"|de|en|score|low|high|prompt-\d+|A|B"
)
#: Links and buttons that are smaller than a finger, apart from links within a text.
SMALL = """() => [...document.querySelectorAll('a[href], button, input:not([type=hidden]), select, summary')]
  .filter(one => one.checkVisibility() && !one.closest('p, li, dd, td, th, .visually-hidden, .skip-link'))
  .map(one => one.closest('label') ?? one)
  .filter(one => Math.min(one.offsetWidth || 24, one.offsetHeight || 24) < 24)
  .map(one => one.outerHTML.slice(0, 120))"""


DIRECTION = "one => getComputedStyle(one).direction"


class Spoken(HTMLParser):
    """Latin words that a page says, apart from names, code and what is marked as another language."""

    QUIET = frozenset({"bdi", "code", "pre", "kbd", "time", "script", "style", "svg", "title"})
    EMPTY = frozenset({"meta", "link", "input", "br", "img", "source", "wbr", "hr"})

    def __init__(self, html):
        super().__init__()
        self.words, self._open = [], []
        self.feed(html)

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        quiet = tag in self.QUIET or given.get("lang") not in (None, "ar") or any(self._open)
        if not quiet:
            for name in ("aria-label", "title", "placeholder"):
                self.handle_data(given.get(name) or "")
        if tag not in self.EMPTY:
            self._open.append(quiet)

    def handle_endtag(self, tag):
        if tag not in self.EMPTY and self._open:
            self._open.pop()

    def handle_data(self, data):
        if not any(self._open):
            text = data
            for name in NAMES:
                text = text.replace(name, " ")
            self.words += [word for word in re.findall(r"[A-Za-z][\w-]*", text) if not SAME.fullmatch(word)]


@pytest.fixture(scope="module")
def site(server, template, tmp_path_factory):
    with served_board(server, template, tmp_path_factory.mktemp("responses")) as running:
        yield running


def test_no_page_in_arabic_says_anything_in_english(site):
    reader = site.client(follow_redirects=True)
    reader.headers.update({"accept": "text/html", "accept-language": "ar-EG"})
    for path in (*READ, f"{BOARD}/vote", f"{BOARD}/embed", f"{BOARD}?category=law"):
        answer = reader.get(path)
        assert '<html lang="ar" dir="rtl"' in answer.text, path
        assert Spoken(answer.text).words == [], path


@pytest.mark.slow(but="/arenas/arena/categories")
@pytest.mark.parametrize("path", [*READ, f"{BOARD}/vote"])
def test_pages_in_arabic_fit_also_at_twice_the_size(visit, path):
    opened = visit(path, locale="ar", size=PHONE, bypass_csp=True)
    for size in (PHONE, (PHONE[0] // 2, PHONE[1] // 2), DESKTOP):
        resize(opened.page, size)
        if size != DESKTOP:
            assert opened.page.evaluate("document.documentElement.scrollWidth <= innerWidth"), size
            assert opened.page.evaluate(SMALL) == [], size
        else:
            check_layout(opened.page, path)
            assert axe(opened.page) == []


@needs_bundle
def test_response_a_is_first_where_text_runs_from_right_to_left(visit):
    opened = visit(f"{BOARD}/vote", locale="ar", bypass_csp=True)
    page = opened.page
    page.locator("main form button.button").first.click()
    left, right = (stage(page).locator(f"[data-keys*={key}]").first for key in ("ArrowLeft", "ArrowRight"))
    expect(right).to_have_attribute("value", "model_a")
    expect(left).to_have_attribute("value", "model_b")
    assert right.bounding_box()["x"] > left.bounding_box()["x"]
    sides = stage(page).locator(".response")
    assert sides.nth(0).bounding_box()["x"] > sides.nth(1).bounding_box()["x"]
    assert sides.nth(0).locator(".text").first.evaluate(DIRECTION) == "ltr"
    assert axe(page) == []
    page.keyboard.press("ArrowRight")
    expect(stage(page).locator(".result")).to_contain_text("A")
