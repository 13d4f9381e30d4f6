"""The allowlist: the tags, attributes and classes that the renderer itself emits, and no others."""

from __future__ import annotations

import nh3

from tiltyard.web.texts.code_highlighter import CODE_CLASSES

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


def sanitize_html(html: str) -> str:
    """The HTML without anything that is not on the list."""
    return _CLEANER.clean(html)
