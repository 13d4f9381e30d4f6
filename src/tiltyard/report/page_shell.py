"""Self-contained pages: one file with its style, charts and scripts."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any

from tiltyard._version import __version__
from tiltyard.report.board_charts import Spec, charts_available, javascript
from tiltyard.report.html_parts import text_html

_NO_CHARTS = "<p>Charts need an extra: <code>pip install 'tiltyard[plots]'</code></p>\n"


def offline_page(title: str, body: str, *, footer: str, head: str = "", scripts: str | None = None) -> str:
    """The complete file. ``body`` and ``footer`` are HTML; charts are drawn if the browser runs scripts.

    ``head`` is added to the head of the document. ``scripts`` replaces the scripts that draw the charts.
    """
    if scripts is None:
        drawing = page_asset("page.js") if charts_available() else ""
        library = f"<script>{javascript()}</script>\n" if charts_available() else ""
        scripts = f"{library}<script>{drawing}{page_asset('controls.js')}</script>"
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f"{head}"
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{text_html(title)}</title>\n<style>\n{page_asset('page.css')}</style>\n</head>\n<body>\n<main>\n"
        f"<h1>{text_html(title)}</h1>\n{body}"
        f"<footer>Made by Tiltyard {text_html(__version__)}. {footer}</footer>\n"
        f"</main>\n{scripts}\n</body>\n</html>\n"
    )


def charts_script() -> str:
    """The library and the script that draw the charts, for a file beside the page."""
    return f"{javascript()}\n{page_asset('page.js')}"


def charts_note() -> str:
    """The note on a page without charts; empty if charts are available."""
    return "" if charts_available() else _NO_CHARTS


def figure_html(mark: str, title: str, spec: Spec) -> str:
    """A chart: its spec as data, and the element in which it is drawn. ``mark`` must be unique on the page."""
    return (
        f'<figure data-name="{text_html(mark)}"><figcaption>{text_html(title)}</figcaption><div class="chart" data-spec="{text_html(mark)}"></div>'
        f'<script type="application/json" id="{text_html(mark)}">{script_json(spec)}</script></figure>\n'
    )


def script_json(value: Any) -> str:
    """JSON escaped so that no model's name can close its script element."""
    text = json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def page_asset(name: str) -> str:
    """A file of this package that is part of pages."""
    return (files("tiltyard.report") / name).read_text(encoding="utf-8")
