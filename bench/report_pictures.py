"""Pictures of reports: `python bench/report_pictures.py FOLDER [NAME…]`.

Runs of several kinds are rated and written; a Chromium opens each report from disk at four widths, light and dark, and
prints it to PDF. Sizes, what axe finds and whether a page scrolls sideways are printed. Needs playwright, Debian's
chromium, and `python hatch_build.py --check` once, for axe.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

from playwright.sync_api import sync_playwright

HERE = Path(__file__).resolve().parent
sys.path.append(str(HERE.parent / "tests"))

from small_png import small_png  # noqa: E402
from support.report_worlds import REPORTS, write_report  # noqa: E402
from verdict_browser import CHROMIUM, FLAGS, Reader  # noqa: E402

SIZES = {390: 844, 768: 1024, 1280: 800, 1920: 1080}
#: The pictures of the documentation: run, width, scheme, and the name they get.
KEPT = {
    ("plain", 1280, "light"): "report",
    ("plain", 390, "light"): "report-phone",
    ("many", 1280, "light"): "report-matrix",
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*", default=list(REPORTS))
    parser.add_argument("--docs", type=Path, help="folder for the pictures of the documentation")
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as place, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        blank = browser.new_page()
        for name in given.names:
            start = time.perf_counter()
            report = write_report(name, Path(place)) / "report.html"
            print(f"{name}: {report.stat().st_size / 1e6:.2f} MB in {time.perf_counter() - start:.1f} s")
            for width, height in SIZES.items():
                for scheme in ("light", "dark"):
                    reader = Reader(browser, report, (width, height), scheme)
                    reader.open()
                    page = reader.page
                    page.wait_for_timeout(300)
                    stem = given.folder / f"{name}-{width}-{scheme}"
                    first = page.screenshot(animations="disabled")
                    Path(f"{stem}-first.png").write_bytes(first)
                    page.screenshot(path=f"{stem}.png", full_page=True, animations="disabled")
                    kept = KEPT.get((name, width, scheme))
                    if given.docs is not None and kept is not None:
                        (given.docs / f"{kept}.png").write_bytes(small_png(blank, first))
                    sideways = page.evaluate("document.documentElement.scrollWidth > innerWidth")
                    print(
                        f"  {width} {scheme}: axe {reader.grave()}{', SCROLLS SIDEWAYS' if sideways else ''}"
                    )
                    if width == 1280:
                        page.pdf(path=f"{given.folder / name}-{scheme}.pdf", format="A4")
                    reader.close()
        browser.close()


if __name__ == "__main__":
    main()
