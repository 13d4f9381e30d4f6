"""What tests of pages share: sizes, a page that is watched, the operator's way in."""

from dataclasses import dataclass, field

import pytest
from playwright.sync_api import Locator, Page

from support import ROOT
from support.served import PASSWORD

DESKTOP = (1280, 800)
PHONE = (390, 844)
#: What axe must not find.
GRAVE = {"serious", "critical"}
AXE = ROOT / "frontend/node_modules/axe-core/axe.min.js"
SIZES = [pytest.param(DESKTOP, id="desktop"), pytest.param(PHONE, id="phone")]


@dataclass
class Visit:
    """A page with what became of it: what it asked for, what the policy refused, what broke."""

    page: Page
    site: str
    requests: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    def watch(self) -> None:
        """Write down everything from now on."""
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on(
            "console",
            lambda told: self.refused.append(told.text) if "Content Security Policy" in told.text else None,
        )

    @property
    def elsewhere(self) -> list[str]:
        """Requests that left the app's own origin."""
        inside = (self.site + "/", "data:", "blob:", "about:")
        return [url for url in self.requests if not url.startswith(inside) and url != self.site]

    def check(self) -> None:
        """Nothing was asked of others, nothing broke, and the page keeps its own policy."""
        assert self.elsewhere == []
        assert self.refused == []
        assert self.errors == []


def follow(pressed: Locator) -> None:
    """Press what leads to another page, and wait until that one is there."""
    with pressed.page.expect_navigation():
        pressed.click()


def sign_in(opened: Visit, path: str = "/operator") -> None:
    """Sign the operator in, in this browser."""
    page = opened.page
    page.goto(f"{opened.site}/operator/sign-in?next={path}")
    page.get_by_label("Name").fill("Ada")
    page.get_by_label("Password").fill(PASSWORD)
    follow(page.get_by_role("button", name="Sign in"))


def axe(page: Page, *, within: str | None = None, iframes: bool = True) -> list[tuple[str, str, list[str]]]:
    """Grave violations on a page, small targets among them, or ``within`` a part: rule, what it is about, where. ``iframes``: in frames too."""
    if not page.evaluate("'axe' in window"):
        page.add_script_tag(path=AXE)
    found = page.evaluate(
        "async ([within, iframes]) =>"
        " (await axe.run(within ?? document, {resultTypes: ['violations'], iframes,"
        " rules: {'target-size': {enabled: true}}})).violations",
        [within, iframes],
    )
    return [
        (one["id"], one["help"], [node["html"][:200] for node in one["nodes"]][:3])
        for one in found
        if one["impact"] in GRAVE
    ]


def looks_right(page: Page) -> None:
    """One main heading, and no sideways scrolling."""
    assert page.locator("h1").count() == 1
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth"), "it scrolls sideways"


def readable(page: Page, *, iframes: bool = True) -> None:
    """Everybody can read it: it looks right, and has nothing grave."""
    assert axe(page, iframes=iframes) == []
    looks_right(page)
