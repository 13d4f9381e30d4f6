"""Pictures of every page, for the documentation or to look at.

`python bench/screenshots.py` makes those of the documentation: desktop, some also phone or dark.
`python bench/screenshots.py --every --out pictures` takes each page whole, at five widths, light and dark.
`tiltyard demo` is started, and a Chromium walks through its
pages as a voter, a reader and the operator. Needs playwright and Debian's chromium.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path

from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

from small_png import small_png

SIZES = {"": (1280, 800), "-phone": (390, 844)}
#: Those to look at.
EVERY = {
    f"-{width}": (width, height)
    for width, height in ((390, 844), (768, 1024), (1280, 800), (1920, 1080), (2560, 1440))
}
CHROMIUM = "/usr/bin/chromium"
FLAGS = ["--no-sandbox", "--disable-background-networking", "--disable-gpu", "--hide-scrollbars"]
NAME, PASSWORD = "Ada", "correct horse battery"
#: Bytes that the smaller and the larger of two responses have at least: others make dull pictures.
TELLING = {"text": (60, 320), "image": (2000, 3000), "audio": (0, 0), "app": (300, 1000)}
#: Texts that differ by fewer bytes say much the same.
ALIKE = 80
#: Bytes that a picture in the docs may have.
MOST = 150_000
ARENA = "/arenas/demo"
#: Whether every image that can be seen has come; those further down may wait until they are.
_DRAWN = """() => [...document.images].every(one => {
  const place = one.getBoundingClientRect();
  return one.complete || place.bottom < 0 || place.top > innerHeight || !place.width;
})"""
HOUSE = "/operator/arenas/demo"
#: Arenas that `--every` makes: one that was never opened, one by invitation with a panel, and one that is archived.
DRAFT, PRIVATE, PAST = "first-draft", "pilot", "last-year"


@dataclass(frozen=True)
class Shot:
    """One page: its name, its path, and what to do there before the picture."""

    name: str
    path: str
    act: Callable[[Page], None] = lambda _page: None
    dark: bool = False
    #: What must be at the top of the picture.
    top: str | None = None


@dataclass
class Camera:
    """Takes pictures, and remembers those that are too large."""

    url: str
    out: Path
    #: An empty page in which pictures are made smaller.
    blank: Page
    #: Every page at every width, light and dark, down to its end.
    every: bool = False
    large: list[str] = field(default_factory=list)

    def take(self, page: Page, name: str, *, top: str | None = None, sizes: dict | None = None) -> None:
        """The page as it is, at each size."""
        if self.every:
            sizes = EVERY
        elif name.startswith(("operator", "board-", "chart-", "permalink")):
            sizes = {"": SIZES[""]}
        for ending, (width, height) in (sizes or SIZES).items():
            page.set_viewport_size({"width": width, "height": height})
            page.evaluate("scrollTo(0, 0)")
            if top is not None:
                page.locator(top).first.evaluate("one => one.scrollIntoView({block: 'start'})")
            page.wait_for_load_state("networkidle")
            page.wait_for_function(_DRAWN)
            path = self.out / f"{name}{ending}.png"
            picture = page.screenshot(animations="disabled", caret="hide", full_page=self.every)
            path.write_bytes(picture if self.every else small_png(self.blank, picture))
            if not self.every and path.stat().st_size > MOST:
                self.large.append(f"{path.name}: {path.stat().st_size:,} bytes")
        page.set_viewport_size({"width": 1280, "height": 800})

    def shoot(self, page: Page, shot: Shot) -> None:
        page.goto(self.url + shot.path)
        shot.act(page)
        self.take(page, shot.name, top=shot.top)
        if shot.dark or self.every:
            page.emulate_media(color_scheme="dark")
            page.goto(self.url + shot.path)
            shot.act(page)
            self.take(page, f"{shot.name}-dark", top=shot.top, sizes={"": SIZES[""]})
            page.emulate_media(color_scheme="light")


READER = [
    Shot("home", "/"),
    Shot("board", ARENA, dark=True),
    Shot("board-filtered", f"{ARENA}?category=code"),
    Shot("board-both", f"{ARENA}?source=both"),
    Shot("chart-ratings", ARENA, top="#charts"),
    Shot("chart-win-rates", f"{ARENA}?chart=win-rates", top="#charts"),
    Shot("chart-battle-counts", f"{ARENA}?chart=battle-counts", top="#charts"),
    Shot("chart-history", f"{ARENA}?chart=history", top="#charts"),
    Shot(
        "permalink",
        ARENA,
        act=lambda page: page.get_by_role("link", name="Permalink to this board").click(),
    ),
    Shot("model", f"{ARENA}/models/argent-70b", dark=True),
    Shot("vote-welcome", f"{ARENA}/vote"),
]

#: Pages that the documentation shows no pictures of.
MORE_READER = [
    Shot("categories", f"{ARENA}/categories"),
    Shot("style", f"{ARENA}/style"),
    Shot("usage", f"{ARENA}/usage"),
    Shot("problem", "/arenas/no-such-arena"),
    Shot("private-door", f"/arenas/{PRIVATE}"),
    Shot("ended", f"/arenas/{PAST}/vote"),
    Shot("empty-board", f"/arenas/{PAST}"),
]


def _first_voter(page: Page) -> None:
    """The person with most votes that count."""
    rows = page.get_by_role("row").filter(has_text="human").filter(has_not=page.locator(".badge"))
    rows.locator("th a").first.click()


def _excluding(page: Page) -> None:
    _first_voter(page)
    page.locator("#field-reason").fill("Every vote within a second, always the left side")
    page.locator("form[action$=exclude]").last.get_by_role("button").click()


def _uploading(page: Page) -> None:
    rows = [
        {"prompt_id": "first-train", "prompt": "Write a haiku about the first train of the morning.",
         "model": "kestrel-2", "response": "Steel hums before dawn;\nthe platform counts its sleepers,\nall of them upright."},
        {"prompt_id": "blue-sky", "prompt": "Why is the sky blue?", "model": "kestrel-2", "response": "Air scatters blue."},
        {"prompt_id": "new-one", "model": "kestrel-2", "response": "The prompt is missing."},
        {"prompt_id": "sketch-2", "prompt": "Draw a tree.", "model": "kestrel-2", "kind": "image", "response": "tree.png"},
    ]  # fmt: skip
    data = "\n".join(json.dumps(row) for row in rows).encode()
    page.get_by_label("File").set_input_files(
        [{"name": "kestrel.jsonl", "mimeType": "application/jsonl", "buffer": data}]
    )
    page.get_by_role("button", name="Check file").click()


def _fewer_votes(page: Page) -> None:
    page.locator("input[name=established_votes]").fill("60")
    page.locator("form[action$=review] button").last.click()


OPERATOR = [
    Shot("operator-house", "/operator", dark=True),
    Shot("operator-overview", HOUSE),
    Shot("operator-models", f"{HOUSE}/models"),
    Shot("operator-answers", f"{HOUSE}/answers"),
    Shot("operator-upload", f"{HOUSE}/answers", act=_uploading),
    Shot("operator-prompts", f"{HOUSE}/prompts"),
    Shot("operator-policy", f"{HOUSE}/policy"),
    Shot("operator-policy-review", f"{HOUSE}/policy", act=_fewer_votes),
    Shot("operator-phase", f"{HOUSE}/phase"),
    Shot("operator-settings", f"{HOUSE}/settings"),
    Shot("operator-voters", f"{HOUSE}/voters"),
    Shot("operator-voter", f"{HOUSE}/voters", act=_first_voter),
    Shot("operator-exclude", f"{HOUSE}/voters", act=_excluding),
    Shot("operator-exclusions", f"{HOUSE}/exclusions"),
    Shot("operator-complaints", f"{HOUSE}/complaints"),
    Shot("operator-remarks", f"{HOUSE}/remarks"),
    Shot("operator-audit", f"{HOUSE}/audit"),
    Shot("operator-exports", f"{HOUSE}/exports"),
    Shot("operator-tokens", "/operator/tokens"),
]


def _second_factor(page: Page) -> None:
    page.goto(page.url.partition("?")[0])
    page.get_by_role("button", name="Set up a second factor").click()


def _first_prompt(page: Page) -> None:
    page.locator("tbody th a").first.click()


def _first_panel(page: Page) -> None:
    page.locator("tbody th a").first.click()


def _operator_arena(name: str) -> str:
    return f"/operator/arenas/{name}"


MORE_OPERATOR = [
    Shot("operator-account", "/operator/account"),
    Shot("operator-second-factor", "/operator/account", act=_second_factor),
    Shot("operator-operators", "/operator/operators"),
    Shot("operator-server-audit", "/operator/audit"),
    Shot("operator-stage", f"{HOUSE}/stage"),
    Shot("operator-archive", f"{HOUSE}/stage/confirm?act=archive"),
    Shot("operator-delete", f"{HOUSE}/stage/delete"),
    Shot("operator-preview", f"{HOUSE}/preview"),
    Shot("operator-write", f"{HOUSE}/answers/write"),
    Shot("operator-prompt", f"{HOUSE}/prompts", act=_first_prompt),
    Shot("operator-details", f"{HOUSE}/models/details?model=argent-70b"),
    Shot("operator-retire", f"{HOUSE}/models/retire?model=argent-70b"),
    Shot("operator-invitations", f"{_operator_arena(PRIVATE)}/invitations"),
    Shot("operator-texts", f"{_operator_arena(PRIVATE)}/texts"),
    Shot("operator-panels", f"{_operator_arena(PRIVATE)}/panels"),
    Shot("operator-panel", f"{_operator_arena(PRIVATE)}/panels", act=_first_panel),
    Shot("operator-arena-operators", f"{_operator_arena(PRIVATE)}/operators"),
    Shot("draft-overview", _operator_arena(DRAFT)),
    Shot("draft-stage", f"{_operator_arena(DRAFT)}/stage"),
    Shot("draft-voters", f"{_operator_arena(DRAFT)}/voters"),
    Shot("draft-vote", f"/arenas/{DRAFT}/vote"),
    Shot("past-answers", f"{_operator_arena(PAST)}/answers"),
    Shot("past-stage", f"{_operator_arena(PAST)}/stage"),
]
#: Matchups to look for: what the prompt says, or of which kind the responses are.
STAGES = {
    "vote-maths": ("Show how you get there", "text"),
    "vote-code": ("longest word", "text"),
    "vote-arabic": ("خطوات", "text"),
    "vote-image": ("lighthouse", "image"),
    "vote-audio": ("", "audio"),
    "vote-app": ("", "app"),
}


def served_to(context: BrowserContext, url: str, words: str, kind: str) -> str:
    """Skip until a matchup comes that fits; it stays before this voter. Which side is the larger."""
    headers = {"origin": url}
    for _ in range(600):
        matchup = context.request.post(f"{url}/api/v1{ARENA}/matchups", headers=headers).json()
        kinds = {side["kind"] for side in matchup["responses"].values()}
        if words in matchup["prompt"]["text"] and kinds == {kind}:
            a, b = (len(context.request.get(url + matchup["responses"][side]["url"]).body()) for side in "ab")
            least, alike = TELLING[kind], kind == "text" and abs(a - b) < ALIKE
            if min(a, b) > least[0] and max(a, b) > least[1] and not alike:
                return "model_a" if a > b else "model_b"
        context.request.post(f"{url}/api/v1/matchups/{matchup['matchup']}/skip", headers=headers)
    raise SystemExit(f"no matchup came with {words!r} and {kind}")


def visitor(browser: Browser, languages: str = "en-GB") -> BrowserContext:
    """A new visitor, who is served prompts in these languages first."""
    context = browser.new_context(
        color_scheme="light", timezone_id="UTC", extra_http_headers={"Accept-Language": languages}
    )
    context.set_default_timeout(30_000)
    return context


def stages(browser: Browser, camera: Camera) -> None:
    """Every kind of matchup, each before a voter who has skipped all others, and one vote to the names."""
    for name, (words, kind) in STAGES.items():
        with visitor(browser, "en-GB, ar;q=0.9" if name == "vote-arabic" else "en-GB") as context:
            better = served_to(context, camera.url, words, kind)
            page = context.new_page()
            camera.shoot(page, Shot(name, f"{ARENA}/vote", dark=name == "vote-maths"))
            if name == "vote-code":
                page.locator(f"[data-act=vote][value={better}]:visible").click()
                page.get_by_text("Vote counted:").wait_for()
                camera.take(page, "vote-session")
                page.get_by_role("button", name="Finish").click()
                page.get_by_role("heading", name="The names").wait_for()
                camera.take(page, "session-names")


def _reveal(operator: BrowserContext, url: str, when: str) -> None:
    changed = operator.request.patch(
        f"{url}/api/v1{ARENA}", headers={"origin": url}, data={"settings": {"reveal": when}}
    )
    assert changed.ok, changed.text()


def names_after_each_vote(browser: Browser, operator: BrowserContext, camera: Camera) -> None:
    """A vote in an arena that tells the names after each."""
    _reveal(operator, camera.url, "vote")
    with visitor(browser) as context:
        better = served_to(context, camera.url, *STAGES["vote-code"])
        page = context.new_page()
        page.goto(f"{camera.url}{ARENA}/vote")
        page.locator(f"[data-act=vote][value={better}]:visible").click()
        page.locator(".after:visible").first.wait_for()
        camera.take(page, "vote-after")
        page.locator("[data-act=reveal]:visible").click()
        page.locator(".named-model:visible").first.wait_for()
        camera.take(page, "vote-names")
    _reveal(operator, camera.url, "session")


def voter(context: BrowserContext, camera: Camera) -> None:
    """A few votes for a personal board."""
    page, headers = context.new_page(), {"origin": camera.url}
    for _ in range(32):
        matchup = context.request.post(f"{camera.url}/api/v1{ARENA}/matchups", headers=headers).json()
        a, b = (
            len(context.request.get(camera.url + matchup["responses"][side]["url"]).body()) for side in "ab"
        )
        vote = {"winner": "tie" if abs(a - b) < 20 else "model_a" if a > b else "model_b"}
        path = f"{camera.url}/api/v1/matchups/{matchup['matchup']}/vote"
        context.request.post(path, headers=headers, data=vote)
    context.request.post(f"{camera.url}/api/v1{ARENA}/finish", headers=headers)
    camera.shoot(page, Shot("mine", f"{ARENA}/mine"))


def operator(context: BrowserContext, camera: Camera, link: str | None) -> None:
    page = context.new_page()
    if link is not None:
        camera.shoot(page, Shot("operator-claim", link))
        page.get_by_label("Name").fill(NAME)
        page.get_by_label("Password").fill(PASSWORD)
        page.get_by_role("button", name="Create your operator account").click()
        context.clear_cookies()
    camera.shoot(page, Shot("operator-sign-in", "/operator/sign-in"))
    page.get_by_label("Name").fill(NAME)
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_load_state()
    for shot in OPERATOR:
        camera.shoot(page, shot)
    if camera.every:
        if context.request.get(f"{camera.url}{_operator_arena(DRAFT)}").status == 404:
            more_arenas(context, camera.url)
        for shot in MORE_OPERATOR:
            camera.shoot(page, shot)
        with visitor(context.browser) as stranger:
            page = stranger.new_page()
            for shot in MORE_READER:
                camera.shoot(page, shot)


def more_arenas(context: BrowserContext, url: str) -> None:
    """A draft, a private arena with a panel, and an archived one, as an operator makes them."""
    asked, headers = context.request, {"origin": url}

    def send(path: str, **form: str) -> str:
        answer = asked.post(f"{url}/operator{path}", headers=headers, form=form)
        assert answer.ok, (path, answer.status, answer.text()[:500])
        return answer.url

    names = ("oak-1", "elm-2", "fir-3")
    prompts = ("Write a haiku on rain.", "Why is the sky blue?", "Name three rivers.", "What is 17 times 23?")
    rows = [
        {"prompt_id": f"p{k}", "prompt": text, "model": name, "category": "poems" if k % 2 else "facts",
         "language": "de" if k > 2 else "en", "response": f"An answer in {k + 3} words, written with some care."}
        for k, text in enumerate(prompts)
        for name in names
    ]  # fmt: skip
    data = "\n".join(json.dumps(row) for row in rows).encode()
    for name, title in (
        (DRAFT, "A first draft"),
        (PRIVATE, "Pilot of the support team"),
        (PAST, "Last year"),
    ):
        send("/arenas", name=name, title=title)
        file = {"name": "answers.jsonl", "mimeType": "application/jsonl", "buffer": data}
        sent = asked.post(f"{url}/operator/arenas/{name}/uploads", headers=headers, multipart={"file": file})
        send(f"{sent.url.removeprefix(url + '/operator')}/let-in", expected=str(len(rows)), enable="true")
    matchup = asked.post(f"{url}/api/v1/arenas/{DRAFT}/matchups", headers=headers).json()["matchup"]
    asked.post(f"{url}/matchups/{matchup}/vote", headers=headers, form={"winner": "model_a", "ballot": "0"})
    for name in (PRIVATE, PAST):
        send(f"/arenas/{name}/stage", act="open")
    send(f"/arenas/{PAST}/stage", act="archive")
    changed = asked.patch(
        f"{url}/api/v1/arenas/{PRIVATE}", headers=headers, data={"settings": {"entry": "invitation"}}
    )
    assert changed.ok, changed.text()
    send(f"/arenas/{PRIVATE}/invitations", batch="pilot team", uses="20", days="14")
    texts = {
        "announcement": "Voting ends on **Friday**.",
        "instructions": "Prefer answers that are *correct*.",
    }
    send(f"/arenas/{PRIVATE}/texts", **texts)
    send(f"/arenas/{PRIVATE}/panels", name="Clinicians", raters="Ada\nBob\nCleo", overlap="2")
    send("/operators", invitee="Bob", role="moderator", arena=PRIVATE, days="14")


@contextmanager
def demo(arguments: list[str]) -> Iterator[tuple[str, str | None]]:
    """The address of a demo, and the path of its operator's link, if nobody is the operator yet."""
    with tempfile.TemporaryFile("w+") as out:
        # PostgreSQL does not run as root.
        account = ["--as-user", "nobody"] if os.geteuid() == 0 and "--as-user" not in arguments else []
        command = [sys.executable, "-m", "tiltyard", "demo", *account, *arguments]
        process = subprocess.Popen(command, stdout=out, env=os.environ | {"PYTHONUNBUFFERED": "1"})
        try:
            while "Ctrl-C" not in (said := _said(out)):
                if process.poll() is not None:
                    raise SystemExit(f"tiltyard demo ended: {said}")
                time.sleep(0.2)
            address = re.search(r"ready: (http://[^/\s]+)", said)
            link = re.search(r"http://[^/\s]+(/claim/\S+)", said)
            assert address is not None
            yield address[1], None if link is None else link[1]
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(60)


