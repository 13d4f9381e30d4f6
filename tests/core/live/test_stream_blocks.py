"""A growing text is split into blocks that stay as they are, however it comes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiltyard.core.live.stream_blocks import BlockSplitter, TextBlock

ANSWER = """\
Here is a plan,
in two lines.

1. **First**: do this
   - one
   - two

2. Then that:

   ```py
   x = 1

   y = 2
   ```

3. At last
without its indentation

## Heading
```js
a

b
```
- a
- b
  more

The end"""


def split(text: str, piece: int = 10_000) -> list[TextBlock]:
    splitter, found = BlockSplitter(), []
    for start in range(0, len(text), piece):
        found += splitter.feed(text[start : start + piece])
    return found + splitter.end()


def texts(text: str) -> list[str]:
    return [block.text for block in split(text)]


def test_the_blocks_of_an_answer():
    assert split(ANSWER) == [
        TextBlock("Here is a plan,\nin two lines.\n\n"),
        TextBlock("1. **First**: do this\n   - one\n   - two\n\n", item=True, loose=True),
        TextBlock(
            "2. Then that:\n\n   ```py\n   x = 1\n\n   y = 2\n   ```\n\n",
            item=True,
            continues=True,
            loose=True,
        ),
        TextBlock("3. At last\nwithout its indentation\n\n", item=True, continues=True, loose=True),
        TextBlock("## Heading\n"),
        TextBlock("```js\na\n\nb\n```\n"),
        TextBlock("- a\n", item=True),
        TextBlock("- b\n  more\n\n", item=True, continues=True),
        TextBlock("The end"),
    ]


_LINES = st.sampled_from(
    [
        *(
            "text",
            "- item",
            "* star",
            "1. one",
            "2) two",
            "  more",
            "    code",
            "\tcode",
            "```",
            "~~~",
            "````",
        ),
        *("> said", "# head", "---", "***", "===", "", "   ", "- ", "-", "``` a`b", "#tag"),
        *("1234567890. long", "+ \t a"),
    ]
)


@given(st.lists(_LINES).map("\n".join) | st.just(ANSWER), st.integers(1, 9))
def test_nothing_is_lost_and_pieces_never_matter(text, piece):
    found = split(text, piece)
    assert "".join(block.text for block in found) == text
    assert found == split(text)


def test_a_block_is_given_as_soon_as_it_is_complete():
    splitter = BlockSplitter()
    assert splitter.feed("A paragraph\n") == []
    assert splitter.feed("\n") == [TextBlock("A paragraph\n\n")]
    assert splitter.feed("# Head") == []
    assert splitter.feed("ing\n") == [TextBlock("# Heading\n")]
    assert splitter.feed("- one\n") == []
    assert splitter.feed("- two\n") == [TextBlock("- one\n", item=True)]
    assert splitter.end() == [TextBlock("- two\n", item=True, continues=True)]
    assert splitter.end() == []


def test_an_open_fence_is_code_until_it_is_closed():
    splitter = BlockSplitter()
    splitter.feed("Text\n~~~~ py\nx\n```\n~~~\n")
    assert splitter.in_code
    assert splitter.feed("    ~~~~\n~~~~~\n") == [TextBlock("~~~~ py\nx\n```\n~~~\n    ~~~~\n~~~~~\n")]
    assert not splitter.in_code


@pytest.mark.parametrize(
    ("text", "blocks"),
    [
        # What ends a paragraph without a blank line, and what does not.
        ("a\n- b\n", ["a\n", "- b\n"]),
        ("a\n1. b\n", ["a\n", "1. b\n"]),
        ("a\n2. b\n", ["a\n2. b\n"]),
        ("a\n-\nb\n", ["a\n-\n", "b\n"]),
        ("a\n*\nb\n", ["a\n*\nb\n"]),
        ("a\n> b\n", ["a\n", "> b\n"]),
        ("a\n***\nb\n", ["a\n", "***\n", "b\n"]),
        ("a\n---\nb\n", ["a\n---\n", "b\n"]),
        ("a\n===\nb\n", ["a\n===\n", "b\n"]),
        ("a\n    b\n", ["a\n    b\n"]),
        ("a\n``` b`\nc\n", ["a\n``` b`\nc\n"]),
        # Quotations go on with plain lines, and end with anything else.
        ("> a\nb\n> c\n\n> d\n", ["> a\nb\n> c\n\n", "> d\n"]),
        ("> a\n# b\n", ["> a\n", "# b\n"]),
        # Indented code keeps its blank lines.
        ("    a\n\n    b\nc\n", ["    a\n\n    b\n", "c\n"]),
        ("\ta\n\n\n\tb\n", ["\ta\n\n\n\tb\n"]),
        # Lists end with another marker, with another block, and after a blank line with text at the margin.
        ("- a\n* b\n", ["- a\n", "* b\n"]),
        ("1. a\n2) b\n", ["1. a\n", "2) b\n"]),
        ("- a\n# b\n", ["- a\n", "# b\n"]),
        ("- a\n---\nb\n", ["- a\n", "---\n", "b\n"]),
        ("- a\n\nb\n", ["- a\n\n", "b\n"]),
        ("-\n  a\n", ["-\n  a\n"]),
        ("-      a\n  b\n", ["-      a\n  b\n"]),
        ("- a\n\n  b\n- c\n", ["- a\n\n  b\n", "- c\n"]),
        # Blank lines are blocks that show nothing.
        ("\n \na", ["\n", " \n", "a"]),
        ("a\r\n\r\nb\r\n", ["a\r\n\r\n", "b\r\n"]),
        ("", []),
        ("- - -\n", ["- - -\n"]),
        ("-a\n1.b\n1234567890. c\n7\n", ["-a\n1.b\n1234567890. c\n7\n"]),
        ("####### a\nb\n", ["####### a\nb\n"]),
        ("#\nb\n", ["#\n", "b\n"]),
    ],
)
def test_where_blocks_end(text, blocks):
    assert texts(text) == blocks


def test_the_second_item_tells_whether_blank_lines_stand_between_all():
    assert [block.loose for block in split("- a\n- b\n\n- c\n")] == [False, False, False]
    assert [block.loose for block in split("- a\n\n- b\n- c\n")] == [True, True, True]
    assert [block.loose for block in split("- a\n\n")] == [False]


def test_a_long_line_in_small_pieces_is_joined_once():
    """A line of a megabyte that comes by single characters is looked at once, when it ends."""
    text = "x" * 200_000 + "\n\n"
    splitter = BlockSplitter()
    found = [block for character in text for block in splitter.feed(character)]
    assert found == [TextBlock(text)]
