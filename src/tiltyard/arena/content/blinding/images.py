"""Images: keeps only the parts that a browser needs to show them.

A profile changes the colours that are shown, so it stays; but it also has a description, a copyright, a
maker, a device and a date, which tell where a picture comes from.
"""

from __future__ import annotations

import re
import struct
import zlib
from collections.abc import Collection, Iterator
from typing import Literal

from tiltyard.arena.content.blinding.media_chunks import (
    broken_media_error,
    count_parts,
    riff_chunk,
    riff_chunks,
    riff_file,
)
from tiltyard.errors import InputError

_PNG = "PNG image"
#: Chunks that stay, and how long each may be: what has another length is not what its name says.
_PNG_KEPT: dict[bytes, Collection[int] | None] = {
    b"IHDR": (13,),
    b"PLTE": range(3, 769, 3),
    b"IDAT": None,
    b"IEND": (0,),
    b"gAMA": (4,),
    b"cHRM": (32,),
    b"sRGB": (1,),
    b"cICP": (4,),
    b"mDCV": (24,),
    b"cLLI": (8,),
    b"sBIT": range(1, 5),
    b"bKGD": range(1, 7),
    b"acTL": (8,),
    b"fcTL": (26,),
    b"fdAT": None,
}
#: Lengths of transparency by colour type, and the type that has a palette: elsewhere nothing shows them.
_PNG_TRANSPARENCY: dict[int, Collection[int]] = {0: (2,), 2: (6,), 3: range(1, 257)}
_PNG_PALETTE_CODE = 3
#: Where the header says the colour type.
_PNG_COLOUR_OFFSET = 25
_PNG_OFTEN = frozenset({b"IDAT", b"fcTL", b"fdAT"})


def strip_png_metadata(data: bytes) -> bytes:
    """A PNG image of the chunks in the list above. What is kept is kept to the byte."""
    kept, seen, at = [data[:8]], set[bytes](), 8
    for _ in count_parts(_PNG):
        size, name = int.from_bytes(data[at : at + 4], "big"), data[at + 4 : at + 8]
        end = at + 12 + size
        if len(name) < 4 or end > len(data):
            raise broken_media_error(_PNG, at, "a chunk runs past the end")
        if (name == b"IHDR") != (at == 8):
            raise broken_media_error(_PNG, at, "the header is not where it belongs")
        if name in _PNG_OFTEN or name not in seen:
            kept.append(_png_chunk(name, data, at, end))
        seen.add(name)
        if name == b"IEND":
            break
        at = end
    if b"IDAT" not in seen:
        raise broken_media_error(_PNG, at, "it ends without a picture")
    return b"".join(kept)


def _png_chunk(name: bytes, data: bytes, at: int, end: int) -> bytes:
    """The part of a chunk to keep; empty if the chunk is not needed."""
    if name == b"iCCP":
        return _written_png(name, _png_profile(data[at + 8 : end - 4]))
    if name == b"eXIf":
        return _written_png(name, keep_orientation_only(data[at + 8 : end - 4]))
    colour = data[_PNG_COLOUR_OFFSET]
    lengths: Collection[int] | None
    if name == b"tRNS":
        lengths = _PNG_TRANSPARENCY.get(colour, ())
    elif name in _PNG_KEPT:
        lengths = _PNG_KEPT[name]
    else:
        return b""
    if lengths is not None and end - at - 12 not in lengths:
        if name[:1].isupper():
            raise broken_media_error(_PNG, at, f"a chunk {name.decode()} has a length that it cannot have")
        return b""
    if name == b"PLTE" and colour != _PNG_PALETTE_CODE:
        return b""
    if zlib.crc32(memoryview(data)[at + 4 : end - 4]) != int.from_bytes(data[end - 4 : end], "big"):
        raise broken_media_error(_PNG, at, "the checksum of a chunk is wrong")
    return data[at:end]


