"""The section *What the judge said* of a tournament's report: filters, a list, and one match at a time.

The page has the controls; a script fills them from the parts beside the page (`verdict_parts`).
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import quote

from tiltyard.report.board_charts import charts_available
from tiltyard.report.html_parts import section_html, text_html
from tiltyard.report.page_shell import page_asset, script_json

#: The folder of the parts, beside the page.
REPORT_DATA = "report_data"
#: The name of the part that draws the charts.
CHARTS_NAME = "charts"
_SHOWN = {
    "all": "All matches",
    "flips": "Flips",
    "disputed": "Judges disagree",
    "none": "No verdict",
    "failed": "Failed checks",
    "checks": "All checks",
}
_SELECTS = {"dimension": "Dimension", "a": "Model", "b": "Against", "judge": "Judge", "category": "Category"}
_MISSING = f"This needs JavaScript, and the folder <code>{REPORT_DATA}</code> beside this file."
_LEDE = (
    "Every match with its prompt, both responses, and each judge's verdict in both orders. A <em>flip</em>: the "
    "winner changes with the order. A <em>check</em>: a planted question with a known answer, or one asked again."
)


@dataclass(frozen=True, slots=True)
class BrowserHead:
    """What the section needs before any part is loaded."""

    judges: Sequence[str]
    entrants: Sequence[str]
    dimensions: Sequence[str]
    categories: Sequence[str]
    index_parts: int


def browser_section(head: BrowserHead) -> str:
    """The section; empty if there is nothing to read."""
    if not head.index_parts:
        return ""
    data = {
        "judges": list(head.judges),
        "entrants": list(head.entrants),
        "dimensions": list(head.dimensions),
        "categories": list(head.categories),
        "index": head.index_parts,
        "folder": REPORT_DATA,
    }
    return section_html(
        "said",
        "What the judge said",
        f'<p class="lede">{_LEDE}</p>\n<p class="said-missing">{_MISSING}</p>\n',
        f'<script type="application/json" id="said-data">{script_json(data)}</script>\n',
        '<div class="said" hidden>\n',
        _filters(head),
        '<p class="said-count" role="status"></p>\n<div class="said-panes">\n'
        '<nav class="said-list" aria-label="Matches"><ol></ol><p class="said-pages"></p></nav>\n'
        '<article class="said-one" tabindex="-1" aria-label="The selected match"></article>\n</div>\n</div>\n',
    )


def _filters(head: BrowserHead) -> str:
    chips = "".join(
        f'<label><input type="radio" name="show" value="{name}"{" checked" if name == "all" else ""}>'
        f"<span>{title} <b></b></span></label>\n"
        for name, title in _SHOWN.items()
        if name != "disputed" or len(head.judges) > 1
    )
    options = {
        "dimension": head.dimensions,
        "a": sorted(head.entrants),
        "b": sorted(head.entrants),
        "judge": head.judges,
        "category": sorted(head.categories),
    }
    selects = "".join(
        f'<label>{title} <select name="{name}"><option value="">all</option>'
        + "".join(f'<option value="{text_html(one)}">{text_html(one)}</option>' for one in options[name])
        + "</select></label>\n"
        for name, title in _SELECTS.items()
        if len(options[name]) > 1
    )
    return (
        f'<form class="said-filters"><fieldset class="chips"><legend>Show</legend>\n{chips}</fieldset>\n'
        f'<div class="selects">{selects}<label>Prompt <input name="find" type="search" placeholder="id or words">'
        '</label>\n<button type="reset">Clear</button></div></form>\n'
    )


def browser_address(show: str | None = None, **chosen: str | None) -> str:
    """The address, inside the page, of the list with these filters."""
    parts = {"show": show, **chosen}
    return "#said?" + "&".join(
        f"{name}={quote(text, safe='', errors='replace')}" for name, text in parts.items() if text is not None
    )


def browser_head() -> str:
    """The section's style, and the page's security policy: its own script, the parts beside it, nothing else.

    The library that draws charts compiles expressions, which needs ``unsafe-eval``.
    """
    digest = base64.b64encode(hashlib.sha256(_script().encode()).digest()).decode()
    compiles = " 'unsafe-eval'" if charts_available() else ""
    policy = (
        f"default-src 'none'; script-src 'sha256-{digest}' 'self' file:{compiles}; style-src 'unsafe-inline'; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )
    style = page_asset("verdict_browser.css")
    return f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n<style>\n{style}</style>\n'


def browser_scripts() -> str:
    """The script that loads parts and fills the section."""
    return f"<script>{_script()}</script>"


def _script() -> str:
    return page_asset("verdict_browser.js") + page_asset("controls.js")
