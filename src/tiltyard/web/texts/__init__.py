"""The one place where somebody's text becomes HTML.

A response, a prompt, a name or a comment is never trusted. `render_text` reads Markdown, `plain_text` and
`format_name` read nothing at all; all three make visible what would hide, and none of them makes the browser
ask for anything. What they return is safe to put between tags, and nowhere else. `spell_hidden_characters` is for titles and
attributes, where there are no tags: it makes visible, and leaves the escaping to the template.

text → Markdown → code and maths → hidden characters made visible → allowlist
"""

from __future__ import annotations

from tiltyard.web.texts.control_characters import spell_hidden_characters
from tiltyard.web.texts.display_names import format_name, plain_text
from tiltyard.web.texts.renderer import render_text

__all__ = ["format_name", "plain_text", "render_text", "spell_hidden_characters"]
