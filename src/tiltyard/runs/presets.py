"""Parameters under which a published board can be reproduced, by name."""

from __future__ import annotations

from typing import Any

from tiltyard.errors import BadOption

#: For each preset: its parameters of Bradley–Terry, and those that it adds where style is controlled for.
PRESETS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "lmarena": (
        {"both_bad": "tie", "max_share": None, "base": 1000.0},
        {"even_pairs": 50, "style_penalty": 1.0, "style_centred": True},
    ),
}


def preset_parameters(name: str, *, style: bool) -> dict[str, Any]:
    """The parameters of Bradley–Terry that a preset sets."""
    if name not in PRESETS:
        raise BadOption(f"preset is {name!r}; expected {', '.join(PRESETS)}")
    plain, styled = PRESETS[name]
    return plain | styled if style else dict(plain)