def _png_profile(held: bytes) -> bytes:
    """A profile under no name: the name of a profile is free text."""
    packed = held.partition(b"\0")[2]
    unpacking = zlib.decompressobj()
    try:
        profile = strip_profile_text(unpacking.decompress(packed[1:], MAX_PROFILE_BYTES + 1))
    except zlib.error:
        profile = None
    return b"" if profile is None else b"icc\0\0" + zlib.compress(profile)


def _written_png(name: bytes, held: bytes) -> bytes:
    if not held:
        return b""
    return len(held).to_bytes(4, "big") + name + held + zlib.crc32(name + held).to_bytes(4, "big")


_JPEG = "JPEG image"
_JFIF = b"JFIF\0"
_ICC = b"ICC_PROFILE\0"
_ADOBE = b"Adobe"
#: Markers between segments, and those that end the data of a scan.
_MARKER = re.compile(rb"\xff[^\x00\xff]")
_SCAN_ENDS = re.compile(rb"\xff[^\x00\xd0-\xd7\xff]")
_STANDALONE_MARKERS = frozenset({0x01, 0xD8, *range(0xD0, 0xD8)})
_FRAME_MARKERS = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
#: Tables, frames, scans and their sizes.
_KEPT_MARKERS = _FRAME_MARKERS | {0xC4, 0xCC, 0xDA, 0xDB, 0xDC, 0xDD}
_SCAN_MARKER, _END_MARKER = 0xDA, 0xD9
#: Bytes of a profile in one segment.
_ICC_SEGMENT_BYTES = 65_519


def strip_jpeg_metadata(data: bytes) -> bytes:
    """A JPEG image of tables, frames and scans, after what says how to read its colours and how to turn it."""
    kept, applications, frames = list[bytes](), list[tuple[int, bytes]](), 0
    for marker, start, end in _jpeg_segments(data):
        if marker in _KEPT_MARKERS:
            frames += marker in _FRAME_MARKERS
            kept.append(data[start:end])
        elif 0xE0 <= marker <= 0xEF:
            applications.append((marker, data[start + 4 : end]))
    if not frames:
        raise broken_media_error(_JPEG, len(data), "it ends without a picture")
    return b"".join((b"\xff\xd8", *_jpeg_head(applications), *kept, b"\xff\xd9"))


def _jpeg_segments(data: bytes) -> Iterator[tuple[int, int, int]]:
    """Segments until the end of the image: marker, and where each begins and ends; a scan with its data."""
    at = 2
    for _ in count_parts(_JPEG):
        found = _MARKER.search(data, at)
        if found is None:
            raise broken_media_error(_JPEG, at, "it ends without the mark of its end")
        start, at = found.span()
        marker = data[start + 1]
        if marker == _END_MARKER:
            return
        if marker in _STANDALONE_MARKERS:
            continue
        size = int.from_bytes(data[at : at + 2], "big")
        if size < 2 or at + size > len(data):
            raise broken_media_error(_JPEG, start, "a segment runs past the end")
        at += size
        if marker == _SCAN_MARKER:
            ended = _SCAN_ENDS.search(data, at)
            at = len(data) if ended is None else ended.start()
        yield marker, start, at


