"""An answer that is rendered block by block looks at last as if it had been rendered whole."""

from pathlib import Path

import pytest

from support.hostile_text import PAYLOADS
from support.sizes import sized
from tiltyard.web.pages.live_view import AnswerRenderer, RenderedBlock
from tiltyard.web.texts import render_text

DOCS = Path(__file__).parents[2] / "docs"
#: One page of so many is read.
EVERY = sized(4, 1)


def rendered(text: str, piece: int = 9) -> AnswerRenderer:
    renderer = AnswerRenderer()
    for start in range(0, len(text), piece):
        renderer.feed(text[start : start + piece])
    renderer.end()
    assert renderer.tail == ""
    return renderer


@pytest.mark.parametrize(
    "text",
    [
        "One\n\ntwo **three**\n\n    code\n\n> said\n",
        "1. a\n2. b\n3. c\n\nAfter",
        "3. a\n4. b\n",
        "- a\n\n- b\n\n- c\n\n  more\n\nAfter",
        "1. **a**\n   - x\n   - y\n\n2. **b**\n   1. z\n",
        "* a\n* b\n\n- c\n- d\n",
        "  - a\n\n  - b\n",
        "| a | b |\n|---|---|\n| 1 | 2 |\n\nAfter\n",
        "```py\nx = 1\n\ny = 2\n```\nAfter",
        "```\nnever closed\n",
        "$$\nx^2\n$$\n\nand $y$ and \\(z\\)\n",
        "عربي\n\n- نص\n- text\n",
        "",
        "\n\n\n",
    ],
)
def test_block_by_block_is_the_same_as_the_whole(text):
    for piece in (1, 4, 1000):
        renderer = rendered(text, piece)
        assert renderer.html == renderer.whole() == render_text(text)


def test_hostile_text_is_sanitized_in_every_block():
    for text in (payload.text for payload in PAYLOADS):
        assert "<script" not in rendered(text, 5).html.lower()


def test_the_documentation_is_nearly_always_the_same():
    """Definitions of links and the like are rendered otherwise; then the whole replaces the blocks at the end."""
    texts = [path.read_text("utf-8") for path in sorted(DOCS.rglob("*.md"))[::EVERY]]
    different = sum(renderer.html != renderer.whole() for renderer in map(rendered, texts))
    assert different <= len(texts) // 50


@pytest.mark.parametrize("text", ["See [it].\n\n[it]: https://example.org\n", "- a\n- b\n\n- c\n"])
def test_an_exception_is_seen_at_the_end(text):
    renderer = rendered(text)
    assert renderer.html != renderer.whole()
    assert renderer.whole() == render_text(text)


def test_items_join_the_list_before_them_and_the_rest_is_a_tail():
    renderer = AnswerRenderer()
    assert renderer.feed("- a\n- b\n- c") == [RenderedBlock('<ul dir="ltr">\n<li dir="ltr">a</li>\n</ul>\n')]
    assert renderer.tail == "- b\n- c"
    assert renderer.feed("\n") == [RenderedBlock('<li dir="ltr">b</li>\n', joins=True)]
    assert renderer.tail == "- c\n"
    assert renderer.html == '<ul dir="ltr">\n<li dir="ltr">a</li>\n<li dir="ltr">b</li>\n</ul>\n'
    assert renderer.feed("\n```py\nx") == [RenderedBlock('<li dir="ltr">c</li>\n', joins=True)]
    assert (renderer.in_code, renderer.tail) == (True, "```py\nx")


def test_each_block_is_rendered_once(monkeypatch):
    calls: list[str] = []

    def counted(text: str, **options: object) -> object:
        calls.append(text)
        return render_text(text, **options)

    monkeypatch.setattr("tiltyard.web.pages.live_view.render_text", counted)
    rendered("a\n\nb\n\n" * 50, 1)
    assert sum(map(len, calls)) == len("a\n\nb\n\n" * 50)
