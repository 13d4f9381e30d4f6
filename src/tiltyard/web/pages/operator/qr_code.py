"""QR codes, as pictures inside a page."""

from __future__ import annotations

import segno
from markupsafe import Markup

#: Empty modules around the code, as ISO/IEC 18004 wants them.
_BORDER_COUNT = 4


def draw_qr_code(text: str) -> Markup:
    """The QR code of a text as an SVG element, black on white in every theme: some apps read no other."""
    code = segno.make(text, error="m", micro=False)
    drawn = code.svg_inline(
        border=_BORDER_COUNT, dark="#000", light="#fff", omitsize=True, svgclass="qr-code", lineclass=None
    )
    return Markup(drawn)  # noqa: S704 - it has numbers only  # nosec B704
