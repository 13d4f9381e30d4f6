"""Converts untrusted text to HTML; the only place that does.

Responses, prompts, names and comments are never trusted. `render_text` parses Markdown; `plain_text` and
`format_name` parse nothing. All three make hidden characters visible, and their output never makes the browser
load anything. It is safe between tags, and nowhere else. `spell_hidden_characters` is for titles and attributes:
it makes hidden characters visible, and leaves the escaping to the template.

text → Markdown → code and maths → hidden characters made visible → allowlist
"""

from __future__ import annotations

from tiltyard.web.texts.control_characters import format_name, plain_text, spell_hidden_characters
from tiltyard.web.texts.markdown import render_text

__all__ = ["format_name", "plain_text", "render_text", "spell_hidden_characters"]
