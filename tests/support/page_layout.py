"""What a page's layout must keep at any width: nothing cut off, one column for all of its parts."""

from playwright.sync_api import Page

from support.browsing import DESKTOP, PHONE

#: Screens of 24, 27 and 34 inches at their own resolution.
WIDE = ((1920, 1080), (2560, 1440), (3440, 1440))
SCREENS = (PHONE, DESKTOP, (1440, 900), *WIDE)
#: Pixels that the content of a page has at least on a wide screen.
_CONTENT_PIXELS = 1000

#: Controls that reach out of the window, or are cut off by something around them that nobody expects to scroll.
_CUT_OFF = """() => {
  const scrolls = '.table-region, .chart-scroll, .chart-place, .chips, .board-tabs, pre, .wide, .stage-ahead, .visually-hidden';
  const cut = (one) => {
    const box = one.getBoundingClientRect();
    if (box.left < -1 || box.right > innerWidth + 1) return true;
    for (let around = one.parentElement; around; around = around.parentElement) {
      const edge = around.getBoundingClientRect();
      if (getComputedStyle(around).overflowX === 'visible') continue;
      if (box.left < edge.left - 1 || box.right > edge.right + 1) return true;
    }
    return false;
  };
  return [...document.querySelectorAll('a[href], button, input, select, textarea, summary, label')]
    .filter(one => !one.closest(scrolls) && !one.matches('.skip-link') && one.checkVisibility() && one.offsetWidth)
    .filter(cut).map(one => one.outerHTML.slice(0, 120));
}"""
#: Texts that something around them cuts off. A phone shows as much of an arena's name in its header as there is room for.
_CUT_TEXT = """() => [...document.querySelectorAll('body *')].filter(one => {
  const style = getComputedStyle(one), hides = (way) => way === 'hidden' || way === 'clip';
  return one.checkVisibility() && one.clientWidth > 1 && one.textContent.trim()
    && !one.closest('.visually-hidden, .stage-ahead, .masthead-arena, svg, .text, .excerpt')
    && (hides(style.overflowX) && one.scrollWidth > one.clientWidth + 1
      || hides(style.overflowY) && one.scrollHeight > one.clientHeight + 1);
}).map(one => one.outerHTML.slice(0, 200))"""
#: Where each part of a page begins and ends: the header, the menus, the content, the footer.
_EDGES = """() => [...document.body.children].filter(
    one => one.checkVisibility() && !one.matches('.skip-link, script, [popover]')
  ).map(one => {
    const box = one.getBoundingClientRect(), style = getComputedStyle(one);
    return {part: one.tagName.toLowerCase(), left: box.left + parseFloat(style.paddingLeft),
            right: box.right - parseFloat(style.paddingRight)};
  })"""


def resize(page: Page, size: tuple[int, int]) -> None:
    """Give the window this size."""
    page.set_viewport_size({"width": size[0], "height": size[1]})


def check_layout(page: Page, where: str) -> None:
    """Nothing of a page is cut off, and on a wide screen all of its parts share one column that is wide enough."""
    width = page.viewport_size["width"] if page.viewport_size else 0
    where = f"{where} at {width}"
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), f"{where} scrolls sideways"
    assert page.evaluate(_CUT_OFF) == [], where
    cut = page.evaluate(_CUT_TEXT)
    assert cut == [], (where, cut)
    if width < WIDE[0][0]:
        return
    parts = page.evaluate(_EDGES)
    left, right = min(part["left"] for part in parts), max(part["right"] for part in parts)
    header, content = parts[0], next(part for part in parts if part["part"] == "main")
    assert abs(header["left"] - left) <= 1, (where, parts)
    assert abs(header["right"] - right) <= 1, (where, parts)
    assert abs(left - (width - right)) <= 20, f"{where} is not in the middle: {parts}"
    assert content["right"] - content["left"] >= _CONTENT_PIXELS, (where, parts)
