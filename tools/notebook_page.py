"""Writes the page of the tutorial's notebook: `python tools/notebook_page.py`. A test compares the two."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

NOTEBOOK = Path(__file__).parents[1] / "docs" / "tutorial" / "first-notebook.ipynb"
PAGE = NOTEBOOK.with_suffix(".md")


def page_text(notebook: Path) -> str:
    """The notebook's texts and code as Markdown; a cell may name a picture of its output."""
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    head, *rest = (_cell_text(cell) for cell in cells)
    link = f"This page is a notebook: [download it]({notebook.name})."
    return "\n\n".join([head, link, *rest]) + "\n"


def _cell_text(cell: dict[str, Any]) -> str:
    source = "".join(cell["source"])
    if cell["cell_type"] == "markdown":
        return source
    block = f"```py\n{source}\n```"
    picture = cell["metadata"].get("picture")
    return block if picture is None else f"{block}\n\n![{cell['metadata']['alt']}](../images/{picture})"


if __name__ == "__main__":
    PAGE.write_text(page_text(NOTEBOOK), encoding="utf-8")
