"""Pictures with 256 colours: as good for pages of text, and less than half as large.

Chromium reads the picture and finds the colours, since it is at hand; only what PNG needs is done here.
"""

from __future__ import annotations

import base64
import struct
import zlib
from typing import Any

from playwright.sync_api import Page

#: The most frequent colours; those that differ by a hair count as one. Every pixel gets the nearest.
_CHOOSE = """async (address) => {
  const image = new Image();
  image.src = address;
  await image.decode();
  const canvas = new OffscreenCanvas(image.width, image.height), pen = canvas.getContext("2d");
  pen.drawImage(image, 0, 0);
  const pixels = new Uint32Array(pen.getImageData(0, 0, image.width, image.height).data.buffer);
  const counts = new Map();
  for (const one of pixels) counts.set(one, (counts.get(one) ?? 0) + 1);
  const groups = new Map();
  for (const [colour, count] of [...counts].sort((a, b) => b[1] - a[1])) {
    const group = counts.size > 256 ? (colour >>> 2) & 0x3f3f3f : colour;
    const known = groups.get(group);
    groups.set(group, known ? [known[0], known[1] + count] : [colour, count]);
  }
  const palette = [...groups.values()].sort((a, b) => b[1] - a[1]).slice(0, 256).map(([colour]) => colour);
  const far = (a, b) => [0, 8, 16].reduce((sum, k) => sum + (((a >>> k) & 255) - ((b >>> k) & 255)) ** 2, 0);
  const nearest = new Map();
  for (const colour of counts.keys()) {
    let best = 0;
    for (let k = 1; k < palette.length; k++) if (far(colour, palette[k]) < far(colour, palette[best])) best = k;
    nearest.set(colour, best);
  }
  let text = "";
  for (const one of pixels) text += String.fromCharCode(nearest.get(one));
  return {width: image.width, height: image.height, palette, pixels: btoa(text)};
}"""


def small_png(blank: Page, data: bytes) -> bytes:
    """The same picture with a palette. ``blank`` is an empty page to do it in."""
    found: dict[str, Any] = blank.evaluate(
        _CHOOSE, f"data:image/png;base64,{base64.b64encode(data).decode()}"
    )
    width, height = found["width"], found["height"]
    pixels = base64.b64decode(found["pixels"])
    rows = b"".join(b"\0" + pixels[y * width : (y + 1) * width] for y in range(height))
    colours = b"".join(struct.pack("<I", colour)[:3] for colour in found["palette"])
    header = struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)
    parts = ((b"IHDR", header), (b"PLTE", colours), (b"IDAT", zlib.compress(rows, 9)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(name, body) for name, body in parts)


def _chunk(name: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))
