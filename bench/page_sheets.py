"""Pictures of the pages at six sizes, light and dark, one sheet for each page, and how much of a phone is response.

`python bench/page_sheets.py --url http://127.0.0.1:8420 --out FOLDER [--operator NAME:PASSWORD]` looks at a running
`tiltyard demo`. A live battle needs models: `tests/pages/test_phone_live.py` measures that.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from playwright.sync_api import Browser, BrowserContext, sync_playwright

from screenshots import CHROMIUM, FLAGS

SIZES = ((390, 664), (390, 844), (768, 1024), (1280, 800), (1920, 1080), (2560, 1440))
ARENA = "/arenas/demo"
PAGES = {
    "home": "/",
    "welcome": f"{ARENA}/vote",
    "vote": f"{ARENA}/vote",
    "board": ARENA,
    "model": f"{ARENA}/models/argent-70b",
    "your-data": f"{ARENA}/mine/data",
    "join": "/join/no-such-code",
}
#: The part of the screen that the response in view takes; on a phone between the tabs and the bar.
SHARE = """() => {
  const seen = one => [...document.querySelectorAll(`.stage:not(.stage-ahead) ${one}`)]
    .find(found => found.checkVisibility())?.getBoundingClientRect();
  const [response, tabs, bar] = [seen('.response'), seen('.tabs'), seen('.bar')];
  if (!response || !tabs || !bar) return null;
  return (Math.min(response.bottom, bar.top) - Math.max(response.top, tabs.bottom)) * response.width
    / (innerWidth * innerHeight);
}"""
SHEET = "display:flex;flex-wrap:wrap;gap:8px;align-items:start;margin:8px;background:#888;width:2500px"
#: Height of a picture on a sheet.
PIXELS = 480


def sheet(browser: Browser, pictures: list[Path], out: Path) -> None:
    """Put pictures side by side, all of one height."""
    shown = "".join(f"<img height={PIXELS} src='{one.resolve().as_uri()}'>" for one in pictures)
    page = out.with_suffix(".html")
    page.write_text(f"<body style='{SHEET}'>{shown}", encoding="utf-8")
    opened = browser.new_page(viewport={"width": 2516, "height": 400})
    opened.goto(page.resolve().as_uri())
    opened.screenshot(path=out, full_page=True)
    opened.close()
    page.unlink()


def take(context: BrowserContext, url: str, name: str, folder: Path) -> list[Path]:
    """The page at each size in the theme of the context."""
    page, found = context.new_page(), []
    page.goto(url)
    if name == "vote":
        site = url.removesuffix(PAGES[name])
        context.request.post(f"{site}/api/v1{ARENA}/matchups", headers={"origin": site})
        page.goto(url)
    for width, height in SIZES:
        page.set_viewport_size({"width": width, "height": height})
        page.evaluate("scrollTo(0, 0)")
        page.wait_for_load_state("networkidle")
        picture = folder / f"{name}-{len(found)}-{width}x{height}.png"
        page.screenshot(path=picture, animations="disabled")
        found.append(picture)
        wide = page.evaluate("document.documentElement.scrollWidth - innerWidth")
        share = page.evaluate(SHARE) if name == "vote" else None
        if wide > 0 or share is not None:
            print(
                f"{name} {width}x{height}: "
                + (f"{wide} pixels too wide" if wide > 0 else f"{share:.0%} response")
            )
    page.close()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--url", required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--operator", default="", help="NAME:PASSWORD; also the operator's overview")
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        for theme in ("light", "dark"):
            context = browser.new_context(color_scheme=theme)
            pages = dict(PAGES)
            if given.operator:
                name, _, password = given.operator.partition(":")
                page = context.new_page()
                page.goto(f"{given.url}/operator/sign-in")
                page.get_by_label("Name").fill(name)
                page.get_by_label("Password").fill(password)
                page.get_by_role("button", name="Sign in").click()
                page.wait_for_load_state()
                pages["operator"] = "/operator/arenas/demo"
            for name, path in pages.items():
                pictures = take(context, given.url + path, name, given.out)
                sheet(browser, pictures, given.out / f"sheet-{name}-{theme}.png")
                for picture in pictures:
                    picture.unlink()
            context.close()
        browser.close()


if __name__ == "__main__":
    main()
