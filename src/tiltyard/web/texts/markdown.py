"""Markdown without raw HTML, and how each of its parts is written."""

from __future__ import annotations

import re
import time
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import takewhile, zip_longest
from urllib.parse import unquote, urlsplit

import nh3
from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.rules_block import StateBlock, table
from markdown_it.rules_core import StateCore
from markdown_it.rules_inline import StateInline
from markdown_it.token import Token
from markdown_it.utils import EnvType, OptionsDict
from markupsafe import Markup, escape
from mdit_py_plugins.dollarmath import dollarmath_plugin

from tiltyard.web.texts.code_highlighter import CODE_CLASSES, CodeHighlighter
from tiltyard.web.texts.control_characters import (
    make_storable,
    mark_hidden_characters,
    spell_hidden_characters,
)

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
        if not target.is_named_in("".join(each.content or " " for each in inside)):
            yield Token("true_host", "", 0, content=target.place)


#: A plain host name: without user information or percent-encoding.
_HOST = re.compile(
    r"(?:[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?|\[[0-9a-f:.]+\])(?::[0-9]{1,5})?", re.IGNORECASE
)
_MAILBOX = re.compile(r"[a-z0-9.!#$&'*+/=?^_`{|}~-]+@[a-z0-9.-]+", re.IGNORECASE)
_MAX_LINK_CHARACTERS = 2_000


@dataclass(frozen=True, slots=True)
class LinkTarget:
    address: str
    #: The host or mailbox.
    place: str

    def is_named_in(self, text: str) -> bool:
        """Whether the text of the link starts with its host or mailbox."""
        said = text.strip().lower()
        scheme = self.address.partition(":")[0].lower()
        for opening in (f"{scheme}://", f"{scheme}:"):
            said = said.removeprefix(opening)
        place = self.place.lower()
        return said.startswith(place) and (len(said) == len(place) or said[len(place)] in "/?#")


def target_of(address: str) -> LinkTarget | None:
    """The target of a URL; ``None`` if it is relative or not allowed."""
    if len(address) > _MAX_LINK_CHARACTERS or not address.isascii() or not address.isprintable():
        return None
    try:
        parts = urlsplit(address)
    except ValueError:
        return None
    if parts.scheme not in SCHEMES or "\\" in address:
        return None
    if parts.scheme == "mailto":
        mailbox = unquote(parts.path)
        return LinkTarget(address, mailbox) if _MAILBOX.fullmatch(mailbox) else None
    return LinkTarget(address, parts.netloc) if _HOST.fullmatch(parts.netloc) else None


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


_LEFTWARD = frozenset({"R", "AL"})
#: Languages that are mostly written from right to left.
_NAMES = "ar arc ckb dv fa he iw ks ku ps sd syr ug ur yi"
_LANGUAGES = frozenset(_NAMES.split())
#: Characters that are searched for a letter with a direction.
_SEARCHED_CHARACTERS = 500


def is_right_to_left(language: str | None) -> bool:
    """Whether a language, given as a BCP 47 tag, is written from right to left."""
    return language is not None and language.lower().partition("-")[0] in _LANGUAGES


def first_strong_direction(text: str) -> str | None:
    """``rtl`` or ``ltr`` by the first letter that has a direction, if there is one."""
    for character in text[:_SEARCHED_CHARACTERS]:
        kind = unicodedata.bidirectional(character)
        if kind == "L":
            return "ltr"
        if kind in _LEFTWARD:
            return "rtl"
    return None


def has_right_to_left(text: str) -> bool:
    """Whether the text has a right-to-left letter."""
    return any(unicodedata.bidirectional(character) in _LEFTWARD for character in text[:_SEARCHED_CHARACTERS])


SCHEMES = frozenset({"http", "https", "mailto"})
LINK_REL = "noopener noreferrer nofollow ugc"
_BLOCKS = frozenset({"p", "h3", "h4", "h5", "h6", "blockquote", "ul", "ol", "li", "pre", "table", "th", "td"})
TAGS = _BLOCKS | {"a", "br", "code", "div", "em", "hr", "s", "span", "strong", "tbody", "thead", "tr"}