def _jpeg_head(applications: list[tuple[int, bytes]]) -> Iterator[bytes]:
    """What must be known before decoding, each in the one form that says nothing else."""
    if any(marker == 0xE0 and held.startswith(_JFIF) for marker, held in applications):
        yield _segment(0xE0, _JFIF + b"\x01\x01\0\0\x01\0\x01\0\0")
    exif = [held for marker, held in applications if marker == 0xE1 and held.startswith(EXIF)]
    if exif and (turned := keep_orientation_only(exif[0])):
        yield _segment(0xE1, turned)
    pieces = {
        held[len(_ICC)]: held[len(_ICC) + 2 :]
        for marker, held in applications
        if marker == 0xE2 and held.startswith(_ICC) and len(held) > len(_ICC) + 1
    }
    profile = strip_profile_text(b"".join(pieces[k] for k in sorted(pieces)))
    if profile is not None:
        count = -(-len(profile) // _ICC_SEGMENT_BYTES)
        for k in range(count):
            part = profile[k * _ICC_SEGMENT_BYTES : (k + 1) * _ICC_SEGMENT_BYTES]
            yield _segment(0xE2, _ICC + bytes((k + 1, count)) + part)
    adobe = [held for marker, held in applications if marker == 0xEE and held.startswith(_ADOBE)]
    if adobe and len(adobe[-1]) >= 12:
        yield _segment(0xEE, _ADOBE + b"\0\x64\0\0\0\0" + adobe[-1][11:12])


def _segment(marker: int, held: bytes) -> bytes:
    return bytes((0xFF, marker)) + (len(held) + 2).to_bytes(2, "big") + held


_GIF = "GIF image"
_LOOPING = (b"NETSCAPE2.0", b"ANIMEXTS1.0")


def strip_gif_metadata(data: bytes) -> bytes:
    """A GIF image of its frames, how long each is shown, and how often all are."""
    at = 13 + _gif_palette(data, 10)
    kept, frames, counted = [data[:at]], 0, count_parts(_GIF)
    for _ in counted:
        start, what = at, data[at : at + 1]
        if what == b",":
            at = _gif_blocks_end(data, at + 11 + _gif_palette(data, at + 9), counted)
            kept.append(data[start:at])
            frames += 1
        elif what == b"!":
            at = _gif_blocks_end(data, at + 2, counted)
            kept.append(_gif_extension(data[start:at]))
        elif what == b";":
            break
        else:
            raise broken_media_error(
                _GIF, at, "there is no block that a GIF image can have" if what else "it ends early"
            )
    if not frames:
        raise broken_media_error(_GIF, at, "it ends without a picture")
    return b"".join((*kept, b";"))


def _gif_palette(data: bytes, at: int) -> int:
    """Bytes of the palette that a byte of flags announces."""
    flags = data[at] if at < len(data) else 0
    return 3 << (flags % 8 + 1) if flags & 0x80 else 0


def _gif_blocks_end(data: bytes, at: int, counted: Iterator[int]) -> int:
    """Where a row of blocks ends, each of which begins with its length."""
    for _ in counted:
        if at >= len(data):
            break
        if not data[at]:
            return at + 1
        at += 1 + data[at]
    raise broken_media_error(_GIF, min(at, len(data)), "a block runs past the end")


def _gif_extension(block: bytes) -> bytes:
    if block[1] == 0xF9 and len(block) == 8:
        return block
    if block[1] == 0xFF and block[3:14] in _LOOPING and block[14:16] == b"\x03\x01":
        return block[:18] + b"\0"
    return b""


_WEBP = "WebP image"
_WEBP_CHUNK_BYTES = {b"VP8X": 10, b"ANIM": 6}
_WEBP_FRAME = frozenset({b"ALPH", b"VP8 ", b"VP8L"})
_WEBP_PICTURE = frozenset({b"VP8 ", b"VP8L", b"ANMF"})
#: Flags: a profile, transparency, Exif, several frames. The flag of XMP is never set.
_PROFILE_FLAG, _ALPHA_FLAG, _EXIF_FLAG, _ANIMATION_FLAG = 0x20, 0x10, 0x08, 0x02


def strip_webp_metadata(data: bytes) -> bytes:
    """A WebP image of its frames, its colours and its orientation."""
    end = 8 + int.from_bytes(data[4:8], "little")
    if end > len(data) or end < 12:
        raise broken_media_error(_WEBP, 4, f"the length should be {len(data) - 8} and is {end - 8}")
    kept, seen, counted = list[tuple[bytes, bytes]](), set[bytes](), count_parts(_WEBP)
    for name, start, stop in riff_chunks(_WEBP, data, 12, end, counted):
        held = _webp_held(name, data[start:stop], counted)
        if held and (name == b"ANMF" or name not in seen):
            kept.append((name, held))
            seen.add(name)
    if not seen & _WEBP_PICTURE:
        raise broken_media_error(_WEBP, end, "it ends without a picture")
    return riff_file(
        b"WEBP",
        [riff_chunk(name, _webp_flagged(held, seen) if name == b"VP8X" else held) for name, held in kept],
    )


def _webp_held(name: bytes, held: bytes, counted: Iterator[int]) -> bytes:
    if name == b"ANMF":
        parts = [
            riff_chunk(inner, held[start:stop])
            for inner, start, stop in riff_chunks(_WEBP, held, 16, len(held), counted)
            if inner in _WEBP_FRAME
        ]
        return b"".join((held[:16], *parts))
    if name == b"ICCP":
        return strip_profile_text(held) or b""
    if name == b"EXIF":
        return keep_orientation_only(held)
    if name in _WEBP_CHUNK_BYTES:
        return held if len(held) == _WEBP_CHUNK_BYTES[name] else b""
    return held if name in _WEBP_FRAME else b""


def _webp_flagged(held: bytes, names: Collection[bytes]) -> bytes:
    flags = held[0] & (_ALPHA_FLAG | _ANIMATION_FLAG)
    flags |= _PROFILE_FLAG * (b"ICCP" in names) | _EXIF_FLAG * (b"EXIF" in names)
    return bytes((flags, 0, 0, 0)) + held[4:]


#: The prefix of Exif data in JPEG, and sometimes elsewhere.
EXIF = b"Exif\0\0"

_ORDERS: dict[bytes, Literal["little", "big"]] = {b"II*\0": "little", b"MM\0*": "big"}
_ORIENTATION_TAG, _SHORT_CODE = 0x0112, 3
_UPRIGHT_CODE = 1


def keep_orientation_only(data: bytes) -> bytes:
    """Exif with the orientation only; empty if the image is upright."""
    start = EXIF if data.startswith(EXIF) else b""
    turned = _orientation(data[len(start) :])
    if turned == _UPRIGHT_CODE:
        return b""
    entry = b"".join(
        number.to_bytes(2, "little") for number in (_ORIENTATION_TAG, _SHORT_CODE, 1, 0, turned, 0)
    )
    return start + b"II*\0\x08\0\0\0\x01\0" + entry + bytes(4)


def _orientation(tiff: bytes) -> int:
    order = _ORDERS.get(tiff[:4])
    if order is None:
        return _UPRIGHT_CODE
    at = int.from_bytes(tiff[4:8], order)
    for k in range(int.from_bytes(tiff[at : at + 2], order)):
        entry = tiff[at + 2 + 12 * k : at + 14 + 12 * k]
        if len(entry) < 12:
            break
        tag, kind = int.from_bytes(entry[:2], order), int.from_bytes(entry[2:4], order)
        if (tag, kind, int.from_bytes(entry[4:8], order)) == (_ORIENTATION_TAG, _SHORT_CODE, 1):
            turned = int.from_bytes(entry[8:10], order)
            return turned if 2 <= turned <= 8 else _UPRIGHT_CODE
    return _UPRIGHT_CODE


#: Bytes of a profile; real ones have at most three million.
MAX_PROFILE_BYTES = 4 * 1024 * 1024

_HEADER_BYTES = 128
_TAG_LIMIT = 200
#: Places of the header that say how colours are meant: version, class, spaces; the signature; the intent and
#: the light. Left out are who made it, when, for what device, and the hash of it all.
_KEPT_HEADER_OFFSETS = ((8, 24), (36, 40), (64, 80))
#: Tags from which colours are computed, and the types of numbers that they hold.
_TAGS = frozenset(
    b"rXYZ gXYZ bXYZ wtpt bkpt rTRC gTRC bTRC kTRC chad cicp lumi A2B0 A2B1 A2B2 B2A0 B2A1 B2A2 gamt "
    b"D2B0 D2B1 D2B2 D2B3 B2D0 B2D1 B2D2 B2D3".split()
)
_TYPES = frozenset({b"XYZ ", b"curv", b"para", b"sf32", b"cicp", b"mft1", b"mft2", b"mAB ", b"mBA ", b"mpet"})


def strip_profile_text(data: bytes) -> bytes | None:
    """An ICC profile of nothing but numbers; ``None`` if these bytes are no profile, and no browser uses them."""
    count = int.from_bytes(data[_HEADER_BYTES : _HEADER_BYTES + 4], "big")
    if (
        not _HEADER_BYTES + 4 <= len(data) <= MAX_PROFILE_BYTES
        or data[36:40] != b"acsp"
        or count > _TAG_LIMIT
    ):
        return None
    places: dict[bytes, tuple[int, int]] = {}
    for k in range(count):
        entry = data[_HEADER_BYTES + 4 + 12 * k : _HEADER_BYTES + 16 + 12 * k]
        at, size = int.from_bytes(entry[4:8], "big"), int.from_bytes(entry[8:12], "big")
        if len(entry) < 12 or at + size > len(data):
            return None
        if entry[:4] in _TAGS and data[at : at + 4] in _TYPES:
            places[entry[:4]] = (at, size)
    if sum(size for _, size in set(places.values())) > len(data):
        return None
    return _written(data, [(name, data[at : at + size]) for name, (at, size) in places.items()])


def _written(data: bytes, tags: list[tuple[bytes, bytes]]) -> bytes:
    """Header, table and values; a value that several tags share is written once."""
    places: dict[bytes, int] = {}
    end = _HEADER_BYTES + 4 + 12 * len(tags)
    for _, value in tags:
        if value not in places:
            places[value] = end
            end += len(value) + -len(value) % 4
    head = bytearray(_HEADER_BYTES)
    head[:4] = end.to_bytes(4, "big")
    for start, stop in _KEPT_HEADER_OFFSETS:
        head[start:stop] = data[start:stop]
    table = b"".join(
        name + places[value].to_bytes(4, "big") + len(value).to_bytes(4, "big") for name, value in tags
    )
    values = b"".join(value + bytes(-len(value) % 4) for value in places)
    return bytes(head) + len(tags).to_bytes(4, "big") + table + values


#: Pixels of an image; a browser takes four bytes for each.
IMAGE_PIXEL_LIMIT = 100_000_000


def check_image_size(media: str, data: bytes) -> None:
    """Raise `InputError` if an image states more pixels than a browser should be given. Other media pass."""
    sizes: list[tuple[int, int]] = []
    if media == "image/png":
        sizes = [(int.from_bytes(data[16:20], "big"), int.from_bytes(data[20:24], "big"))]
    elif media == "image/gif":
        sizes = [(int.from_bytes(data[6:8], "little"), int.from_bytes(data[8:10], "little"))]
    elif media == "image/jpeg":
        sizes = _jpeg_sizes(data)
    elif media == "image/webp":
        sizes = _webp_sizes(data)
    for width, height in sizes:
        if width * height > IMAGE_PIXEL_LIMIT:
            raise InputError(
                f"these bytes are an image of {width} × {height} pixels; the maximum is {IMAGE_PIXEL_LIMIT:,} "
                "pixels: save it smaller"
            )


def _jpeg_sizes(data: bytes) -> list[tuple[int, int]]:
    """The sizes of all frames: segments are walked until the first scan."""
    found, at = [], 2
    while at + 9 <= len(data) and data[at] == 0xFF and data[at + 1] != 0xDA:
        marker = data[at + 1]
        if marker == 0xFF:
            at += 1
            continue
        if marker in _FRAME_MARKERS:
            height, width = struct.unpack_from(">HH", data, at + 5)
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
