"""Transforms the tokens of a text between parsing and rendering: headings, text direction, links, tables."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import takewhile, zip_longest
from typing import TYPE_CHECKING

from markdown_it.token import Token

from tiltyard.web.texts.control_characters import spell_hidden_characters
from tiltyard.web.texts.links import target_of
from tiltyard.web.texts.text_direction import first_strong_direction, has_right_to_left, is_right_to_left

if TYPE_CHECKING:
    from markdown_it.rules_core import StateCore


#: Headings of a text are lowered below those of the page.
_HEADINGS = {"h1": "h3", "h2": "h4", "h3": "h5", "h4": "h6", "h5": "h6", "h6": "h6"}
_LEAVES = frozenset({"paragraph_open", "heading_open", "td_open", "th_open"})
_HOLDERS = ("bullet_list", "ordered_list", "list_item", "blockquote", "table")
_OPENINGS = frozenset(f"{each}_open" for each in _HOLDERS)
_CLOSINGS = frozenset(f"{each}_close" for each in _HOLDERS)
_ALIGNED = {"text-align:center": "to-the-middle", "text-align:right": "to-the-right"}


def arrange_blocks(state: StateCore) -> None:
    """Lower the headings, and give every block its direction and every cell its side.

    A browser finds the direction of a paragraph by itself, but not that of a list or a quotation, whose letters
    all stand in paragraphs of their own: these run as the first letter in them does.
    """
    leftward = is_right_to_left(state.env.get("language"))
    holders: list[Token] = []
    for token, after in zip_longest(state.tokens, state.tokens[1:]):
        token.tag = _HEADINGS.get(token.tag, token.tag)
        style = token.attrs.pop("style", None)
        if style in _ALIGNED:
            token.attrSet("class", _ALIGNED[str(style)])
        if token.type in _LEAVES:
            runs = leftward and after is not None and has_right_to_left(_letters(after))
            token.attrSet("dir", "rtl" if runs else "auto")
        elif token.type in _OPENINGS:
            holders.append(token)
        elif token.type in _CLOSINGS:
            holders.pop()
        elif token.type == "inline" and any("dir" not in holder.attrs for holder in holders):
            letters = _letters(token)
            direction = "rtl" if leftward and has_right_to_left(letters) else first_strong_direction(letters)
            _give(direction, holders)


def _give(direction: str | None, holders: list[Token]) -> None:
    for holder in holders:
        if direction is not None and "dir" not in holder.attrs:
            holder.attrSet("dir", direction)


def _letters(token: Token) -> str:
    """The start of a block's text, without code and URLs."""
    return "".join(child.content for child in (token.children or [])[:50] if child.type == "text")


def arrange_links(state: StateCore) -> None:
    """Add the target host to every link; links that are not allowed become text."""
    for token in state.tokens:
        if any(child.type == "link_open" for child in token.children or ()):
            token.children = list(_with_places(iter(token.children or ())))


def _with_places(children: Iterator[Token]) -> Iterator[Token]:
    for child in children:
        if child.type != "link_open":
            yield child
            continue
        inside = list(takewhile(lambda each: each.type != "link_close", children))
        address = str(child.attrGet("href") or "")
        target = target_of(address)
        if target is None:
            yield from inside
            yield Token("link_left_out", "", 0, content=address)
            continue
        title = child.attrs.pop("title", None)
        if title is not None:
            child.attrSet("title", spell_hidden_characters(str(title)))
        yield from (child, *inside, Token("link_close", "a", -1))
        if not target.is_named_in(_said(inside)):
            yield Token("true_host", "", 0, content=target.place)


def _said(tokens: list[Token]) -> str:
    return "".join(each.content or " " for each in tokens)
