"""Responses that are apps: pages of strangers, which run in a browser and must reach nothing from there.

The content policy of an app lets it load nothing. Some connections are none of a policy's business: WebRTC, lookups of
names and connections that a link announces, frames whose windows begin anew. ``Connection-Allowlist`` ends all of them
in browsers that know it. For the others, what could open one is taken out: elements from the page as it is sent, and
interfaces and elements that a script makes by a prelude that runs before the app.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from importlib.resources import files

__all__ = ["APP", "APP_HEADERS", "PLAIN", "sandboxed_app"]

#: Media types of an app, and of its source.
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
#: Elements that open a window of their own or a connection. Those that have no end tag become ``meta``, which without
#: its own attributes does nothing. The prelude has the same names.
_REPLACED = re.compile(
    rb"(</?)(?:(iframe|frameset|object|applet|portal|fencedframe)|(?:link|embed|frame))(?=[\t\n\f\r />])",
    re.IGNORECASE,
)
#: Bytes in which the beginning of a page is looked for.
_PAGE_HEAD_BYTES = 4096


def sandboxed_app(data: bytes) -> bytes:
    """An app as it is sent to browsers: with the prelude before it, and without elements that would connect."""
    page = _REPLACED.sub(_replaced, data.removeprefix(_BOM))
    beginning = page[:_PAGE_HEAD_BYTES].lower()
    doctype, root = (beginning.find(tag) for tag in (b"<!doctype", b"<html"))
    # Only the first doctype counts, and it comes before the prelude: an app without one keeps its older layout.
    has_doctype = doctype >= 0 and (root < 0 or doctype < root)
    return (b"<!doctype html>" if has_doctype else b"") + _prelude() + page


def _replaced(tag: re.Match[bytes]) -> bytes:
    return tag[1] + (b"meta" if tag[2] is None else b"x-" + tag[2])


@functools.cache
def _prelude() -> bytes:
    script = files("tiltyard.web").joinpath("app_prelude.js").read_bytes()
    return b"<script>" + script + b"</script>"
