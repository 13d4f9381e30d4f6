"""How many pixels an image states to have: a voter's browser takes memory for all of them, however small the file."""

from __future__ import annotations

from tiltyard.errors import InputError

#: Pixels of an image; a browser takes four bytes for each.
IMAGE_PIXEL_LIMIT = 100_000_000

_JPEG_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}


def check_image_size(media: str, data: bytes) -> None:
    """Raise `InputError` if an image states more pixels than a browser should be given. Other media pass."""
    for width, height in _stated_sizes(media, data):
        if width * height > IMAGE_PIXEL_LIMIT:
            raise InputError(
                f"these bytes are an image of {width} × {height} pixels; the maximum is {IMAGE_PIXEL_LIMIT:,} "
                "pixels: save it smaller"
            )


def _stated_sizes(media: str, data: bytes) -> list[tuple[int, int]]:
    if media == "image/png":
        return [(int.from_bytes(data[16:20], "big"), int.from_bytes(data[20:24], "big"))]
    if media == "image/gif":
        return [(int.from_bytes(data[6:8], "little"), int.from_bytes(data[8:10], "little"))]
    if media == "image/jpeg":
        return _jpeg_sizes(data)
    return _webp_sizes(data) if media == "image/webp" else []


def _jpeg_sizes(data: bytes) -> list[tuple[int, int]]:
    """The sizes of all frames: segments are walked until the first scan."""
    found, at = [], 2
    while at + 9 <= len(data) and data[at] == 0xFF and data[at + 1] != 0xDA:
        marker = data[at + 1]
        if marker == 0xFF:
            at += 1
            continue
        if marker in _JPEG_FRAMES:
            height, width = (
                int.from_bytes(data[at + 5 : at + 7], "big"),
                int.from_bytes(data[at + 7 : at + 9], "big"),
            )
            found.append((width, height))
        at += 2 + max(2, int.from_bytes(data[at + 2 : at + 4], "big"))
    return found


def _webp_sizes(data: bytes) -> list[tuple[int, int]]:
    """The size of the canvas, or of the only picture: the first chunk has it."""
    name, held = data[12:16], data[20:30]
    if len(held) < 10:
        return []
    if name == b"VP8X":
        return [(1 + int.from_bytes(held[4:7], "little"), 1 + int.from_bytes(held[7:10], "little"))]
    if name == b"VP8L":
        bits = int.from_bytes(held[1:5], "little")
        return [(1 + bits % 0x4000, 1 + (bits >> 14) % 0x4000)]
    return [(int.from_bytes(held[6:8], "little") % 0x4000, int.from_bytes(held[8:10], "little") % 0x4000)]
