"""Splits a Markdown text that is still being written into blocks that will not change, and an open tail.

A block is complete when no later character can change how it is read: a paragraph after its blank line, a code fence
after its closing line, a heading after its line, an item of a list when the next one begins. Items of one list are
blocks of their own, because an answer is often one long list. Definitions of links are the exception that cannot be
seen in advance: whoever needs the exact result renders the whole text once it has ended.

Each character is looked at a bounded number of times, however the text is divided into pieces.
"""

from __future__ import annotations

from dataclasses import dataclass

_INDENT_COLUMNS = 3
_CODE_INDENT_COLUMNS = 4
_TAB_COLUMNS = 4
_MIN_FENCE_CHARACTERS = 3
_MAX_HEADING_CHARACTERS = 6
_MAX_MARKER_DIGITS = 9
_MIN_BREAK_CHARACTERS = 3


@dataclass(frozen=True, slots=True)
class TextBlock:
    """A complete block: its Markdown as it was written, with the blank lines after it."""

    text: str
    #: Whether it is an item of a list, and then whether the list goes on from the block before.
    item: bool = False
    continues: bool = False
    #: Whether blank lines stand between the items of its list.
    loose: bool = False


@dataclass(frozen=True, slots=True)
class _Marker:
    """The marker of an item: what tells its list from another, and the column of its content."""

    kind: str
    column: int


@dataclass(slots=True)
class _OpenList:
    kind: str
    column: int
    #: ``None`` until a second item tells.
    loose: bool | None = None
    items: int = 0


class BlockSplitter:
    """Takes a text in pieces; gives its blocks as they become complete."""

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._lines: list[str] = []
        self._blank = False
        self._fence = ""
        self._list: _OpenList | None = None
        self._code = False
        self._found: list[TextBlock] = []

    def feed(self, text: str) -> list[TextBlock]:
        """Take the next piece; return the blocks that are complete now."""
        first, *others = text.split("\n")
        self._pieces.append(first)
        for other in others:
            line = "".join(self._pieces)
            self._pieces = [other]
            self._take(line + "\n")
        return self._collect()

    def end(self) -> list[TextBlock]:
        """The text has ended; return the blocks that were open."""
        rest = "".join(self._pieces)
        self._pieces = []
        if rest:
            self._take(rest)
        self._close()
        return self._collect()

    @property
    def in_code(self) -> bool:
        """Whether the open tail is the inside of a code fence."""
        return bool(self._fence)

    def _collect(self) -> list[TextBlock]:
        found, self._found = self._found, []
        return found

    def _take(self, line: str) -> None:
        if self._fence:
            self._lines.append(line)
            if _closes(line, self._fence):
                self._close()
            return
        if not _content(line):
            if self._list is not None or self._code:
                self._lines.append(line)
                self._blank = True
            elif self._lines:
                self._lines.append(line)
                self._close()
            else:
                # Blank lines between blocks are a block that shows nothing.
                self._found.append(TextBlock(line))
            return
        if self._list is not None:
            self._take_listed(line, self._list)
        elif self._code and _indent(line) < _CODE_INDENT_COLUMNS:
            self._close()
            self._begin(line)
        elif self._lines and not self._code:
            self._continue(line)
        elif self._code:
            self._lines.append(line)
            self._blank = False
        else:
            self._begin(line)

    def _begin(self, line: str) -> None:
        if _indent(line) >= _CODE_INDENT_COLUMNS:
            self._code = True
            self._lines.append(line)
            return
        self._fence = _opening_fence(line)
        marker = None if _is_break(line) else _marker(line)
        if marker is not None:
            self._list = _OpenList(marker.kind, marker.column)
        self._lines.append(line)
        if marker is None and (_is_heading(line) or _is_break(line)):
            self._close()

    def _continue(self, line: str) -> None:
        """A further line of a paragraph, a quotation or a table."""
        quoted = _content(self._lines[0]).startswith(">")
        if quoted and not _content(line).startswith(">") and _starts_block(line):
            self._close()
            self._begin(line)
        elif quoted:
            self._lines.append(line)
        elif _underlines(line):
            self._lines.append(line)
            self._close()
        elif _interrupts(line):
            self._close()
            self._begin(line)
        else:
            self._lines.append(line)

    def _take_listed(self, line: str, open_list: _OpenList) -> None:
        """A line while a list is open: of its last item, of the next item, or after the list."""
        if _indent(line) >= open_list.column:
            self._lines.append(line)
            self._blank = False
            return
        marker = None if _is_break(line) else _marker(line)
        if marker is not None and marker.kind == open_list.kind:
            if open_list.loose is None:
                open_list.loose = self._blank
            self._give_item(open_list)
            open_list.column = marker.column
            self._lines.append(line)
        elif self._blank or _starts_block(line):
            self._close()
            self._begin(line)
        else:
            # The text of an item may go on without its indentation.
            self._lines.append(line)

    def _give_item(self, open_list: _OpenList) -> None:
        text = "".join(self._lines)
        self._found.append(TextBlock(text, True, open_list.items > 0, bool(open_list.loose)))
        open_list.items += 1
        self._lines, self._blank = [], False

    def _close(self) -> None:
        if self._list is not None:
            self._give_item(self._list)
        elif self._lines:
            self._found.append(TextBlock("".join(self._lines)))
        self._lines, self._blank, self._fence, self._list, self._code = [], False, "", None, False


