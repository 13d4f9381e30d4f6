"""Record a live battle in a browser, as an animated WebP: ``python bench/live_recording.py OUT.webp``.

Four invented models answer by scripts, at different speeds; everything else is real: the server, PostgreSQL, the pages.
A voter asks, two responses are written side by side, the vote is cast, the names are shown, and the board has moved.
What is shown is what the browser showed, when it did; long pauses are cut. Needs playwright and Debian's chromium.
"""

from __future__ import annotations

import argparse
import base64
import struct
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from playwright.sync_api import CDPSession, Page, sync_playwright

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE.parent / "tests")]

from support.live_page_sites import LONG, SHORT, LiveSite, live_site  # noqa: E402
from support.postgres_servers import migrated_template, postgres  # noqa: E402
from support.scripted_streams import steady  # noqa: E402
from support.voted_arenas import close_window, rate  # noqa: E402
from tiltyard.postgres.connections import connect  # noqa: E402

CHROMIUM = "/usr/bin/chromium-headless-shell"
SIZE = (1120, 700)
QUALITY = 72
NAMES = ("heron", "plover", "wren", "kestrel")
PROMPT = "How do I reverse a list in Python?"
#: Battles before the one that is recorded.
EARLIER = 36
#: Milliseconds: the longest that a picture stands while something moves, and those at which somebody looks.
MOVING, STILL = 220, 1800
#: Bytes of the whole recording.
MOST = 1_500_000


@dataclass
class Recording:
    """Pictures with the milliseconds for which each is shown."""

    session: CDPSession
    pictures: list[tuple[bytes, int]] = field(default_factory=list)
    last: float = 0.0

    def take(self, still: int | None = None) -> None:
        """Take a picture; one like the one before only makes that one longer."""
        shot = self.session.send("Page.captureScreenshot", {"format": "webp", "quality": QUALITY})
        data, now = base64.b64decode(shot["data"]), time.monotonic()
        wait = still or min(MOVING, max(40, round(1000 * (now - self.last))))
        self.last = now
        if self.pictures and self.pictures[-1][0] == data:
            before = self.pictures[-1][1]
            self.pictures[-1] = (data, max(before, wait))
        else:
            self.pictures.append((data, wait))

    def follow(self, page: Page, until: str, most: float = 60.0) -> None:
        """Take pictures until something is there."""
        end = time.monotonic() + most
        while page.locator(until).count() == 0 and time.monotonic() < end:
            self.take()
            page.wait_for_timeout(60)


def animated(pictures: list[tuple[bytes, int]], size: tuple[int, int]) -> bytes:
    """Pictures as one animated WebP: its container, around the pictures as the browser encoded them."""
    body = b"WEBP" + _chunk(b"VP8X", struct.pack("<I", 2) + _bits(size[0] - 1) + _bits(size[1] - 1))
    body += _chunk(b"ANIM", struct.pack("<IH", 0xFFFFFFFF, 0))
    for data, wait in pictures:
        frame = b"".join(
            _chunk(name, part) for name, part in _chunks(data) if name in (b"VP8 ", b"VP8L", b"ALPH")
        )
        head = _bits(0) + _bits(0) + _bits(size[0] - 1) + _bits(size[1] - 1) + _bits(wait) + b"\x02"
        body += _chunk(b"ANMF", head + frame)
    return b"RIFF" + struct.pack("<I", len(body)) + body


def _bits(number: int) -> bytes:
    return struct.pack("<I", number)[:3]


def _chunk(name: bytes, data: bytes) -> bytes:
    return name + struct.pack("<I", len(data)) + data + b"\0" * (len(data) % 2)


def _chunks(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    place = 12
    while place + 8 <= len(data):
        (length,) = struct.unpack_from("<I", data, place + 4)
        yield data[place : place + 4], data[place + 8 : place + 8 + length]
        place += 8 + length + length % 2


def furnish(live: LiveSite) -> None:
    """Names that one remembers, and some votes."""
    with connect(live.site.database) as connection:
        for number, name in enumerate(NAMES):
            connection.execute("UPDATE models SET name = %s WHERE name = %s", (name, f"model-{number}"))
        connection.execute("UPDATE arenas SET title = 'Our own arena' WHERE name = 'arena'")
    live.answer(steady("Yes.", rate=10_000, first=0.01))
    for number in range(EARLIER):
        client = live.site.client()
        battle = client.post("/api/v1/arenas/arena/live", json={"prompt": f"Question {number}"}).json()
        while client.get(f"/api/v1/live/{battle['matchup']}").json()["turns"][-1]["state"] != "done":
            time.sleep(0.02)
        winner = ("model_a", "model_b", "model_a", "tie")[number % 4]
        client.post(f"/api/v1/matchups/{battle['matchup']}/vote", json={"winner": winner, "reveal": True})
    publish(live)


def publish(live: LiveSite) -> None:
    """Let the rater publish a board of all votes."""
    close_window(live.site.database)
    rate(live.site.database)


def record(live: LiveSite) -> list[tuple[bytes, int]]:
    """One battle, from the prompt to the board."""
    live.answer(steady(LONG, rate=260, first=0.4), steady(SHORT, rate=90, first=0.9))
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox", "--hide-scrollbars"]
        )
        page = browser.new_page(viewport={"width": SIZE[0], "height": SIZE[1]}, color_scheme="light")
        recording = Recording(page.context.new_cdp_session(page))
        page.goto(f"{live.site.url}/arenas/arena/vote")
        recording.take(900)
        for end in range(6, len(PROMPT) + 6, 6):
            page.locator("textarea").fill(PROMPT[:end])
            recording.take(110)
        recording.take(500)
        with page.expect_navigation():
            page.keyboard.press("Control+Enter")
        recording.follow(page, ".live-stage:not([data-running])")
        recording.take(STILL)
        page.keyboard.press("1")
        page.locator(".result", has_text="A is better").wait_for()
        recording.take(STILL)
        page.keyboard.press("r")
        page.locator(".live-figures").first.wait_for()
        page.wait_for_timeout(300)
        recording.take(2 * STILL)
        publish(live)
        page.goto(f"{live.site.url}/arenas/arena")
        page.wait_for_timeout(800)
        recording.take(2 * STILL)
        browser.close()
    return recording.pictures


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("out", type=Path)
    out = parser.parse_args().out
    with postgres() as server, tempfile.TemporaryDirectory() as folder:
        template = migrated_template(server)
        with live_site(server, template, Path(folder), models=4, undo_seconds=60.0, usual_pace=True) as live:
            furnish(live)
            data = animated(record(live), SIZE)
    if len(data) > MOST:
        raise SystemExit(f"the recording has {len(data):,} bytes; {MOST:,} are the most")
    out.write_bytes(data)
    print(f"{out}: {len(data):,} bytes")


if __name__ == "__main__":
    main()
