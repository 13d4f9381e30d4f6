"""What counts as style in an answer."""

from __future__ import annotations

import pytest

from tiltyard.files.format import assistant_text
from tiltyard.files.style_text import TextStyle, measure_style, style_row


@pytest.mark.parametrize(
    ("text", "headers", "lists", "bold"),
    [
        ("", 0, 0, 0),
        ("# One\n## Two\n#three\n####### seven", 2, 0, 0),
        ("- a\n* b\n+ c\n1. d\n2) e\n  - f\n-g", 0, 6, 0),
        ("**a** and __b__, not a*b*c, not ** a **, not snake__case__name", 0, 0, 2),
        ("**two *nested* words** and **more**", 0, 0, 2),
        ("```\n# no\n- no\n**no**\n```\n# yes", 1, 0, 0),
        ("~~~~python\n# no\n~~~\n# no\n~~~~\n**yes**", 0, 0, 1),
        ("```\n# never closed", 0, 0, 0),
        ("text\n    # code\n", 0, 0, 0),
        ("``` not closed by\n```python\n# no\n```\n- yes", 0, 1, 0),
    ],
)
def test_markdown(text: str, headers: int, lists: int, bold: int) -> None:
    assert measure_style(text) == TextStyle(len(text), headers, lists, bold)


def test_both_sides() -> None:
    row = style_row("# a", "- b\n- c")
    assert row == {
        "length_a": 3.0,
        "length_b": 7.0,
        "headers_a": 1.0,
        "headers_b": 0.0,
        "lists_a": 0.0,
        "lists_b": 2.0,
        "bold_a": 0.0,
        "bold_b": 0.0,
    }


@pytest.mark.parametrize(
    ("conversation", "text"),
    [
        ("plain", "plain"),
        ("[not json", "[not json"),
        ('["one", null, "two"]', "one\n\ntwo"),
        ('[{"role": "assistant", "content": "hi"}]', "hi"),
        ([{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}], "a"),
        ([{"role": "assistant", "content": [{"type": "text", "text": "a"}, {"type": "image"}, "b"]}], "a\nb"),
        ([{"role": "assistant", "content": None}], ""),
        ([{"role": "assistant", "content": 7}], None),
        (7, None),
        (None, None),
        ([], ""),
    ],
)
def test_what_the_assistant_said(conversation: object, text: str | None) -> None:
    assert assistant_text(conversation) == text
