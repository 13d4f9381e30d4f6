"""MP3 audio: keeps the frames and removes all tags before, between and after them."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tiltyard.arena.content.blinding.media_chunks import broken_media_error, count_parts

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
    return (written + _checksum(written).to_bytes(2, "big")).ljust(len(frame), b"\0")


def _checksum(data: bytes) -> int:
    found = 0
    for byte in data:
        found ^= byte
        for _ in range(8):
            found = found >> 1 ^ (0xA001 if found & 1 else 0)
    return found
