"""Print the method note as PDF: `python tools/method_note.py FILE`. Needs playwright and Debian's chromium."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from markdown_it import MarkdownIt
from playwright.sync_api import sync_playwright

ROOT = Path(__file__).resolve().parents[1]
NOTE = ROOT / "docs" / "explanation" / "method-note.md"
SITE = "https://github.com/tiltyard/tiltyard/blob/main/docs/"
STYLE = """
@page { margin: 18mm }
body { font: 10pt/1.35 "Liberation Serif", Georgia, serif; color: #111; hyphens: auto }
h1 { font-size: 17pt; margin: 0 0 4pt } h2 { font-size: 11.5pt; margin: 9pt 0 3pt } p, ul { margin: 3pt 0 }
a { color: inherit } code { font-size: 9pt } table { border-collapse: collapse; margin: 4pt 0 }
td, th { border-bottom: .4pt solid #999; padding: 1.5pt 8pt 1.5pt 0; text-align: left; vertical-align: top }
"""


def note_html() -> str:
    """The page with links that lead somewhere from anywhere."""
    text = NOTE.read_text(encoding="utf-8")
    text = re.sub(r"\]\(\.\./", f"]({SITE}", text)
    text = re.sub(r"\]\((?!https:)", f"]({SITE}explanation/", text)
    body = MarkdownIt("commonmark").enable("table").render(text)
    return f'<!doctype html><html lang="en"><meta charset="utf-8"><title>Tiltyard: method note</title><style>{STYLE}</style>{body}</html>'


def main() -> None:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
        page = browser.new_page()
        page.set_content(note_html())
        page.pdf(path=sys.argv[1], format="A4")
        browser.close()


if __name__ == "__main__":
    main()
