r"""Maths between ``\(`` and ``\)`` or ``\[`` and ``\]``, beside the dollars that a plugin reads."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.rules_block import StateBlock
    from markdown_it.rules_inline import StateInline


#: Longer formulas are shown as source text.
MAX_FORMULA_CHARACTERS = 2_000
_CLOSING = {r"\(": r"\)", r"\[": r"\]"}


def bracket_maths(md: MarkdownIt) -> None:
    """Teach a parser the brackets; the tokens are those of the dollars."""
    md.inline.ruler.before("escape", "bracket_maths", _inline)
    md.block.ruler.before(
        "fence", "bracket_maths", _block, {"alt": ["paragraph", "reference", "blockquote", "list"]}
    )


def _inline(state: StateInline, silent: bool) -> bool:
    opening = state.src[state.pos : state.pos + 2]
    closing = _CLOSING.get(opening)
    if closing is None:
        return False
    start = state.pos + 2
    end = state.src.find(closing, start, min(state.posMax, start + MAX_FORMULA_CHARACTERS))
    if end == -1 or not state.src[start:end].strip():
        return False
    if not silent:
        token = state.push("math_inline" if opening == r"\(" else "math_inline_double", "", 0)
        token.content = state.src[start:end]
    state.pos = end + 2
    return True


def _block(state: StateBlock, first: int, last: int, silent: bool) -> bool:
    start = state.bMarks[first] + state.tShift[first]
    if state.is_code_block(first) or not state.src.startswith(r"\[", start):
        return False
    limit = min(state.eMarks[last - 1], start + MAX_FORMULA_CHARACTERS)
    end = state.src.find(r"\]", start + 2, limit)
    if end == -1 or "\n\n" in state.src[start:end]:
        return False
    line = first
    while state.eMarks[line] < end:
        line += 1
        if state.sCount[line] < state.blkIndent:
            return False
    if state.src[end + 2 : state.eMarks[line]].strip():
        return False
    if not silent:
        token = state.push("math_block", "", 0)
        token.block = True
        token.content = state.getLines(first, line + 1, state.blkIndent, keepLastLF=False).strip()[2:-2]
        token.map = [first, line + 1]
        state.line = line + 1
    return True
