"""Sounds: WAV, FLAC, MP3 and Ogg.

Of MP3 the frames stay, and all tags before, between and after them go. Ogg, of Vorbis and Opus, gets empty comments.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field

from tiltyard.arena.content.blinding.media_chunks import (
    broken_media_error,
    count_parts,
    riff_chunk,
    riff_file,
)
from tiltyard.errors import InputError

_WAV = "WAV sound"
#: Maximum bytes of a format chunk; and the bytes that matter in common formats: integer, floating point,
#: A-law, mu-law, and extensible.
_MAX_FORMAT_BYTES = 64
_FORMAT_BYTES = {1: 16, 3: 16, 6: 16, 7: 16, 0xFFFE: 40}


def strip_wav_metadata(data: bytes) -> bytes:
    """Keep only the format and the samples of a WAV file.

    Programs that write to a pipe do not know the length in advance, and write a very large one: then the data
    end with the file.
    """
    kept, at = dict[bytes, bytes](), 12
    for _ in count_parts(_WAV):
        name, size = data[at : at + 4], int.from_bytes(data[at + 4 : at + 8], "little")
        if name == b"data" and at + 8 < len(data) and size:
            kept[name] = data[at + 8 : at + 8 + size]
            break
        if at + 8 + size > len(data):
            raise broken_media_error(_WAV, at, "a chunk runs past the end")
        if name == b"data":
            raise broken_media_error(_WAV, at, "there are no samples")
        if name == b"fmt " and 16 <= size <= _MAX_FORMAT_BYTES:
            form = int.from_bytes(data[at + 8 : at + 10], "little")
            kept.setdefault(name, data[at + 8 : at + 8 + min(size, _FORMAT_BYTES.get(form, size))])
        elif name == b"fact" and size >= 4:
            kept.setdefault(name, data[at + 8 : at + 12])
        at += 8 + size + size % 2
    if b"fmt " not in kept:
        raise broken_media_error(_WAV, at, "the samples come before what says how they are written")
    return riff_file(b"WAVE", [riff_chunk(name, held) for name, held in kept.items()])


_FLAC = "FLAC sound"
_STREAM_INFO_CODE, _SEEK_TABLE_CODE = 0, 3
_LAST_BLOCK_FLAG = 0x80
_FRAME = (b"\xff\xf8", b"\xff\xf9")


def strip_flac_metadata(data: bytes) -> bytes:
    """A FLAC sound of what says how it is written, places to seek, and its frames."""
    kept, at = dict[int, bytes](), 4
    for _ in count_parts(_FLAC):
        head = data[at : at + 4]
        end = at + 4 + int.from_bytes(head[1:], "big")
        if len(head) < 4 or end > len(data):
            raise broken_media_error(_FLAC, at, "a block runs past the end")
        kind, held = head[0] & ~_LAST_BLOCK_FLAG, data[at + 4 : end]
        if (kind == _STREAM_INFO_CODE and len(held) == 34) or (
            kind == _SEEK_TABLE_CODE and len(held) % 18 == 0
        ):
            kept.setdefault(kind, held)
        at = end
        if head[0] & _LAST_BLOCK_FLAG:
            break
    frames = data[at : _before_tags(data, at)]
    if _STREAM_INFO_CODE not in kept or frames[:2] not in _FRAME:
        raise broken_media_error(_FLAC, at, "there is no frame after the blocks that describe it")
    blocks = [
        bytes((kind | _LAST_BLOCK_FLAG * (kind == max(kept)),)) + len(held).to_bytes(3, "big") + held
        for kind, held in sorted(kept.items())
    ]
    return b"".join((b"fLaC", *blocks, frames))


def _before_tags(data: bytes, start: int) -> int:
    """Where the tags begin that end a file, ID3v1 and APE: frames of FLAC do not say how long they are."""
    end = len(data)
    while True:
        if end >= start + 128 and data[end - 128 : end - 125] == b"TAG":
            end -= 128
        elif end >= start + 32 and data[end - 32 : end - 24] == b"APETAGEX":
            is_header = data[end - 9] & 0x20
            end -= 32 if is_header else max(32, int.from_bytes(data[end - 20 : end - 16], "little"))
        else:
            break
    cut = data.find(b"APETAGEX", start, max(start, end))
    return end if cut < 0 else cut


_MP3 = "MP3 sound"
#: Thousands of bits and samples in a second, as MPEG-1 has them (11) and MPEG-2 (10) and 2.5 (00).
_BITRATE_KILOBITS = {
    0b11: (32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320),
    0b10: (8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160),
    0b00: (8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160),
}
_SAMPLE_RATE_HERTZ = {
    0b11: (44_100, 48_000, 32_000),
    0b10: (22_050, 24_000, 16_000),
    0b00: (11_025, 12_000, 8_000),
}
_LAYER_III_CODE = 0b01


def _frame_lengths() -> dict[bytes, int]:
    """How long a frame is, by the first three bytes of it."""
    found = {}
    for version, rates in _SAMPLE_RATE_HERTZ.items():
        slots = 144_000 if version == 0b11 else 72_000
        for k, bits in enumerate(_BITRATE_KILOBITS[version], start=1):
            for j, rate in enumerate(rates):
                for spare in range(8):
                    unprotected, padded, private = spare >> 2, spare >> 1 & 1, spare & 1
                    second = 0xE0 | version << 3 | _LAYER_III_CODE << 1 | unprotected
                    third = k << 4 | j << 2 | padded << 1 | private
                    found[bytes((0xFF, second, third))] = slots * bits // rate + padded
    return found


_FRAME_LENGTH_BYTES = _frame_lengths()
_PERHAPS = re.compile(rb"\xff[\xe2\xe3\xf2\xf3\xfa\xfb]|ID3[\x02-\x04]|APETAGEX")


def strip_mp3_metadata(data: bytes) -> bytes:
    """Keep only the frames of an MP3 file. Data between frames is not audio, and players ignore it too."""
    kept, at, counted = list[bytes](), 0, count_parts(_MP3)
    for _ in counted:
        if at >= len(data):
            break
        length = _FRAME_LENGTH_BYTES.get(data[at : at + 3], 0)
        if length:
            kept.append(_plain_frame(data[at : at + length]))
        else:
            length = _tag_length(data, at)
        at = at + length if length else _next_part(data, at + 1, counted)
    if not kept:
        raise broken_media_error(_MP3, 0, "no frame of sound begins here or later")
    return b"".join(kept)


def _tag_length(data: bytes, at: int) -> int:
    """The length of the tag that starts here; 0 if there is none with a known length."""
    head = data[at : at + 32]
    if head.startswith(b"ID3") and len(head) >= 10 and head[3] in (2, 3, 4):
        size = 0
        for byte in head[6:10]:
            size = size << 7 | byte & 0x7F
        return 10 + size + (10 if head[5] & 0x10 else 0)
    if head.startswith(b"APETAGEX") and len(head) == 32:
        headed = head[23] & 0x20
        return 32 + (int.from_bytes(head[12:16], "little") if headed else 0)
    return 0


def _next_part(data: bytes, at: int, counted: Iterator[int]) -> int:
    """The start of the next tag, or of the next frame that is followed by another frame or the end."""
    for found, _ in zip(_PERHAPS.finditer(data, at), counted, strict=False):
        start = found.start()
        if data[start] != 0xFF:
            return start
        end = start + _FRAME_LENGTH_BYTES.get(data[start : start + 3], len(data))
        if end == len(data) or data[end : end + 3] in _FRAME_LENGTH_BYTES:
            return start
    return len(data)


def _plain_frame(frame: bytes) -> bytes:
    """A frame; an information frame without audio is reduced to what players need."""
    if frame[36:40] == b"VBRI":
        entries, size = int.from_bytes(frame[54:56], "big"), int.from_bytes(frame[58:60], "big")
        return frame[: 62 + entries * size].ljust(len(frame), b"\0")
    stereo, first = frame[3:4] < b"\xc0", frame[1] & 0x18 == 0x18
    at = 4 + ((32 if stereo else 17) if first else (17 if stereo else 9))
    if frame[at : at + 4] in (b"Xing", b"Info") and not any(frame[6:at]):
        return _plain_information(frame, at)
    return frame


def _plain_information(frame: bytes, at: int) -> bytes:
    """Keep the number of frames, the seek table, and the samples to drop at both ends.

    The last is needed for gapless playback. Players read it only after a known encoder's name, so all files
    get the same name.
    """
    flags = frame[at + 7] if at + 7 < len(frame) else 0
    end = at + 8 + 4 * (flags & 1) + 4 * (flags >> 1 & 1) + 100 * (flags >> 2 & 1) + 4 * (flags >> 3 & 1)
    if frame[end : end + 4] not in (b"LAME", b"Lavf", b"Lavc") or end + 36 > len(frame):
        return frame[:end].ljust(len(frame), b"\0")
    written = frame[:end] + b"LAME".ljust(21, b"\0") + frame[end + 21 : end + 24] + bytes(10)
    return (written + _lame_checksum(written).to_bytes(2, "big")).ljust(len(frame), b"\0")


def _lame_checksum(data: bytes) -> int:
    found = 0
    for byte in data:
        found ^= byte
        for _ in range(8):
            found = found >> 1 ^ (0xA001 if found & 1 else 0)
    return found


_OGG = "Ogg sound"
_CONTINUED_FLAG, _FIRST_PAGE_FLAG = 0x01, 0x02
_NO_PACKET_ENDS = b"\xff" * 8
#: By the first bytes of a stream: how its headers begin, one of them the comments; and empty comments.
_CODECS: dict[bytes, tuple[tuple[bytes, ...], bytes]] = {
    b"\x01vorbis": ((b"\x01vorbis", b"\x03vorbis", b"\x05vorbis"), b"\x03vorbis" + bytes(8) + b"\x01"),
    b"OpusHead": ((b"OpusHead", b"OpusTags"), b"OpusTags" + bytes(8)),
}
_COMMENT_HEADER_INDEX = 1
#: Every byte with its bits in the other order.
_MIRRORED = bytes(int(f"{byte:08b}"[::-1], 2) for byte in range(256))


@dataclass(frozen=True, slots=True)
class _Page:
    at: int
    flags: int
    granule: bytes
    serial: bytes
    lacing: bytes
    body: bytes


@dataclass(slots=True)
class _Stream:
    """One sound. Its headers are gathered, and written anew; then its pages follow, numbered on."""

    serial: bytes
    starts: tuple[bytes, ...]
    comments: bytes
    headers: list[bytes] = field(default_factory=list)
    #: The start of a header that continues on the next page.
    begun: bytearray = field(default_factory=bytearray)
    pages: int = 0

    def is_headed(self) -> bool:
        return len(self.headers) == len(self.starts)

    def take(self, page: _Page) -> Iterator[bytes]:
        if self.is_headed():
            yield self._written(page.flags, page.granule, page.lacing, page.body)
            return
        self._gather(page)
        if self.is_headed():
            first, *others = self.headers
            others[_COMMENT_HEADER_INDEX - 1] = self.comments
            yield self._written(_FIRST_PAGE_FLAG, bytes(8), _lacing(first), first)
            yield from self._packed(others)

    def _gather(self, page: _Page) -> None:
        at = 0
        for size in page.lacing:
            if self.is_headed():
                raise broken_media_error(_OGG, page.at, "sound begins on the page of its headers")
            self.begun += page.body[at : at + size]
            at += size
            if size < 255:
                packet = bytes(self.begun)
                if not packet.startswith(self.starts[len(self.headers)]):
                    raise broken_media_error(_OGG, page.at, "a header is missing, or not in its place")
                self.headers.append(packet)
                self.begun.clear()

    def _packed(self, packets: list[bytes]) -> Iterator[bytes]:
        lacing, body, at, flags = b"".join(map(_lacing, packets)), b"".join(packets), 0, 0
        for start in range(0, len(lacing), 255):
            part = lacing[start : start + 255]
            size = sum(part)
            granule = bytes(8) if min(part) < 255 else _NO_PACKET_ENDS
            yield self._written(flags, granule, part, body[at : at + size])
            at += size
            flags = _CONTINUED_FLAG if part[-1] == 255 else 0

    def _written(self, flags: int, granule: bytes, lacing: bytes, body: bytes) -> bytes:
        head = b"OggS\0" + bytes((flags,)) + granule + self.serial + self.pages.to_bytes(4, "little")
        tail = bytes((len(lacing),)) + lacing + body
        self.pages += 1
        return head + _page_checksum(head + bytes(4) + tail) + tail


def strip_ogg_metadata(data: bytes) -> bytes:
    """An Ogg sound, or several one after another, whose comments are empty."""
    kept = list[bytes]()
    stream: _Stream | None = None
    for page in _pages(data):
        if page.flags & _FIRST_PAGE_FLAG:
            _check_headed(stream, page.at)
            codec = next((known for start, known in _CODECS.items() if page.body.startswith(start)), None)
            if codec is None:
                raise InputError(
                    f"these bytes are Ogg with something other than Vorbis or Opus in it, at byte {page.at}; "
                    "convert the sound to one of these"
                )
            stream = _Stream(page.serial, *codec)
        if stream is None or page.serial != stream.serial:
            raise broken_media_error(_OGG, page.at, "a page belongs to no stream, or to a second one at once")
        kept += stream.take(page)
    _check_headed(stream, len(data))
    return b"".join(kept)


def _check_headed(stream: _Stream | None, at: int) -> None:
    if stream is not None and not stream.is_headed():
        raise broken_media_error(_OGG, at, "a stream ends before its headers do")


def _pages(data: bytes) -> Iterator[_Page]:
    at = 0
    for _ in count_parts(_OGG):
        head = data[at : at + 27]
        if not head.startswith(b"OggS\0") or len(head) < 27:
            raise broken_media_error(_OGG, at, "there is no page")
        start = at + 27 + head[26]
        lacing = data[at + 27 : start]
        end = start + sum(lacing)
        if len(lacing) < head[26] or end > len(data):
            raise broken_media_error(_OGG, at, "a page runs past the end")
        if _page_checksum(data[at : at + 22] + bytes(4) + data[at + 26 : end]) != head[22:26]:
            raise broken_media_error(_OGG, at, "the checksum of a page is wrong")
        yield _Page(at, head[5], head[6:14], head[14:18], lacing, data[start:end])
        at = end
        if at == len(data):
            return


def _lacing(packet: bytes) -> bytes:
    return b"\xff" * (len(packet) // 255) + bytes((len(packet) % 255,))


def _page_checksum(page: bytes) -> bytes:
    """Ogg's checksum is zlib's with all bits in the other order, from zero to zero."""
    found = zlib.crc32(page.translate(_MIRRORED), 0xFFFFFFFF) ^ 0xFFFFFFFF
    return found.to_bytes(4, "big").translate(_MIRRORED)
