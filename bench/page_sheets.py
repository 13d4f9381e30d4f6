"""Pictures of the pages at six sizes, light and dark, one sheet for each page, and how much of a phone is response.

`python bench/page_sheets.py --url http://127.0.0.1:8420 --link /claim/… --out FOLDER` looks at a running `tiltyard demo`,
whose link creates the operator; a second run needs no link. `--live` takes the pages of live battles instead, in an arena
whose models answer by scripts. `--whole` takes pages down to their end, `--only vote,board` some of them.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

from screenshots import CHROMIUM, FLAGS, HOUSE, NAME, PASSWORD, PRIVATE, STAGES, more_arenas, served_to

SIZES = ((390, 664), (390, 844), (768, 1024), (1280, 800), (1920, 1080), (2560, 1440))
ARENA = "/arenas/demo"
#: Votes of a visitor before the names are told, and before the page of their own board.
VOTES = 12
#: Columns that no reader of files knows.
ODD_TABLE = "question,llm,answer\n" + "".join(
    f'Why is the sky {colour}?,{model},"Because of the air, said {model}, and went on for a while."\n'
    for colour in ("blue", "red", "grey")
    for model in ("oak-1", "elm-2", "fir-3")
)
#: The part of the screen that the response in view takes; on a phone between the tabs and the bar.
SHARE = """() => {
  const seen = one => [...document.querySelectorAll(`.stage:not(.stage-ahead) ${one}`)]
    .find(found => found.checkVisibility())?.getBoundingClientRect();
  const [response, tabs, bar] = [seen('.response'), seen('.tabs'), seen('.bar')];
  if (!response || !tabs || !bar) return null;
  return (Math.min(response.bottom, bar.top) - Math.max(response.top, tabs.bottom)) * response.width
    / (innerWidth * innerHeight);
}"""
#: Rows of the board that are whole on the first screen.
ROWS = """() => [...document.querySelectorAll('main table tbody tr')]
  .filter(one => one.checkVisibility() && one.getBoundingClientRect().bottom <= innerHeight).length"""
SHEET = "display:flex;flex-wrap:wrap;gap:8px;align-items:start;margin:8px;background:#888;width:2500px"
#: Height of a picture on a sheet.
PIXELS = 480

Walk = Callable[[Page, str], object]


def path(address: str) -> Walk:
    """Open an address."""
    return lambda page, site: page.goto(site + address)


def long_matchup(page: Page, site: str) -> None:
    """A matchup with a response that fills a phone, in view there."""
    longer = served_to(page.context, site, *STAGES["vote-maths"])
    page.set_viewport_size({"width": SIZES[0][0], "height": SIZES[0][1]})
    page.goto(f"{site}{ARENA}/vote")
    page.locator(f".stage:not(.stage-ahead) .tab-{longer[-1]}").check(force=True)


def voted(page: Page, site: str) -> None:
    """Vote, and let the names be told."""
    request, headers = page.context.request, {"origin": site}
    for number in range(VOTES):
        matchup = request.post(f"{site}/api/v1{ARENA}/matchups", headers=headers).json()
        for side in "ab":
            request.get(site + matchup["responses"][side]["url"])
        winner = ("model_a", "model_b", "tie")[number % 3]
        request.post(
            f"{site}/api/v1/matchups/{matchup['matchup']}/vote", headers=headers, data={"winner": winner}
        )
    request.post(f"{site}/api/v1{ARENA}/finish", headers=headers)
    page.goto(f"{site}{ARENA}/vote/names")


def after_a_vote(page: Page, site: str) -> None:
    long_matchup(page, site)
    page.set_viewport_size({"width": 1280, "height": 800})
    page.locator('.stage:not(.stage-ahead)[data-unseen=""]').wait_for()
    page.locator("[data-act=vote][value=tie]:visible").first.click()
    page.get_by_text("Vote counted:").wait_for()


def invited(page: Page, site: str) -> None:
    """A link into the arena by invitation, as the operator makes one."""
    asked = page.context.request
    form = {"people": "Anna\nBen"}
    sent = asked.post(
        f"{site}/operator/arenas/{PRIVATE}/invitations", headers={"origin": site}, form=form
    ).text()
    link = re.search(r"data-invitation>[^<]*?(/join/[^<\s]+)", sent)
    assert link is not None
    page.context.clear_cookies()
    page.goto(site + link[1])


def odd_file(page: Page, site: str) -> None:
    page.goto(f"{site}{HOUSE}/answers")
    file = {"name": "answers.csv", "mimeType": "text/csv", "buffer": ODD_TABLE.encode()}
    page.get_by_label("File", exact=True).set_input_files([file])
    page.get_by_role("button", name="Check file").click()


READ: dict[str, Walk] = {
    "home": path("/"),
    "welcome": path(f"{ARENA}/vote"),
    "board": path(ARENA),
    "board-past": path(f"{ARENA}?chart=history"),
    "categories": path(f"{ARENA}/categories"),
    "model": path(f"{ARENA}/models/argent-70b"),
    "vote": long_matchup,
    "voted": after_a_vote,
    "names": voted,
    "mine": path(f"{ARENA}/mine"),
    "your-data": path(f"{ARENA}/mine/data"),
}
OPERATE: dict[str, Walk] = {
    "operator-home": path("/operator"),
    "overview": path(HOUSE),
    "settings": path(f"{HOUSE}/settings"),
    "models": path(f"{HOUSE}/models"),
    "answers": path(f"{HOUSE}/answers"),
    "mapping": odd_file,
    "voters": path(f"{HOUSE}/voters"),
    "crowd": path(f"{HOUSE}/crowd"),
    "prompts": path(f"{HOUSE}/prompts"),
    "exports": path(f"{HOUSE}/exports"),
    "people": path(f"/operator/arenas/{PRIVATE}/invitations"),
    "private-overview": path(f"/operator/arenas/{PRIVATE}"),
    "join": invited,
}


def asked_live(page: Page, site: str) -> None:
    page.context.clear_cookies()
    page.goto(f"{site}/arenas/arena/vote")
    page.locator("textarea").first.fill("How do I reverse a list in Python?")
    with page.expect_navigation():
        page.get_by_role("button", name="Ask both").click()
    page.locator(".live-stage:not([data-running])").wait_for()


def voted_live(page: Page, site: str) -> None:
    asked_live(page, site)
    page.set_viewport_size({"width": 1280, "height": 800})
    page.locator('.stage[data-unseen=""]').wait_for()
    page.locator("[data-act=vote][value=tie]:visible").first.click()
    page.get_by_role("button", name="Show the names").click()
    page.locator(".named-model:visible").first.wait_for()


LIVE: dict[str, Walk] = {
    "live-question": path("/arenas/arena/vote"),
    "live": asked_live,
    "live-names": voted_live,
}


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


def take(page: Page, name: str, folder: Path, whole: bool) -> list[Path]:
    """The open page at each size."""
    found = []
    for width, height in SIZES:
        page.set_viewport_size({"width": width, "height": height})
        page.evaluate("scrollTo(0, 0)")
        page.wait_for_load_state("networkidle")
        picture = folder / f"{name}-{width}x{height}.png"
        page.screenshot(path=picture, animations="disabled", full_page=whole)
        found.append(picture)
        wide = page.evaluate("document.documentElement.scrollWidth - innerWidth")
        share = page.evaluate(SHARE)
        said = [f"{wide} pixels too wide"] if wide > 0 else []
        said += [f"{share:.0%} response"] if share is not None else []
        said += [f"{page.evaluate(ROWS)} rows"] if name.startswith("board-") else []
        if said:
            print(f"{name} {width}x{height}: {', '.join(said)}")
    return found


def take_all(browser: Browser, site: str, walks: dict[str, Walk], given: argparse.Namespace) -> None:
    """A sheet of each page in each theme, or its pictures if they are of whole pages."""
    for theme in ("light", "dark"):
        context = browser.new_context(color_scheme=theme)
        context.set_default_timeout(30_000)
        if walks is OPERATE:
            operator(context, site, given.link)
            given.link = ""
        for name, walk in walks.items():
            if given.only and name not in given.only.split(","):
                continue
            page = context.new_page()
            walk(page, site)
            pictures = take(page, f"{name}-{theme}", given.out, given.whole)
            page.close()
            if not given.whole:
                sheet(browser, pictures, given.out / f"sheet-{name}-{theme}.png")
                for picture in pictures:
                    picture.unlink()
        context.close()


def operator(context: BrowserContext, site: str, link: str) -> None:
    """Create the operator, or sign in, and have an arena by invitation."""
    page = context.new_page()
    page.goto(site + (link or "/operator/sign-in"))
    page.get_by_label("Name").fill(NAME)
    page.get_by_label("Password").fill(PASSWORD)
    with page.expect_navigation():
        page.get_by_role("button", name="Create your operator account" if link else "Sign in").click()
    if context.request.get(f"{site}/operator/arenas/{PRIVATE}").status == 404:
        more_arenas(context, site)
    page.close()


@contextmanager
def live_arena() -> Iterator[str]:
    """The address of an arena whose models answer by scripts."""
    sys.path.append(str(Path(__file__).parents[1] / "tests"))
    from support.live_page_sites import live_site
    from support.postgres_servers import migrated_template, postgres

    with postgres() as server, tempfile.TemporaryDirectory() as folder:
        template = migrated_template(server)
        with live_site(server, template, Path(folder), undo_seconds=60.0) as running:
            running.answer_steadily(2_000)
            yield running.site.url


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--url", default="http://127.0.0.1:8420")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--link", default="", help="the path of the demo's link that creates the operator")
    parser.add_argument("--live", action="store_true")
    parser.add_argument("--whole", action="store_true")
    parser.add_argument("--only", default="")
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    with live_arena() if given.live else nullcontext(given.url) as site, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        for walks in (LIVE,) if given.live else (OPERATE, READ):
            if not given.only or set(walks) & set(given.only.split(",")):
                take_all(browser, site, walks, given)
        browser.close()


if __name__ == "__main__":
    main()
