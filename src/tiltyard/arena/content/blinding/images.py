"""Images: keeps only the parts that a browser needs to show them."""

from __future__ import annotations

import re
import zlib
from collections.abc import Collection, Iterator

from tiltyard.arena.content.blinding.exif_orientation import EXIF, keep_orientation_only
from tiltyard.arena.content.blinding.icc_profiles import MAX_PROFILE_BYTES, strip_profile_text
from tiltyard.arena.content.blinding.media_chunks import (
    broken_media_error,
    count_parts,
    riff_chunk,
    riff_chunks,
    riff_file,
)

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
    """The part of a chunk to keep; empty if the chunk is not needed."""
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
    """The header with flags for what is there."""
    flags = held[0] & (_ALPHA_FLAG | _ANIMATION_FLAG)
    flags |= _PROFILE_FLAG * (b"ICCP" in names) | _EXIF_FLAG * (b"EXIF" in names)
    return bytes((flags, 0, 0, 0)) + held[4:]
