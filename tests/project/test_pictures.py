"""Pictures of pages in the documentation: each is shown, and none is large."""

import re
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"


def test_every_picture_is_small_and_shown_in_the_docs():
    shown = set(
        re.findall(r"images/pages/([\w-]+\.png)", "".join(page.read_text() for page in DOCS.rglob("*.md")))
    )
    there = {picture.name: picture.stat().st_size for picture in (DOCS / "images" / "pages").glob("*.png")}
    assert shown == set(there)
    assert max(there.values()) < 150_000
