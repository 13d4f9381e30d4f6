"""The one place where somebody's text becomes HTML.

A response, a prompt, a name or a comment is never trusted. `render_text` reads Markdown, `plain_text` and
`shown_name` read nothing at all; all three make visible what would hide, and none of them makes the browser
ask for anything. What they return is safe to put between tags, and nowhere else. `spelled` is for titles and
attributes, where there are no tags: it makes visible, and leaves the escaping to the template.

text → Markdown → code and maths → hidden characters made visible → allowlist
"""

from __future__ import annotations

from tiltyard.web.texts.controls import spelled
from tiltyard.web.texts.names import plain_text, shown_name
from tiltyard.web.texts.rendering import render_text

__all__ = ["plain_text", "render_text", "shown_name", "spelled"]
