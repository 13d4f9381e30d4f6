"""A canvas on which shapes are painted over each other, with soft edges; it is written as PNG."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

#: Red, green and blue, each from 0 to 255.
Colour = tuple[float, float, float]
Part = tuple[slice, slice]

_MAGIC = b"\x89PNG\r\n\x1a\n"


class Canvas:
    """Pixels of one picture. Places are counted from the upper left corner."""

    def __init__(self, width: int, height: int) -> None:
        self._pixels = np.full((height, width, 3), 255.0)
        self._y, self._x = np.mgrid[0:height, 0:width] + 0.5

    def fade(self, above: Colour, below: Colour) -> None:
        """Fill everything, from one colour down to another."""
        share = np.linspace(0.0, 1.0, self._pixels.shape[0])[:, None, None]
        self._pixels[:] = (1.0 - share) * np.array(above) + share * np.array(below)

    def circle(self, x: float, y: float, radius: float, colour: Colour, strength: float = 1.0) -> None:
        self.ellipse(x, y, radius, radius, colour, strength)

    def ellipse(
        self, x: float, y: float, wide: float, high: float, colour: Colour, strength: float = 1.0
    ) -> None:
        if wide > 0.0 and high > 0.0:
            part = self._around((x - wide, x + wide), (y - high, y + high))
            away = np.hypot((self._x[part] - x) / wide, (self._y[part] - y) / high) - 1.0
            self._paint(part, away * min(wide, high), colour, strength)

    def polygon(self, corners: Sequence[tuple[float, float]], colour: Colour, strength: float = 1.0) -> None:
        """Any polygon whose sides do not cross, by the distance to its nearest side."""
        part = self._around([x for x, _ in corners], [y for _, y in corners])
        px, py = self._x[part], self._y[part]
        away = np.full(px.shape, np.inf)
        inside = np.zeros(px.shape, dtype=bool)
        for (x1, y1), (x2, y2) in zip(corners, [*corners[1:], corners[0]], strict=True):
            dx, dy = x2 - x1, y2 - y1
            along = np.clip(((px - x1) * dx + (py - y1) * dy) / max(dx * dx + dy * dy, 1e-9), 0.0, 1.0)
            away = np.minimum(away, np.hypot(px - x1 - along * dx, py - y1 - along * dy))
            if dy:
                inside ^= ((y1 > py) != (y2 > py)) & (px < x1 + (py - y1) * dx / dy)
        self._paint(part, np.where(inside, -away, away), colour, strength)

    def png(self) -> bytes:
        """The picture, with colours rounded a little so that it stays small."""
        height, width, _ = self._pixels.shape
        rounded = np.clip(np.rint(self._pixels / 4.0) * 4.0, 0, 255).astype(np.uint8)
        # Each row as its difference to the one above it.
        rows = np.diff(rounded.astype(np.int16), axis=0, prepend=0).astype(np.uint8).reshape(height, -1)
        data = np.concatenate([np.full((height, 1), 2, dtype=np.uint8), rows], axis=1).tobytes()
        header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
        parts = ((b"IHDR", header), (b"IDAT", zlib.compress(data, 9)), (b"IEND", b""))
        return _MAGIC + b"".join(_chunk(name, body) for name, body in parts)

    def _around(self, x: Sequence[float], y: Sequence[float]) -> Part:
        """The pixels among which a shape lies."""
        rows, columns = (slice(max(int(min(v)) - 1, 0), max(int(max(v)) + 2, 0)) for v in (y, x))
        return rows, columns

    def _paint(self, part: Part, away: npt.NDArray[np.float64], colour: Colour, strength: float) -> None:
        cover = (np.clip(0.5 - away, 0.0, 1.0) * strength)[..., None]
        self._pixels[part] += cover * (np.array(colour) - self._pixels[part])


def _chunk(name: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))