#: Attributes with any value, by tag.
ATTRIBUTES = {"a": {"href", "title"}, "ol": {"start"}, "span": {"title"}}
_DIRECTIONS = {"dir": {"auto", "ltr", "rtl"}}
#: Attributes with these values only, by tag.
VALUES: dict[str, dict[str, set[str]]] = {
    **dict.fromkeys(_BLOCKS | {"code"}, _DIRECTIONS),
    "div": {"tabindex": {"0"}},
    "pre": {**_DIRECTIONS, "tabindex": {"0"}},
    "span": {"dir": {"ltr"}, "data-display": {"block", "inline"}},
}
CLASSES = {
    "div": {"wide"},
    "p": {"text-cut"},
    "pre": {"as-written"},
    "span": {"control", "left-out", "maths", "true-host"} | CODE_CLASSES,
    "td": {"to-the-middle", "to-the-right"},
    "th": {"to-the-middle", "to-the-right"},
}

_CLEANER = nh3.Cleaner(
    tags=TAGS,
    clean_content_tags=set(),
    attributes=ATTRIBUTES,
    tag_attribute_values=VALUES,
    allowed_classes=CLASSES,
    set_tag_attribute_values={"a": {"target": "_blank"}},
    link_rel=LINK_REL,
    url_schemes=SCHEMES,
    url_relative="deny",
)


#: Characters that are parsed as Markdown; the rest is shown as plain text.
MAX_MARKDOWN_CHARACTERS = 60_000
#: Maximum characters that are shown.
MAX_SHOWN_CHARACTERS = 200_000
#: Maximum lines and opening brackets that are parsed as Markdown; both are slower than other characters.
MAX_MARKDOWN_LINES = 5_000
BRACKET_LIMIT = 5_000
#: CPU time limit for parsing Markdown; the slowest known texts need a third of it.
MAX_PARSE_SECONDS = 2.0


def render_text(text: str, *, language: str | None = None, say: Callable[[str], str] = str) -> Markup:
    """A prompt or a response as HTML blocks.

    `language` is that of the text, if known: a line in Arabic that begins with a Latin word still runs from right
    to left. `say` translates the few words that are ours.
    """
    head, rest = _parted(make_storable(text[:MAX_SHOWN_CHARACTERS]))
    deadline = time.thread_time() + MAX_PARSE_SECONDS
    try:
        html = markdown_parser().render(
            head, {"language": language, "say": say, "brush": CodeHighlighter(), "deadline": deadline}
        )
    except RenderTimeout:
        html, rest = "", head + rest
    if rest:
        notice = say("The rest is shown without formatting: it is too long or too complex.")
        html += f'<p class="text-cut">{escape(notice)}</p>'
        html += f'<pre class="as-written" dir="auto" tabindex="0">{mark_hidden_characters(rest)}</pre>'
    if len(text) > MAX_SHOWN_CHARACTERS:
        notice = say("The text continues, but is too long to show here.")
        html += f'<p class="text-cut">{escape(notice)}</p>'
    return Markup(_CLEANER.clean(html))  # noqa: S704 - sanitized


def _parted(text: str) -> tuple[str, str]:
    """Split a text into the part that is parsed as Markdown and the rest, at the end of a line if possible."""
    limit = min(MAX_MARKDOWN_CHARACTERS, _nth(text, "\n", MAX_MARKDOWN_LINES), _nth(text, "[", BRACKET_LIMIT))
    if len(text) <= limit:
        return text, ""
    end = text.rfind("\n", limit // 2, limit) + 1 or limit
    return text[:end], text[end:]


def _nth(text: str, character: str, count: int) -> int:
    """The position of the last allowed occurrence of a character; the end of the text if the limit is not reached."""
    head = text[:MAX_MARKDOWN_CHARACTERS]
    if head.count(character) <= count:
        return len(text)
    return len(head) - len(head.split(character, count)[-1])
