"""Markdown without raw HTML, and how each of its parts is written."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING

from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.rules_block import table
from mdit_py_plugins.dollarmath import dollarmath_plugin

from tiltyard.web.texts.block_layout import arrange_blocks, arrange_links
from tiltyard.web.texts.control_characters import mark_hidden_characters
from tiltyard.web.texts.maths import MAX_FORMULA_CHARACTERS, bracket_maths

if TYPE_CHECKING:
    from markdown_it.rules_block import StateBlock
    from markdown_it.rules_inline import StateInline
    from markdown_it.token import Token
    from markdown_it.utils import EnvType, OptionsDict


#: Quotes and lists that are nested more deeply are shown as source text.
_NESTING_LIMIT = 16
#: A table that could have more cells is shown as source text.
_TABLE_CELL_LIMIT = 20_000
_MATHS = ("math_block", "math_inline", "math_inline_double")


class RenderTimeout(Exception):
    """Parsing a text exceeded its time limit."""


class HtmlWriter(RendererHTML):
    """Renders tokens as HTML. All text is passed through `mark_hidden_characters`."""

    def text(self, tokens: Sequence[Token], idx: int, _options: OptionsDict, _env: EnvType) -> str:
        return mark_hidden_characters(tokens[idx].content)

    def code_inline(self, tokens: Sequence[Token], idx: int, _options: OptionsDict, _env: EnvType) -> str:
        return f'<code dir="ltr">{mark_hidden_characters(tokens[idx].content)}</code>'

    def code_block(self, tokens: Sequence[Token], idx: int, _options: OptionsDict, _env: EnvType) -> str:
        return _block_of_code(mark_hidden_characters(tokens[idx].content))

    def fence(self, tokens: Sequence[Token], idx: int, _options: OptionsDict, env: EnvType) -> str:
        language = (tokens[idx].info.split() or [""])[0]
        return _block_of_code(env["brush"].highlight_code(tokens[idx].content, language))

    def image(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        alt = self.renderInlineAsText(tokens[idx].children or [], options, env)
        say = env["say"]
        said = say("image removed: {alt}").format(alt=alt) if alt else say("image removed")
        return f'<span class="left-out">[{mark_hidden_characters(said)}]</span>'

    def link_left_out(self, tokens: Sequence[Token], idx: int, _options: OptionsDict, env: EnvType) -> str:
        say = env["say"]
        said = say("link removed: {address}").format(address=tokens[idx].content)
        return f' <span class="left-out">[{mark_hidden_characters(said)}]</span>'

    def true_host(self, tokens: Sequence[Token], idx: int, _options: OptionsDict, _env: EnvType) -> str:
        return f' <span class="true-host" dir="ltr">({mark_hidden_characters(tokens[idx].content)})</span>'

    def table_open(self, tokens: Sequence[Token], idx: int, options: OptionsDict, env: EnvType) -> str:
        return f'<div class="wide" tabindex="0">{self.renderToken(tokens, idx, options, env)}'

    def table_close(self, _tokens: Sequence[Token], _idx: int, _options: OptionsDict, _env: EnvType) -> str:
        return "</table></div>\n"

    def as_written(self, tokens: Sequence[Token], idx: int, _options: OptionsDict, _env: EnvType) -> str:
        return f'<pre class="as-written" dir="auto" tabindex="0">{mark_hidden_characters(tokens[idx].content)}</pre>'

    def maths(self, tokens: Sequence[Token], idx: int, _options: OptionsDict, _env: EnvType) -> str:
        token = tokens[idx]
        source = mark_hidden_characters(token.content.strip())
        if len(token.content) > MAX_FORMULA_CHARACTERS:
            return (
                _block_of_code(source) if token.type == "math_block" else f'<code dir="ltr">{source}</code>'
            )
        display = "inline" if token.type == "math_inline" else "block"
        html = f'<span class="maths" data-display="{display}" dir="ltr">{source}</span>'
        return f'<p dir="ltr">{html}</p>\n' if token.type == "math_block" else html


def _block_of_code(html: str) -> str:
    # A browser drops a newline right behind <pre>, but not one behind <code>.
    return f'<pre dir="ltr" tabindex="0"><code dir="ltr">{html}</code></pre>\n'


def _block_in_time(state: StateBlock, _first: int, _last: int, _silent: bool) -> bool:
    """A rule that matches nothing and aborts parsing that takes too long: every rule is called at every step."""
    return _inline_in_time(state, silent=True)


def _inline_in_time(state: StateBlock | StateInline, silent: bool) -> bool:  # noqa: ARG001 - what a rule is given
    if time.thread_time() > state.env["deadline"]:
        raise RenderTimeout
    return False


def _too_deep(state: StateBlock, first: int, last: int, silent: bool) -> bool:
    """Keep text that is nested too deeply as source text; the parser itself would drop it."""
    if state.level < _NESTING_LIMIT or silent:
        return False
    line = first
    while line < last and (state.isEmpty(line) or state.sCount[line] >= state.blkIndent):
        line += 1
    token = state.push("as_written", "", 0)
    token.content = state.getLines(first, line, state.blkIndent, keepLastLF=False)
    token.map = [first, line]
    state.line = line
    return True


def _bounded_table(state: StateBlock, first: int, last: int, silent: bool) -> bool:
    """A table, if it cannot have too many cells: short rows are filled up to the columns of the first."""
    columns = state.src.count("|", state.bMarks[first], state.eMarks[first]) + 1
    return columns * (last - first) <= _TABLE_CELL_LIMIT and table(state, first, last, silent)


@cache
def markdown_parser() -> MarkdownIt:
    """The shared parser, which keeps no state between texts."""
    md = MarkdownIt("commonmark", {"html": False, "maxNesting": _NESTING_LIMIT + 8}, renderer_cls=HtmlWriter)
    md.enable(["table", "strikethrough"]).disable(["html_block", "html_inline"])
    dollarmath_plugin(
        md,
        allow_labels=False,
        allow_space=False,
        allow_digits=False,
        allow_blank_lines=False,
        double_inline=True,
    )
    bracket_maths(md)
    md.block.ruler.at("table", _bounded_table, {"alt": ["paragraph", "reference"]})
    md.block.ruler.before("table", "too_deep", _too_deep)
    md.block.ruler.before(
        "too_deep", "in_time", _block_in_time, {"alt": ["paragraph", "reference", "blockquote", "list"]}
    )
    md.inline.ruler.before("text", "in_time", _inline_in_time)
    md.core.ruler.push("arrange_blocks", arrange_blocks)
    md.core.ruler.push("arrange_links", arrange_links)
    for kind in _MATHS:
        md.add_render_rule(kind, HtmlWriter.maths)
    return md
