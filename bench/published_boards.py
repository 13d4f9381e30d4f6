"""Boards of published data: `python bench/published_boards.py FOLDER [--pictures docs/images]`.

FOLDER holds clones of the repositories that docs/evidence/published-data.md names. They are rated as that page says;
the figures of its tables and paragraphs are printed, and its pictures written. Needs playwright and Debian's chromium.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import re
import statistics
from itertools import combinations
from pathlib import Path

from playwright.sync_api import sync_playwright

import tiltyard
from small_png import small_png
from verdict_browser import CHROMIUM, FLAGS, Reader

PAGE = Path(__file__).resolve().parents[1] / "docs" / "evidence" / "published-data.md"
JUDGED = "ko-arena-hard-auto"
PEOPLE = "PandaLM"
STORIES = "ReasoningNCP"


def judged_board(clone: Path, run: Path) -> None:
    """Win rates here and there: how far apart, how wide, and how many pairs of intervals do not overlap."""
    judgments = clone / "data/ko-arena-hard-v0.1/model_judgment/ensemble"
    board = tiltyard.rate(judgments, baseline="claude-3.7-sonnet")
    board.write(run, arena="Korean arena-hard")
    table = clone / "leaderboard/arena_hard_leaderboard_20250423_ensemble/no_control.csv"
    with table.open(encoding="utf-8", newline="") as file:
        there = {row["model"]: row for row in csv.DictReader(file)}
    assert board.baseline is not None
    here = {row.model: row for row in board.baseline.rows if row.win_rate is not None}
    print(board)
    low, high = "rating_q025", "rating_q975"
    widths = [
        100 * (row.win_rate_high - row.win_rate_low) / (float(there[name][high]) - float(there[name][low]))
        for name, row in here.items()
    ]
    apart = sum(
        min(float(there[a][high]), float(there[b][high])) < max(float(there[a][low]), float(there[b][low]))
        for a, b in combinations(here, 2)
    )
    furthest = max(abs(100 * row.win_rate - float(there[name]["score"])) for name, row in here.items())
    print(
        f"win rates differ by {furthest:.2f} at most; intervals {statistics.median(widths):.1f} times as wide,"
    )
    print(
        f"{min(widths):.1f} to {max(widths):.1f}; {apart:,} of {len(here) * (len(here) - 1) // 2:,} apart there"
    )


def convert(imports: str) -> None:
    """Run the page's own lines of Python that begin so: they turn a published file into battles."""
    lines = re.search(
        rf"^```py\n(import {imports}\n.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
    )
    assert lines is not None
    exec(compile(lines[1], PAGE.name, "exec"), {})


def boards_of_people(folder: Path) -> None:
    with contextlib.chdir(folder / PEOPLE / "data"):
        convert("json")
        print(tiltyard.rate("people.jsonl", intervals="battles"))
        board = tiltyard.rate("people.jsonl")
        print(board)
        board.write(folder / "people", arena="PandaLM's people")
    with contextlib.chdir(folder / STORIES / "evaluation"):
        convert("csv")
        print(tiltyard.rate("stories.csv", outcomes={"same": "tie"}))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--pictures", type=Path)
    given = parser.parse_args()
    folder = given.folder.resolve()
    judged_board(folder / JUDGED, folder / "judged")
    boards_of_people(folder)
    if given.pictures is None:
        return
    figure = (folder / "people" / "figures" / "intervals.svg").read_bytes()
    (given.pictures / "board-of-people.svg").write_bytes(figure)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        blank = browser.new_page()
        reader = Reader(browser, folder / "judged" / "report.html", (1280, 900), "light")
        reader.open()
        reader.page.wait_for_timeout(300)
        first = reader.page.screenshot(animations="disabled")
        (given.pictures / "board-of-judges.png").write_bytes(small_png(blank, first))
        browser.close()


if __name__ == "__main__":
    main()