def _said(out: object) -> str:
    out.seek(0)  # type: ignore[attr-defined]
    return out.read()  # type: ignore[attr-defined,no-any-return]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("docs/images/pages"))
    parser.add_argument("--only", default="", help="voter, reader or operator")
    parser.add_argument("--every", action="store_true", help="five widths, light and dark, whole pages")
    parser.add_argument("--url", help="of a demo that runs already, whose operator these pictures have made")
    parser.add_argument("--widths", default="", help="with --every: only these, such as 390,1280")
    parser.add_argument("rest", nargs="*", help="options of tiltyard demo, after --")
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    if given.widths:
        wanted = {f"-{width}" for width in given.widths.split(",")}
        for ending in [ending for ending in EVERY if ending not in wanted]:
            del EVERY[ending]
    running = nullcontext((given.url, None)) if given.url else demo(given.rest)
    with running as (url, link), sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        camera = Camera(url, given.out, browser.new_page(), given.every)
        context = visitor(browser)
        if given.only in ("", "reader"):
            page = context.new_page()
            for shot in READER:
                camera.shoot(page, shot)
        if given.only in ("", "voter"):
            stages(browser, camera)
            voter(context, camera)
        if given.only in ("", "operator"):
            operator(context, camera, link)
            names_after_each_vote(browser, context, camera)
        browser.close()
    print("\n".join(camera.large) or "every picture is small enough")


if __name__ == "__main__":
    main()
