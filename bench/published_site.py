"""Pictures of a published site: `python bench/published_site.py --pictures FOLDER`.

The demo's battles are rated and published. A Chromium opens the page from disk at three widths, light and dark: what it
loads and what axe finds is printed. Needs playwright, Debian's chromium, and `python hatch_build.py --check` once, for axe.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from playwright.sync_api import sync_playwright

from small_png import small_png
from verdict_browser import CHROMIUM, FLAGS, SIZES, Reader

#: The pictures of the documentation.
KEPT = {"": "site", "-phone": "site-phone"}


def published(folder: Path) -> Path:
    """The site of a run of the demo's battles."""
    commands = (
        ("demo", "battles"),
        ("rate", "battles.jsonl", "--arena", "Demo arena", "--out", "run"),
        ("publish", "run", "site"),
    )
    for command in commands:
        start = time.perf_counter()
        subprocess.run(
            [sys.executable, "-m", "tiltyard", *command], cwd=folder, check=True, stdout=subprocess.DEVNULL
        )
        print(f"tiltyard {' '.join(command[:2])}: {time.perf_counter() - start:.1f} s")
    return folder / "site"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pictures", type=Path, help="folder for the pictures")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, sync_playwright() as playwright:
        site = published(Path(name))
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        blank = browser.new_page()
        for ending, size in SIZES.items():
            for scheme in ("light", "dark"):
                reader = Reader(browser, site / "index.html", size, scheme)
                reader.open()
                loaded = reader.loaded
                if given.pictures is not None and scheme == "light" and ending in KEPT:
                    shot = reader.page.screenshot(animations="disabled", caret="hide")
                    (given.pictures / f"{KEPT[ending]}.png").write_bytes(small_png(blank, shot))
                print(f"{size[0]} px, {scheme}: {loaded / 1000:.1f} kB, axe {reader.grave()}")
                reader.close()
        browser.close()


if __name__ == "__main__":
    main()
