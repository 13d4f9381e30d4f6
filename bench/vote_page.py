"""Weight and speed of the vote page: `python bench/vote_page.py --out RESULTS.md`.

`tiltyard demo` is started and a Chromium on the same machine votes in it: how many bytes a first view loads,
compressed; and how many milliseconds pass from the press of a button until the next matchup is painted, the vote being
in the database by then. Beside it stand what a busy machine does not change much: how long the server takes to answer,
and how much CPU time the page needs for a vote and all that follows, the next matchup in advance included.
"""

from __future__ import annotations

import argparse
import os
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
from playwright.sync_api import Browser, CDPSession, Page, sync_playwright

from screenshots import ARENA, CHROMIUM, FLAGS, demo

#: Tells when the matchup before the voter is another one and was painted, by the clock that the press was noted with.
_WATCH = """() => {
  const shown = () => document.querySelector('.stage:not(.stage-ahead)')?.dataset.matchup;
  let before = shown(), pressed = 0;
  window.taken = [];
  addEventListener('keydown', () => { pressed = performance.now(); before = shown(); }, true);
  new MutationObserver(() => {
    if (pressed && shown() !== undefined && shown() !== before) {
      const since = pressed;
      pressed = 0;
      requestAnimationFrame(() => setTimeout(() => window.taken.push(performance.now() - since)));
    }
  }).observe(document.body, {subtree: true, childList: true, attributes: true});
}"""
#: From the request of each vote to the first byte of its answer.
_ANSWERED = """() => performance.getEntriesByType('resource')
  .filter(one => one.name.includes('/api/v1/matchups/') && one.name.endsWith('/vote'))
  .map(one => one.responseStart - one.requestStart)"""
_READY = """() => document.querySelector('.stage-ahead') !== null
  && document.querySelector('.bar.settling') === null
  && document.querySelector('.stage:not(.stage-ahead)').dataset.unseen === ''"""


def start(page: Page, url: str) -> None:
    """Come to the first matchup."""
    page.goto(f"{url}{ARENA}/vote")
    page.get_by_role("button", name="Start voting").click()
    page.wait_for_function(_READY)


def first_view(browser: Browser, url: str) -> int:
    """Bytes over the network of the page, its styles and its scripts, in an empty browser.

    What comes later or not always is left out: the next matchup, the bytes of responses that are no texts, what draws
    formulas.
    """
    context = browser.new_context(viewport={"width": 1280, "height": 800})
    page = context.new_page()
    start(page, url)
    address, cookies = page.url, context.cookies()
    context.close()
    context = browser.new_context(viewport={"width": 1280, "height": 800})
    context.add_cookies(cookies)
    page = context.new_page()
    network = context.new_cdp_session(page)
    network.send("Network.enable")
    asked: dict[str, str] = {}
    sizes: dict[str, float] = {}
    network.on(
        "Network.requestWillBeSent", lambda one: asked.update({one["requestId"]: one["request"]["url"]})
    )
    network.on(
        "Network.loadingFinished", lambda one: sizes.update({one["requestId"]: one["encodedDataLength"]})
    )
    page.goto(address, wait_until="networkidle")
    context.close()
    later = ("/m/", "/ahead", "temml", "woff2")
    return int(sum(size for one, size in sizes.items() if not any(part in asked[one] for part in later)))


@dataclass(frozen=True)
class VoteTimes:
    """Milliseconds of votes: until the next matchup was shown, until the server answered, and of the page's CPU."""

    shown: list[float] = field(default_factory=list)
    answered: list[float] = field(default_factory=list)
    computed: list[float] = field(default_factory=list)


def next_shown(browser: Browser, url: str, votes: int) -> VoteTimes:
    """How long votes take, over several voters' sessions."""
    times = VoteTimes()
    while len(times.shown) < votes:
        context = browser.new_context(viewport={"width": 1280, "height": 800})
        page = context.new_page()
        start(page, url)
        page.evaluate(_WATCH)
        figures = context.new_cdp_session(page)
        figures.send("Performance.enable")
        before = _thread_seconds(figures)
        for turn in range(8):
            page.wait_for_function(_READY)
            page.keyboard.press("1234"[turn % 4])
            page.wait_for_function("turn => window.taken.length > turn", arg=turn)
        page.wait_for_function(_READY)
        times.computed.append(1000 * (_thread_seconds(figures) - before) / 8)
        times.shown.extend(page.evaluate("window.taken"))
        times.answered.extend(page.evaluate(_ANSWERED))
        context.close()
    return times


def _thread_seconds(figures: CDPSession) -> float:
    """CPU time of the page's main thread."""
    found = {one["name"]: one["value"] for one in figures.send("Performance.getMetrics")["metrics"]}
    return float(found["ThreadTime"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=None)
    parser.add_argument("--votes", type=int, default=200)
    parser.add_argument("rest", nargs="*", help="options of tiltyard demo, after --")
    given = parser.parse_args()
    with demo(given.rest) as (url, _), sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        views = [first_view(browser, url) for _ in range(5)]
        times = next_shown(browser, url, given.votes)
        browser.close()
    (p50, p95), answered = np.percentile(times.shown, (50, 95)), np.percentile(times.answered, (50, 95))
    told = "\n".join(
        [
            f"{datetime.now(UTC):%Y-%m-%d}, `python bench/vote_page.py --votes {given.votes}`, the demo arena on loopback:",
            "",
            "| | figure | target |",
            "|---|--:|--:|",
            f"| First view of the vote page, compressed (largest of {len(views)}) | {max(views):,} bytes | 90 kB |",
            f"| From the vote to the next matchup on the screen, p50 | {p50:.0f} ms | |",
            f"| … p95 of {len(times.shown)} | {p95:.0f} ms | 150 ms |",
            f"| The server's answer to a vote, p50 and p95 | {answered[0]:.0f} and {answered[1]:.0f} ms | |",
            f"| CPU time of the page for each vote, median session | {np.median(times.computed):.0f} ms | |",
            f"| Load of the machine (1 minute), with {os.cpu_count()} cores | {os.getloadavg()[0]:.1f} | |",
            "",
        ]
    )
    print(told)
    if given.out is not None:
        given.out.write_text(told)


if __name__ == "__main__":
    main()
