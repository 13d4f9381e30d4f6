"""Sandboxes responses that are apps: untrusted pages that run in a browser and must not reach the network.

The content security policy of an app lets it load nothing. Such a policy does not cover all connections: not WebRTC,
DNS prefetch and preconnect of links, nor frames with new windows. ``Connection-Allowlist`` blocks them in browsers
that support it. For other browsers, everything that could open a connection is removed: elements of the page before it
is sent, and interfaces and elements created by scripts by a prelude that runs before the app.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from importlib.resources import files

#: Media types of an app, and of its source code.
APP = "text/html; charset=utf-8"
PLAIN = "text/plain; charset=utf-8"
#: The same for both sides and all kinds of responses.
APP_HEADERS: Mapping[str, str] = {
    "Content-Security-Policy": (
        "sandbox allow-scripts; default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; "
        "img-src data: blob:; media-src data: blob:; font-src data:; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'self'; webrtc 'block'; require-trusted-types-for 'script'; trusted-types default"
    ),
    "Connection-Allowlist": "()",
    "Permissions-Policy": ", ".join(
        f"{feature}=()"
        for feature in (
            "browsing-topics", "camera", "display-capture", "geolocation", "hid", "identity-credentials-get",
            "local-fonts", "microphone", "midi", "payment", "publickey-credentials-get", "serial", "usb",
        )
    ),
    "X-DNS-Prefetch-Control": "off",
}  # fmt: skip

_BOM = b"\xef\xbb\xbf"
#: Elements that open a window or a connection. Those without an end tag become ``meta``, which does nothing without
#: its own attributes. The prelude has the same names.
_REPLACED = re.compile(
    rb"(</?)(?:(iframe|frameset|object|applet|portal|fencedframe)|(?:link|embed|frame))(?=[\t\n\f\r />])",
    re.IGNORECASE,
)
#: Bytes that are searched for the start of the page.
_PAGE_HEAD_BYTES = 4096


def sandboxed_app(data: bytes) -> bytes:
    """An app as it is sent to browsers: with the prelude, and without elements that would connect."""
    page = _REPLACED.sub(
        lambda tag: tag[1] + (b"meta" if tag[2] is None else b"x-" + tag[2]), data.removeprefix(_BOM)
    )
    beginning = page[:_PAGE_HEAD_BYTES].lower()
    doctype, root = (beginning.find(tag) for tag in (b"<!doctype", b"<html"))
    # Only the first doctype counts, so it comes before the prelude. An app without one stays in quirks mode.
    has_doctype = doctype >= 0 and (root < 0 or doctype < root)
    return (b"<!doctype html>" if has_doctype else b"") + _prelude() + page


@functools.cache
def _prelude() -> bytes:
    script = files("tiltyard.web.texts").joinpath("app_prelude.js").read_bytes()
    return b"<script>" + script + b"</script>"
