"""Detects the media type of a response from its first bytes, not from its name."""

from __future__ import annotations

import re

from tiltyard.errors import InputError

#: What precedes the tag is read once and never again: comments could otherwise be divided in 2ⁿ ways.
_PAGE = re.compile(
    rb"\A(?:\xef\xbb\xbf)?(?:\s++|<!--(?>.*?-->))*+<(?:!doctype\s++html|html)\b", re.IGNORECASE | re.DOTALL
)
#: Formats by kind: pattern of the first bytes, and the media type.
_KNOWN: dict[str, tuple[tuple[re.Pattern[bytes], str], ...]] = {
    "image": (
        (re.compile(rb"\x89PNG\r\n\x1a\n"), "image/png"),
        (re.compile(rb"\xff\xd8\xff"), "image/jpeg"),
        (re.compile(rb"GIF8[79]a"), "image/gif"),
        (re.compile(rb"RIFF....WEBP", re.DOTALL), "image/webp"),
    ),
    "audio": (
        (re.compile(rb"RIFF....WAVE", re.DOTALL), "audio/wav"),
        (re.compile(rb"ID3|\xff[\xe2\xe3\xf2\xf3\xfa\xfb]"), "audio/mpeg"),
        (re.compile(rb"OggS"), "audio/ogg"),
        (re.compile(rb"fLaC"), "audio/flac"),
    ),
}
_EXPECTED = {
    "image": "a PNG, JPEG, GIF or WebP image",
    "audio": "WAV, MP3, Ogg or FLAC audio",
    "app": "an HTML page in UTF-8, beginning with <!doctype html> or <html>",
}


def detect_media_type(kind: str, data: bytes) -> str:
    """The media type under which a response of this kind is sent; other bytes are an `InputError`."""
    if kind == "text":
        return "text/plain; charset=utf-8"
    if kind == "app":
        if _PAGE.match(data[:4096]) and _is_utf8(data):
            return "text/html; charset=utf-8"
    else:
        for pattern, known in _KNOWN[kind]:
            if pattern.match(data[:16]):
                return known
    raise InputError(f"these bytes are not {_EXPECTED[kind]}")


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True