def _content(line: str) -> str:
    return line.strip(" \t\r\n")


def _indent(line: str) -> int:
    """The columns before the first character that is no blank."""
    column = 0
    for character in line[: len(line) - len(line.lstrip(" \t"))]:
        column += 1 if character == " " else _TAB_COLUMNS - column % _TAB_COLUMNS
    return column


def _run(text: str) -> int:
    """How often the first character is repeated at the start."""
    return len(text) - len(text.lstrip(text[0])) if text else 0


def _opening_fence(line: str) -> str:
    """The fence that a line opens; empty if it opens none."""
    text = _content(line)
    length = _run(text)
    if length < _MIN_FENCE_CHARACTERS or text[0] not in "`~" or _indent(line) > _INDENT_COLUMNS:
        return ""
    if text[0] == "`" and "`" in text[length:]:
        return ""
    return text[:length]


def _closes(line: str, fence: str) -> bool:
    text = _content(line)
    return (
        len(text) >= len(fence)
        and _indent(line) <= _INDENT_COLUMNS
        and text[0] == fence[0]
        and _run(text) == len(text)
    )


def _is_heading(line: str) -> bool:
    text = _content(line)
    length = _run(text)
    return (
        text[0] == "#"
        and length <= _MAX_HEADING_CHARACTERS
        and (len(text) == length or text[length] in " \t")
    )


def _is_break(line: str) -> bool:
    """Whether a line is a thematic break."""
    text = line.replace(" ", "").replace("\t", "").strip("\r\n")
    return text[0] in "-*_" and len(text) >= _MIN_BREAK_CHARACTERS and _run(text) == len(text)


def _underlines(line: str) -> bool:
    """Whether a line makes a heading of the paragraph before it."""
    text = _content(line)
    return text[0] in "=-" and _run(text) == len(text) and _indent(line) <= _INDENT_COLUMNS


def _marker(line: str) -> _Marker | None:
    """The marker of an item that a line begins; ``None`` if it begins none."""
    text = _content(line)
    digits = len(text) - len(text.lstrip("0123456789"))
    length = digits + 1
    sign = text[digits : digits + 1]
    if digits > _MAX_MARKER_DIGITS or not sign or sign not in (".)" if digits else "-+*"):
        return None
    rest = text[length:]
    if rest and rest[0] not in " \t":
        return None
    spaces = _indent(rest) if rest else 1
    if spaces > _CODE_INDENT_COLUMNS:
        spaces = 1
    return _Marker(sign, _indent(line) + length + spaces)


def _starts_block(line: str) -> bool:
    """Whether a line can only be the start of another block, even right after a paragraph."""
    if _indent(line) > _INDENT_COLUMNS:
        return False
    text = _content(line)
    return bool(
        _opening_fence(line)
        or _is_heading(line)
        or _is_break(line)
        or text.startswith(">")
        or _marker(line) is not None
    )


def _interrupts(line: str) -> bool:
    """Whether a line ends the paragraph before it. A numbered list does so only from 1, and no empty item does."""
    if not _starts_block(line):
        return False
    text = _content(line)
    if _opening_fence(line) or _is_heading(line) or _is_break(line) or text.startswith(">"):
        return True
    marker = _content(text.split(maxsplit=1)[0])
    return text != marker and (not marker[0].isdigit() or marker[:-1] == "1")
