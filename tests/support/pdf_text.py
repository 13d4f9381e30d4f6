"""The text of a PDF that Chromium printed."""

from __future__ import annotations

import re
import zlib

_OBJECT = re.compile(rb"(\d+) 0 obj(.*?)endobj", re.DOTALL)
_STREAM = re.compile(rb"stream\r?\n(.*)\r?\nendstream", re.DOTALL)
_FONT = re.compile(rb"/(F\d+) (\d+) 0 R")
_SHOWN = re.compile(rb"/(F\d+) [\d.]+ Tf|<([0-9A-Fa-f]+)>|\b(ET)\b")


def pdf_text(data: bytes) -> str:
    """All text, in the order in which it is drawn; fonts state which characters their glyphs are."""
    objects = {int(number): body for number, body in _OBJECT.findall(data)}
    fonts = {
        name: _characters(objects, int(number))
        for body in objects.values()
        for name, number in _FONT.findall(body)
    }
    text = ""
    for body in objects.values():
        content = _content(body)
        if b" Tf" in content:
            text += _drawn(content, fonts)
    return text


def _content(body: bytes) -> bytes:
    found = _STREAM.search(body)
    if found is None:
        return b""
    try:
        return zlib.decompress(found.group(1)) if b"/FlateDecode" in body else found.group(1)
    except zlib.error:
        return b""


def _characters(objects: dict[int, bytes], number: int) -> dict[int, str]:
    """By glyph: its character."""
    named = re.search(rb"/ToUnicode (\d+) 0 R", objects.get(number, b""))
    if named is None:
        return {}
    found: dict[int, str] = {}
    for block in re.findall(rb"beginbfchar(.*?)endbfchar", _content(objects[int(named.group(1))]), re.DOTALL):
        for glyph, text in re.findall(rb"<([0-9A-Fa-f]+)> <([0-9A-Fa-f]+)>", block):
            found[int(glyph, 16)] = bytes.fromhex(text.decode()).decode("utf-16-be")
    for block in re.findall(
        rb"beginbfrange(.*?)endbfrange", _content(objects[int(named.group(1))]), re.DOTALL
    ):
        for first, last, text in re.findall(rb"<([0-9A-Fa-f]+)> <([0-9A-Fa-f]+)> <([0-9A-Fa-f]+)>", block):
            for k in range(int(first, 16), int(last, 16) + 1):
                found[k] = chr(int(text, 16) + k - int(first, 16))
    return found


def _drawn(content: bytes, fonts: dict[bytes, dict[int, str]]) -> str:
    text, font = "", {}
    for name, glyphs, end in _SHOWN.findall(content):
        if name:
            font = fonts.get(name, {})
        elif end:
            text += "\n"
        else:
            text += "".join(font.get(int(glyphs[k : k + 4], 16), "?") for k in range(0, len(glyphs), 4))
    return text
